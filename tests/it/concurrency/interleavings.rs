//! The ways in which the steps of two or three refunds under one key can follow one another.
//!
//! A model checker runs the same threads once for each schedule. Between the steps of a refund others may come;
//! within a step the bank is behind a lock, as it is for every face that serves it.

use std::{
    collections::BTreeSet,
    sync::{Arc as StdArc, Mutex as StdMutex},
};

use badbank::{
    Bank,
    bank::Arrival,
    call::Request,
    history::{CallIndex, Event, History},
    ledger::{Dedupe, OverRefund},
};
use shuttle::{
    Config, Runner,
    scheduler::{DfsScheduler, RandomScheduler},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::trial::{Trial, held, told_of};

/// What the callers were told, in words, and what the order holds in the end.
type Outcome = (Vec<&'static str>, Vec<String>);

struct Shared {
    bank: Mutex<Bank>,
    finished: Condvar,
}

impl Shared {
    fn refund(&self, amount: &str) -> &'static str {
        let arrival =
            self.bank.lock().unwrap().arrive(&Request::refund("A-1", amount.into(), Some("k")));
        let mut pending = match arrival {
            Arrival::Answered(sent) => return told_of(sent.received()),
            Arrival::Pending(pending) => pending,
        };
        let mut bank = self.bank.lock().unwrap();
        loop {
            match bank.finish(pending) {
                Ok(sent) => {
                    self.finished.notify_all();
                    return told_of(sent.received());
                }
                Err(again) => pending = again,
            }
            bank = self.finished.wait(bank).unwrap();
        }
    }
}

/// Schedules of three callers that are tried: all of them are too many.
const SAMPLE: usize = 2_000;

/// The outcomes of refunds of these amounts at the same time, under one key: of two in every schedule, of three
/// in a sample that is the same every time.
fn outcomes(trial: &Trial, amounts: &'static [&'static str]) -> BTreeSet<Outcome> {
    let seen = StdArc::new(StdMutex::new(BTreeSet::new()));
    let (collected, trial) = (StdArc::clone(&seen), trial.clone());
    let run = move || {
        let shared = Arc::new(Shared { bank: Mutex::new(trial.open()), finished: Condvar::new() });
        let callers: Vec<_> = amounts
            .iter()
            .map(|amount| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.refund(amount))
            })
            .collect();
        let told = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        let bank = shared.bank.lock().unwrap();
        assert_replays_came_after(bank.history());
        let held = held(&bank, "A-1");
        collected.lock().unwrap().insert((told, held));
    };
    let mut config = Config::new();
    // The bank's own frames do not fit into the checker's small stacks.
    config.stack_size = 1 << 19;
    if amounts.len() < 3 {
        Runner::new(DfsScheduler::new(None, false), config).run(run);
    } else {
        Runner::new(RandomScheduler::new_from_seed(7, SAMPLE), config).run(run);
    }
    let seen = seen.lock().unwrap().clone();
    assert!(!seen.is_empty());
    seen
}

/// Checks that nobody is answered with a refund that came after its own.
fn assert_replays_came_after(history: &History) {
    let events = history.events();
    let arrival = |of: CallIndex| {
        events
            .iter()
            .position(|event| matches!(event, Event::Arrive(call, _) if *call == of))
            .unwrap()
    };
    let paid = events.iter().find_map(|event| match event {
        Event::Commit(call, ..) => Some(*call),
        _ => None,
    });
    for event in events {
        if let Event::Replay(call, ..) = event {
            assert!(arrival(paid.unwrap()) < arrival(*call), "{history}");
        }
    }
}

fn trial(dedupe: Dedupe, over_refund: OverRefund) -> Trial {
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "60.00"}"#).dedupe(dedupe);
    if over_refund == OverRefund::Reject { trial.reject() } else { trial }
}

const CALLERS: [&[&str]; 2] = [&["25.00", "25.00"], &["25.00", "25.00", "25.00"]];

/// How often the order was paid, over all schedules.
fn payments(outcomes: &BTreeSet<Outcome>) -> BTreeSet<usize> {
    outcomes.iter().map(|(_, held)| held.len()).collect()
}

#[test]
fn one_key_is_paid_once_whatever_the_schedule() {
    for (dedupe, other) in
        [(Dedupe::FirstReply, &["replayed"][..]), (Dedupe::Strict, &["replayed", "in_flight"])]
    {
        for callers in CALLERS {
            let outcomes = outcomes(&trial(dedupe, OverRefund::Allow), callers);
            assert_eq!(payments(&outcomes), BTreeSet::from([1]), "{dedupe:?}");
            for (told, _) in &outcomes {
                assert_eq!(told.iter().filter(|word| **word == "ok").count(), 1, "{told:?}");
                assert!(told.iter().all(|word| *word == "ok" || other.contains(word)), "{told:?}");
            }
            // Whoever comes first is paid.
            let first: BTreeSet<_> = outcomes
                .iter()
                .map(|(told, _)| told.iter().position(|word| *word == "ok"))
                .collect();
            assert_eq!(first.len(), callers.len(), "{dedupe:?}");
        }
    }
}

#[test]
fn a_racy_store_pays_twice_in_some_schedule_and_once_in_another() {
    for callers in CALLERS {
        let outcomes = outcomes(&trial(Dedupe::Racy, OverRefund::Allow), callers);
        assert_eq!(payments(&outcomes), (1..=callers.len()).collect());
    }
}

#[test]
fn without_keys_every_call_is_paid_whatever_the_schedule() {
    for callers in CALLERS {
        let outcomes = outcomes(&trial(Dedupe::Off, OverRefund::Allow), callers);
        assert_eq!(payments(&outcomes), BTreeSet::from([callers.len()]));
    }
}

#[test]
fn no_schedule_pays_more_than_is_left() {
    for dedupe in [Dedupe::Off, Dedupe::Racy] {
        let outcomes = outcomes(&trial(dedupe, OverRefund::Reject), CALLERS[1]);
        assert_eq!(payments(&outcomes).last(), Some(&2), "{dedupe:?}");
        for (told, held) in &outcomes {
            assert!(held.len() <= 2, "{told:?}");
            let paid = told.iter().filter(|word| **word == "ok").count();
            assert_eq!(paid, held.len(), "{told:?}");
        }
    }
}

#[test]
fn a_repeat_hears_what_it_waited_for_whatever_the_schedule() {
    let callers = &["99.00", "99.00", "25.00"];
    let outcomes = outcomes(&trial(Dedupe::FirstReply, OverRefund::Reject), callers);
    let told: BTreeSet<&[&str]> = outcomes.iter().map(|(told, _)| &told[..]).collect();
    assert_eq!(payments(&outcomes), BTreeSet::from([0, 1]));
    // Paid by whoever came when the key was free, or refused together with the one that was waited for.
    for told in told {
        assert!(!told[..2].contains(&"ok"), "{told:?}");
        assert!(["ok", "over_refund"].contains(&told[2]), "{told:?}");
        let is_paid = told[2] == "ok";
        assert!(
            told[..2].iter().all(|word| *word == "over_refund" || is_paid && *word == "replayed")
        );
    }
}
