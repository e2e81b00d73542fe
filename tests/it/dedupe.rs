//! The ways of gateways with keys, and their mistakes: what each mode answers, and what the ledger holds.

use std::time::Duration;

use badbank::{
    Bank, Ticket,
    call::{AmountInput, CallError, RefusalCode, Request},
    fault::{Fault, Plan},
    grade::Cause,
    ledger::{Caller, Dedupe, OverRefund},
};

fn bank(dedupe: Dedupe) -> Bank {
    let ticket = r#"{"version": 1, "currency": "EUR", "orders": [
        {"id": "A-1", "amount": "10.00"}, {"id": "A-2", "amount": "10.00"}]}"#;
    Bank::open(&Ticket::parse(ticket).unwrap(), Plan::calm().dedupe(dedupe))
}

/// Sends a refund and says how it was answered: its number, `replay`, or a code.
fn send(bank: &mut Bank, order: &str, amount: &str, key: &str) -> String {
    match bank.refund(order, amount, Some(key)) {
        Ok(refunded) if refunded.is_replay => "replay".to_owned(),
        Ok(refunded) => refunded.number.to_string(),
        Err(CallError::Refused(refusal)) => refusal.code.as_str().to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The modes whose answer a test does not list get `otherwise`.
fn expect(
    dedupe: Dedupe,
    listed: &[(Dedupe, &'static str)],
    otherwise: &'static str,
) -> &'static str {
    listed.iter().find(|(mode, _)| *mode == dedupe).map_or(otherwise, |(_, answer)| answer)
}

#[test]
fn every_mode_but_off_answers_a_plain_repeat_again() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let mut bank = bank(dedupe);
        assert_eq!(send(&mut bank, "A-1", "10.00", "k"), "1");
        let expected = expect(dedupe, &[(Dedupe::Off, "2")], "replay");
        assert_eq!(send(&mut bank, "A-1", "10", "k"), expected, "{dedupe:?}");
    }
}

#[test]
fn other_parameters_under_a_key_are_refused_where_they_are_looked_at() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let mut bank = bank(dedupe);
        send(&mut bank, "A-1", "10.00", "k");
        let blind = [
            (Dedupe::Off, "1"),
            (Dedupe::FirstReply, "replay"),
            (Dedupe::Racy, "replay"),
            (Dedupe::Checkout, "replay"),
            (Dedupe::Paypal, "replay"),
            (Dedupe::BodyBlind, "replay"),
        ];
        let expected = expect(dedupe, &blind, "key_mismatch");
        assert_eq!(send(&mut bank, "A-2", "10.00", "k"), expected, "{dedupe:?}");
    }
}

#[test]
fn a_repeat_in_flight_is_refused_waits_or_executes() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let mut bank = bank(dedupe);
        let request = Request::refund("A-1", AmountInput::Text("10.00"), Some("k"));
        let badbank::bank::Arrival::Pending(first) = bank.arrive(&request) else {
            panic!("{dedupe:?}: the first is under way")
        };
        let second = bank.arrive(&request);
        bank.finish(first).unwrap();
        let heard = match second {
            badbank::bank::Arrival::Answered(sent) => sent.received(),
            badbank::bank::Arrival::Pending(pending) => bank.finish(pending).unwrap().received(),
        };
        let refunds = bank.ledger().accounts()[0].refunds().len();
        let is_refused = matches!(&heard, Err(CallError::Refused(refusal)) if refusal.code == RefusalCode::InFlight);
        match dedupe {
            Dedupe::Off | Dedupe::Racy => {
                assert_eq!((refunds, heard.is_ok()), (2, true), "{dedupe:?}");
            }
            Dedupe::FirstReply => assert_eq!((refunds, heard.is_ok()), (1, true), "{dedupe:?}"),
            _ => assert_eq!((refunds, is_refused), (1, true), "{dedupe:?}: {heard:?}"),
        }
    }
}

#[test]
fn keys_expire_as_each_mode_documents() {
    let day = 86_400;
    for (dedupe, known_s, forgotten_s) in [
        (Dedupe::Strict, day - 1, Some(day)),
        (Dedupe::StripeV1, day - 1, Some(day)),
        (Dedupe::StripeV2, 30 * day - 1, Some(30 * day)),
        (Dedupe::Checkout, day - 1, Some(day)),
        (Dedupe::Paypal, 45 * day - 1, Some(45 * day)),
        (Dedupe::SharedScope, day - 1, Some(day)),
        (Dedupe::BodyBlind, day - 1, Some(day)),
        (Dedupe::EarlyExpiry, 0, Some(1)),
        (Dedupe::FirstReply, 1000 * day, None),
        (Dedupe::Racy, 1000 * day, None),
    ] {
        for (after_s, expected) in [(Some(known_s), "replay"), (forgotten_s, "2")] {
            let Some(after_s) = after_s else { continue };
            let mut bank = bank(dedupe);
            send(&mut bank, "A-1", "10.00", "k");
            bank.advance(Duration::from_secs(after_s));
            assert_eq!(
                send(&mut bank, "A-1", "10.00", "k"),
                expected,
                "{dedupe:?} after {after_s} s"
            );
        }
    }
}

#[test]
fn a_refusal_is_stored_where_failures_are_and_executed_again_elsewhere() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let ticket =
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "10.00"}]}"#;
        let plan = Plan::calm().dedupe(dedupe).over_refund(OverRefund::Reject);
        let mut bank = Bank::open(&Ticket::parse(ticket).unwrap(), plan);
        assert_eq!(send(&mut bank, "A-1", "11.00", "k"), "over_refund");
        // The limit is lifted: a stored refusal does not notice.
        bank.set_plan(Plan::calm().dedupe(dedupe)).unwrap();
        let expected = expect(dedupe, &[(Dedupe::StripeV1, "over_refund")], "1");
        assert_eq!(send(&mut bank, "A-1", "11.00", "k"), expected, "{dedupe:?}");
    }
}

#[test]
fn a_server_error_after_the_commit_is_stored_where_failures_are() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let ticket =
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "10.00"}]}"#;
        let plan = Plan::calm()
            .dedupe(dedupe)
            .script("A-1 refund #1".parse().unwrap(), Fault::SERVER_ERROR);
        let mut bank = Bank::open(&Ticket::parse(ticket).unwrap(), plan.unwrap());
        let error = bank.refund("A-1", "10.00", Some("k")).unwrap_err();
        assert_eq!(error, CallError::ServerError);
        let again = bank.refund("A-1", "10.00", Some("k"));
        match dedupe {
            Dedupe::StripeV1 => assert_eq!(again, Err(CallError::ServerError)),
            Dedupe::Off => assert_eq!(again.unwrap().number, 2),
            _ => assert!(again.unwrap().is_replay, "{dedupe:?}"),
        }
        assert_eq!(bank.grade("").all_ok(), dedupe != Dedupe::Off, "{dedupe:?}");
    }
}

#[test]
fn callers_share_their_keys_only_where_the_scope_is_too_wide() {
    for dedupe in Dedupe::ALL.iter().copied() {
        let mut bank = bank(dedupe);
        let mut ask = |order, credential: &[u8]| {
            let mut request = Request::refund(order, AmountInput::Text("10.00"), Some("1"));
            request.caller = Some(Caller::from_credential(credential));
            bank.call(&request).map_err(|error| error.to_string())
        };
        ask("A-1", b"T1").unwrap();
        let other = ask("A-2", b"T2");
        // The mistake tells the second caller of the first one's refund.
        match dedupe {
            Dedupe::SharedScope => assert!(other.unwrap_err().contains("A-1")),
            _ => assert!(other.is_ok(), "{dedupe:?}"),
        }
    }
}

#[test]
fn a_small_cache_forgets_the_fifth_key_back_and_the_grade_says_so() {
    let mut bank = bank(Dedupe::SmallCache);
    send(&mut bank, "A-1", "10.00", "k1");
    for key in ["k2", "k3", "k4"] {
        send(&mut bank, "A-2", "1.00", key);
    }
    assert_eq!(send(&mut bank, "A-1", "10.00", "k1"), "replay");
    send(&mut bank, "A-2", "1.00", "k5");
    assert_eq!(send(&mut bank, "A-1", "10.00", "k1"), "2");
    let grade = bank.grade("");
    assert_eq!(grade.order("A-1").unwrap().causes[0].cause, Cause::KeyExpired);
}
