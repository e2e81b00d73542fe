//! An outbox as a layer, and its workers.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use badbank::{
    Bank, SharedBank, Ticket,
    call::{Answer, CallError},
    fault::{Plan, PlanSettings},
    harness::{DeadLetter, Keyed, Outbox, Retry},
    service::{BankRequest, BankService, OutboxLayer, Posted, RetryLayer},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::{
    SEED, by_error,
    gateway::{ANSWER, Gateway, ORDERS, Refund, Response, by_status},
    open,
};
use crate::trial::held;

type Layered = OutboxLayer<
    Refund,
    fn(&Refund) -> String,
    fn(&mut Refund, String),
    fn(&Response) -> Option<CallError>,
>;

/// A box before a service that is not ours, from which work is set aside after so many attempts.
fn outbox(outbox: Outbox<Refund>, attempts_max: u32) -> Layered {
    let (intent, put) = (Keyed::intent as fn(&_) -> _, Refund::put_key as fn(&mut _, _));
    let dead = DeadLetter::after(attempts_max);
    OutboxLayer::new(outbox, dead, intent, put, by_status as fn(&_) -> _)
}

type OfTheBank = OutboxLayer<
    BankRequest,
    fn(&BankRequest) -> String,
    fn(&mut BankRequest, String),
    fn(&Answer) -> Option<CallError>,
>;

fn outbox_of_the_bank(attempts_max: u32) -> OfTheBank {
    let intent: fn(&BankRequest) -> String = |request| format!("refund:{}", request.order());
    let (put, classify) = (BankRequest::put_key as fn(&mut _, _), by_error as fn(&_) -> _);
    OutboxLayer::new(Outbox::default(), DeadLetter::after(attempts_max), intent, put, classify)
}

/// Writes a request down.
async fn post<S, R>(service: &mut S, request: R) -> Posted
where
    S: Service<R, Response = Posted, Error = Infallible>,
{
    let Ok(posted) = service.ready().await.unwrap().call(request).await;
    posted
}

#[tokio::test(start_paused = true)]
async fn a_request_is_written_down_and_nothing_is_sent_before_a_worker_comes() {
    let gateway = Gateway::default();
    let mut service = outbox(Outbox::default(), 3).layer(gateway.clone());
    assert_eq!(post(&mut service, Refund::of("A-1")).await, Posted::Written);
    // The first of an intent stays.
    let other = Refund { body: r#"{"cents":100}"#, ..Refund::of("A-1") };
    assert_eq!(post(&mut service, other).await, Posted::Known);
    assert_eq!(gateway.asked(), []);

    assert_eq!(service.drain().await, 1);
    assert_eq!(gateway.asked(), [Refund::of("A-1").under("pay back A-1")]);
    assert_eq!(service.drain().await, 0);
    // Written again after it was done, it is acted on again, under the same key.
    assert_eq!(post(&mut service, Refund::of("A-1")).await, Posted::Written);
    assert_eq!(service.drain().await, 1);
    assert_eq!((gateway.asked().len(), gateway.paid()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_leaves_cancels_nothing() {
    let gateway = Gateway::default();
    let mut service = outbox(Outbox::default(), 3).layer(gateway.clone());
    drop(service.call(Refund::of("A-1")));
    assert_eq!(service.drain().await, 1);
    assert_eq!(gateway.paid(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_fails_comes_round_again_behind_the_others() {
    let gateway = Gateway::answering(&[504, 503, 201, 201, 503]);
    let mut service = outbox(Outbox::default(), 3).layer(gateway.clone());
    for order in &ORDERS[..3] {
        post(&mut service, Refund::of(order)).await;
    }
    assert_eq!(service.drain().await, 3);
    let orders: Vec<&str> = gateway.asked().iter().map(|refund| refund.order).collect();
    assert_eq!(orders, ["A-1", "A-2", "A-3", "A-1", "A-2", "A-2"]);
    assert_eq!(gateway.paid(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_stays_in_the_box_until_a_person_releases_it_or_strikes_it_out() {
    let gateway = Gateway::answering(&[504, 503, 422]);
    let layer = outbox(Outbox::default(), 2);
    let mut service = layer.layer(gateway.clone());
    post(&mut service, Refund::of("A-1")).await;
    assert_eq!(service.drain().await, 0);
    post(&mut service, Refund::of("A-2")).await;
    // A refusal is set aside at once.
    assert_eq!(service.drain().await, 0);
    let letters: Vec<String> = layer.letters().iter().map(ToString::to_string).collect();
    assert_eq!(
        letters,
        [
            "pay back A-1: set aside after attempt 2: The request may or may not have been processed.",
            "pay back A-2: set aside after attempt 1: too much",
        ]
    );
    let posted = post(&mut service, Refund::of("A-1")).await;
    assert_eq!(posted, Posted::SetAside(CallError::Timeout));

    assert!(layer.done("pay back A-2").is_some());
    assert!(layer.release("pay back A-1").is_some());
    assert_eq!(service.drain().await, 1);
    assert!(layer.outbox().is_empty());
    assert_eq!(layer.letters(), []);
    assert_eq!((gateway.asked().len(), gateway.paid()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn what_a_person_strikes_out_in_mid_act_leaves_no_letter() {
    let gateway = Gateway::answering(&[422]);
    let layer = outbox(Outbox::default(), 1);
    let mut service = layer.layer(gateway.clone());
    post(&mut service, Refund::of("A-1")).await;
    let person = async {
        tokio::time::sleep(ANSWER / 2).await;
        assert!(layer.done("pay back A-1").is_some());
    };
    let (done, ()) = tokio::join!(service.drain(), person);
    assert_eq!((done, layer.letters()), (0, vec![]));
    assert_eq!(post(&mut service, Refund::of("A-1")).await, Posted::Written);
    assert_eq!(service.drain().await, 1);
    assert_eq!(gateway.paid(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_in_mid_act_leaves_the_intent_and_its_key_makes_the_act_once() {
    let settings = PlanSettings { latency_ms: 100, ..PlanSettings::default() };
    let (ticket, bank) = open(Plan::calm().with_settings(settings));
    let order = &ticket.orders()[0];
    let layer = outbox_of_the_bank(3);
    let mut service = layer.layer(BankService::new(bank.clone()));
    let refund = BankRequest::refund(order.id(), order.amount(), None);
    assert_eq!(post(&mut service, refund).await, Posted::Written);
    let worker = tokio::time::timeout(Duration::from_millis(50), service.drain());
    worker.await.unwrap_err();
    assert_eq!(layer.outbox().len(), 1);

    assert_eq!(service.drain().await, 1);
    assert!(layer.outbox().is_empty());
    assert_eq!(held(&bank.lock(), "A-1").len(), 1);
    assert_eq!(bank.lock().grade("").orders()[0].attempts.refund, 2);
}

#[tokio::test(start_paused = true)]
async fn of_eight_writers_and_eight_workers_at_once_one_acts_at_a_time_and_once() {
    let gateway = Gateway::default();
    let service = outbox(Outbox::default(), 3).layer(gateway.clone());
    let writers: Vec<_> = ORDERS
        .map(|order| {
            let mut service = service.clone();
            tokio::spawn(async move {
                post(&mut service, Refund::of(order)).await;
                service.drain().await
            })
        })
        .into();
    let mut done = 0;
    for writer in writers {
        done += writer.await.unwrap();
    }
    assert_eq!(done, 8);
    assert_eq!((gateway.asked().len(), gateway.paid()), (8, 8));
}

#[tokio::test(start_paused = true)]
async fn a_box_that_another_process_has_left_is_drained() {
    let gateway = Gateway::default();
    let left = outbox(Outbox::default(), 3);
    let mut dying = left.layer(gateway.clone());
    for order in ORDERS {
        post(&mut dying, Refund::of(order)).await;
    }
    // It dies after the act, before it hears of it.
    tokio::time::timeout(ANSWER / 2, dying.drain()).await.unwrap_err();
    assert_eq!(gateway.asked().len(), 1);

    let mut next = outbox(left.outbox(), 3).layer(gateway.clone());
    assert_eq!(next.drain().await, 8);
    assert_eq!((gateway.asked().len(), gateway.paid()), (9, 8));
}

/// A service that does not get ready as long as it is down.
#[derive(Clone)]
struct Down<S> {
    inner: S,
    is_down: Arc<AtomicBool>,
}

impl<S: Service<BankRequest, Error = CallError>> Service<BankRequest> for Down<S> {
    type Response = S::Response;
    type Error = CallError;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.is_down.load(Ordering::Relaxed) {
            return Poll::Ready(Err(CallError::Unavailable));
        }
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: BankRequest) -> S::Future {
        self.inner.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_written_down_while_the_service_is_down_and_acted_on_when_it_is_back() {
    let (ticket, bank) = open(Plan::calm());
    let is_down = Arc::new(AtomicBool::new(true));
    let layer = outbox_of_the_bank(2);
    let mut service =
        layer.layer(Down { inner: BankService::new(bank.clone()), is_down: Arc::clone(&is_down) });
    for order in ticket.orders() {
        let refund = BankRequest::refund(order.id(), order.amount(), None);
        assert_eq!(post(&mut service, refund).await, Posted::Written);
    }
    // Not to get ready is an attempt, too.
    assert_eq!(service.drain().await, 0);
    let letters = layer.letters();
    assert_eq!(letters.len(), 64);
    assert!(letters.iter().all(|letter| letter.attempts == 2));

    is_down.store(false, Ordering::Relaxed);
    for letter in letters {
        layer.release(&letter.intent);
    }
    assert_eq!(service.drain().await, 64);
    assert!(bank.lock().grade("").all_ok());
}

#[tokio::test(start_paused = true)]
async fn a_box_is_drained_through_every_fault_of_the_article_as_the_plain_one_is() {
    for seed in 0..100 {
        let ticket = Ticket::generate(seed);
        let mut bank = Bank::open(&ticket, Plan::article().seed(seed));
        let mut plain = Outbox::default();
        let shared = SharedBank::new(Bank::open(&ticket, Plan::article().seed(seed)));
        let mut service = outbox_of_the_bank(2).layer(BankService::new(shared.clone()));
        for order in ticket.orders() {
            plain.write(format!("refund:{}", order.id()), order);
            let refund = BankRequest::refund(order.id(), order.amount(), None);
            post(&mut service, refund).await;
        }
        let mut dead = DeadLetter::after(2);
        let done = plain.drain(&mut dead, |key, order| {
            bank.refund(order.id(), order.amount(), Some(key)).map(drop)
        });
        assert_eq!(service.drain().await, done, "seed {seed}");

        let mut behind = shared.lock();
        assert_eq!(behind.fault_log().to_string(), bank.fault_log().to_string());
        let grade = bank.grade("");
        assert_eq!(behind.grade("").to_json(), grade.to_json(), "seed {seed}");
        assert_eq!(grade.extra_refunds(), 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_behind_the_box_wait_in_its_stead() {
    let gateway = Gateway::answering(&[503, 503]);
    let retries = RetryLayer::new(Retry::default(), SEED, by_status);
    let service = ServiceBuilder::new().layer(outbox(Outbox::default(), 1)).layer(retries);
    let mut service = service.service(gateway.clone());
    post(&mut service, Refund::of("A-1")).await;
    let start = tokio::time::Instant::now();
    assert_eq!(service.drain().await, 1);
    assert!(start.elapsed() > 3 * ANSWER);
    assert_eq!((gateway.asked().len(), gateway.paid()), (3, 1));
}
