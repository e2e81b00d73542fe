//! A history that is written to a file while its run goes on is whole, however little of it is kept in memory; and one
//! that was cut says at any time what it still knows.

use std::collections::BTreeMap;

use badbank::{
    Bank, Ticket,
    call::Request,
    fault::{NAMED_PLANS, NamedPlan, Plan},
    grade::{EvidenceState, Grade, Verdict},
    history::{Event, History},
};

use crate::trial::{Trial, told_of};

const AMOUNT: &str = "1.00";

/// Calls each order in turn, and tells `after` of every call: enough for each fault to strike.
fn drive(bank: &mut Bank, mut after: impl FnMut(&mut Bank)) {
    let orders: Vec<String> =
        bank.ticket().orders().iter().map(|order| order.id().to_string()).collect();
    for (turn, order) in orders.iter().cycle().take(orders.len() * 5).enumerate() {
        let key = format!("{order}/{}", turn % 3);
        let _paid_or_not = bank.call(&Request::refund(order, AMOUNT.into(), Some(&key)));
        after(bank);
        let _read_or_not = bank.call(&Request::get_order(order));
        after(bank);
    }
}

/// The plans that come along, under so many seeds each.
fn trials(seeds: u64) -> impl Iterator<Item = (Ticket, Plan)> {
    let plans = NAMED_PLANS.iter().map(NamedPlan::plan);
    plans.flat_map(move |plan| {
        (0..seeds).map(move |seed| (Ticket::generate(seed), plan.clone().seed(seed)))
    })
}

fn parse(text: &str) -> History {
    History::parse(text).unwrap().history
}

#[test]
fn what_is_drained_call_by_call_is_the_history_in_full() {
    for (ticket, plan) in trials(2) {
        let mut bank = Bank::open(&ticket, plan);
        let mut file = bank.drain_history();
        drive(&mut bank, |bank| {
            let before = file.len();
            file += &bank.drain_history();
            assert!(file.len() > before && file.ends_with('\n'));
            assert_eq!(file, bank.history().to_string());
        });
        bank.grade("REFUNDED: none");
        file += &bank.drain_history();
        assert_eq!(file, bank.history().to_string());
        assert_eq!(bank.drain_history(), "", "there is nothing left");
    }
}

#[test]
fn what_is_drained_is_whole_where_memory_is_not() {
    for (ticket, plan) in trials(2) {
        let mut full = Bank::open(&ticket, plan.clone());
        drive(&mut full, |_| ());
        let grade = full.grade("REFUNDED: none");
        for events_max in [0, 1, 7, 40, 200] {
            let mut bank = Bank::with_events_max(&ticket, plan.clone(), events_max);
            let mut file = bank.drain_history();
            drive(&mut bank, |bank| file += &bank.drain_history());
            assert_eq!(bank.grade("REFUNDED: none").evidence(), EvidenceState::Partial);
            file += &bank.drain_history();
            assert_eq!(file, full.history().to_string(), "{:?} bound {events_max}", plan.name());
            assert_eq!(Grade::of(&parse(&file), None).to_json(), grade.to_json());
        }
    }
}

#[test]
fn draining_may_begin_late_and_be_rare() {
    let trial = Trial::plan("everything", 7);
    for begin in [1, 10, 33] {
        let mut bank = trial.open();
        let (mut calls, mut file) = (0, String::new());
        drive(&mut bank, |bank| {
            calls += 1;
            if calls % begin == 0 {
                file += &bank.drain_history();
            }
        });
        bank.settle();
        file += &bank.drain_history();
        assert_eq!(file, bank.history().to_string(), "from call {begin} on");
    }
}

#[test]
fn what_is_drained_only_once_memory_is_full_is_the_cut_history() {
    let trial = Trial::plan("everything", 7);
    let mut bank = trial.open_with(20);
    drive(&mut bank, |_| ());
    assert!(bank.history().is_cut());
    let mut file = bank.drain_history();
    // It ends in no totals, which the end brings.
    assert_eq!(parse(&file).events(), bank.history().events());
    drive(&mut bank, |bank| file += &bank.drain_history());
    bank.settle();
    file += &bank.drain_history();
    assert_eq!(file, bank.history().to_string());
    assert!(parse(&file).is_cut());
}

#[test]
fn nobody_who_drains_changes_the_run() {
    for seed in 0..50 {
        let trial = Trial::plan("everything", seed);
        let (mut drained, mut left_alone) = (trial.open(), trial.open());
        drive(&mut drained, |bank| drop(bank.drain_history()));
        drive(&mut left_alone, |_| ());
        assert_eq!(drained.preview().to_json(), left_alone.preview().to_json());
        assert_eq!(drained.grade("").to_json(), left_alone.grade("").to_json());
        assert_eq!(drained.history(), left_alone.history());
    }
}

/// What decides on a grade, and what it counts.
fn decisive(grade: &Grade) -> (Verdict, Option<bool>, u64, String) {
    let orders = grade.orders().iter();
    let orders = orders.map(|order| (order.verdict.as_str(), &order.refunds, order.attempts));
    let text =
        format!("{:?} {:?} {:?}", orders.collect::<Vec<_>>(), grade.exposure(), grade.unfired());
    (grade.verdict(), grade.report_true(), grade.calls(), text)
}

#[test]
fn a_cut_history_is_judged_as_the_full_one_at_any_time_of_its_run() {
    let mut seen = BTreeMap::new();
    for (ticket, plan) in trials(2) {
        let mut full = Vec::new();
        drive(&mut Bank::open(&ticket, plan.clone()), |bank| {
            full.push(decisive(&Grade::of(bank.history(), None)));
        });
        for events_max in [0, 1, 7, 40] {
            let mut so_far = full.iter();
            let mut bank = Bank::with_events_max(&ticket, plan.clone(), events_max);
            drive(&mut bank, |bank| {
                let at = format!("{:?} bound {events_max}", plan.name());
                let text = bank.history().to_string();
                let read = parse(&text);
                assert_eq!(&read, bank.history(), "{at}");
                assert_eq!(read.to_string(), text, "{at}");
                let grade = Grade::of(&read, None);
                assert_eq!(Some(&decisive(&grade)), so_far.next(), "{at}");
                *seen.entry((grade.verdict(), read.is_cut())).or_insert(0) += 1;
            });
        }
    }
    assert!(seen[&(Verdict::Fail, true)] > 500, "{seen:?}");
}

#[test]
fn a_refund_that_failed_leaves_its_number_behind_in_a_cut_history() {
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "9.00", "refunded": ["2.00"]}"#)
        .script("A-1 refund #1", "accepted_then_failed(1)".parse().unwrap());
    let mut bank = trial.open_with(0);
    assert_eq!(told_of(bank.call(&Request::refund("A-1", "3.00".into(), None))), "ok");
    assert_eq!(told_of(bank.call(&Request::refund("A-1", "4.00".into(), None))), "ok");
    let text = bank.history().to_string();
    let last = text.lines().next_back().unwrap();
    let totals = r#""totals":{"calls":2,"orders":[{"get_order":0,"refund":2,"refunds":["2.00",null,"4.00"]}]}"#;
    assert_eq!(last, format!(r#"{{"seq":2,"event":"cut",{totals}}}"#));
    bank.settle();
    let text = bank.history().to_string();
    let last = text.lines().next_back().unwrap();
    assert_eq!(last, format!(r#"{{"seq":2,"event":"settle",{totals}}}"#));
    let grade = Grade::of(&parse(&text), None);
    let held: Vec<String> = grade.orders()[0].refunds.iter().map(ToString::to_string).collect();
    assert_eq!(held, ["2.00", "4.00"]);
}

#[test]
fn the_end_of_a_cut_history_is_checked() {
    let mut bank = Trial::orders(r#"{"id": "A-1", "amount": "9.00"}"#).open_with(0);
    bank.refund("A-1", "9.00", None).unwrap();
    let text = bank.history().to_string();
    assert_eq!(text.lines().count(), 2);
    for (from, to, line, wanted) in [
        (r#""refunds":["9.00"]"#, r#""refunds":["9,00"]"#, 2, "9,00"),
        (r#""refunds":["9.00"]"#, r#""refunds":[9]"#, 2, "expected a string"),
        (
            r#""orders":[{"get"#,
            r#""orders":[{"get_order":0,"refund":0,"refunds":[]},{"get"#,
            2,
            "2 orders",
        ),
        (r#","totals":{"calls":1"#, r#","total":{"calls":1"#, 2, "unknown field `total`"),
        (r#""seq":1"#, r#""seq":2"#, 2, "`seq` is 2, and 1 comes next"),
    ] {
        let error = History::parse(&text.replace(from, to)).unwrap_err();
        assert_eq!(error.line, line, "{to}: {error}");
        assert!(error.message.contains(wanted), "{to}: {error}");
    }
    let longer = text.clone() + r#"{"seq":1,"event":"settle"}"# + "\n";
    let error = History::parse(&longer).unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.message.contains("nothing comes after `cut`"), "{error}");
    let calls = r#""totals":{"calls":18446744073709551615"#;
    let settled = text.replace(r#""event":"cut""#, r#""event":"settle""#);
    let many = settled.replace(r#""totals":{"calls":1"#, calls) + r#"{"seq":2,"event":"crash"}"#;
    let error = History::parse(&many).unwrap_err();
    assert!(error.message.contains("nothing comes after `cut` or `settle`"), "{error}");
    let crash = text.replace(r#""event":"cut""#, r#""event":"crash""#);
    let error = History::parse(&crash).unwrap_err();
    assert_eq!(error.message, "`totals` stand on `cut` and `settle` alone");
    let bare = text.lines().next().unwrap().to_owned() + "\n" + r#"{"seq":1,"event":"cut"}"# + "\n";
    assert_eq!(History::parse(&bare).unwrap_err().message, "`totals` is missing");
}

#[test]
fn a_history_has_ended_when_its_run_has() {
    let mut bank = Trial::plan("calm", 7).open();
    drive(&mut bank, |bank| assert!(!parse(&bank.history().to_string()).has_ended()));
    bank.settle();
    assert!(bank.history().has_ended());
    assert_eq!(bank.history().events().last(), Some(&Event::Settle));
    assert!(parse(&bank.history().to_string()).has_ended());
}
