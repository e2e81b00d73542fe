//! Clients that hang up, at any byte: an incomplete request does nothing, a complete one is carried out.

use badbank::{fault::Plan, http::RunHandle};

use crate::support::{Connection, TestServer, refunds, request, ticket, wait_until};

const BODY: &str = r#"{"amount":"42.50","currency":"EUR"}"#;

fn refund(run: &RunHandle) -> Vec<u8> {
    let path = format!("/runs/{}/orders/A-1/refunds", run.id());
    request("POST", &path, &[("Content-Type", "application/json"), ("Idempotency-Key", "k")], BODY)
}

/// Says that nothing more will come, and looks at no answer before the end.
fn stop_sending(connection: Connection, kept: &mut Vec<Connection>) {
    connection.finish_sending();
    kept.push(connection);
}

/// Sends every beginning of a refund to a run of its own, leaves as `leave` does, and looks at the ledgers once
/// the server has heard everyone out.
fn leaves_after_every_byte(latency_ms: u64, mut leave: impl FnMut(Connection)) {
    let mut server = TestServer::start();
    let plan = Plan::parse(&format!(r#"{{"version":1,"latency_ms":{latency_ms}}}"#)).unwrap();
    let mut runs = Vec::new();
    for length in 0.. {
        let run = server.open(&ticket(), plan.clone());
        let whole = refund(&run);
        if length > whole.len() {
            break;
        }
        let mut connection = server.connect();
        connection.send(&whole[..length]);
        leave(connection);
        runs.push((run, length == whole.len()));
    }
    assert!(runs.len() > 100);
    for (run, is_complete) in &runs {
        if *is_complete {
            wait_until(run, |bank| !bank.ledger().accounts()[0].refunds().is_empty());
        }
    }
    // The server ends its connections before it stops, so nothing more can come of them.
    server.shutdown();
    for (run, is_complete) in &runs {
        assert_eq!(refunds(run), usize::from(*is_complete), "run {}", run.id());
        let calls = run.with_bank(|bank| bank.history().call_count());
        assert_eq!(calls, u64::from(*is_complete), "run {}", run.id());
    }
}

#[test]
fn a_client_that_hangs_up_at_any_byte_cancels_nothing_and_starts_nothing() {
    leaves_after_every_byte(0, drop);
}

#[test]
fn nor_does_it_while_its_call_takes_time() {
    leaves_after_every_byte(20, drop);
}

#[test]
fn a_client_that_says_it_will_send_no_more_is_no_other() {
    for latency_ms in [0, 20] {
        let mut kept = Vec::new();
        leaves_after_every_byte(latency_ms, |connection| stop_sending(connection, &mut kept));
    }
}

#[test]
fn a_repeat_after_hanging_up_gets_the_answer_of_the_first() {
    let server = TestServer::start();
    let plan = Plan::parse(r#"{"version":1,"latency_ms":20}"#).unwrap();
    let run = server.open(&ticket(), plan);
    for _ in 0..20 {
        let mut connection = server.connect();
        connection.send(&refund(&run));
    }
    let mut last = server.connect();
    last.send(&refund(&run));
    let answer = last.read().unwrap();
    assert_eq!((answer.status, answer.json()["refund"].clone()), (201, 1.into()));
    wait_until(&run, |bank| bank.history().call_count() == 21);
    assert_eq!(refunds(&run), 1);
}
