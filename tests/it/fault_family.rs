//! The whole family of faults in process: what the ledger holds, what the caller may conclude, and why.

use badbank::{
    Bank, Ticket,
    call::{CallError, Request},
    fault::{Fault, On, Plan, Rate, Rule},
    grade::{Cause, Verdict},
};

use crate::trial::{Trial, causes, happened, held, verdict_on};

const ONE: &str = r#"{"id": "A-1", "amount": "42.50"}"#;
const AMOUNT: &str = "42.50";

fn fault(text: &str) -> Fault {
    text.parse().unwrap()
}

fn trial(call: &str, text: &str) -> Trial {
    Trial::orders(ONE).script(call, fault(text))
}

fn paid(bank: &Bank) -> usize {
    held(bank, "A-1").len()
}

/// What the caller has in its hands, in a word.
fn told<T>(answer: &Result<T, CallError>) -> &'static str {
    match answer {
        Ok(_) => "answer",
        Err(CallError::Unavailable) => "unavailable",
        Err(CallError::RateLimited { retry_after_s: 1 }) => "rate_limited",
        Err(CallError::ServerError) => "server_error",
        Err(CallError::Timeout) => "timeout",
        Err(CallError::Broken { .. }) => "broken",
        Err(other) => panic!("no fault tells {other:?}"),
    }
}

/// What becomes of a refund that meets a fault, and of its repeat if it was answered with an error.
#[derive(Debug, PartialEq)]
struct Row {
    fault: &'static str,
    /// Refunds on the order when the call is answered.
    paid: usize,
    told: &'static str,
    events: &'static str,
    /// Refunds at the end, the cause of the one too many, and the verdict, without a key.
    without_key: (usize, Option<Cause>, &'static str),
    /// The same with one.
    with_key: (usize, Option<Cause>, &'static str),
}

/// Refunds as one who repeats a call until it is answered, five times at the most.
fn insist(bank: &mut Bank, key: Option<&str>) -> (usize, Option<Cause>, &'static str) {
    for _attempt in 1..=5 {
        if bank.refund("A-1", AMOUNT, key).is_ok() {
            break;
        }
    }
    let grade = bank.grade("");
    let causes = causes(&grade);
    assert!(causes.len() <= 1, "{grade}");
    (paid(bank), causes.first().copied(), verdict_on(&grade, "A-1"))
}

const SAVED: (usize, Option<Cause>, &str) = (1, None, "ok");

const fn doubled(cause: Cause) -> (usize, Option<Cause>, &'static str) {
    (2, Some(cause), "duplicated")
}

const TIMEOUT: (usize, Option<Cause>, &str) = doubled(Cause::RepeatAfterTimeout);
const ERROR: (usize, Option<Cause>, &str) = doubled(Cause::RepeatAfterError);
const LATE: (usize, Option<Cause>, &str) = doubled(Cause::LateCommit);
const TWICE: (usize, Option<Cause>, &str) = doubled(Cause::DuplicateDelivery);

macro_rules! rows {
    ($($fault:literal, $paid:literal, $told:literal, $events:literal, $without:expr, $with:expr;)*) => {
        [$(Row { fault: $fault, paid: $paid, told: $told, events: $events, without_key: $without, with_key: $with },)*]
    };
}

#[test]
fn a_refund_under_every_fault_with_a_key_and_without() {
    for row in rows! {
        // Nothing has happened, and that is what the caller is told.
        "transient", 0, "unavailable", "fail(unavailable)", SAVED, SAVED;
        "rate_limited", 0, "rate_limited", "fail(rate_limited)", SAVED, SAVED;
        // Nothing has happened, and the caller cannot know.
        "lost", 0, "timeout", "info(timeout)", SAVED, SAVED;
        "reset_before", 0, "broken", "info(broken)", SAVED, SAVED;
        "never+server_error", 0, "server_error", "info(server_error)", SAVED, SAVED;
        "never+closed", 0, "broken", "info(broken)", SAVED, SAVED;
        "never+hang", 0, "timeout", "info(timeout)", SAVED, SAVED;
        // The money has moved, and the caller cannot know.
        "timeout", 1, "timeout", "arrive commit info(timeout)", TIMEOUT, SAVED;
        "hang", 1, "timeout", "arrive commit info(timeout)", TIMEOUT, SAVED;
        "server_error", 1, "server_error", "arrive commit info(server_error)", ERROR, SAVED;
        "reset_after", 1, "broken", "arrive commit info(broken)", ERROR, SAVED;
        "closed", 1, "broken", "arrive commit info(broken)", ERROR, SAVED;
        "truncated", 1, "broken", "arrive commit info(broken)", ERROR, SAVED;
        // The caller is answered, if it is patient.
        "slow", 1, "answer", "arrive commit ok", SAVED, SAVED;
        "duplicate", 2, "answer", "arrive commit arrive commit ok", TWICE, SAVED;
        "twice_overlapping+reply", 2, "answer", "arrive arrive commit commit ok", TWICE, SAVED;
        // It arrives once the caller has looked, or has sent it again.
        "late", 0, "timeout", "info(timeout)", LATE, SAVED;
        "late(2)", 0, "timeout", "info(timeout)", LATE, SAVED;
        "late(9)", 0, "timeout", "info(timeout)", LATE, SAVED;
        "late+reset", 0, "broken", "info(broken)", LATE, SAVED;
        "late+server_error", 0, "server_error", "info(server_error)", LATE, SAVED;
        // A key makes it worse: the failure is all that it will ever get.
        "stored_error", 0, "server_error", "arrive refuse(server_error) info(server_error)",
            SAVED, (0, Some(Cause::Refused), "missed");
    } {
        let trial = trial("A-1 refund #1", row.fault);
        let mut bank = trial.open();
        let answer = bank.refund("A-1", AMOUNT, None);
        assert_eq!((paid(&bank), told(&answer)), (row.paid, row.told), "{}", row.fault);
        assert_eq!(happened(bank.history()), row.events, "{}", row.fault);
        let without_key = insist(&mut trial.open(), None);
        assert_eq!(without_key, row.without_key, "{} without a key", row.fault);
        let with_key = insist(&mut trial.open(), Some("k"));
        assert_eq!(with_key, row.with_key, "{} with a key", row.fault);
    }
}

#[test]
fn two_deliveries_and_no_answer_make_three_refunds_without_a_key() {
    for (text, told_then) in [
        ("twice+timeout", "timeout"),
        ("twice+hang", "timeout"),
        ("twice+server_error", "server_error"),
        ("twice+reset", "broken"),
        ("twice+closed", "broken"),
        ("twice+truncated", "broken"),
        ("twice_overlapping+timeout", "timeout"),
        ("twice_overlapping+truncated", "broken"),
    ] {
        let trial = trial("A-1 refund #1", text);
        let mut bank = trial.open();
        assert_eq!(told(&bank.refund("A-1", AMOUNT, None)), told_then, "{text}");
        assert_eq!(paid(&bank), 2, "{text}");
        assert_eq!(bank.refund("A-1", AMOUNT, None).unwrap().number, 3, "{text}");
        let grade = bank.grade("");
        let repeated = if told_then == "timeout" {
            Cause::RepeatAfterTimeout
        } else {
            Cause::RepeatAfterError
        };
        assert_eq!(causes(&grade), [Cause::DuplicateDelivery, repeated], "{text}");
        assert_eq!(insist(&mut trial.open(), Some("k")), SAVED, "{text}");
    }
}

#[test]
fn what_a_caller_may_conclude_is_what_may_be_true() {
    for (told_then, is_retryable, is_indeterminate, faults) in [
        ("unavailable", true, false, &["transient"][..]),
        ("rate_limited", true, false, &["rate_limited"]),
        ("server_error", true, true, &["server_error", "stored_error", "never+server_error"]),
        ("timeout", true, true, &["timeout", "lost", "late", "late(2)", "hang", "never+hang"]),
        ("broken", true, true, &["reset_before", "reset_after", "closed", "truncated"]),
    ] {
        for text in faults {
            let mut bank = trial("A-1 refund #1", text).open();
            let error = bank.refund("A-1", AMOUNT, None).unwrap_err();
            assert_eq!(told(&Err::<(), _>(error.clone())), told_then, "{text}");
            assert_eq!(error.is_retryable(), is_retryable, "{text}");
            assert_eq!(error.is_indeterminate(), is_indeterminate, "{text}");
            // An error that says that nothing has happened is not followed by a refund.
            bank.settle();
            assert!(is_indeterminate || paid(&bank) == 0, "{text} lies");
        }
    }
}

#[test]
fn how_long_to_wait_is_the_plans_to_say() {
    let plan = Plan::parse(
        r#"{"version": 1, "retry_after_s": 90, "retry_after": "date",
            "rules": [{"on": "*", "attempts": "1-", "fault": "rate_limited"}]}"#,
    );
    let mut bank = Bank::open(&Ticket::generate(7), plan.unwrap());
    let order = bank.ticket().orders()[0].clone();
    let limited = Err(CallError::RateLimited { retry_after_s: 90 });
    assert_eq!(bank.refund(order.id(), order.amount(), None), limited);
    assert!(matches!(
        bank.get_order(order.id()),
        Err(CallError::RateLimited { retry_after_s: 90 })
    ));
}

#[test]
fn a_read_under_every_fault() {
    for (text, told_then, words) in [
        ("transient", "unavailable", "fail(unavailable)"),
        ("rate_limited", "rate_limited", "fail(rate_limited)"),
        ("lost", "timeout", "info(timeout)"),
        ("reset_before", "broken", "info(broken)"),
        ("never+server_error", "server_error", "info(server_error)"),
        ("server_error", "server_error", "arrive info(server_error)"),
        ("reset_after", "broken", "arrive info(broken)"),
        ("closed", "broken", "arrive info(broken)"),
        ("hang", "timeout", "arrive info(timeout)"),
        ("truncated", "broken", "arrive info(broken)"),
        ("slow", "answer", "arrive ok"),
        ("stale", "answer", "arrive ok"),
    ] {
        let mut bank = trial("A-1 get_order #1", text).open();
        let answer = bank.get_order("A-1");
        assert_eq!(told(&answer), told_then, "{text}");
        assert_eq!(happened(bank.history()), words, "{text}");
        if let Err(error) = answer {
            assert!(error.is_retryable(), "{text}");
        }
        assert_eq!(bank.get_order("A-1").unwrap().refunds, [], "{text}");
        // Whatever a read meets, no money moves, and the order fails only for want of a refund.
        assert_eq!(causes(&bank.grade("")), [Cause::NeverTried], "{text}");
    }
}

#[test]
fn faults_that_double_are_enough_to_be_exposed_to_and_others_are_not() {
    for (text, is_doubling) in [
        ("transient", false),
        ("rate_limited", false),
        ("lost", false),
        ("reset_before", false),
        ("never+closed", false),
        ("never+hang", false),
        ("never+server_error", false),
        ("stored_error", false),
        ("timeout", true),
        ("server_error", true),
        ("reset_after", true),
        ("closed", true),
        ("hang", true),
        ("truncated", true),
        ("slow", true),
        ("duplicate", true),
        ("late", true),
        ("twice_overlapping+reply", true),
        ("twice+timeout", true),
    ] {
        assert_eq!(fault(text).is_doubling(), is_doubling, "{text}");
        // A doubling fault that is armed, and as good as never met.
        let rare = Rule::rate(On::One(badbank::call::Operation::Refund), Fault::TIMEOUT, rare());
        let plan = Plan::calm().script("A-1 refund #1".parse().unwrap(), fault(text)).unwrap();
        let ticket = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{ONE}]}}"#);
        let mut bank = Bank::open(&Ticket::parse(&ticket).unwrap(), plan.rule(rare).unwrap());
        // A key saves from all of them but one.
        let key = (text != "stored_error").then_some("k");
        assert_eq!(insist(&mut bank, key), SAVED, "{text}");
        let verdict = if is_doubling { Verdict::Pass } else { Verdict::NotExposed };
        assert_eq!(bank.grade("").verdict(), verdict, "{text}");
    }
}

fn rare() -> Rate {
    Rate::from_billionths(1).unwrap()
}

#[test]
fn a_read_that_is_struck_doubles_nothing_unless_it_is_stale_and_hides_something() {
    for text in ["server_error", "reset_after", "closed", "hang", "truncated", "slow", "stale"] {
        let plan = Plan::calm().script("A-1 get_order #1".parse().unwrap(), fault(text)).unwrap();
        let rare = Rule::rate(On::One(badbank::call::Operation::Refund), Fault::TIMEOUT, rare());
        let ticket = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{ONE}]}}"#);
        let ticket = Ticket::parse(&ticket).unwrap();
        for (is_read_first, verdict) in [
            (true, Verdict::NotExposed),
            (false, if text == "stale" { Verdict::Pass } else { Verdict::NotExposed }),
        ] {
            let mut bank = Bank::open(&ticket, plan.clone().rule(rare.clone()).unwrap());
            let read = |bank: &mut Bank| drop(bank.get_order("A-1"));
            if is_read_first {
                read(&mut bank);
            }
            bank.refund("A-1", AMOUNT, None).unwrap();
            if !is_read_first {
                read(&mut bank);
            }
            assert_eq!(bank.grade("").verdict(), verdict, "{text}");
        }
    }
}

/// Refunds, reads the order, and refunds again if the read shows nothing: how often it was paid, and why.
fn look_then_repeat(call: &str, text: &str, key: Option<&str>) -> (usize, Vec<Cause>) {
    let mut trial = trial(call, text);
    if text.starts_with("stale") {
        trial = trial.script("A-1 refund #1", Fault::TIMEOUT);
    }
    let mut bank = trial.open();
    let first = bank.refund("A-1", AMOUNT, key);
    assert_eq!(first, Err(CallError::Timeout), "{text}");
    let shown = bank.get_order("A-1").unwrap();
    assert!(shown.refunds.is_empty() && shown.refunded.minor() == 0, "{text} hides nothing");
    bank.refund("A-1", AMOUNT, key).unwrap();
    let grade = bank.grade("");
    (paid(&bank), causes(&grade))
}

#[test]
fn who_reads_the_order_and_then_retries_pays_twice_under_late_n_unless_it_has_a_key() {
    for calls in 1..=5 {
        let late = format!("late({calls})");
        let pay = |key| look_then_repeat("A-1 refund #1", &late, key);
        assert_eq!(pay(None), (2, vec![Cause::LateCommit]), "{late}");
        assert_eq!(pay(Some("k")), (1, vec![]), "{late}");
    }
}

#[test]
fn who_reads_the_order_and_then_retries_pays_twice_under_stale_n_unless_it_has_a_key() {
    for commits in 1..=5 {
        let stale = format!("stale({commits})");
        let pay = |key| look_then_repeat("A-1 get_order #1", &stale, key);
        assert_eq!(pay(None), (2, vec![Cause::StaleRead]), "{stale}");
        assert_eq!(pay(Some("k")), (1, vec![]), "{stale}");
    }
}

#[test]
fn a_new_key_for_the_same_refund_saves_from_neither() {
    for (call, text, cause) in [
        ("A-1 refund #1", "late", Cause::LateCommit),
        ("A-1 refund #1", "timeout", Cause::KeyChanged),
    ] {
        let mut bank = trial(call, text).open();
        assert_eq!(bank.refund("A-1", AMOUNT, Some("call-1")), Err(CallError::Timeout));
        bank.refund("A-1", AMOUNT, Some("call-2")).unwrap();
        assert_eq!((causes(&bank.grade("")), paid(&bank)), (vec![cause], 2), "{text}");
    }
}

#[test]
fn a_stale_read_hides_the_newest_and_never_what_the_order_held_before() {
    let order =
        r#"{"id": "A-1", "amount": "42.50", "expect": ["1.00", "2.00"], "refunded": ["3.00"]}"#;
    for (commits, shown, refunded) in
        [(1, &["3.00", "1.00"][..], 400), (2, &["3.00"], 300), (9, &["3.00"], 300)]
    {
        let stale = fault(&format!("stale({commits})"));
        let mut bank = Trial::orders(order).script("A-1 get_order #1", stale).open();
        for amount in ["1.00", "2.00"] {
            bank.refund("A-1", amount, None).unwrap();
        }
        let seen = bank.get_order("A-1").unwrap();
        let amounts: Vec<String> =
            seen.refunds.iter().map(|amount| amount.display(seen.currency).to_string()).collect();
        assert_eq!(
            (amounts, seen.refunded.minor()),
            (shown.iter().map(|&amount| amount.into()).collect(), refunded)
        );
        assert_eq!(bank.get_order("A-1").unwrap().refunds.len(), 3);
    }
}

/// The events from a place on, each with the number of its call.
fn numbered(bank: &Bank, from: usize) -> String {
    let history = bank.history();
    let events = &history.events()[from..];
    let words = events.iter().map(|event| match event.call() {
        Some(call) => format!("{} {}", event.word(), history.call(call).number),
        None => event.word().to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn several_that_are_late_and_due_together_land_by_attempt_after_the_effect_and_before_the_answer() {
    let mut bank = trial("A-1 refund #1", "late(3)")
        .script("A-1 refund #2", fault("late(2)"))
        .script("A-1 refund #3", fault("late"))
        .open();
    for amount in ["1.00", "2.00", "3.00"] {
        assert_eq!(bank.refund("A-1", amount, None), Err(CallError::Timeout));
    }
    let before = bank.history().events().len();
    let fourth = bank.refund("A-1", "4.00", None).unwrap();
    assert_eq!(fourth.number, 1);
    assert_eq!(
        numbered(&bank, before),
        "invoke 4, arrive 4, commit 4, land 1, commit 1, land 2, commit 2, land 3, commit 3, ok 4"
    );
    assert_eq!(held(&bank, "A-1"), ["4.00", "1.00", "2.00", "3.00"]);
}

#[test]
fn reads_and_struck_calls_count_towards_a_late_one_and_calls_on_other_orders_do_not() {
    let orders = format!(r#"{ONE}, {{"id": "B-1", "amount": "1.00"}}"#);
    let mut bank = Trial::orders(&orders)
        .script("A-1 refund #1", fault("late(3)"))
        .script("A-1 refund #2", Fault::TRANSIENT)
        .script("A-1 get_order #1", fault("reset_before"))
        .open();
    let _late = bank.refund("A-1", AMOUNT, None);
    for _call in 0..5 {
        bank.get_order("B-1").unwrap();
        bank.refund("B-1", "0.10", None).unwrap();
    }
    assert_eq!(paid(&bank), 0);
    assert_eq!(bank.refund("A-1", AMOUNT, None), Err(CallError::Unavailable));
    assert_eq!(told(&bank.get_order("A-1")), "broken");
    assert_eq!(paid(&bank), 0);
    assert_eq!(bank.get_order("A-1").unwrap().refunds, []);
    assert_eq!(paid(&bank), 1);
}

#[test]
fn calls_that_came_before_a_late_one_do_not_count_towards_it_when_they_finish() {
    let mut bank = trial("A-1 refund #2", "late").open();
    let begin = |bank: &mut Bank| {
        let refund = Request::refund("A-1", AMOUNT.into(), None);
        match bank.arrive(&refund) {
            badbank::bank::Arrival::Pending(pending) => Some(pending),
            badbank::bank::Arrival::Answered(_) => None,
        }
    };
    let earlier = begin(&mut bank).unwrap();
    assert_eq!(begin(&mut bank), None, "the late one is answered at once");
    let later = begin(&mut bank).unwrap();
    // The first was asked before the late one was: it is no further call.
    bank.finish(earlier).unwrap();
    assert_eq!(paid(&bank), 1);
    bank.finish(later).unwrap();
    assert_eq!(paid(&bank), 3);
    assert!(bank.history().to_string().contains(r#""event":"land""#));
}

#[test]
fn a_late_one_is_judged_by_the_ledger_like_any_other() {
    let mut bank = trial("A-1 refund #1", "late").reject().open();
    let _late = bank.refund("A-1", AMOUNT, None);
    bank.refund("A-1", AMOUNT, None).unwrap();
    assert!(happened(bank.history()).ends_with("arrive commit land refuse(already_refunded) ok"));
    assert_eq!(paid(&bank), 1);
}

/// Each call that counted for what is out on other orders would make this a matter of minutes.
#[test]
fn what_is_out_on_other_orders_costs_a_call_nothing() {
    const ORDERS: usize = 30_000;
    let orders: Vec<String> =
        (0..ORDERS).map(|n| format!(r#"{{"id": "A-{n}", "amount": "1.00"}}"#)).collect();
    let ticket = Trial::orders(&orders.join(",")).open().ticket().clone();
    for fault in ["late(3)", "accepted_then_failed(3)"] {
        let rules = format!(r#"[{{"on": "refund", "fault": "{fault}", "rate": 1}}]"#);
        let plan = Plan::parse(&format!(r#"{{"version": 1, "rules": {rules}}}"#)).unwrap();
        let mut bank = Trial::new(ticket.clone(), plan).open();
        for order in ticket.orders() {
            let _lost_or_pending = bank.refund(order.id(), order.amount(), None);
        }
        bank.settle();
        let paid = bank.ledger().accounts().iter().map(|account| account.refunds().len());
        assert_eq!(paid.sum::<usize>(), ORDERS, "{fault}");
    }
}
