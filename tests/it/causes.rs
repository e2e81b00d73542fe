//! Causes where several could be meant: which of them a grade names, and which calls it takes for proof.

use badbank::{
    Bank, Ticket,
    call::Request,
    fault::{Fault, Plan},
    grade::{Grade, Verdict},
    history::History,
    ledger::Dedupe,
};

use crate::trial::{Trial, causes, fixture, told};

/// One order of 100.00, of which these refunds are expected.
fn expecting(refunds: &str) -> Trial {
    Trial::orders(&format!(r#"{{"id": "A-1", "amount": "100.00", "expect": [{refunds}]}}"#))
}

/// Sends refunds on A-1, with or without a key, and wants to hear these words.
fn send(bank: &mut Bank, refunds: &[(&str, Option<&str>, &str)]) {
    for (amount, key, word) in refunds {
        assert_eq!(told(&bank.refund("A-1", *amount, *key)), *word, "{amount} {key:?}");
    }
}

/// The findings about A-1: what is too many or missing, why, and the calls.
fn findings(grade: &Grade) -> Vec<String> {
    let findings = grade.order("A-1").unwrap().causes.iter();
    findings
        .map(|finding| {
            let what = finding.missing.as_ref().map_or_else(
                || format!("#{}", finding.refund.unwrap()),
                |amount| format!("no {amount}"),
            );
            let calls: Vec<String> =
                finding.calls.iter().map(|call| call.attempt.to_string()).collect();
            format!("{what} {} {}", finding.cause.as_str(), calls.join("+"))
        })
        .collect()
}

#[test]
fn a_refund_that_was_never_asked_for_was_not_swallowed_by_the_repeat_of_another() {
    let mut bank = expecting(r#""30.00", "20.00""#).script("A-1 refund #1", Fault::TIMEOUT).open();
    send(&mut bank, &[("30.00", Some("k"), "no_reply"), ("30.00", Some("k"), "replayed")]);
    assert_eq!(findings(&bank.grade("")), ["no 20.00 never_tried "]);
}

#[test]
fn a_refund_that_was_never_asked_for_was_not_given_up_with_another() {
    let trial = expecting(r#""30.00", "20.00""#).script("A-1 refund #1", Fault::TRANSIENT);
    let mut bank = trial.open();
    send(&mut bank, &[("30.00", None, "unavailable"), ("30.00", None, "ok")]);
    assert_eq!(findings(&bank.grade("")), ["no 20.00 never_tried "]);
}

#[test]
fn a_refund_that_another_parts_key_swallowed_is_told_from_one_that_was_never_asked_for() {
    let mut bank = expecting(r#""30.00", "20.00", "10.00""#).open();
    send(&mut bank, &[("30.00", Some("k"), "ok"), ("20.00", Some("k"), "replayed")]);
    let found = findings(&bank.grade(""));
    assert_eq!(found, ["no 10.00 never_tried ", "no 20.00 swallowed_by_key 2"]);
}

#[test]
fn the_repeat_of_another_amount_is_no_try() {
    for dedupe in [Dedupe::FirstReply, Dedupe::Strict, Dedupe::Off] {
        let mut bank = expecting(r#""100.00""#).dedupe(dedupe).open();
        let again = if dedupe == Dedupe::Off { "ok" } else { "replayed" };
        send(&mut bank, &[("10.00", Some("k"), "ok"), ("10.00", Some("k"), again)]);
        let found = findings(&bank.grade(""));
        assert_eq!(found.last().unwrap(), "no 100.00 never_tried ", "{dedupe:?}");
    }
}

#[test]
fn an_amount_that_nobody_expected_was_the_try_if_it_was_in_vain() {
    let mut bank = expecting(r#""40.00""#).reject().open();
    send(&mut bank, &[("400.00", None, "over_refund")]);
    assert_eq!(findings(&bank.grade("")), ["no 40.00 refused 1"]);
}

#[test]
fn another_amount_under_a_known_key_is_another_amount() {
    let mut bank = expecting(r#""25.00""#).dedupe(Dedupe::Off).open();
    send(&mut bank, &[("25.00", Some("k"), "ok"), ("30.00", Some("k"), "ok")]);
    assert_eq!(findings(&bank.grade("")), ["#2 other_amount 2"]);
}

/// The causes in a fixture whose ledger treated keys so.
fn under(name: &str, dedupe: Dedupe) -> Vec<&'static str> {
    let text = fixture(&format!("histories/{name}.jsonl"));
    let at = text.find(r#""dedupe":""#).unwrap() + r#""dedupe":""#.len();
    let end = at + text[at..].find('"').unwrap();
    let text = format!("{}{}{}", &text[..at], dedupe.as_str(), &text[end..]);
    let history = History::parse(&text).unwrap().history;
    causes(&Grade::of(&history, None)).into_iter().map(badbank::grade::Cause::as_str).collect()
}

#[test]
fn one_key_paid_twice_at_once_is_a_race_unless_keys_are_ignored_or_soon_forgotten() {
    for dedupe in Dedupe::ALL {
        let expected = match dedupe {
            Dedupe::Off => "key_ignored",
            Dedupe::SmallCache | Dedupe::EarlyExpiry => "key_expired",
            _ => "racy_dedupe",
        };
        assert_eq!(under("racy_dedupe", *dedupe), [expected], "{dedupe:?}");
    }
}

#[test]
fn one_key_paid_twice_in_turn_has_expired_only_where_keys_do() {
    for dedupe in Dedupe::ALL {
        let expected = match dedupe {
            Dedupe::Off | Dedupe::FirstReply | Dedupe::Racy => "key_ignored",
            _ => "key_expired",
        };
        assert_eq!(under("key_expired", *dedupe), [expected], "{dedupe:?}");
    }
}

#[test]
fn a_refund_that_an_old_one_had_made_needless_has_the_cause_that_fits_first() {
    let held = r#"{"id": "A-1", "amount": "100.00", "expect": ["42.50"], "refunded": ["42.50"]}"#;
    let again = ("42.50", None, "ok");

    let mut bank = Trial::orders(held).open();
    send(&mut bank, &[again]);
    assert_eq!(findings(&bank.grade("")), ["#2 repeat_after_success 1"]);

    let mut bank = Trial::orders(held).open();
    bank.crash();
    send(&mut bank, &[again]);
    assert_eq!(findings(&bank.grade("")), ["#2 repeat_after_crash 1"]);

    let late = "late".parse().unwrap();
    let mut bank = Trial::orders(held).script("A-1 refund #1", late).open();
    bank.crash();
    send(&mut bank, &[("42.50", None, "no_reply")]);
    assert_eq!(findings(&bank.grade("")), ["#2 late_commit 1"]);
}

#[test]
fn a_doubled_request_whose_reply_is_lost_does_not_race() {
    // Only the duplicate that is answered overlaps in a racy store, so that its flaw shows; the pair says what it says.
    for (fault, refunds) in
        [("twice+timeout", 1), ("duplicate", 2), ("twice_overlapping+timeout", 2)]
    {
        let trial = Trial::orders(r#"{"id": "A-1", "amount": "42.50"}"#).dedupe(Dedupe::Racy);
        let mut bank = trial.script("A-1 refund #1", fault.parse().unwrap()).open();
        let _lost_or_not = bank.refund("A-1", "42.50", Some("k"));
        assert_eq!(bank.ledger().accounts()[0].refunds().len(), refunds, "{fault}");
    }
}

const TIMEOUT_FIRST: &str =
    r#"{"version": 1, "rules": [{"on": "refund", "attempts": "1", "fault": "timeout"}]}"#;

#[test]
fn a_plan_that_no_call_came_under_counts_for_nothing() {
    for first in [Plan::article(), Plan::parse(TIMEOUT_FIRST).unwrap()] {
        let ticket = Ticket::generate(7);
        let mut bank = Bank::open(&ticket, first.seed(7));
        bank.set_plan(Plan::calm()).unwrap();
        for order in ticket.orders() {
            assert_eq!(told(&bank.refund(order.id(), order.amount(), None)), "ok");
        }
        let grade = bank.grade("");
        assert_eq!((grade.verdict(), grade.unfired()), (Verdict::Pass, &[][..]));
        let read = History::parse(&bank.history().to_string()).unwrap().history;
        assert_eq!(Grade::of(&read, None).to_json(), grade.to_json());
    }
}

#[test]
fn a_plan_that_a_call_came_under_still_counts_when_another_is_put_in_its_place() {
    let mut bank = expecting(r#""100.00""#).open();
    bank.set_plan(Plan::parse(TIMEOUT_FIRST).unwrap()).unwrap();
    assert!(bank.get_order("A-1").is_ok());
    bank.set_plan(Plan::calm()).unwrap();
    send(&mut bank, &[("100.00", Some("k"), "ok")]);
    let grade = bank.grade("");
    assert_eq!(grade.verdict(), Verdict::NotExposed);
    assert_eq!(grade.unfired(), ["A-1 refund #1 timeout"]);
}

#[test]
fn a_scripted_fault_that_was_met_under_one_plan_is_met() {
    let plan = || Plan::parse(TIMEOUT_FIRST).unwrap();
    let mut bank = Trial::new(expecting(r#""100.00""#).open().ticket().clone(), plan()).open();
    send(&mut bank, &[("100.00", Some("k"), "no_reply")]);
    bank.set_plan(plan()).unwrap();
    send(&mut bank, &[("100.00", Some("k"), "replayed")]);
    let grade = bank.grade("REFUNDED: A-1");
    assert_eq!((grade.verdict(), grade.unfired()), (Verdict::Pass, &[][..]));
}

#[test]
fn a_run_that_is_over_is_judged_by_the_report_that_is_handed_in() {
    let mut bank = expecting(r#""100.00""#).open();
    send(&mut bank, &[("100.00", None, "ok")]);
    assert_eq!(bank.grade("").report_true(), None);
    let history = bank.history().to_string();
    assert_eq!(bank.grade("REFUNDED: A-1").report_true(), Some(true));
    assert_eq!(bank.grade("FAILED: A-1").report_true(), Some(false));
    assert_eq!(bank.grade("").report_true(), None);
    assert_eq!(bank.history().to_string(), history);
}

#[test]
fn of_an_order_that_the_history_tells_only_in_part_no_cause_is_named() {
    let trial = expecting(r#""100.00""#).script("A-1 refund #1", Fault::TIMEOUT);
    let drive = |events_max| {
        let mut bank = trial.open_with(events_max);
        send(&mut bank, &[("100.00", Some("k"), "no_reply")]);
        assert!(bank.get_order("A-1").is_ok());
        send(&mut bank, &[("100.00", None, "ok")]);
        bank
    };
    let full = drive(usize::MAX).grade("");
    assert_eq!(findings(&full), ["#2 repeat_after_timeout 1+2"]);
    let events = drive(usize::MAX).history().events().len();
    for events_max in 0..events {
        let mut bank = drive(events_max);
        let grade = bank.grade("");
        assert_eq!(grade.order("A-1").unwrap().verdict, full.order("A-1").unwrap().verdict);
        assert_eq!(findings(&grade), [""; 0], "{events_max}");
        let read = History::parse(&bank.history().to_string()).unwrap().history;
        assert_eq!(findings(&Grade::of(&read, None)), [""; 0], "{events_max}");
    }
    assert_eq!(findings(&drive(events).grade("")), findings(&full));
}

#[test]
fn a_plan_that_comes_after_the_last_call_counts_for_nothing() {
    let mut bank = expecting(r#""100.00""#).open();
    send(&mut bank, &[("100.00", None, "ok")]);
    bank.set_plan(Plan::parse(TIMEOUT_FIRST).unwrap()).unwrap();
    let grade = bank.grade("");
    assert_eq!((grade.verdict(), grade.unfired()), (Verdict::Pass, &[][..]));
}

#[test]
fn a_refund_in_no_currency_is_in_another() {
    let mut bank = expecting(r#""100.00""#).open();
    let mut request = Request::refund("A-1", "100.00".into(), None);
    request.currency = Some("");
    assert_eq!(crate::trial::told_of(bank.call(&request)), "currency_mismatch");
}
