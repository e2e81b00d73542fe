//! The client, against the real server.

use badbank::{
    Ticket,
    call::{CallError, Payments as _, RefusalCode},
    fault::{LostReply, Plan},
    http::{Client, ClientError},
    money::{Amount, Currency},
};
use tokio::time::Duration;

use crate::support::{TestServer, refunds, scripted, ticket};

fn euros(text: &str) -> Amount {
    Amount::parse(text, Currency::EUR).unwrap()
}

fn lost(lost_reply: LostReply) -> Plan {
    let plan = scripted(&[("A-1 refund #1", "timeout")]);
    let mut settings = *plan.settings();
    settings.lost_reply = lost_reply;
    plan.with_settings(settings)
}

#[test]
fn a_client_sees_what_a_caller_in_process_sees() {
    let server = TestServer::start();
    let ticket = Ticket::generate(3);
    let plan = Plan::article().seed(3);
    let run = server.open(&ticket, plan.clone());
    let mut bank = badbank::Bank::open(&ticket, plan);
    let mut client = Client::new(&run.url()).unwrap();
    for (number, order) in ticket.orders().iter().cycle().take(120).enumerate() {
        let key = format!("k{}", number % 50);
        let key = (number % 3 > 0).then_some(key.as_str());
        assert_eq!(
            client.refund(order.id(), order.amount(), key),
            bank.refund(order.id(), order.amount(), key)
        );
        assert_eq!(client.get_order(order.id()), bank.get_order(order.id()));
    }
    assert_eq!(run.with_bank(|bank| bank.fault_log().to_string()), bank.fault_log().to_string());
}

#[test]
fn refusals_are_the_same_as_in_process() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let mut bank = badbank::Bank::open(&ticket(), Plan::calm());
    let mut client = Client::new(&run.url()).unwrap();
    for (order, key) in [
        ("A-9", None),
        ("no such/order ü?", None),
        ("A-1", Some("  ")),
        ("A-1", Some("")),
        ("A-1", Some("ключ")),
        ("A-1", Some("\"k\"")),
        ("A-1", Some("k\"")),
        ("A-1", Some(" k\\ ")),
    ] {
        let over_http = client.refund(order, euros("1.00"), key).map_err(code);
        let in_process = bank.refund(order, euros("1.00"), key).map_err(code);
        assert_eq!(over_http, in_process, "{order} {key:?}");
    }
    let refused = client.get_order("A-9").unwrap_err();
    assert_eq!(code(refused), Some(RefusalCode::UnknownOrder));
}

fn code(error: CallError) -> Option<RefusalCode> {
    match error {
        CallError::Refused(refusal) => Some(refusal.code),
        _ => None,
    }
}

#[test]
fn a_lost_reply_is_indeterminate_however_it_looks() {
    for lost_reply in [LostReply::Status, LostReply::Close, LostReply::Reset, LostReply::Hang] {
        let server = TestServer::start();
        let run = server.open(&ticket(), lost(lost_reply));
        let client = Client::new(&run.url()).unwrap();
        let mut client = client.timeout(Duration::from_millis(500));
        let error = client.refund("A-1", euros("42.50"), None).unwrap_err();
        assert!(error.is_indeterminate() && error.is_retryable(), "{error}");
        assert_eq!(
            error == CallError::Timeout,
            matches!(lost_reply, LostReply::Status | LostReply::Hang)
        );
        // The client itself repeats nothing.
        assert_eq!(refunds(&run), 1, "{lost_reply:?}");
        assert_eq!(run.with_bank(|bank| bank.history().call_count()), 1);
        assert_eq!(client.refund("A-1", euros("42.50"), None).unwrap().number, 2);
    }
}

#[test]
fn amounts_are_written_in_the_currency_of_their_order() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let mut client = Client::new(&run.url()).unwrap();
    let yen = Amount::from_minor(5800).unwrap();
    let refunded = client.refund("J-1", yen, None).unwrap();
    assert_eq!((refunded.amount, refunded.currency.code()), (yen, "JPY"));
}

#[test]
fn a_client_reads_the_task_and_reports() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let mut client = Client::new(&run.url()).unwrap();
    assert_eq!(client.ticket().unwrap(), ticket());
    client.report("REFUNDED: A-1").unwrap();
    assert!(run.with_bank(|bank| bank.history().to_string()).contains("REFUNDED: A-1"));
}

#[test]
fn a_bank_that_is_gone_leaves_everything_open() {
    let mut server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let mut client = Client::new(&run.url()).unwrap();
    client.get_order("A-1").unwrap();
    server.shutdown();
    let error = client.get_order("A-1").unwrap_err();
    assert!(matches!(error, CallError::Broken { .. }), "{error}");
    let error = client.report("x").unwrap_err();
    assert!(matches!(error, CallError::Broken { .. }), "{error}");
    assert!(matches!(client.ticket(), Err(ClientError::Call(_))));
}
