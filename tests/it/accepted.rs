//! Refunds that are accepted, answered as pending, and fail later.

use badbank::{
    Bank, Ticket,
    call::RefundStatus,
    fault::Plan,
    grade::{Cause, Grade, OrderVerdict},
    history::History,
    ledger::{Dedupe, OverRefund},
};

fn bank(fault: &str, plan: Plan) -> Bank {
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "10.00"}]}"#;
    let call = "A-1 refund #1".parse().unwrap();
    Bank::open(&Ticket::parse(ticket).unwrap(), plan.script(call, fault.parse().unwrap()).unwrap())
}

#[test]
fn it_fails_right_after_the_nth_further_call_has_had_its_effect() {
    let mut bank = bank("accepted_then_failed(2)", Plan::calm());
    let refunded = bank.refund("A-1", "10.00", None).unwrap();
    assert_eq!((refunded.number, refunded.status), (1, RefundStatus::Pending));
    assert!(refunded.to_string().contains("pending"), "{refunded}");
    for _ in 0..2 {
        // The second read still shows it: it has its effect before the refund fails.
        let order = bank.get_order("A-1").unwrap();
        assert_eq!((order.status(1), order.held().len()), (RefundStatus::Pending, 1));
    }
    let order = bank.get_order("A-1").unwrap();
    assert_eq!((order.status(1), order.held().len()), (RefundStatus::Failed, 0));
    assert_eq!(order.refunded.minor(), 0);
}

#[test]
fn its_amount_is_free_again_and_its_number_is_not() {
    let mut bank = bank("accepted_then_failed", Plan::calm().over_refund(OverRefund::Reject));
    bank.refund("A-1", "10.00", None).unwrap();
    // The balance counts it until it has failed, which it does after this call.
    assert!(bank.refund("A-1", "10.00", None).is_err());
    assert_eq!(bank.refund("A-1", "10.00", None).unwrap().number, 2);
    assert!(bank.grade("").all_ok());
}

#[test]
fn a_program_that_does_not_look_again_misses_it_and_is_told_why() {
    let mut bank = bank("accepted_then_failed(3)", Plan::calm());
    bank.refund("A-1", "10.00", Some("k")).unwrap();
    let grade = bank.grade("REFUNDED: A-1");
    let order = grade.order("A-1").unwrap();
    assert_eq!((order.verdict, order.causes[0].cause), (OrderVerdict::Missed, Cause::FailedLater));
    assert_eq!(grade.report_true(), Some(false));
    assert!(grade.to_string().contains("which failed later"), "{grade}");

    let text = bank.history().to_string();
    assert!(text.contains(r#""event":"revert""#), "{text}");
    let read = History::parse(&text).unwrap().history;
    assert_eq!(&read, bank.history());
    assert_eq!(Grade::of(&read, None).to_json(), grade.to_json());
}

#[test]
fn what_failed_after_its_replay_was_no_other_refund_and_what_had_failed_before_was() {
    let causes = |orders: &str, calls: &str| {
        let ticket = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#);
        let accepted = "accepted_then_failed(2)".parse().unwrap();
        let plan = Plan::calm().script("A-1 refund #1".parse().unwrap(), accepted).unwrap();
        let mut bank = Bank::open(&Ticket::parse(&ticket).unwrap(), plan);
        for call in calls.split(' ') {
            match call {
                "refund" => drop(bank.refund("A-1", "10.00", Some("k")).unwrap()),
                _ => drop(bank.get_order("A-1").unwrap()),
            }
        }
        let grade = bank.grade("");
        let findings = grade.order("A-1").unwrap().causes.iter();
        let found = findings.map(|finding| (finding.cause, finding.calls[0].attempt));
        found.collect::<Vec<_>>()
    };
    let failed = (Cause::FailedLater, 1);
    let swallowed = (Cause::SwallowedByKey, 2);
    let one = r#"{"id": "A-1", "amount": "10.00"}"#;
    assert_eq!(causes(one, "refund refund"), [failed]);
    assert_eq!(causes(one, "refund read read refund"), [swallowed]);
    // Each explains one refund of two.
    let two = r#"{"id": "A-1", "amount": "20.00", "expect": ["10.00", "10.00"]}"#;
    assert_eq!(causes(two, "refund refund"), [failed, swallowed]);
    assert_eq!(causes(two, "refund read read refund"), [swallowed, failed]);
}

#[test]
fn paying_again_after_it_failed_is_right_and_before_is_one_too_many_for_a_while() {
    let mut bank = bank("accepted_then_failed", Plan::calm());
    bank.refund("A-1", "10.00", None).unwrap();
    bank.get_order("A-1").unwrap();
    bank.refund("A-1", "10.00", None).unwrap();
    assert!(bank.grade("").all_ok());
}

#[test]
fn a_repeat_under_its_key_gets_the_first_answer_or_the_latest_status() {
    for (dedupe, status) in
        [(Dedupe::FirstReply, RefundStatus::Pending), (Dedupe::Paypal, RefundStatus::Failed)]
    {
        let mut bank = bank("accepted_then_failed", Plan::calm().dedupe(dedupe));
        bank.refund("A-1", "10.00", Some("k")).unwrap();
        bank.get_order("A-1").unwrap();
        let again = bank.refund("A-1", "10.00", Some("k")).unwrap();
        assert_eq!((again.is_replay, again.status), (true, status), "{dedupe:?}");
    }
}
