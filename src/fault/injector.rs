//! The decision: which fault a call meets.

use std::collections::BTreeMap;

use rand::Rng;
use rand_pcg::Pcg64;
use siphasher::sip128::SipHasher13;

use super::{Attempts, Burst, Fault, On, Plan, Rate, Trigger, walk::Walk};
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

/// A part of the unit interval, up to `below` billionths.
#[derive(Clone, Copy, Debug)]
struct Slice {
    below: u32,
    fault: Fault,
}

/// A scripted rule, with its place in the plan.
#[derive(Clone, Copy, Debug)]
struct Scripted {
    place: usize,
    on: On,
    attempts: Attempts,
    fault: Fault,
}

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
    rates_of_all: [Vec<Slice>; 2],
    rates_of_order: BTreeMap<(OrderIndex, Operation), Vec<Slice>>,
    scripts_of_all: Vec<Scripted>,
    scripts_of_order: BTreeMap<OrderIndex, Vec<Scripted>>,
    bursts: Vec<Bursting>,
}

/// A rule that strikes in bad stretches.
#[derive(Clone, Debug)]
struct Bursting {
    on: On,
    order: Option<OrderIndex>,
    burst: Burst,
    fault: Fault,
    /// By order and operation; of its own order alone if it names one.
    walks: Vec<[Walk; 2]>,
}

impl Bursting {
    fn is_about(&self, operation: Operation, order: OrderIndex) -> bool {
        self.on.includes(operation) && self.order.is_none_or(|only| only == order)
    }

    fn walk(&self, operation: Operation, order: OrderIndex) -> &Walk {
        let place = if self.order.is_some() { 0 } else { order.get() };
        &self.walks[place][operation as usize]
    }
}

impl Injector {
    /// The injector of a plan, for the orders of a ledger in their order.
    pub fn new<'a>(plan: &Plan, orders: impl IntoIterator<Item = &'a OrderId>) -> Self {
        let orders: Vec<&OrderId> = orders.into_iter().collect();
        let mut injector = Self {
            seed: plan.effective_seed(),
            hashes: orders.iter().map(|order| OrderHash::of(order)).collect(),
            rates_of_all: Operation::ALL.map(|operation| slices(plan, operation, None)),
            rates_of_order: BTreeMap::new(),
            scripts_of_all: Vec::new(),
            scripts_of_order: BTreeMap::new(),
            bursts: Vec::new(),
        };
        let places: BTreeMap<&OrderId, OrderIndex> = orders
            .iter()
            .enumerate()
            .map(|(place, order)| (*order, OrderIndex::new(place)))
            .collect();
        for (place, rule) in plan.rules().iter().enumerate() {
            let index = match &rule.order {
                None => None,
                Some(order) => match places.get(order) {
                    Some(index) => Some((*index, order)),
                    None => continue,
                },
            };
            match (rule.trigger, index) {
                (Trigger::Attempts(attempts), _) => {
                    let script = Scripted { place, on: rule.on, attempts, fault: rule.fault };
                    match index {
                        None => injector.scripts_of_all.push(script),
                        Some((index, _)) => {
                            injector.scripts_of_order.entry(index).or_default().push(script);
                        }
                    }
                }
                (Trigger::Rate(_), Some((index, order))) => {
                    for operation in rule.on.operations() {
                        injector
                            .rates_of_order
                            .entry((index, operation))
                            .or_insert_with(|| slices(plan, operation, Some(order)));
                    }
                }
                (Trigger::Rate(_), None) => {}
                (Trigger::Burst(burst), _) => {
                    let order = index.map(|(index, _)| index);
                    let walks = vec![Default::default(); order.map_or(orders.len(), |_| 1)];
                    let (on, fault) = (rule.on, rule.fault);
                    injector.bursts.push(Bursting { on, order, burst, fault, walks });
                }
            }
        }
        injector
    }

    /// Takes in an order that the injector was not made with.
    ///
    /// The rules for all orders decide about it. Those that name it alone are not among the injector's: make
    /// an injector with [the orders that its plan names](Plan::orders), and insert the others as they come.
    pub fn insert(&mut self, order: &OrderId) -> OrderIndex {
        self.hashes.push(OrderHash::of(order));
        for rule in self.bursts.iter_mut().filter(|rule| rule.order.is_none()) {
            rule.walks.push(Default::default());
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
        forced.or_else(|| {
            let slices = self.slices(operation, order);
            if slices.is_empty() {
                return None;
            }
            let draw = draw(self.seed, operation, self.hashes[order.get()], attempt, STREAM);
            let billionth = scale(draw, u64::from(Rate::WHOLE));
            slices.iter().find(|slice| billionth < u64::from(slice.below)).map(|slice| slice.fault)
        })
    }

    /// The first rule of the plan for which the attempt lies in a bad stretch.
    fn bursting(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        let about_it = self.bursts.iter().filter(|rule| rule.is_about(operation, order));
        // Numbered among those about the call: a rule at the end moves none before it.
        let mut rules = (BURST_STREAM..).zip(about_it);
        let strikes = |(stream, rule): &(u128, &Bursting)| {
            let draw =
                |attempt| draw(self.seed, operation, self.hashes[order.get()], attempt, *stream);
            rule.walk(operation, order).is_bad(rule.burst, attempt, draw)
        };
        rules.find(strikes).map(|(_, rule)| rule.fault)
    }

    fn slices(&self, operation: Operation, order: OrderIndex) -> &[Slice] {
        if !self.rates_of_order.is_empty()
            && let Some(own) = self.rates_of_order.get(&(order, operation))
        {
            return own;
        }
        match operation {
            Operation::GetOrder => &self.rates_of_all[0],
            Operation::Refund => &self.rates_of_all[1],
        }
    }

    /// The first scripted rule of the plan that names the call.
    fn scripted(&self, operation: Operation, order: OrderIndex, attempt: u32) -> Option<Fault> {
        if self.scripts_of_all.is_empty() && self.scripts_of_order.is_empty() {
            return None;
        }
        let own = self.scripts_of_order.get(&order).map_or(&[][..], Vec::as_slice);
        let first = |scripts: &[Scripted]| {
            let names = |script: &&Scripted| {
                script.on.includes(operation) && script.attempts.contains(attempt)
            };
            scripts.iter().find(names).map(|script| (script.place, script.fault))
        };
        let (of_all, of_order) = (first(&self.scripts_of_all), first(own));
        of_all.into_iter().chain(of_order).min_by_key(|(place, _)| *place).map(|(_, fault)| fault)
    }
}

/// The unit interval as the rate rules for one operation on one order divide it, in plan order.
fn slices(plan: &Plan, operation: Operation, order: Option<&OrderId>) -> Vec<Slice> {
    let mut below = 0;
    let mut slices = Vec::new();
    for rule in plan.rules() {
        let is_about =
            rule.on.includes(operation) && (rule.order.is_none() || rule.order.as_ref() == order);
        if let (true, Trigger::Rate(rate)) = (is_about, rule.trigger) {
            below += rate.billionths();
            slices.push(Slice { below, fault: rule.fault });
        }
    }
    slices
}
