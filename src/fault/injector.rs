//! The decision: which fault a call meets.

use std::collections::BTreeMap;

use rand::Rng;
use rand_pcg::Pcg64;
use siphasher::sip128::SipHasher13;

use super::{Attempts, Burst, Fault, On, Plan, Rate, Rule, Trigger, walk::Walk};
use crate::{
    call::Operation,
    ledger::OrderIndex,
    seed::{Seed, mix, scale},
    ticket::OrderId,
};

/// The stream that decisions are drawn from.
const STREAM: u128 = 0x0a02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96;

/// An order's id as the draw uses it: SipHash-1-3-128 of its bytes, key 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderHash {
    low: u64,
    high: u64,
}

impl OrderHash {
    /// The hash of an order's id.
    pub fn of(order: &OrderId) -> Self {
        let hash = SipHasher13::new().hash(order.as_bytes());
        Self { low: hash.h1, high: hash.h2 }
    }

    /// The hash as one number, as golden vectors write it.
    pub const fn number(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

/// The stream that the states of a call's first burst are drawn from; the next burst has the next stream.
const BURST_STREAM: u128 = 0x6275_7273_7473_0000_0000_0000_0000_0001;

/// One draw per call and stream, from the call's identity alone.
fn draw(seed: Seed, operation: Operation, order: OrderHash, attempt: u32, stream: u128) -> u64 {
    let operation: u64 = match operation {
        Operation::GetOrder => 1,
        Operation::Refund => 2,
    };
    let a = mix(seed.number() ^ order.low);
    let b = mix(a ^ order.high ^ (operation << 32) ^ u64::from(attempt));
    Pcg64::new(u128::from(a) << 64 | u128::from(b), stream).next_u64()
}

/// Rules of one kind in plan order, each with its place: those for all orders, and those for one.
#[derive(Clone, Debug)]
struct ByOrder<T> {
    of_all: Vec<(usize, T)>,
    of_order: BTreeMap<OrderIndex, Vec<(usize, T)>>,
}

impl<T> Default for ByOrder<T> {
    fn default() -> Self {
        Self { of_all: Vec::new(), of_order: BTreeMap::new() }
    }
}

impl<T> ByOrder<T> {
    fn push(&mut self, order: Option<OrderIndex>, place: usize, rule: T) {
        let rules = match order {
            None => &mut self.of_all,
            Some(order) => self.of_order.entry(order).or_default(),
        };
        rules.push((place, rule));
    }

    /// The rules about an order, in plan order.
    fn about(&self, order: OrderIndex) -> impl Iterator<Item = &T> {
        let mut of_all = &self.of_all[..];
        let mut own = self.of_order.get(&order).map_or(&[][..], Vec::as_slice);
        std::iter::from_fn(move || {
            let next = match (of_all.first(), own.first()) {
                (Some((first, _)), Some((second, _))) if second < first => &mut own,
                (None, _) => &mut own,
                _ => &mut of_all,
            };
            let ((_, rule), rest) = next.split_first()?;
            *next = rest;
            Some(rule)
        })
    }
}

/// A rule that strikes at a rate.
#[derive(Clone, Copy, Debug)]
struct Rated {
    on: On,
    rate: Rate,
    fault: Fault,
}

/// A rule that strikes certain attempts.
#[derive(Clone, Copy, Debug)]
struct Scripted {
    on: On,
    attempts: Attempts,
    fault: Fault,
}

/// A rule that strikes in bad stretches.
#[derive(Clone, Debug)]
struct Bursting {
    on: On,
    burst: Burst,
    fault: Fault,
    /// Whether it names no order.
    is_of_all: bool,
    /// By order and operation, as far as they are remembered; of its own order alone if it names one.
    walks: Vec<[Walk; 2]>,
}

/// Orders × rules for all of them whose walks are remembered, at 16 bytes each.
const WALKS_MAX: usize = 1 << 22;

/// Answers for each call which fault it meets.
///
/// # Determinism
///
/// The answer follows from seed, operation, order id and attempt, and from the plan's rules. Neither
/// the plan nor the ticket is hashed: a further order or a rule at the end moves nobody's draw.
#[derive(Clone, Debug)]
pub struct Injector {
    seed: Seed,
    hashes: Vec<OrderHash>,
    rates: ByOrder<Rated>,
    scripts: ByOrder<Scripted>,
    bursts: ByOrder<Bursting>,
}

impl Injector {
    /// The injector of a plan, for the orders of a ledger in their order.
    pub fn new<'a>(plan: &Plan, orders: impl IntoIterator<Item = &'a OrderId>) -> Self {
        let orders: Vec<&OrderId> = orders.into_iter().collect();
        let mut injector = Self {
            seed: plan.effective_seed(),
            hashes: orders.iter().map(|order| OrderHash::of(order)).collect(),
            rates: ByOrder::default(),
            scripts: ByOrder::default(),
            bursts: ByOrder::default(),
        };
        let places: BTreeMap<&OrderId, OrderIndex> = orders
            .iter()
            .enumerate()
            .map(|(place, order)| (*order, OrderIndex::new(place)))
            .collect();
        for (place, rule) in plan.rules().iter().enumerate() {
            let order = rule.order.as_ref().map(|order| places.get(order).copied());
            // What names an order that is not there strikes nobody.
            if order != Some(None) {
                injector.add(place, rule, order.flatten());
            }
        }
        injector
    }

    fn add(&mut self, place: usize, rule: &Rule, order: Option<OrderIndex>) {
        let Rule { on, fault, .. } = *rule;
        match rule.trigger {
            Trigger::Rate(rate) => self.rates.push(order, place, Rated { on, rate, fault }),
            Trigger::Attempts(attempts) => {
                self.scripts.push(order, place, Scripted { on, attempts, fault });
            }
            Trigger::Burst(burst) => {
                let is_of_all = order.is_none();
                let walks = vec![Default::default(); if is_of_all { self.walked() } else { 1 }];
                self.bursts.push(order, place, Bursting { on, burst, fault, is_of_all, walks });
            }
        }
    }

    /// Orders whose walks a further rule for all of them remembers: each, unless that is too much for the memory.
    fn walked(&self) -> usize {
        let rules = self.bursts.of_all.len() + 1;
        let orders = self.hashes.len();
        if rules.saturating_mul(orders) <= WALKS_MAX { orders } else { 0 }
    }

    /// Takes in an order that the injector was not made with.
    ///
    /// The rules for all orders decide about it. Those that name it alone are not among the injector's: make
    /// an injector with [the orders that its plan names](Plan::orders), and insert the others as they come.
    pub fn insert(&mut self, order: &OrderId) -> OrderIndex {
        self.hashes.push(OrderHash::of(order));
        for (_, rule) in &mut self.bursts.of_all {
            if rule.walks.len() + 1 == self.hashes.len() {
                rule.walks.push(Default::default());
            }
        }
        OrderIndex::new(self.hashes.len() - 1)
    }

    /// The fault that a call meets, if any.
    ///
    /// What was asked before changes no answer. Of attempts that come in turn each costs a few draws; to look back
    /// into a burst is to walk it again from the first.
    pub fn decide(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        let forced = self
            .scripted(operation, order, attempt)
            .or_else(|| self.bursting(operation, order, attempt));
        forced.or_else(|| self.rated(operation, order, attempt))
    }

    /// The first scripted rule of the plan that names the call.
    fn scripted(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        let names =
            |script: &&Scripted| script.on.includes(operation) && script.attempts.contains(attempt);
        self.scripts.about(order).find(names).map(|script| script.fault)
    }

    /// The first rule of the plan for which the attempt lies in a bad stretch.
    fn bursting(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        let about_it = self.bursts.about(order).filter(|rule| rule.on.includes(operation));
        // Numbered among those about the call: a rule at the end moves none before it.
        let mut rules = (BURST_STREAM..).zip(about_it);
        let strikes = |(stream, rule): &(u128, &Bursting)| {
            let draw =
                |attempt| draw(self.seed, operation, self.hashes[order.get()], attempt, *stream);
            // A rule that names its order has the walks of that one alone.
            let place = if rule.is_of_all { order.get() } else { 0 };
            match rule.walks.get(place) {
                Some(walks) => walks[operation as usize].is_bad(rule.burst, attempt, draw),
                None => Walk::default().is_bad(rule.burst, attempt, draw),
            }
        };
        rules.find(strikes).map(|(_, rule)| rule.fault)
    }

    /// The rule in whose part of the unit interval the call's draw lies: they divide it in plan order.
    fn rated(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        let about_it = self.rates.about(order).filter(|rule| rule.on.includes(operation));
        let mut rules = about_it.peekable();
        rules.peek()?;
        let draw = draw(self.seed, operation, self.hashes[order.get()], attempt, STREAM);
        let billionth = scale(draw, u64::from(Rate::WHOLE));
        let mut below = 0;
        let strikes = |rule: &&Rated| {
            below += u64::from(rule.rate.billionths());
            billionth < below
        };
        rules.find(strikes).map(|rule| rule.fault)
    }
}
