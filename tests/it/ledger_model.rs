//! Random sequences of calls against a small model of the ledger: what it answers and what it holds.
//!
//! The model knows the design and nothing of the code. It keeps, for each key, what is stored under it
//! and who is about to store something; everything else follows.

use std::collections::BTreeMap;
use std::time::Duration;

use badbank::{
    Bank,
    bank::{Arrival, Pending},
    call::{Answer, CallError, Reply, Request},
    fault::{Plan, PlanSettings},
    grade::Grade,
    history::History,
    ledger::{Caller, Dedupe, OverRefund},
    money::Amount,
};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, prop_oneof},
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::trial::{Trial, orders_of};

/// What each order's buyer paid, in cents, and what is held at the start.
const ORDERS: [(&str, u64, &[u64]); 3] =
    [("A-1", 100, &[]), ("A-2", 60, &[10]), ("A-3", 30, &[30])];
const KEY_TTL_S: u64 = 10;

/// A refund to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ask {
    order: usize,
    cents: u64,
    /// Caller and name.
    key: Option<(Option<&'static str>, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Ask, and be answered at once.
    Refund(Ask),
    /// Ask, and leave it under way.
    Arrive(Ask),
    /// Finish one of those under way, counted from the first and round again.
    Finish(usize),
    /// Let time pass, in milliseconds.
    Advance(u64),
}

/// What a caller hears: the number of a refund and its order, new or replayed, or a refusal's code.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Paid(Receipt),
    Replayed(Receipt),
    Refused(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Receipt {
    order: usize,
    number: usize,
    cents: u64,
}

/// What has come of a promise, or of an offer.
#[derive(Clone, Copy, Debug)]
enum Stored {
    /// Somebody is about to store something.
    Promised,
    /// The answer to every repeat.
    Reply(Receipt),
    /// Who promised was refused: as good as nothing, but those who waited for it are told the same, whatever
    /// becomes of the key meanwhile.
    Broken(&'static str),
}

type Key = (Option<&'static str>, &'static str);

/// Place of a promise to store something, in the order in which they were made.
type Promise = usize;

/// How a refund under way will end.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// By paying, and storing the reply under its key if it promised to.
    Pays { promised: Option<Promise>, offers: Option<Key> },
    /// As the one that it waits for, which promised first.
    Waits(Promise),
}

#[derive(Clone, Debug)]
struct Model {
    settings: PlanSettings,
    now_ms: u64,
    held: Vec<Vec<u64>>,
    /// The newest promise, or offer, under each key.
    keys: BTreeMap<Key, Promise>,
    /// What was asked, when, and what has come of it.
    promises: Vec<(Ask, u64, Stored)>,
    under_way: Vec<(Ask, Part)>,
}

impl Model {
    fn new(settings: PlanSettings) -> Self {
        Self {
            settings,
            now_ms: 0,
            held: ORDERS.iter().map(|(_, _, held)| held.to_vec()).collect(),
            keys: BTreeMap::new(),
            promises: Vec::new(),
            under_way: Vec::new(),
        }
    }

    /// What comes of an arrival: an answer, or a part to play.
    fn arrive(&mut self, ask: Ask) -> Result<Part, Heard> {
        let dedupe = self.settings.dedupe;
        let Some(key) = ask.key.filter(|_| dedupe != Dedupe::Off) else {
            return Ok(Part::Pays { promised: None, offers: None });
        };
        let is_strict = dedupe == Dedupe::Strict;
        let known = self.keys.get(&key).map(|promise| (*promise, self.promises[*promise]));
        let known = known.filter(|(_, (_, since, stored))| {
            let has_expired = is_strict && self.now_ms - since >= KEY_TTL_S * 1000;
            !matches!(stored, Stored::Reply(_)) || !has_expired
        });
        match known {
            None | Some((_, (_, _, Stored::Broken(_)))) if dedupe == Dedupe::Racy => {
                return Ok(Part::Pays { promised: None, offers: Some(key) });
            }
            None | Some((_, (_, _, Stored::Broken(_)))) => {}
            Some((_, (first, ..))) if is_strict && first != ask => {
                return Err(Heard::Refused("key_mismatch"));
            }
            Some((_, (_, _, Stored::Reply(receipt)))) => return Err(Heard::Replayed(receipt)),
            Some((_, (_, _, Stored::Promised))) if is_strict => {
                return Err(Heard::Refused("in_flight"));
            }
            Some((promise, (_, _, Stored::Promised))) => return Ok(Part::Waits(promise)),
        }
        let promise = self.store(key, ask, Stored::Promised);
        Ok(Part::Pays { promised: Some(promise), offers: None })
    }

    fn store(&mut self, key: Key, ask: Ask, stored: Stored) -> Promise {
        self.promises.push((ask, self.now_ms, stored));
        self.keys.insert(key, self.promises.len() - 1);
        self.promises.len() - 1
    }

    /// What comes of a refund that is finished; nothing yet if it waits.
    fn finish(&mut self, ask: Ask, part: Part) -> Option<Heard> {
        let (promised, offers) = match part {
            Part::Pays { promised, offers } => (promised, offers),
            Part::Waits(promise) => {
                return match self.promises[promise].2 {
                    Stored::Promised => None,
                    Stored::Reply(receipt) => Some(Heard::Replayed(receipt)),
                    Stored::Broken(code) => Some(Heard::Refused(code)),
                };
            }
        };
        let outcome = self.pay(ask);
        if let Some(promise) = promised {
            self.promises[promise].2 = match outcome {
                Ok(receipt) => Stored::Reply(receipt),
                Err(code) => Stored::Broken(code),
            };
        }
        if let (Some(key), Ok(receipt)) = (offers, outcome)
            && !self.keys.contains_key(&key)
        {
            self.store(key, ask, Stored::Reply(receipt));
        }
        Some(outcome.map_or_else(Heard::Refused, Heard::Paid))
    }

    fn pay(&mut self, ask: Ask) -> Result<Receipt, &'static str> {
        let held = &mut self.held[ask.order];
        let left = ORDERS[ask.order].1.saturating_sub(held.iter().sum());
        if self.settings.over_refund == OverRefund::Reject && ask.cents > left {
            let is_empty = left == 0 && !held.is_empty();
            return Err(if is_empty { "already_refunded" } else { "over_refund" });
        }
        held.push(ask.cents);
        Ok(Receipt { order: ask.order, number: held.len(), cents: ask.cents })
    }

    /// Finishes everything, those that wait after those that they wait for.
    fn settle(&mut self) {
        let mut under_way = std::mem::take(&mut self.under_way);
        loop {
            let before = under_way.len();
            under_way.retain(|(ask, part)| self.finish(*ask, *part).is_none());
            if under_way.len() == before {
                break;
            }
        }
    }
}

/// The bank beside its model.
struct Pair {
    bank: Bank,
    model: Model,
    pending: Vec<Pending>,
}

impl Pair {
    fn new(dedupe: Dedupe, over_refund: OverRefund) -> Self {
        let settings =
            PlanSettings { dedupe, over_refund, key_ttl_s: KEY_TTL_S, ..PlanSettings::default() };
        let text = |cents: &u64| format!("\"{}.{:02}\"", cents / 100, cents % 100);
        let orders: Vec<String> = ORDERS
            .iter()
            .map(|(id, cents, held)| {
                let held: Vec<String> = held.iter().map(text).collect();
                let (amount, held) = (text(cents), held.join(","));
                format!(
                    r#"{{"id": "{id}", "amount": {amount}, "expect": ["0.10"], "refunded": [{held}]}}"#
                )
            })
            .collect();
        let mut bank = Trial::orders(&orders.join(",")).open();
        bank.set_plan(Plan::calm().with_settings(settings)).unwrap();
        Self { bank, model: Model::new(settings), pending: Vec::new() }
    }

    fn request(ask: &Ask) -> Request<'static> {
        let amount = Amount::from_minor(ask.cents).unwrap();
        let mut request =
            Request::refund(ORDERS[ask.order].0, amount.into(), ask.key.map(|(_, name)| name));
        let caller = ask.key.and_then(|(caller, _)| caller);
        request.caller = caller.map(|caller| Caller::from_credential(caller.as_bytes()));
        request
    }

    fn heard(answer: Answer) -> Heard {
        match answer {
            Ok(Reply::Refunded(refunded)) => {
                let order = ORDERS.iter().position(|(id, ..)| *id == refunded.order.as_str());
                let receipt = Receipt {
                    order: order.unwrap(),
                    number: refunded.number as usize,
                    cents: refunded.amount.minor(),
                };
                if refunded.is_replay { Heard::Replayed(receipt) } else { Heard::Paid(receipt) }
            }
            Err(CallError::Refused(refusal)) => Heard::Refused(refusal.code.as_str()),
            other => panic!("a calm bank answers {other:?}"),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Advance(by_ms) => {
                self.bank.advance(Duration::from_millis(by_ms));
                self.model.now_ms += by_ms;
            }
            Step::Refund(ask) => {
                let expected = match self.model.arrive(ask) {
                    Err(heard) => heard,
                    // In one step nobody else could finish what it waits for.
                    Ok(part) => {
                        let heard = self.model.finish(ask, part);
                        heard.unwrap_or(Heard::Refused("in_flight"))
                    }
                };
                let heard = Self::heard(self.bank.call(&Self::request(&ask)));
                assert_eq!(heard, expected, "{ask:?}");
            }
            Step::Arrive(ask) => {
                match (self.bank.arrive(&Self::request(&ask)), self.model.arrive(ask)) {
                    (Arrival::Answered(answer), Err(expected)) => {
                        assert_eq!(Self::heard(answer.received()), expected, "{ask:?}");
                    }
                    (Arrival::Pending(pending), Ok(part)) => {
                        self.pending.push(pending);
                        self.model.under_way.push((ask, part));
                    }
                    other => panic!("{ask:?}: {other:?}"),
                }
            }
            Step::Finish(which) if !self.pending.is_empty() => {
                let which = which % self.pending.len();
                let pending = self.pending.remove(which);
                let (ask, part) = self.model.under_way.remove(which);
                match (self.bank.finish(pending), self.model.finish(ask, part)) {
                    (Ok(answer), Some(expected)) => {
                        assert_eq!(Self::heard(answer.received()), expected, "{ask:?}");
                    }
                    (Err(pending), None) => {
                        self.pending.insert(which, pending);
                        self.model.under_way.insert(which, (ask, part));
                    }
                    other => panic!("{ask:?}: {other:?}"),
                }
            }
            Step::Finish(_) => {}
        }
        self.compare();
    }

    fn compare(&self) {
        for (account, held) in self.bank.ledger().accounts().iter().zip(&self.model.held) {
            let refunds: Vec<u64> = account.refunds().iter().map(|a| a.minor()).collect();
            assert_eq!(&refunds, held, "{}", account.id());
            assert_eq!(
                account.refunded().minor(),
                held.iter().map(|cents| u128::from(*cents)).sum()
            );
        }
    }
}

fn ask() -> impl Strategy<Value = Ask> {
    let key = prop_oneof![
        1 => Just(None),
        4 => (select(vec![None, Some("T1"), Some("T2")]), select(vec!["k1", "k2"])).prop_map(Some),
    ];
    (0..ORDERS.len(), select(vec![10, 30, 70]), key).prop_map(|(order, cents, key)| Ask {
        order,
        cents,
        key,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => ask().prop_map(Step::Refund),
        3 => ask().prop_map(Step::Arrive),
        3 => (0_usize..8).prop_map(Step::Finish),
        1 => select(vec![1, 4_999, 5_000, 9_999, 10_000]).prop_map(Step::Advance),
    ]
}

/// Runs a property on 256 cases, the same every time.
fn hold<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, property: impl Fn(T)) {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let held = runner.run(&strategy, |value| {
        property(value);
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{error}"));
}

fn agrees(dedupe: Dedupe) {
    let over_refund = select(vec![OverRefund::Allow, OverRefund::Reject]);
    hold((over_refund, vec(step(), 1..60)), |(over_refund, steps)| {
        let mut pair = Pair::new(dedupe, over_refund);
        for step in steps {
            pair.step(step);
        }
        pair.model.settle();
        let grade = pair.bank.grade("");
        pair.compare();
        let read = History::parse(&pair.bank.history().to_string()).unwrap();
        assert_eq!(&read.history, pair.bank.history());
        assert_eq!(orders_of(&Grade::of(&read.history, None)), orders_of(&grade));
    });
}

#[test]
fn without_keys_the_ledger_agrees_with_the_model() {
    agrees(Dedupe::Off);
}

#[test]
fn with_the_first_reply_stored_the_ledger_agrees_with_the_model() {
    agrees(Dedupe::FirstReply);
}

#[test]
fn with_strict_keys_the_ledger_agrees_with_the_model() {
    agrees(Dedupe::Strict);
}

#[test]
fn with_racy_keys_the_ledger_agrees_with_the_model() {
    agrees(Dedupe::Racy);
}

#[test]
#[should_panic(expected = "minimal failing input")]
fn another_model_would_be_found_out() {
    let over_refund = OverRefund::Allow;
    hold(vec(step(), 1..60), |steps| {
        let mut pair = Pair::new(Dedupe::FirstReply, over_refund);
        pair.model.settings.dedupe = Dedupe::Off;
        for step in steps {
            pair.step(step);
        }
    });
}
