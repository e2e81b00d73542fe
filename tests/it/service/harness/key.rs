//! Keys as a layer, above retries and below.

use badbank::{
    call::{CallError, Reply},
    fault::Plan,
    harness::{Key, Retry, Sending},
    service::{BankRequest, BankService, KeyLayer, RetryLayer},
};
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::{
    SEED,
    gateway::{Gateway, ORDERS, Refund, Response, by_status, eight_at_once, send},
    open,
};

type Keys<F> = KeyLayer<F, fn(&Refund) -> Option<&str>, fn(&mut Refund, String)>;

/// Keys of a kind for a service that is not ours.
fn keys(key: Key) -> Keys<impl Fn(&Refund, Sending) -> Option<String>> {
    KeyLayer::new(
        move |refund: &Refund, sending| key.of(refund, sending),
        Refund::key as fn(&Refund) -> Option<&str>,
        Refund::put_key as fn(&mut Refund, String),
    )
}

fn retries() -> RetryLayer<impl Fn(&Response) -> Option<CallError>> {
    RetryLayer::new(Retry::default(), SEED, by_status)
}

/// The key of the request alone.
async fn key_of(key: Key, refund: Refund) -> Option<String> {
    let gateway = Gateway::default();
    send(&keys(key).layer(gateway.clone()), refund).await;
    gateway.keys().remove(0)
}

#[tokio::test(start_paused = true)]
async fn each_kind_makes_its_key_of_a_request_that_is_not_ours() {
    let refund = Refund::of("A-1");
    let mut made = vec![];
    for key in Key::ALL {
        let is_hash = matches!(key, Key::RawArguments | Key::Arguments);
        let key = key_of(key, refund.clone()).await.unwrap_or_default();
        made.push(if is_hash { key[..7].to_owned() } else { key });
    }
    let intent = "pay back A-1";
    assert_eq!(
        made,
        ["", "toolu_1/1-1", "toolu_1", "refund-", "refund-", "refund:A-1", intent, intent]
    );
    let other = Refund { body: r#"{"cents":100}"#, ..refund.clone() };
    assert_ne!(key_of(Key::Arguments, other).await, key_of(Key::Arguments, refund).await);
}

#[tokio::test(start_paused = true)]
async fn above_retries_every_attempt_bears_the_key_of_the_first() {
    for key in Key::ALL {
        let gateway = Gateway::answering(&[504, 503]);
        let service =
            ServiceBuilder::new().layer(keys(key)).layer(retries()).service(gateway.clone());
        assert_eq!(send(&service, Refund::of("A-1")).await, (201, 3));
        let borne = gateway.keys();
        assert_eq!(borne, vec![borne[0].clone(); 3], "{key}");
        assert_eq!(borne[0].is_some(), key != Key::None);
        assert_eq!(gateway.paid(), if key == Key::None { 2 } else { 1 }, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn below_retries_a_fresh_key_changes_with_each_attempt_and_the_others_do_not() {
    for key in Key::ALL {
        let gateway = Gateway::answering(&[504, 503]);
        let service =
            ServiceBuilder::new().layer(retries()).layer(keys(key)).service(gateway.clone());
        assert_eq!(send(&service, Refund::of("A-1")).await, (201, 3));
        let mut borne = gateway.keys();
        borne.dedup();
        assert_eq!(borne.len(), if key == Key::Fresh { 3 } else { 1 }, "{key}");
        let is_kept = !matches!(key, Key::None | Key::Fresh);
        assert_eq!(gateway.paid(), if is_kept { 1 } else { 2 }, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_request_bears_already_stays() {
    let gateway = Gateway::default();
    let service = keys(Key::Intent).layer(gateway.clone());
    send(&service, Refund::of("A-1").under("mine")).await;
    send(&service, Refund::of("A-1")).await;
    assert_eq!(gateway.keys(), [Some("mine".to_owned()), Some("pay back A-1".to_owned())]);
    // So the upper one of two counts.
    let gateway = Gateway::default();
    let both = ServiceBuilder::new().layer(keys(Key::Order)).layer(keys(Key::Fresh));
    send(&both.service(gateway.clone()), Refund::of("A-1")).await;
    assert_eq!(gateway.keys(), [Some("refund:A-1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_the_bank_passes_without_a_key() {
    let (ticket, bank) = open(Plan::calm());
    let order = &ticket.orders()[0];
    let intent = |request: &BankRequest, _| Some(format!("refund:{}", request.order()));
    let service = KeyLayer::new(intent, BankRequest::key, BankRequest::put_key)
        .layer(BankService::new(bank.clone()));
    let read = service.clone().oneshot(BankRequest::get_order(order.id())).await;
    assert!(matches!(read, Ok(Reply::Order(_))));
    for is_replay in [false, true] {
        let refund = BankRequest::refund(order.id(), order.amount(), None);
        let answer = service.clone().oneshot(refund).await;
        assert!(matches!(answer, Ok(Reply::Refunded(refund)) if refund.is_replay == is_replay));
    }
}

#[tokio::test(start_paused = true)]
async fn eight_tasks_that_share_a_layer_never_make_a_fresh_key_twice_nor_does_another_life() {
    let gateway = Gateway::default();
    for life in [1, 2] {
        let service = keys(Key::Fresh).in_life(life).layer(gateway.clone());
        eight_at_once(&service, |_| Refund::of("A-1")).await;
        eight_at_once(&service, |caller| Refund::of(ORDERS[caller])).await;
    }
    assert_eq!(gateway.paid(), 2 * 16);
}
