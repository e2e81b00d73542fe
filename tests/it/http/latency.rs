//! Calls that take time.

use badbank::{Bank, fault::Plan, ledger::Dedupe};
use tokio::time::{Duration, Instant};

use crate::support::{TestServer, refunds, request, scripted, ticket, wait_until};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;
/// Latency that no test lives to see the end of.
const HOUR: u64 = 3_600_000;
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];

fn slow(plan: Plan, latency_ms: u64) -> Plan {
    let mut settings = *plan.settings();
    settings.latency_ms = latency_ms;
    plan.with_settings(settings)
}

#[test]
fn a_client_that_leaves_cancels_nothing() {
    let server = TestServer::start();
    let run = server.open(&ticket(), slow(Plan::calm(), 500));
    let mut connection = server.connect();
    connection.send(&request("POST", PATH, &[], BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    drop(connection);
    wait_until(&run, |bank| !bank.ledger().accounts()[0].refunds().is_empty());
    let history = run.with_bank(|bank| bank.history().to_string());
    assert!(history.contains(r#""event":"info""#), "{history}");
    assert!(history.contains(r#""code":"left""#), "{history}");
}

#[test]
fn a_repeat_in_flight_waits_and_is_answered_with_the_first() {
    let server = TestServer::start();
    let run = server.open(&ticket(), slow(Plan::calm(), 100));
    let mut first = server.connect();
    let mut second = server.connect();
    first.send(&request("POST", PATH, &KEY, BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    second.send(&request("POST", PATH, &KEY, BODY));
    let (first, second) = (first.read().unwrap(), second.read().unwrap());
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(refunds(&run), 1);
}

#[test]
fn a_repeat_that_waits_is_woken_under_a_faster_plan() {
    let server = TestServer::start();
    let run = server.open(&ticket(), slow(Plan::calm(), 150));
    let mut first = server.connect();
    first.send(&request("POST", PATH, &KEY, BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    run.with_bank(|bank| bank.set_plan(Plan::calm())).unwrap();
    let second = server.ask("POST", PATH, &KEY, BODY);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.read().unwrap().status, 201);
    assert_eq!(refunds(&run), 1);
}

#[test]
fn a_strict_bank_refuses_a_repeat_in_flight_at_once() {
    let server = TestServer::start();
    let run = server.open(&ticket(), slow(Plan::calm().dedupe(Dedupe::Strict), HOUR));
    let mut first = server.connect();
    first.send(&request("POST", PATH, &KEY, BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    let second = server.ask("POST", PATH, &KEY, BODY);
    assert_eq!((second.status, second.code().as_str()), (409, "in_flight"));
    run.with_bank(Bank::settle);
    assert_eq!(first.read().unwrap().status, 201);
    assert_eq!(refunds(&run), 1);
}

#[test]
fn a_racy_bank_pays_twice_what_overlaps() {
    let server = TestServer::start();
    let run = server.open(&ticket(), slow(Plan::calm().dedupe(Dedupe::Racy), HOUR));
    let mut calls = [server.connect(), server.connect()];
    for call in &mut calls {
        call.send(&request("POST", PATH, &KEY, BODY));
    }
    wait_until(&run, |bank| bank.history().call_count() == 2);
    run.with_bank(Bank::settle);
    let numbers = calls.map(|mut call| call.read().unwrap().json()["refund"].clone());
    assert!(numbers.contains(&1.into()) && numbers.contains(&2.into()));
    assert_eq!(refunds(&run), 2);
}

#[test]
fn the_end_of_a_run_ends_every_wait() {
    let server = TestServer::start();
    let plan = slow(scripted(&[("A-1 refund #2", "lost")]), HOUR);
    let run = server.open(&ticket(), plan);
    let mut calls = [server.connect(), server.connect()];
    for (call, count) in calls.iter_mut().zip(1..) {
        call.send(&request("POST", PATH, &[], BODY));
        wait_until(&run, |bank| bank.history().call_count() == count);
    }
    assert_eq!(server.control("POST", "/runs/1/grade", "").status, 200);
    assert_eq!(refunds(&run), 1);
    let [paid, lost] = calls.map(|mut call| call.read().unwrap().status);
    assert_eq!((paid, lost), (201, 504));
}

#[test]
fn latency_passes_on_the_runs_clock() {
    let server = TestServer::start();
    let plan = slow(scripted(&[("A-1 refund #2", "lost")]), HOUR);
    let run = server.open(&ticket(), plan);
    let mut calls = [server.connect(), server.connect()];
    for (call, count) in calls.iter_mut().zip(1..) {
        call.send(&request("POST", PATH, &[], BODY));
        wait_until(&run, |bank| bank.history().call_count() == count);
    }
    let advance = |by: u64| {
        let body = format!(r#"{{"advance_ms":{by}}}"#);
        assert_eq!(server.control("POST", "/runs/1/clock", &body).status, 200);
    };
    advance(HOUR / 2);
    assert_eq!(refunds(&run), 0);
    advance(HOUR / 2);
    let [paid, lost] = calls.map(|mut call| call.read().unwrap().status);
    assert_eq!((paid, lost), (201, 504));
    assert_eq!(refunds(&run), 1);
    // What comes later has its latency before it.
    let mut third = server.connect();
    third.send(&request("POST", PATH, &[], BODY));
    wait_until(&run, |bank| bank.history().call_count() == 3);
    assert_eq!(refunds(&run), 1);
    advance(HOUR);
    assert_eq!(third.read().unwrap().status, 201);
}

#[test]
fn a_run_that_is_reset_or_deleted_meanwhile_still_answers() {
    for (method, path) in [("POST", "/runs/1/reset"), ("DELETE", "/runs/1")] {
        let server = TestServer::start();
        let run = server.open(&ticket(), slow(Plan::calm(), 200));
        let mut connection = server.connect();
        connection.send(&request("POST", PATH, &[], BODY));
        wait_until(&run, |bank| bank.history().call_count() == 1);
        assert_eq!(server.control(method, path, "").status, 204);
        assert_eq!(connection.read().unwrap().status, 201);
    }
}

#[test]
fn a_lost_request_takes_as_long_as_a_lost_reply() {
    let server = TestServer::start();
    let latency = Duration::from_millis(80);
    server.open(&ticket(), slow(scripted(&[("A-1 refund #1", "lost")]), 80));
    let start = Instant::now();
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 504);
    assert!(start.elapsed() >= latency);
}
