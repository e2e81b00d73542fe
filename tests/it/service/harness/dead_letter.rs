//! Dead letters as a layer.

use std::time::Duration;

use badbank::{
    call::{CallError, Refusal, RefusalCode},
    fault::Plan,
    harness::{DeadLetter, Keyed, Letter, Retry},
    ledger::OverRefund,
    money::Amount,
    service::{BankRequest, BankService, DeadLetterLayer, RetryLayer},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{
    SEED, by_error,
    gateway::{
        ANSWER, Gateway, ORDERS, Refund, Response, by_status, eight_at_once, respond, send,
        send_and_leave,
    },
    open,
};
use crate::{support::scripted, trial::held};

type Layered = DeadLetterLayer<
    fn(&Refund) -> Option<String>,
    fn(&Response) -> Option<CallError>,
    fn(CallError) -> Response,
>;

fn dead_after(attempts_max: u32) -> Layered {
    let intent: fn(&Refund) -> Option<String> = |refund| Some(refund.intent());
    let (by_status, respond) = (by_status as fn(&_) -> _, respond as fn(_) -> _);
    DeadLetterLayer::new(DeadLetter::after(attempts_max), intent, by_status, respond)
}

fn shown(letters: &[Letter]) -> Vec<(&str, u32)> {
    letters.iter().map(|letter| (letter.intent.as_str(), letter.attempts)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_has_failed_so_often_is_set_aside_with_its_worst_error_and_holds_up_nobody() {
    let (layer, gateway) = (dead_after(3), Gateway::answering(&[503, 504, 503]));
    let service = layer.layer(gateway.clone());
    let mut heard = vec![];
    for _call in 0..5 {
        heard.push(send(&service, Refund::of("A-1")).await);
    }
    assert_eq!(heard, [(503, 1), (504, 2), (503, 3), (504, 0), (504, 0)]);
    assert_eq!(send(&service, Refund::of("A-2")).await, (201, 4));
    let letters = layer.letters();
    assert_eq!(shown(&letters), [("pay back A-1", 3)]);
    assert_eq!(letters[0].error, CallError::Timeout);
    assert_eq!(gateway.paid(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_releases_gets_all_its_attempts_again() {
    let (layer, gateway) = (dead_after(2), Gateway::answering(&[503, 503, 503]));
    let service = layer.layer(gateway.clone());
    assert_eq!(layer.release("pay back A-1"), None);
    for number in [1, 2, 0] {
        assert_eq!(send(&service, Refund::of("A-1")).await, (503, number));
    }
    let released = layer.release("pay back A-1").unwrap();
    assert_eq!(released.attempts, 2);
    assert_eq!(send(&service, Refund::of("A-1")).await, (503, 3));
    assert_eq!(send(&service, Refund::of("A-1")).await, (201, 4));
    assert_eq!(layer.letters(), []);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_sets_work_aside_at_once() {
    let (ticket, bank) = open(Plan::calm().over_refund(OverRefund::Reject));
    let order = &ticket.orders()[0];
    let layer = DeadLetterLayer::new(
        DeadLetter::after(5),
        |request: &BankRequest| Some(format!("refund:{}", request.order())),
        by_error,
        Err,
    );
    let mut service =
        ServiceBuilder::new().layer(layer.clone()).service(BankService::new(bank.clone()));
    let too_much = Amount::from_minor(99_999_999).unwrap();
    for amount in [too_much, order.amount()] {
        let refund = BankRequest::refund(order.id(), amount, None);
        let answer = service.ready().await.unwrap().call(refund).await;
        let is_over = |refusal: &Refusal| refusal.code == RefusalCode::OverRefund;
        assert!(matches!(&answer, Err(CallError::Refused(refusal)) if is_over(refusal)));
    }
    assert_eq!(shown(&layer.letters()), [("refund:A-1", 1)]);
    assert_eq!(held(&bank.lock(), "A-1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_success_ends_the_count() {
    let (layer, gateway) = (dead_after(2), Gateway::answering(&[503, 201, 503]));
    let service = layer.layer(gateway.clone());
    for number in 1..=4 {
        assert_eq!(send(&service, Refund::of("A-1")).await.1, number);
    }
    assert_eq!(layer.letters(), []);
}

#[tokio::test(start_paused = true)]
async fn a_success_that_was_under_way_takes_its_work_back() {
    let (layer, gateway) = (dead_after(1), Gateway::answering(&[201, 503]));
    let slow_first = service_fn({
        let gateway = gateway.clone();
        move |refund: Refund| {
            let (is_first, answer) = (gateway.asked().is_empty(), gateway.clone().oneshot(refund));
            async move {
                let answer = answer.await;
                tokio::time::sleep(if is_first { ANSWER } else { Duration::ZERO }).await;
                answer
            }
        }
    });
    let service = layer.layer(slow_first);
    let second = async {
        tokio::time::sleep(ANSWER / 2).await;
        assert_eq!(send(&service, Refund::of("A-1")).await, (503, 2));
        assert_eq!(layer.letters().len(), 1);
    };
    let (first, ()) = tokio::join!(send(&service, Refund::of("A-1")), second);
    assert_eq!(first, (201, 1));
    assert_eq!(layer.letters(), []);
    assert_eq!(send(&service, Refund::of("A-1")).await, (201, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_leaves_counts_nothing() {
    let (layer, gateway) = (dead_after(1), Gateway::answering(&[503; 9]));
    let service = layer.layer(gateway.clone());
    for _caller in 0..3 {
        send_and_leave(&service, Refund::of("A-1")).await;
    }
    assert_eq!(layer.letters(), []);
    assert_eq!(gateway.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn eight_tasks_share_the_letters() {
    let (layer, gateway) = (dead_after(8), Gateway::answering(&[503; 99]));
    let service = layer.layer(gateway.clone());
    eight_at_once(&service, |_| Refund::of("A-1")).await;
    assert_eq!(shown(&layer.letters()), [("pay back A-1", 8)]);
    for _time in 0..8 {
        eight_at_once(&service, |caller| Refund::of(ORDERS[caller])).await;
    }
    let letters = layer.letters();
    let intents: Vec<&str> = letters.iter().map(|letter| letter.intent.as_str()).collect();
    assert_eq!(intents, ORDERS.map(|order| format!("pay back {order}")));
    assert_eq!(gateway.asked().len(), 8 + 8 * 7);
}

#[tokio::test(start_paused = true)]
async fn above_retries_a_call_with_all_its_attempts_is_one_failure() {
    let plan = scripted(&[
        ("A-1 refund #1", "timeout"),
        ("A-1 refund #2", "transient"),
        ("A-1 refund #3", "transient"),
    ]);
    let (ticket, bank) = open(plan);
    let order = &ticket.orders()[0];
    let layer = DeadLetterLayer::new(
        DeadLetter::after(1),
        |request: &BankRequest| Some(format!("refund:{}", request.order())),
        by_error,
        Err,
    );
    let mut service = ServiceBuilder::new()
        .layer(layer.clone())
        .layer(RetryLayer::new(Retry::default(), SEED, by_error))
        .service(BankService::new(bank.clone()));
    for _call in 0..2 {
        let refund = BankRequest::refund(order.id(), order.amount(), None);
        let answer = service.ready().await.unwrap().call(refund).await;
        assert_eq!(answer, Err(CallError::Timeout));
    }
    assert_eq!(shown(&layer.letters()), [("refund:A-1", 1)]);
    assert_eq!(held(&bank.lock(), "A-1").len(), 1);
}
