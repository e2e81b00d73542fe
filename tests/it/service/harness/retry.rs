//! Retries as a layer wait and conclude as the plain state machine does.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use badbank::{
    call::{CallError, Reply},
    harness::{Backoff, Budget, Retry},
    service::{BankRequest, BankService, RetryLayer},
};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::{SEED, by_error, open};
use crate::{support::scripted, trial::held};

/// A response of a service that says with a status how a call went: the status, and which attempt it was.
type Response = Result<(u16, u32), CallError>;

/// Answers one status after the other, then 200; remembers when it was asked, in milliseconds.
#[derive(Default)]
struct Scripted {
    statuses: Arc<Vec<u16>>,
    asked: Arc<Mutex<Vec<u64>>>,
    is_ready: bool,
    /// Fails to get ready, as the second instance that tries.
    breaks: Arc<AtomicU32>,
}

impl Scripted {
    fn new(statuses: &[u16]) -> Self {
        let breaks = Arc::new(AtomicU32::new(u32::MAX));
        Self { statuses: Arc::new(statuses.to_vec()), breaks, ..Self::default() }
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Clone for Scripted {
    /// No clone is ready, whatever it is a clone of.
    fn clone(&self) -> Self {
        Self {
            statuses: Arc::clone(&self.statuses),
            asked: Arc::clone(&self.asked),
            is_ready: false,
            breaks: Arc::clone(&self.breaks),
        }
    }
}

impl Service<Instant> for Scripted {
    type Response = (u16, u32);
    type Error = CallError;
    type Future = std::future::Ready<Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.breaks.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Poll::Ready(Err(CallError::Unavailable));
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, start: Instant) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it was called without having been readied");
        let mut asked = self.asked.lock().unwrap();
        asked.push(millis(start.elapsed()));
        let status = self.statuses.get(asked.len() - 1).copied().unwrap_or(200);
        std::future::ready(Ok((status, u32::try_from(asked.len()).unwrap())))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

fn by_status(response: &Response) -> Option<CallError> {
    match response {
        Ok((503, _)) => Some(CallError::Unavailable),
        Ok((504, _)) => Some(CallError::Timeout),
        Ok(_) => None,
        Err(error) => Some(error.clone()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_again_after_exactly_the_waits_of_the_plain_state_machine() {
    let retries = RetryLayer::new(Retry::default(), SEED, by_status);
    for call in 1..=20 {
        let inner = Scripted::new(&[503, 503]);
        let service = ServiceBuilder::new().layer(retries.clone()).service(inner.clone());
        assert_eq!(service.oneshot(Instant::now()).await, Ok((200, 3)));

        let mut waits = Backoff::default().waits(SEED, call);
        let first = millis(waits.after(&CallError::Unavailable));
        let second = millis(waits.after(&CallError::Unavailable));
        assert_eq!(inner.asked(), [0, first, first + second], "call {call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_says_when_to_come_again_is_not_asked_earlier() {
    let times = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&times);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Retry::default(), SEED, |answer: &Result<(), CallError>| {
            answer.clone().err()
        }))
        .service(service_fn(move |()| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let error = CallError::RateLimited { retry_after_s: 20 };
            async move { if is_first { Err(error) } else { Ok(()) } }
        }));
    let start = Instant::now();
    service.oneshot(()).await.unwrap();
    let wait =
        Backoff::default().waits(SEED, 1).after(&CallError::RateLimited { retry_after_s: 20 });
    assert_eq!(start.elapsed(), wait);
    assert!(wait >= Duration::from_secs(20));
    assert_eq!(times.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_is_given_up_the_answer_with_the_worst_error_is_heard() {
    for (statuses, heard) in [
        ([503, 503, 503], (503, 3)),
        ([504, 503, 503], (504, 1)),
        ([503, 504, 503], (504, 2)),
        ([504, 504, 503], (504, 2)),
        // What is none of the errors ends the call as it stands.
        ([504, 409, 200], (409, 2)),
        ([504, 503, 200], (200, 3)),
    ] {
        let retries = RetryLayer::new(Retry::default(), SEED, by_status);
        let service = ServiceBuilder::new().layer(retries).service(Scripted::new(&statuses));
        assert_eq!(service.oneshot(Instant::now()).await, Ok(heard), "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_does_not_get_ready_hides_no_earlier_answer() {
    for (statuses, attempts_max, heard) in [
        // The second attempt fails to get ready, the third is made by another instance.
        ([504, 200], 3, Ok((200, 2))),
        ([504, 200], 2, Ok((504, 1))),
        ([503, 200], 2, Err(CallError::Unavailable)),
    ] {
        let inner = Scripted::new(&statuses);
        inner.breaks.store(1, Ordering::Relaxed);
        let retry = Retry { attempts_max, ..Retry::default() };
        let service =
            ServiceBuilder::new().layer(RetryLayer::new(retry, SEED, by_status)).service(inner);
        assert_eq!(service.oneshot(Instant::now()).await, heard, "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_share_a_budget_share_its_retries() {
    let budget = Arc::new(Mutex::new(Budget::of_percent(0).with_burst(3)));
    let asked = [(), (), ()].map(|()| Scripted::new(&[503, 503, 503]));
    for inner in &asked {
        let retries = RetryLayer::new(Retry::default(), SEED, by_status);
        let service = ServiceBuilder::new()
            .layer(retries.with_budget(Arc::clone(&budget)))
            .service(inner.clone());
        assert_eq!(service.oneshot(Instant::now()).await.unwrap().0, 503);
    }
    assert_eq!(asked.map(|inner| inner.asked().len()), [3, 2, 1]);
    assert_eq!(budget.lock().unwrap().left(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refund_whose_reply_is_lost_is_paid_once_with_a_key_and_twice_without() {
    for (key, refunds) in [(None, 2), (Some("refund:A-1"), 1)] {
        let plan = scripted(&[("A-1 refund #1", "timeout"), ("A-1 refund #2", "transient")]);
        let (ticket, bank) = open(plan);
        let order = &ticket.orders()[0];
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(Retry::default(), SEED, by_error))
            .service(BankService::new(bank.clone()));
        let refund = BankRequest::refund(order.id(), order.amount(), key);
        let answer = service.oneshot(refund).await;
        assert!(
            matches!(answer, Ok(Reply::Refunded(refunded)) if refunded.is_replay == key.is_some())
        );
        assert_eq!(held(&bank.lock(), "A-1").len(), refunds, "key {key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_that_give_up_say_that_the_refund_may_have_been_paid() {
    let plan = scripted(&[
        ("A-1 refund #1", "timeout"),
        ("A-1 refund #2", "transient"),
        ("A-1 refund #3", "transient"),
    ]);
    let (ticket, bank) = open(plan);
    let order = &ticket.orders()[0];
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Retry::default(), SEED, by_error))
        .service(BankService::new(bank.clone()));
    let answer = service.oneshot(BankRequest::refund(order.id(), order.amount(), None)).await;
    assert_eq!(answer, Err(CallError::Timeout));
    assert_eq!(held(&bank.lock(), "A-1").len(), 1);
}
