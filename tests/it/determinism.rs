//! The same plan, seed and program give the same bytes, whatever the order of calls and the threads.

use badbank::{
    Bank, SharedBank, Ticket,
    call::{CallError, Payments},
    fault::{FaultLog, Plan},
    grade::{Grade, Verdict},
    harness::Design,
    history::History,
    ticket::Order,
};
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::trial::{Trial, assert_log, orders_of};

/// Fault log and grade of a run, as bytes.
type Outcome = (String, String);

fn outcome(bank: &mut Bank) -> Outcome {
    let grade = bank.grade("");
    (bank.fault_log().to_string(), grade.to_json())
}

/// As many orders as there are threads.
fn ticket() -> Ticket {
    let orders: Vec<String> =
        (1..=64).map(|order| format!(r#"{{"id": "A-{order}", "amount": "{order}.50"}}"#)).collect();
    let orders = orders.join(",");
    Ticket::parse(&format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#)).unwrap()
}

fn open() -> Bank {
    Bank::open(&ticket(), Plan::article().seed(7))
}

/// What is done with an order: read it, refund it in up to three attempts, read it again.
///
/// Every second order is refunded under a key.
fn work(bank: &mut impl Payments, order: &Order) {
    let key = order.id().ends_with(['0', '2', '4', '6', '8']);
    let key = key.then(|| format!("key-{}", order.id()));
    let _state = bank.get_order(order.id());
    for _attempt in 1..=3 {
        let answer = bank.refund(order.id(), order.amount(), key.as_deref());
        if !answer.as_ref().is_err_and(CallError::is_retryable) {
            break;
        }
    }
    let _state = bank.get_order(order.id());
}

/// The same with several orders, one after the other.
fn work_on<'a>(bank: &mut impl Payments, orders: impl IntoIterator<Item = &'a Order>) {
    for order in orders {
        work(bank, order);
    }
}

fn in_turn<'a>(orders: impl IntoIterator<Item = &'a Order>) -> Outcome {
    let mut bank = open();
    work_on(&mut bank, orders);
    outcome(&mut bank)
}

/// The run that all others are compared with.
fn forward() -> Outcome {
    in_turn(ticket().orders())
}

#[test]
fn a_run_repeated_a_hundred_times_gives_the_same_bytes() {
    let (log, grade) = forward();
    assert!(log.lines().count() > 40, "too few faults to tell:\n{log}");
    assert!(grade.contains(r#""verdict":"fail""#), "{grade}");
    for _ in 0..100 {
        assert_eq!(forward(), (log.clone(), grade.clone()));
    }
}

#[test]
fn another_seed_gives_other_bytes() {
    let mut bank = Bank::open(&ticket(), Plan::article().seed(8));
    work_on(&mut bank, ticket().orders());
    let (log, grade) = outcome(&mut bank);
    let (log_of_7, grade_of_7) = forward();
    assert_ne!(log.lines().nth(1), log_of_7.lines().nth(1));
    assert_ne!(grade, grade_of_7);
}

#[test]
fn the_order_in_which_orders_are_worked_on_changes_nothing() {
    let ticket = ticket();
    assert_eq!(in_turn(ticket.orders().iter().rev()), forward());
    for seed in 0..20 {
        let mut shuffled: Vec<&Order> = ticket.orders().iter().collect();
        shuffled.shuffle(&mut Pcg64::new(seed, 1));
        assert_eq!(in_turn(shuffled), forward(), "shuffled by {seed}");
    }
}

#[test]
fn calls_on_different_orders_may_alternate() {
    let ticket = ticket();
    let mut bank = open();
    let mut step = |open: Vec<Order>| -> Vec<Order> {
        let again = |order: &Order| {
            let key = order.id().ends_with(['0', '2', '4', '6', '8']);
            let key = key.then(|| format!("key-{}", order.id()));
            let answer = bank.refund(order.id(), order.amount(), key.as_deref());
            answer.as_ref().is_err_and(CallError::is_retryable)
        };
        open.into_iter().filter(again).collect()
    };
    let mut waiting = ticket.orders().to_vec();
    let mut rounds = vec![];
    for _attempt in 1..=3 {
        rounds.push(waiting.len());
        waiting = step(waiting);
    }
    for order in ticket.orders() {
        let _state = bank.get_order(order.id());
        let _state = bank.get_order(order.id());
    }
    assert!(rounds.is_sorted_by(|more, fewer| more > fewer), "{rounds:?}");
    assert_eq!(outcome(&mut bank), forward());
}

#[test]
fn threads_on_different_orders_change_nothing() {
    let ticket = ticket();
    for threads in [1, 4, 64] {
        let bank = SharedBank::new(open());
        std::thread::scope(|scope| {
            for orders in ticket.orders().chunks(ticket.orders().len() / threads) {
                let mut bank = bank.clone();
                scope.spawn(move || work_on(&mut bank, orders));
            }
        });
        assert_eq!(outcome(&mut bank.lock()), forward(), "{threads} threads");
        let history = bank.lock().history().clone();
        assert!(Grade::of(&history, None).overlapped().is_empty());
    }
}

#[test]
fn a_copy_of_a_bank_goes_on_as_the_bank_itself() {
    let ticket = ticket();
    let (first, rest) = ticket.orders().split_at(20);
    let mut bank = open();
    work_on(&mut bank, first);
    let mut copy = bank.clone();
    work_on(&mut copy, rest);
    // What the copy did is not the bank's.
    assert_eq!(bank.preview().calls(), bank.history().call_count());
    assert_eq!(bank.ledger().account(bank.ledger().find("A-64").unwrap()).refunds(), []);
    work_on(&mut bank, rest);
    assert_eq!(outcome(&mut copy), outcome(&mut bank));
    assert_eq!(copy.history().to_string(), bank.history().to_string());
    assert_eq!(outcome(&mut bank), forward());
}

/// Late deliveries, stale reads and doubled ones that overlap, beside those of the article.
fn wild() -> Plan {
    Plan::parse(
        r#"{"version": 1, "seed": 7, "rules": [
            {"on": "get_order", "fault": "stale", "rate": 0.3},
            {"on": "refund", "fault": "late", "rate": 0.2},
            {"on": "refund", "fault": "late(3)", "rate": 0.1},
            {"on": "refund", "fault": "twice_overlapping+timeout", "rate": 0.1},
            {"on": "*", "fault": "lost", "rate": 0.1}]}"#,
    )
    .unwrap()
}

#[test]
fn late_and_stale_answers_follow_from_the_calls_on_their_order_alone() {
    let ticket = ticket();
    let run = |orders: &[Order]| {
        let mut bank = Bank::open(&ticket, wild());
        work_on(&mut bank, orders);
        outcome(&mut bank)
    };
    let forward = run(ticket.orders());
    for fault in ["stale(1)", "late(1)", "late(3)", "twice_overlapping+timeout", "lost"] {
        assert!(forward.0.contains(&format!(" {fault}\n")), "no {fault} in\n{}", forward.0);
    }
    assert!(forward.1.contains(r#""cause":"late_commit""#), "{}", forward.1);

    let mut orders = ticket.orders().to_vec();
    orders.reverse();
    assert_eq!(run(&orders), forward);
    for seed in 0..20 {
        orders.shuffle(&mut Pcg64::new(seed, 1));
        assert_eq!(run(&orders), forward, "shuffled by {seed}");
    }
    for threads in [4, 64] {
        let bank = SharedBank::new(Bank::open(&ticket, wild()));
        std::thread::scope(|scope| {
            for orders in orders.chunks(orders.len() / threads) {
                let mut bank = bank.clone();
                scope.spawn(move || work_on(&mut bank, orders));
            }
        });
        assert_eq!(outcome(&mut bank.lock()), forward, "{threads} threads");
    }
    let replayed: FaultLog = forward.0.parse().unwrap();
    assert_eq!(under(Plan::replay(&replayed).unwrap()).0, forward.0);
}

/// The run under another plan.
fn under(plan: Plan) -> (String, serde_json::Value) {
    let mut bank = Bank::open(&ticket(), plan);
    work_on(&mut bank, ticket().orders());
    let grade = bank.grade("");
    (bank.fault_log().to_string(), orders_of(&grade))
}

#[test]
fn a_run_replays_from_its_history_and_from_its_fault_log() {
    let mut bank = open();
    work_on(&mut bank, ticket().orders());
    let grade = bank.grade("");
    let log = bank.fault_log().to_string();
    let recorded = (log.clone(), orders_of(&grade));
    assert_eq!(under(bank.history().to_plan()), recorded);

    let read = History::parse(&bank.history().to_string()).unwrap();
    assert_eq!(under(read.history.to_plan()), recorded);

    let log: FaultLog = log.parse().unwrap();
    assert_eq!(under(Plan::replay(&log).unwrap()), recorded);
}

#[test]
fn a_replay_without_one_of_the_faults_is_another_run() {
    let (log, orders) = under(Plan::article().seed(7));
    let shorter: Vec<&str> =
        log.lines().filter(|line| !line.ends_with("refund #1 duplicate")).collect();
    let shorter = shorter.join("\n");
    let shorter: FaultLog = shorter.parse().unwrap();
    let replayed = under(Plan::replay(&shorter).unwrap());
    assert_ne!(replayed.0, log);
    assert_ne!(replayed.1, orders);
}

#[test]
fn the_naive_harness_under_seed_seven_is_pinned() {
    let run = Trial::plan("article", 7).drive(Design::Retries);
    assert_eq!(run.verdict(), Verdict::Fail);
    assert!(run.grade.extra_refunds() > 0);
    assert_log!(
        "determinism",
        format!(
            "{}
{}",
            run.log(),
            run.grade.to_json()
        )
    );
}

#[test]
fn the_keyed_harness_under_seed_seven_is_pinned() {
    let run = Trial::plan("article", 7).drive(Design::Keyed);
    assert_eq!(run.verdict(), Verdict::Pass, "{}", run.grade);
    assert_log!("determinism", format!("{}\n{}", run.log(), run.grade.to_json()));
}

#[test]
fn with_the_injector_off_the_naive_harness_passes_and_with_it_on_it_fails() {
    let failures = |plan: &str| {
        let runs = (0..=200).map(|seed| Trial::plan(plan, seed).drive(Design::Retries));
        runs.filter(|run| run.verdict() == Verdict::Fail).count()
    };
    assert_eq!(failures("calm"), 0);
    assert!(failures("article") > 100, "{}", failures("article"));
}

#[test]
fn the_keyed_harness_never_pays_twice() {
    for seed in 0..=200 {
        let run = Trial::plan("article", seed).drive(Design::Keyed);
        assert_eq!(run.grade.extra_refunds(), 0, "seed {seed}\n{}", run.grade);
    }
}
