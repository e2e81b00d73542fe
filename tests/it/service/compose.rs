//! The injector among tower's own layers, on a clock that stands still.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use badbank::{
    Bank, SharedBank,
    call::Reply,
    fault::Plan,
    service::{BankRequest, BankService, InjectLayer},
};
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::Policy, timeout::error::Elapsed};

use super::many_orders;
use crate::{support::scripted, trial::held};

/// Repeats whatever fails, so many times.
#[derive(Clone)]
struct Repeat(u32);

impl Policy<BankRequest, Reply, BoxError> for Repeat {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut BankRequest,
        answer: &mut Result<Reply, BoxError>,
    ) -> Option<Ready<()>> {
        self.0 = self.0.checked_sub(u32::from(answer.is_err()))?;
        answer.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, request: &BankRequest) -> Option<BankRequest> {
        Some(request.clone())
    }
}

/// Refunds an order behind retries and a timeout of half a second; says what the order holds then.
async fn refund(plan: &Plan, key: Option<&str>) -> (Result<Reply, BoxError>, usize) {
    let ticket = many_orders();
    let order = &ticket.orders()[0];
    let bank = SharedBank::new(Bank::open(&ticket, Plan::calm()));
    let faults = InjectLayer::new(
        plan,
        |request: &BankRequest| Some((request.operation(), request.order().clone())),
        Err,
    )
    .unwrap();
    let service = ServiceBuilder::new()
        .retry(Repeat(3))
        .timeout(Duration::from_millis(500))
        .layer(faults.clone())
        .service(BankService::new(bank.clone()));
    let answer = service.oneshot(BankRequest::refund(order.id(), order.amount(), key)).await;
    faults.settle().await;
    let held = held(&bank.lock(), "A-1").len();
    (answer, held)
}

#[tokio::test(start_paused = true)]
async fn retries_behind_a_timeout_pay_once_for_every_answer_that_is_lost_unless_there_is_a_key() {
    let plan = scripted(&[
        ("A-1 refund #1", "slow"),
        ("A-1 refund #2", "transient"),
        ("A-1 refund #3", "timeout"),
    ]);
    for (key, refunds) in [(None, 3), (Some("k"), 1)] {
        let start = Instant::now();
        let (answer, held) = refund(&plan, key).await;
        assert!(
            matches!(answer, Ok(Reply::Refunded(refunded)) if refunded.is_replay == (refunds == 1))
        );
        assert_eq!(held, refunds, "key {key:?}");
        // The slow answer was given up; nothing else took time.
        assert_eq!(start.elapsed(), Duration::from_millis(500));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_that_give_up_leave_the_money_where_it_is() {
    let plan = Plan::parse(
        r#"{"version": 1, "rules": [{"on": "refund", "fault": "slow", "attempts": "1-"}]}"#,
    )
    .unwrap();
    let (answer, held) = refund(&plan, None).await;
    assert!(answer.unwrap_err().is::<Elapsed>());
    assert_eq!(held, 4);
}
