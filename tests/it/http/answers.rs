//! What the data plane answers when nothing is wrong.

use badbank::{Bank, fault::Plan};

use crate::support::{TestServer, refunds, scripted, ticket};

const PATH: &str = "/runs/1/orders/A-1/refunds";

#[test]
fn an_order_is_shown_with_its_refunds() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    let answer = server.ask("GET", "/runs/1/orders/A-1?x=1", &[], "");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(
        answer.body,
        r#"{"id":"A-1","currency":"EUR","amount":"42.50","refunded":"0.00","refunds":[]}"#
    );
    for amount in ["30.00", "12.50"] {
        server.ask("POST", PATH, &[], &format!(r#"{{"amount":"{amount}"}}"#));
    }
    assert_eq!(
        server.ask("GET", "/runs/1/orders/A-1", &[], "").body,
        r#"{"id":"A-1","currency":"EUR","amount":"42.50","refunded":"42.50","refunds":[{"number":1,"amount":"30.00"},{"number":2,"amount":"12.50"}]}"#
    );
}

#[test]
fn a_refund_is_confirmed_with_its_number() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let answer = server.ask("POST", PATH, &[], r#"{"amount":"42.50","currency":"EUR"}"#);
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.body,
        r#"{"order":"A-1","refund":1,"amount":"42.50","currency":"EUR","message":"Refunded 42.50 EUR on order A-1 (refund #1)."}"#
    );
    assert_eq!(answer.header("idempotent-replayed"), None);
    assert_eq!(refunds(&run), 1);
}

#[test]
fn ten_with_any_decimals_is_one_amount() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    for amount in ["10", "10.0", "10.00", r#""10""#, r#""10.0""#, r#""10.00""#, r#""1\u0030""#] {
        let answer = server.ask("POST", PATH, &[], &format!(r#" {{ "amount" : {amount} }} "#));
        assert_eq!(answer.status, 201, "{amount}");
        assert_eq!(answer.json()["amount"], "10.00", "{amount}");
    }
    let minor = run.with_bank(|bank| bank.ledger().accounts()[0].refunded().minor());
    assert_eq!(minor, 7000);
}

#[test]
fn a_replay_is_the_same_answer_and_marked() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let body = r#"{"amount":"42.50"}"#;
    let first = server.ask("POST", PATH, &[("Idempotency-Key", r#"a"b\c"#)], body);
    let quoted = [("idempotency-key", r#""a\"b\\c""#)];
    let replay = server.ask("POST", PATH, &quoted, body);
    assert_eq!((first.status, &first.body), (replay.status, &replay.body));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(refunds(&run), 1);
}

#[test]
fn keys_of_two_callers_never_meet() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    for (caller, count) in [("Bearer a", 1), ("Bearer b", 2), ("Bearer a", 2)] {
        let headers = [("Idempotency-Key", "k"), ("Authorization", caller)];
        server.ask("POST", PATH, &headers, r#"{"amount":"1.00"}"#);
        assert_eq!(refunds(&run), count, "{caller}");
    }
}

#[test]
fn the_ticket_is_the_task_and_is_never_faulted() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let answer = server.ask("GET", "/runs/1/ticket", &[], "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, ticket().to_json());
    assert_eq!(run.with_bank(|bank| bank.history().call_count()), 0);
}

#[test]
fn a_report_is_written_down() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let answer =
        server.ask("POST", "/runs/1/report", &[("Content-Type", "text/plain")], "REFUNDED: A-1");
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert!(run.with_bank(|bank| bank.history().to_string()).contains("REFUNDED: A-1"));
    run.with_bank(Bank::settle);
    assert_eq!(server.ask("POST", "/runs/1/report", &[], "x").code(), "run_ended");
}

#[test]
fn a_transient_fault_says_that_nothing_was_changed() {
    let server = TestServer::start();
    let run = server.open(&ticket(), scripted(&[("A-1 refund #1", "transient")]));
    let answer = server.ask("POST", PATH, &[], r#"{"amount":"42.50"}"#);
    assert_eq!((answer.status, answer.code().as_str()), (503, "unavailable"));
    assert_eq!(answer.detail(), "Service Unavailable. This attempt made no changes.");
    assert_eq!(refunds(&run), 0);
}

#[test]
fn a_duplicate_shows_only_in_the_ledger() {
    let server = TestServer::start();
    let calm = server.open(&ticket(), Plan::calm());
    let run = server.open(&ticket(), scripted(&[("A-1 refund #1", "duplicate")]));
    let body = r#"{"amount":"42.50"}"#;
    let plain = server.ask("POST", PATH, &[], body);
    let doubled = server.ask("POST", "/runs/2/orders/A-1/refunds", &[], body);
    assert_eq!(plain.undated(), doubled.undated());
    assert_eq!((refunds(&calm), refunds(&run)), (1, 2));
}
