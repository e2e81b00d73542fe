//! Deadlines as a layer, which ends the waiting and not the work.

use std::{sync::Arc, time::Duration};

use badbank::{
    call::CallError,
    fault::{Plan, PlanSettings},
    harness::{Deadline, Retry},
    service::{BankRequest, BankService, DeadlineLayer, RetryLayer},
};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{
    SEED, by_error,
    gateway::{ANSWER, Gateway, Refund, respond, send},
    open,
};
use crate::{support::scripted, trial::held};

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_deadline_is_paid_unheard() {
    for (limit_ms, is_in_time) in [(101, true), (99, false)] {
        let settings = PlanSettings { latency_ms: 100, ..PlanSettings::default() };
        let (ticket, bank) = open(Plan::calm().with_settings(settings));
        let order = &ticket.orders()[0];
        let limit = Duration::from_millis(limit_ms);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Deadline::after(limit), || Err(CallError::Timeout)))
            .service(BankService::new(bank.clone()));
        let start = Instant::now();
        let answer = service.oneshot(BankRequest::refund(order.id(), order.amount(), None)).await;
        assert_eq!(start.elapsed(), limit.min(Duration::from_millis(100)));
        assert_eq!(answer.is_ok(), is_in_time, "{limit:?}");
        assert!(is_in_time || answer == Err(CallError::Timeout));
        // The bank finishes what its caller no longer waits for.
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(held(&bank.lock(), "A-1").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_at_the_deadline_is_in_time() {
    for (limit, heard) in [
        (ANSWER, (201, 1)),
        (ANSWER.saturating_sub(Duration::from_millis(1)), (504, 0)),
        (Duration::ZERO, (504, 0)),
    ] {
        // What a deadline answers is a response like any other.
        let layer = DeadlineLayer::new(Deadline::after(limit), || respond(CallError::Timeout));
        let gateway = Gateway::default();
        assert_eq!(send(&layer.layer(gateway.clone()), Refund::of("A-1")).await, heard);
        assert_eq!(gateway.paid(), 1, "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_inner_future_is_dropped() {
    let alive = Arc::new(());
    let work = Arc::clone(&alive);
    let mut service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Deadline::after(Duration::from_secs(1)), || {
            Err(CallError::Timeout)
        }))
        .service(service_fn(move |()| {
            let work = Arc::clone(&work);
            async move {
                std::future::pending::<()>().await;
                drop(work);
                Ok::<(), CallError>(())
            }
        }));
    let answer = service.ready().await.unwrap().call(()).await;
    assert_eq!(answer, Err(CallError::Timeout));
    // This one, and the one of the service.
    assert_eq!(Arc::strong_count(&alive), 2);
}

#[tokio::test(start_paused = true)]
async fn retries_above_a_deadline_pay_once_for_each_late_answer_unless_there_is_a_key() {
    for (key, refunds) in [(None, 2), (Some("refund:A-1"), 1)] {
        let (ticket, bank) = open(scripted(&[("A-1 refund #1", "slow")]));
        let order = &ticket.orders()[0];
        let deadline = Deadline::after(Duration::from_millis(500));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(Retry::default(), SEED, by_error))
            .layer(DeadlineLayer::new(deadline, || Err(CallError::Timeout)))
            .service(BankService::new(bank.clone()));
        let refund = BankRequest::refund(order.id(), order.amount(), key);
        service.oneshot(refund).await.unwrap();
        assert_eq!(held(&bank.lock(), "A-1").len(), refunds, "key {key:?}");
    }
}
