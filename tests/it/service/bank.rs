//! The bank behind tower is the bank in process.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use badbank::{
    Bank, SharedBank, Ticket,
    bank::{Arrival, Pending},
    call::{CallError, Reply, Request},
    fault::{Plan, PlanSettings},
    grade::Cause,
    ledger::{Dedupe, OverRefund},
    money::Amount,
    service::{BankRequest, BankService},
};
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::work;
use crate::{
    support::scripted,
    trial::{causes, held},
};

const LATENCY: Duration = Duration::from_millis(100);

fn ticket() -> Ticket {
    Ticket::parse(
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#,
    )
    .unwrap()
}

fn open(plan: Plan) -> (SharedBank, BankService) {
    let bank = SharedBank::new(Bank::open(&ticket(), plan));
    (bank.clone(), BankService::new(bank))
}

fn slow_bank(plan: Plan) -> (SharedBank, BankService) {
    let settings = PlanSettings { latency_ms: 100, ..*plan.settings() };
    open(plan.with_settings(settings))
}

fn refund(key: Option<&str>) -> BankRequest {
    let ticket = ticket();
    let order = &ticket.orders()[0];
    BankRequest::refund(order.id(), order.amount(), key)
}

/// A refund that has arrived at the bank and does not finish by itself.
fn arrive(bank: &SharedBank, key: &str) -> Pending {
    match bank.lock().arrive(&Request::refund("A-1", "42.50".into(), Some(key))) {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(sent) => panic!("it was answered: {sent:?}"),
    }
}

fn number(answer: Result<Reply, CallError>) -> (u32, bool) {
    match answer {
        Ok(Reply::Refunded(refunded)) => (refunded.number, refunded.is_replay),
        other => panic!("no refund: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_gives_the_answers_the_log_and_the_grade_of_the_bank_in_process() {
    for seed in 0..200 {
        for plan in ["article", "everything"] {
            let ticket = Ticket::generate(seed);
            let open = || Bank::open(&ticket, Plan::find(plan).unwrap().seed(seed));

            let mut bank = open();
            let in_process = work(&ticket, async |request| bank.call(&request.as_request())).await;
            let shared = SharedBank::new(open());
            let mut service = BankService::new(shared.clone());
            let through_tower =
                work(&ticket, async |request| service.ready().await?.call(request).await).await;

            assert_eq!(through_tower, in_process, "{plan}, seed {seed}");
            let mut behind = shared.lock();
            assert_eq!(behind.grade("").to_json(), bank.grade("").to_json(), "{plan}, seed {seed}");
            assert_eq!(behind.fault_log().to_string(), bank.fault_log().to_string());
        }
    }
}

#[test]
fn a_plain_answer_is_ready_and_needs_no_runtime() {
    let (bank, mut service) = open(scripted(&[("A-1 refund #2", "timeout")]));
    let mut context = Context::from_waker(Waker::noop());
    let mut ask = |key| pin!(service.call(refund(key))).poll(&mut context);
    assert!(matches!(ask(Some("k")), Poll::Ready(Ok(_))));
    assert_eq!(ask(None), Poll::Ready(Err(CallError::Timeout)));
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50", "42.50"]);
}

#[tokio::test]
async fn a_call_that_waits_for_its_key_is_woken_by_whoever_finishes_the_first() {
    let (bank, mut service) = open(Plan::calm());
    let first = arrive(&bank, "k");
    let waiting = [service.call(refund(Some("k"))), service.call(refund(Some("k")))];
    let waiting = waiting.map(tokio::spawn);
    // The thread is free meanwhile.
    assert_eq!(number(service.call(refund(None)).await), (1, false));
    assert!(waiting.iter().all(|task| !task.is_finished()));

    assert!(bank.lock().finish(first).is_ok());
    for task in waiting {
        assert_eq!(number(task.await.unwrap()), (2, true));
    }
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50", "42.50"]);
}

#[test]
fn a_thread_that_waits_for_its_key_is_woken_by_whoever_finishes_the_first() {
    let bank = SharedBank::new(Bank::open(&ticket(), Plan::calm()));
    let first = arrive(&bank, "k");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| bank.call(&refund(Some("k")).as_request()));
        while bank.lock().history().call_count() < 2 {
            std::thread::yield_now();
        }
        assert!(bank.lock().finish(first).is_ok());
        assert_eq!(number(second.join().unwrap()), (1, true));
    });
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_in_flight_is_answered_with_the_first_under_every_store_that_reserves() {
    let (bank, mut service) = slow_bank(Plan::calm());
    let (first, second) = (service.call(refund(Some("k"))), service.call(refund(Some("k"))));
    let start = Instant::now();
    assert_eq!((number(first.await), number(second.await)), ((1, false), (1, true)));
    assert_eq!(start.elapsed(), LATENCY);
    assert_eq!(bank.lock().grade("").extra_refunds(), 0);

    let (bank, mut service) = slow_bank(Plan::calm().dedupe(Dedupe::Racy));
    let (first, second) = (service.call(refund(Some("k"))), service.call(refund(Some("k"))));
    assert_eq!((number(first.await), number(second.await)), ((1, false), (2, false)));
    assert_eq!(causes(&bank.lock().grade("")), [Cause::RacyDedupe]);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_answered_when_the_first_is_whatever_its_own_latency() {
    let later = Duration::from_millis(80);
    for fault in ["duplicate", "twice_overlapping+reply", "slow"] {
        let plan = scripted(&[("A-1 refund #2", fault)]);
        let settings = PlanSettings { slow_ms: 0, ..*plan.settings() };
        let (bank, mut service) = slow_bank(plan.with_settings(settings));
        let start = Instant::now();
        let first = service.call(refund(Some("k")));
        tokio::time::sleep(later).await;
        let second = service.call(refund(Some("k")));
        assert_eq!(number(second.await), (1, true), "{fault}");
        assert_eq!(start.elapsed(), LATENCY, "{fault}");
        assert_eq!(number(first.await), (1, false), "{fault}");
        assert_eq!(held(&bank.lock(), "A-1"), ["42.50"], "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_has_to_execute_after_all_has_its_latency_from_its_arrival_on() {
    let plan = scripted(&[("A-1 refund #2", "duplicate")]).over_refund(OverRefund::Reject);
    let (bank, mut service) = slow_bank(plan);
    let id = "A-1".parse().unwrap();
    let start = Instant::now();
    let too_much = BankRequest::refund(&id, Amount::from_minor(9900).unwrap(), Some("k"));
    let first = service.call(too_much);
    tokio::time::sleep(Duration::from_millis(80)).await;
    let second = service.call(refund(Some("k")));
    assert!(matches!(first.await, Err(CallError::Refused(_))));
    assert_eq!(start.elapsed(), LATENCY);
    // Its first delivery is refused as what it waited for; its second finds the key free, and pays.
    assert_eq!(held(&bank.lock(), "A-1"), [""; 0]);
    assert!(matches!(second.await, Err(CallError::Refused(_))));
    assert_eq!(start.elapsed(), Duration::from_millis(180));
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50"]);
}

/// Who gives the bank back wakes all who wait for it; two who have left must not wake each other for ever.
#[tokio::test(start_paused = true)]
async fn two_callers_that_leave_while_they_wait_let_time_pass() {
    let (bank, mut service) = slow_bank(Plan::calm());
    let first = service.call(refund(Some("k")));
    bank.lock().set_plan(Plan::calm()).unwrap();
    for _ in 0..2 {
        drop(service.call(refund(Some("k"))));
    }
    assert_eq!(number(first.await), (1, false));
    while bank.lock().history().to_string().matches(r#""code":"left""#).count() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50"]);
}

#[tokio::test(start_paused = true)]
async fn haste_does_not_tell_whether_money_has_moved() {
    for fault in ["never+server_error", "server_error", "lost", "timeout", "never+reset", "closed"]
    {
        let (_, mut service) = slow_bank(scripted(&[("A-1 refund #1", fault)]));
        let start = Instant::now();
        assert!(service.call(refund(None)).await.is_err());
        assert_eq!(start.elapsed(), LATENCY, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_cancels_nothing() {
    let (bank, mut service) = slow_bank(Plan::calm());
    drop(service.call(refund(None)));
    assert_eq!(held(&bank.lock(), "A-1"), [""; 0]);
    assert_eq!(number(service.call(refund(None)).await), (2, false));
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50", "42.50"]);
    assert_eq!(causes(&bank.lock().grade("")), [Cause::RepeatInFlight]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_and_a_lost_reply_take_the_same_time() {
    let faults =
        [("A-1 refund #1", "timeout"), ("A-1 refund #2", "lost"), ("A-1 refund #3", "late")];
    let (_, mut service) = slow_bank(scripted(&faults));
    for (call, fault) in faults {
        let start = Instant::now();
        assert_eq!(service.call(refund(None)).await, Err(CallError::Timeout), "{call} {fault}");
        assert_eq!(start.elapsed(), LATENCY, "{call} {fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_comes_after_its_time_and_the_money_has_moved_before() {
    let (bank, mut service) = open(scripted(&[("A-1 refund #1", "slow")]));
    let start = Instant::now();
    let answer = service.call(refund(None));
    assert_eq!(held(&bank.lock(), "A-1"), ["42.50"]);
    assert_eq!(number(answer.await), (1, false));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_answers_what_is_under_way() {
    let (bank, mut service) = slow_bank(Plan::calm());
    let answer = service.call(refund(None));
    assert_eq!(bank.lock().grade("").extra_refunds(), 0);
    assert_eq!(number(answer.await), (1, false));
    assert!(matches!(service.call(refund(None)).await, Err(CallError::Refused(_))));
}
