//! Lost replies, as they look at the socket.

use std::io::ErrorKind;

use badbank::fault::{LostReply, Plan};

use crate::support::{Answer, TestServer, refunds, scripted, ticket, wait_until};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;

fn losing(fault: &str, lost_reply: LostReply) -> Plan {
    let plan = scripted(&[("A-1 refund #1", fault)]);
    let mut settings = *plan.settings();
    settings.lost_reply = lost_reply;
    plan.with_settings(settings)
}

fn refund_under(plan: Plan) -> (Answer, usize) {
    let server = TestServer::start();
    let run = server.open(&ticket(), plan);
    let answer = server.ask("POST", PATH, &[("Idempotency-Key", "k")], BODY);
    (answer, refunds(&run))
}

#[test]
fn a_timeout_and_a_lost_request_are_the_same_bytes() {
    let (timeout, paid) = refund_under(losing("timeout", LostReply::Status));
    let (lost, unpaid) = refund_under(losing("lost", LostReply::Status));
    assert_eq!((paid, unpaid), (1, 0));
    assert_eq!((timeout.status, timeout.code().as_str()), (504, "timeout"));
    assert_eq!(timeout.detail(), "The request may or may not have been processed.");
    assert_eq!(timeout.undated(), lost.undated());
}

#[test]
fn a_timeout_hides_what_the_ledger_said() {
    let plan = losing("timeout", LostReply::Status);
    let mut settings = *plan.settings();
    settings.over_refund = badbank::ledger::OverRefund::Reject;
    let server = TestServer::start();
    let run = server.open(&ticket(), plan.with_settings(settings));
    let refused = server.ask("POST", PATH, &[], r#"{"amount":"99.00"}"#);
    assert_eq!((refused.code().as_str(), refunds(&run)), ("timeout", 0));
}

#[test]
fn nothing_names_a_fault_a_plan_or_a_seed() {
    for fault in ["transient", "timeout", "duplicate", "lost", "twice+timeout"] {
        let (answer, _) =
            refund_under(losing(fault, LostReply::Status).named("article").seed(77_777));
        let text = answer.undated().to_ascii_lowercase();
        for word in
            ["fault", "transient", "duplicate", "lost", "inject", "badbank", "article", "77777"]
        {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

#[test]
fn a_closed_connection_ends_without_a_byte() {
    for (fault, paid) in [("timeout", 1), ("lost", 0)] {
        let server = TestServer::start();
        let run = server.open(&ticket(), losing(fault, LostReply::Close));
        let mut connection = server.connect();
        connection.send(&crate::support::request("POST", PATH, &[], BODY));
        assert_eq!(connection.read_to_end().unwrap(), b"", "{fault}");
        assert_eq!(refunds(&run), paid, "{fault}");
    }
}

#[test]
fn a_reset_is_a_real_one() {
    for (fault, paid) in [("timeout", 1), ("lost", 0)] {
        let server = TestServer::start();
        let run = server.open(&ticket(), losing(fault, LostReply::Reset));
        let mut connection = server.connect();
        // A warm connection is reset as well as a fresh one.
        assert_eq!(connection.ask("GET", "/runs/1/orders/A-1", &[], "").status, 200);
        connection.send(&crate::support::request("POST", PATH, &[], BODY));
        let error = connection.read_to_end().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{fault}");
        assert_eq!(refunds(&run), paid, "{fault}");
    }
}

#[test]
fn a_hanging_answer_keeps_nobody_else_waiting() {
    let server = TestServer::start();
    let run = server.open(&ticket(), losing("timeout", LostReply::Hang));
    let mut connection = server.connect();
    connection.send(&crate::support::request("POST", PATH, &[], BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    assert_eq!(refunds(&run), 1);
    let answer = server.ask("POST", PATH, &[], BODY);
    assert_eq!(answer.json()["refund"], 2);
}
