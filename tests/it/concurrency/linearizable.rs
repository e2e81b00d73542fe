//! Histories of threads on one order, and a search for an order in which their calls could have come one by one.
//!
//! The search is Wing and Gong's: any call that began before another was answered may have come first; it did
//! if a model of the order hears then what the caller heard, and the rest can follow.

use std::{
    collections::BTreeMap,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use badbank::{
    SharedBank,
    bank::Arrival,
    call::{Answer, CallError, Reply, Request},
    ledger::{Dedupe, OverRefund},
    money::Amount,
};

use crate::trial::Trial;

/// What the buyer paid, in cents.
const PAID: u64 = 10_000;
const THREADS: usize = 4;
const CALLS_EACH: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Ask {
    Read,
    Refund { cents: u64, key: Option<&'static str> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Shown(Vec<u64>),
    Paid(usize),
    Replayed(usize),
    Refused(&'static str),
}

/// A call, and the ticks between which it took effect.
#[derive(Clone, Debug)]
struct Record {
    began: usize,
    ended: usize,
    ask: Ask,
    heard: Heard,
}

impl Record {
    fn key(&self) -> Option<&'static str> {
        match self.ask {
            Ask::Refund { key, .. } => key,
            Ask::Read => None,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.began < other.ended && other.began < self.ended
    }
}

/// An order whose calls come one by one.
#[derive(Clone, Debug)]
struct Model {
    dedupe: Dedupe,
    over_refund: OverRefund,
    held: Vec<u64>,
    /// What was paid under a key, and as which refund.
    keys: BTreeMap<&'static str, (u64, usize)>,
}

impl Model {
    fn new(dedupe: Dedupe, over_refund: OverRefund) -> Self {
        Self { dedupe, over_refund, held: Vec::new(), keys: BTreeMap::new() }
    }

    fn hear(&mut self, ask: Ask) -> Heard {
        let Ask::Refund { cents, key } = ask else {
            return Heard::Shown(self.held.clone());
        };
        let key = key.filter(|_| self.dedupe != Dedupe::Off);
        if let Some((first, number)) = key.and_then(|key| self.keys.get(key)) {
            let is_other = self.dedupe == Dedupe::Strict && *first != cents;
            return if is_other {
                Heard::Refused("key_mismatch")
            } else {
                Heard::Replayed(*number)
            };
        }
        let left = PAID.saturating_sub(self.held.iter().sum());
        if self.over_refund == OverRefund::Reject && cents > left {
            return Heard::Refused(if left == 0 { "already_refunded" } else { "over_refund" });
        }
        self.held.push(cents);
        let number = self.held.len();
        if let Some(key) = key {
            self.keys.insert(key, (cents, number));
        }
        Heard::Paid(number)
    }
}

/// Whether the calls could have come one by one, each between its ticks.
fn is_linearizable(records: &[Record], model: &Model) -> bool {
    let Some(first_end) = records.iter().map(|record| record.ended).min() else {
        return true;
    };
    (0..records.len()).filter(|place| records[*place].began < first_end).any(|place| {
        let mut model = model.clone();
        let mut rest = records.to_vec();
        let first = rest.remove(place);
        model.hear(first.ask) == first.heard && is_linearizable(&rest, &model)
    })
}

/// The calls that an order of all has to explain: not those that were told of another's reservation, which the
/// model does not know. For each of them there must be one that it met.
fn explained(records: &[Record], dedupe: Dedupe) -> Vec<Record> {
    let meets = |record: &Record, has_told: &dyn Fn(&Heard) -> bool| {
        let mut others = records.iter().filter(|other| other.began != record.began);
        others.any(|other| {
            other.key() == record.key() && record.overlaps(other) && has_told(&other.heard)
        })
    };
    let is_explained = |record: &&Record| match record.heard {
        Heard::Refused("in_flight") => {
            assert!(meets(record, &|_| true), "{record:?} met none of {records:?}");
            false
        }
        Heard::Refused("key_mismatch") => !meets(record, &|_| true),
        // Of the refund that it waited for.
        Heard::Refused(_) if dedupe == Dedupe::FirstReply && record.key().is_some() => {
            !meets(record, &|other| *other == record.heard)
        }
        _ => true,
    };
    records.iter().filter(is_explained).cloned().collect()
}

fn heard(answer: Answer) -> Heard {
    match answer {
        Ok(Reply::Order(state)) => {
            Heard::Shown(state.refunds.iter().map(|amount| amount.minor()).collect())
        }
        Ok(Reply::Refunded(refunded)) => {
            let number = refunded.number as usize;
            if refunded.is_replay { Heard::Replayed(number) } else { Heard::Paid(number) }
        }
        Err(CallError::Refused(refusal)) => Heard::Refused(refusal.code.as_str()),
        Err(other) => panic!("a calm bank answers {other:?}"),
    }
}

/// Numbers that look random and are the same every time (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    fn ask(&mut self) -> Ask {
        let cents = [2_000, 3_000, 6_000][self.below(3)];
        match self.below(8) {
            0 => Ask::Read,
            1 | 2 => Ask::Refund { cents, key: None },
            // Mostly one amount under one key.
            3..6 => Ask::Refund { cents: 2_000, key: Some("k1") },
            6 => Ask::Refund { cents: 6_000, key: Some("k2") },
            _ => Ask::Refund { cents, key: Some(["k1", "k2"][self.below(2)]) },
        }
    }
}

/// Makes a call in two steps, with a gap between them that is as long as so many turns of the other threads.
fn call(bank: &SharedBank, clock: &AtomicUsize, ask: Ask, gap: usize) -> Record {
    let request = match ask {
        Ask::Read => Request::get_order("A-1"),
        Ask::Refund { cents, key } => {
            Request::refund("A-1", Amount::from_minor(cents).unwrap().into(), key)
        }
    };
    let began = clock.fetch_add(1, SeqCst);
    let sent = match bank.arrive(&request) {
        Arrival::Answered(sent) => sent,
        Arrival::Pending(pending) => {
            (0..gap).for_each(|_| thread::yield_now());
            bank.wait(pending)
        }
    };
    let ended = clock.fetch_add(1, SeqCst);
    Record { began, ended, ask, heard: heard(sent.received()) }
}

/// What the calls of several threads on one order came to.
fn round(bank: &SharedBank, seed: u64) -> Vec<Record> {
    let (clock, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
    let records = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for place in 0..THREADS as u64 {
            let mut numbers = Numbers(seed << 8 | place);
            let (clock, start, records) = (&clock, &start, &records);
            scope.spawn(move || {
                start.wait();
                for _ in 0..CALLS_EACH {
                    let (ask, gap) = (numbers.ask(), numbers.below(4));
                    let record = call(bank, clock, ask, gap);
                    records.lock().unwrap().push(record);
                }
            });
        }
    });
    records.into_inner().unwrap()
}

fn hold(dedupe: Dedupe) {
    let mut overlapping = 0;
    for seed in 0..300 {
        let over_refund = if seed % 3 == 0 { OverRefund::Allow } else { OverRefund::Reject };
        let mut trial = Trial::orders(r#"{"id": "A-1", "amount": "100.00"}"#).dedupe(dedupe);
        if over_refund == OverRefund::Reject {
            trial = trial.reject();
        }
        let bank = SharedBank::new(trial.open());
        let records = round(&bank, seed);
        let pairs = records.iter().flat_map(|one| records.iter().map(move |other| (one, other)));
        let has_overlap = pairs.filter(|(one, other)| one.overlaps(other)).count() > records.len();
        overlapping += u32::from(has_overlap);
        let model = Model::new(dedupe, over_refund);
        assert!(is_linearizable(&explained(&records, dedupe), &model), "seed {seed}: {records:#?}");

        let mut bank = bank.lock();
        let grade = bank.grade("");
        assert!(has_overlap || grade.overlapped().is_empty(), "seed {seed}: {records:#?}");
        let refunded = bank.ledger().accounts()[0].refunded().minor();
        assert!(over_refund == OverRefund::Allow || refunded <= PAID.into(), "seed {seed}");
    }
    assert!(overlapping > 100, "{overlapping}");
}

#[test]
fn refunds_at_the_same_time_could_have_come_one_by_one() {
    hold(Dedupe::Off);
}

#[test]
fn so_could_refunds_with_keys_whose_first_reply_is_stored() {
    hold(Dedupe::FirstReply);
}

#[test]
fn so_could_refunds_with_strict_keys() {
    hold(Dedupe::Strict);
}

#[test]
fn a_racy_store_is_found_out() {
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "100.00"}"#).dedupe(Dedupe::Racy);
    let bank = SharedBank::new(trial.open());
    let ask = Ask::Refund { cents: 2_000, key: Some("k1") };
    let request = Request::refund("A-1", "20.00".into(), Some("k1"));
    let calls = [(); 2].map(|()| match bank.arrive(&request) {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(sent) => panic!("{sent:?}"),
    });
    let answers = calls.map(|call| heard(bank.wait(call).received()));
    let records: Vec<Record> =
        (0..).zip(answers).map(|(began, heard)| Record { began, ended: 9, ask, heard }).collect();
    assert!(!is_linearizable(&records, &Model::new(Dedupe::FirstReply, OverRefund::Allow)));
    assert!(is_linearizable(&records, &Model::new(Dedupe::Off, OverRefund::Allow)));
}

#[test]
fn a_history_that_could_not_have_been_is_found_out() {
    let record = |began, ended, number| Record {
        began,
        ended,
        ask: Ask::Refund { cents: 2_000, key: None },
        heard: Heard::Paid(number),
    };
    let model = Model::new(Dedupe::Off, OverRefund::Allow);
    for (records, could_be) in [
        (vec![record(0, 1, 1), record(2, 3, 2)], true),
        (vec![record(0, 1, 2), record(2, 3, 1)], false),
        (vec![record(0, 2, 2), record(1, 3, 1)], true),
        (vec![record(0, 2, 1), record(1, 3, 1)], false),
        (vec![record(0, 5, 3), record(1, 2, 1), record(3, 4, 2)], true),
        (vec![record(0, 5, 2), record(1, 2, 3), record(3, 4, 1)], false),
    ] {
        assert_eq!(is_linearizable(&records, &model), could_be, "{records:?}");
    }
}
