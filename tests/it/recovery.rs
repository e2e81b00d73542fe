//! The source's own run, and its ways back from a crash.

use badbank::{
    Bank, Seed, Ticket,
    agent::{Action, Agent, Manner, Turn},
    call::CallError,
    fault::{Fault, FaultLog, Plan},
    grade::Verdict,
    harness::{
        self, Design, Harness, Key, Outcome, Retry, VirtualTime,
        checkpoint::{Crash, Ending, MemoryStore, Moment, Program, Recovery, Runner},
    },
    lab::{Settings, Sheet as _, keys, recovery},
};

use crate::trial::{assert_log, fixture};

/// The source's ticket, and the faults that its calls met.
fn article_run() -> (Ticket, FaultLog) {
    let ticket = Ticket::parse(&fixture("tickets/article_run.json")).unwrap();
    (ticket, fixture("faults/article_run.txt").parse().unwrap())
}

/// The bank in which exactly these faults happen.
fn open() -> (Ticket, Bank) {
    let (ticket, log) = article_run();
    let bank = Bank::open(&ticket, Plan::replay(&log).unwrap());
    (ticket, bank)
}

fn run(design: Design) -> (Outcome, Bank) {
    let (ticket, mut bank) = open();
    let outcome = harness::run(design, &ticket, &mut bank, &mut VirtualTime, Seed::new(7));
    (outcome, bank)
}

#[test]
fn the_articles_run_ends_clean_behind_retries_and_a_key() {
    let (outcome, mut bank) = run(Design::Keyed);
    let grade = bank.grade(&outcome.report);
    assert_eq!(grade.verdict(), Verdict::Pass, "{grade}");
    let counts: serde_json::Value = serde_json::from_str(&grade.to_json()).unwrap();
    for (field, wanted) in [("ok", 8), ("missed", 0), ("dup_orders", 0), ("extra_refunds", 0)] {
        assert_eq!(counts[field], wanted, "{field}");
    }
    assert_eq!(grade.report_true(), Some(true));
    // All reads, all refunds, another look at A-6991, the report.
    assert_eq!(outcome.agent_calls, 4);
    // It has met every fault of the log, and no other.
    assert_eq!(bank.fault_log().to_string(), article_run().1.to_string());
    assert_eq!(bank.fault_log().calls().len(), 12);
}

#[test]
fn a_harness_that_gives_up_reports_the_worst_error_not_the_last() {
    let (ticket, mut bank) = open();
    let mut harness = Harness::new(Design::Keyed, Seed::new(7));
    let mut agent = Agent::new(Manner::Careful, &ticket);
    let mut given_up = Vec::new();
    while let Turn::Calls(calls) = agent.turn() {
        for call in calls {
            let answer = harness.call(&call, &mut bank, &mut VirtualTime);
            if let (Action::Refund(_), Err(error)) = (call.action, &answer) {
                given_up.push((call.order.to_string(), error.clone()));
            }
            agent.answered(&call, &answer);
        }
    }
    // Its last attempt was told that it made no changes; its first one had moved the money.
    assert_eq!(given_up, [("A-6991".to_owned(), CallError::Timeout)]);
}

#[test]
fn the_same_faults_double_orders_for_every_design_without_a_key() {
    for (design, doubled) in [
        (Design::ModelOnly, &["A-2186"][..]),
        (Design::Retries, &["A-3471", "A-2186"]),
        (Design::Keyed, &[]),
        (Design::BusinessKey, &[]),
        (Design::ModelKey, &[]),
        (Design::Trusting, &["A-2186"]),
        (Design::Hasty, &["A-3471", "A-2186"]),
    ] {
        let (outcome, mut bank) = run(design);
        let grade = bank.grade(&outcome.report);
        let extra = grade.orders().iter().filter(|order| order.refunds.len() > 1);
        let extra: Vec<&str> = extra.map(|order| order.order.as_str()).collect();
        assert_eq!(extra, doubled, "{design}");
        // The hasty agent goes by the last error of A-6991, and takes it for unpaid.
        assert_eq!(outcome.report.contains("FAILED: A-6991"), design == Design::Hasty, "{design}");
    }
}

/// Refunds too many of a program that dies once, under the faults of the article.
fn extra_after(recovery: Recovery, key: Key, crash: Crash, seed: u64) -> u64 {
    let ticket = Ticket::generate(seed);
    let program = Program { manner: Manner::Careful, retry: Retry::default(), key, recovery };
    let mut runner = Runner::new(program, &ticket, MemoryStore::default(), Seed::new(seed));
    let mut bank = Bank::open(&ticket, Plan::article().seed(seed));
    let mut crash = Some(crash);
    loop {
        match runner.run(&mut bank, &mut VirtualTime, crash.take()).unwrap() {
            Ending::Crashed => bank.crash(),
            Ending::Reported(outcome) => return bank.grade(&outcome.report).extra_refunds(),
        }
    }
}

/// Refunds on the orders of a ticket when its program has died in the midst of its refunds, among these faults.
fn paid_at_the_crash(faults: &[(&str, Fault)], calls: u32) -> (Ending, Vec<usize>) {
    let ticket = r#"{"version": 1, "currency": "EUR", "orders": [
        {"id": "A-1", "amount": "42.50"}, {"id": "A-2", "amount": "12.00"}]}"#;
    let ticket = Ticket::parse(ticket).unwrap();
    let script = |plan: Plan, (call, fault): &(&str, Fault)| {
        plan.script(call.parse().unwrap(), *fault).unwrap()
    };
    let mut bank = Bank::open(&ticket, faults.iter().fold(Plan::calm(), script));
    let (manner, key, recovery) = (Manner::Careful, Key::None, Recovery::Stale);
    let program = Program { manner, retry: Retry::default(), key, recovery };
    let mut runner = Runner::new(program, &ticket, MemoryStore::default(), Seed::new(7));
    let crash = Crash { step: 2, moment: Moment::AfterCommit { calls } };
    let ending = runner.run(&mut bank, &mut VirtualTime, Some(crash)).unwrap();
    (ending, bank.ledger().accounts().iter().map(|account| account.refunds().len()).collect())
}

#[test]
fn a_program_dies_right_after_the_attempt_that_has_paid() {
    let unavailable = [1, 2, 3].map(|attempt| format!("A-1 refund #{attempt}"));
    let unavailable = unavailable.each_ref().map(|call| (call.as_str(), Fault::TRANSIENT));
    let crashed = |paid: [usize; 2]| (Ending::Crashed, paid.to_vec());
    assert_eq!(paid_at_the_crash(&[], 0), crashed([0, 0]));
    assert_eq!(paid_at_the_crash(&[], 1), crashed([1, 0]));
    assert_eq!(paid_at_the_crash(&[], 9), crashed([1, 1]));
    assert_eq!(paid_at_the_crash(&[("A-1 refund #1", Fault::TIMEOUT)], 1), crashed([1, 0]));
    assert_eq!(paid_at_the_crash(&[("A-2 refund #1", Fault::TIMEOUT)], 2), crashed([1, 1]));
    // What has changed nothing is sent again, and where nothing is paid the next call is the last.
    assert_eq!(paid_at_the_crash(&unavailable[..2], 1), crashed([1, 0]));
    assert_eq!(paid_at_the_crash(&unavailable, 1), crashed([0, 1]));
    let both = ["A-2 refund #1", "A-2 refund #2", "A-2 refund #3"];
    let both = both.map(|call| (call, Fault::TRANSIENT));
    let (ending, paid) = paid_at_the_crash(&[unavailable, both].concat(), 1);
    assert!(matches!(ending, Ending::Reported(_)));
    assert_eq!(paid, [1, 1]);
}

#[test]
fn calls_written_ahead_and_keys_of_the_intent_survive_a_crash_anywhere_among_faults() {
    let moments = [
        Moment::BeforeSending,
        Moment::AfterCommit { calls: 3 },
        Moment::AfterReply,
        Moment::AfterSave,
    ];
    let mut stale = 0;
    for seed in 0..40 {
        for step in 1..=6 {
            for moment in moments {
                let crash = Crash { step, moment };
                let extra = |recovery, key| extra_after(recovery, key, crash, seed);
                for key in [Key::CallId, Key::Intent, Key::Model] {
                    let extra = extra(Recovery::WriteAhead, key);
                    assert_eq!(extra, 0, "{key}, {crash:?}, seed {seed}");
                }
                assert_eq!(extra(Recovery::Stale, Key::Intent), 0, "{crash:?}, seed {seed}");
                assert_eq!(extra(Recovery::Restart, Key::CallId), 0, "{crash:?}, seed {seed}");
                stale += extra(Recovery::Stale, Key::CallId);
            }
        }
    }
    // The crashes do bite: from a stale checkpoint eight orders of a ticket are paid again.
    assert!(stale > 40 * 8, "{stale}");
}

#[test]
fn the_ways_back_from_a_crash_are_a_table() {
    let sheet = recovery::run(&Settings::new(10, 7));
    let doubled: Vec<u64> = sheet.ways.iter().map(|way| way.doubled_orders).collect();
    assert_eq!(doubled, [0, 80, 80, 0, 0]);
    assert_log!("lab", sheet.text());
    let first = r#"{"ways":[{"name":"restart","tickets":10,"orders":80,"doubled_orders":0,"#;
    assert!(sheet.json().starts_with(first), "{}", sheet.json());
}

#[test]
fn the_kinds_of_keys_are_a_table() {
    let sheet = keys::run(&Settings::new(1, 7));
    let swallowed = sheet.cells.iter().filter(|cell| cell.outcome == keys::Fate::Swallowed);
    assert_eq!(swallowed.count(), 3);
    assert_log!("lab", sheet.text());
    let first = r#"{"cells":[{"key":"none","situation":"retry","outcome":"twice","cause":"repeat_after_timeout","#;
    assert!(sheet.json().starts_with(first), "{}", sheet.json());
}
