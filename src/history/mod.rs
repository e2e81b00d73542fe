//! Every call, delivery, commit, replay and answer of a run, in order.
//!
//! A [`History`] is what the bank writes down and all that the grader reads. As JSON lines it can be
//! judged, and replayed, from disk. Its events bear no times and no addresses, so the same run gives
//! the same bytes.

mod line;
mod read;

pub use self::read::{HistoryError, ReadHistory};
use crate::{
    call::{CallId, Operation, RefusalCode},
    fault::{Attempts, Fault, FaultLog, On, Plan, PlanSettings, Rule, Told, Trigger},
    ledger::{Caller, IdempotencyKey, OrderIndex},
    money::Amount,
    seed::Seed,
    ticket::{OrderId, Ticket},
};

/// Events that a history keeps in memory unless told otherwise.
pub const EVENTS_MAX: usize = 4_000_000;

/// What the grader may know of a run beside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The task.
    pub ticket: Ticket,
    /// The seed.
    pub seed: Seed,
    /// How the bank behaves, apart from its faults.
    pub settings: PlanSettings,
    /// The faults to be expected.
    pub armed: Armed,
}

impl Header {
    /// The header of a run of `ticket` under `plan`.
    pub fn new(ticket: &Ticket, plan: &Plan) -> Self {
        Self {
            ticket: ticket.clone(),
            seed: plan.effective_seed(),
            settings: *plan.settings(),
            armed: Armed::new(ticket, plan),
        }
    }
}

/// The faults that a plan holds ready, by name, and its scripted calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// The names of the faults, in plan order.
    pub faults: Vec<String>,
    /// Whether one of them may make a caller without a key pay twice.
    pub is_doubling: bool,
    /// The scripted calls.
    pub scripted: Vec<Script>,
    /// Other rules for an order that the ticket lacks, in words.
    pub unmatched: Vec<String>,
}

/// Calls for which a plan scripts a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The operations.
    pub on: On,
    /// The order; every one of the ticket if none is named.
    pub order: Option<OrderId>,
    /// The attempts.
    pub attempts: Attempts,
    /// The fault's name.
    pub fault: String,
}

impl Armed {
    pub(crate) fn new(ticket: &Ticket, plan: &Plan) -> Self {
        let mut armed = Self::default();
        for rule in plan.rules().iter().filter(|rule| rule.is_armed()) {
            let name = rule.fault.to_string();
            // A stale read is armed here; whether it doubles shows when it hides something.
            let is_stale = matches!(rule.fault.told(), Told::Stale(_));
            let is_doubling = rule.fault.is_doubling() && rule.on.includes(Operation::Refund);
            armed.is_doubling |= is_stale || is_doubling;
            armed.add(ticket, rule, &name);
            if !armed.faults.contains(&name) {
                armed.faults.push(name);
            }
        }
        armed
    }

    fn add(&mut self, ticket: &Ticket, rule: &Rule, fault: &str) {
        let Rule { on, order, trigger, .. } = rule;
        match trigger {
            Trigger::Attempts(attempts) => self.scripted.push(Script {
                on: *on,
                order: order.clone(),
                attempts: *attempts,
                fault: fault.to_owned(),
            }),
            Trigger::Rate(_) | Trigger::Burst(_) => {
                if let Some(order) = order.as_ref().filter(|order| ticket.order(order).is_none()) {
                    let lacking =
                        on.operations().map(|operation| format!("{order} {operation} {fault}"));
                    self.unmatched.extend(lacking);
                }
            }
        }
    }
}

/// Place of a call in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallIndex(u32);

impl CallIndex {
    /// A call of which the history keeps nothing, since it was full.
    const DROPPED: Self = Self(u32::MAX);
}

/// What a call asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Number of the call in order of arrival, from 1.
    pub number: u64,
    /// What was asked.
    pub operation: Operation,
    /// About which order.
    pub order: OrderIndex,
    /// Number of the call among those of its operation on its order, from 1.
    pub attempt: u32,
    /// The refund asked for.
    pub amount: Option<Amount>,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Whose key it is.
    pub caller: Option<Caller>,
}

/// A request that was refused at the door, and so is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// Why.
    pub code: RefusalCode,
    /// What was asked, if that could be told.
    pub operation: Option<Operation>,
    /// About which order, if that could be told.
    pub order: Option<OrderId>,
}

/// What the plan was changed to in mid-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// How the bank behaves from here on, apart from its faults.
    pub settings: PlanSettings,
    /// The faults to be expected from here on.
    pub armed: Armed,
}

/// The end of a history that was cut: what its events no longer tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// Calls of the run.
    pub calls: u64,
    /// Per order, in the ticket's order: reads, refunds asked for, and refunds held.
    pub orders: Vec<(u32, u32, Vec<Amount>)>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A call came.
    Invoke(CallIndex),
    /// The injector did something to it.
    Fault(CallIndex, Fault),
    /// A delivery of it reached the ledger.
    Arrive(CallIndex, Delivery),
    /// A late delivery of it reached the ledger.
    Land(CallIndex, Delivery),
    /// A delivery of it moved money.
    Commit(CallIndex, Delivery, RefundNumber),
    /// The refund that it was accepted as has failed.
    Revert(CallIndex, RefundNumber),
    /// A delivery of it found its key bound: the answer is an earlier refund's.
    Replay(CallIndex, Delivery, Replayed),
    /// The ledger refused a delivery of it.
    Refuse(CallIndex, Delivery, RefusalCode),
    /// It was answered.
    Ok(CallIndex, Option<Shown>),
    /// It was answered that it did not happen.
    Fail(CallIndex, Failure),
    /// It was not answered: nobody can know.
    Info(CallIndex, Silence),
    /// A request was refused at the door.
    TurnedAway(Box<TurnedAway>),
    /// The plan was changed.
    Plan(Box<PlanChange>),
    /// The program under test was killed and started again.
    Crash,
    /// The program under test reported.
    Report(Box<str>),
    /// The run ended.
    Settle(Option<Box<Remainder>>),
}

impl Event {
    /// The call that it happened to.
    pub const fn call(&self) -> Option<CallIndex> {
        match self {
            Self::Invoke(call)
            | Self::Fault(call, _)
            | Self::Arrive(call, _)
            | Self::Land(call, _)
            | Self::Commit(call, ..)
            | Self::Revert(call, _)
            | Self::Replay(call, ..)
            | Self::Refuse(call, ..)
            | Self::Ok(call, _)
            | Self::Fail(call, _)
            | Self::Info(call, _) => Some(*call),
            _ => None,
        }
    }
}

/// Number of a delivery of a call, from 1.
pub type Delivery = u8;
/// Number of a refund on its order, from 1.
pub type RefundNumber = u32;

/// The refund whose answer was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Its order, which under `first_reply` may be another.
    pub order: OrderIndex,
    /// Its number on that order.
    pub number: RefundNumber,
}

/// What a read showed of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The refunds that it showed.
    pub refunds: u32,
    /// Commits of this run that a stale read left out.
    pub hidden: u32,
}

/// What a caller was told that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The service was unavailable.
    Unavailable,
    /// There were too many requests.
    RateLimited,
    /// The ledger refused.
    Refused(RefusalCode),
}

/// Why a caller heard nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The answer was lost, or there was none.
    Timeout,
    /// The caller had left.
    Left,
    /// The connection broke, or the answer was incomplete.
    Broken,
    /// Something went wrong inside, it was told.
    ServerError,
}

/// Every call, delivery, commit, replay and answer of a run, in order.
///
/// Two are equal if they tell the same; how much they might have kept is no part of it.
#[derive(Clone, Debug)]
pub struct History {
    header: Header,
    calls: Vec<CallRecord>,
    events: Vec<Event>,
    events_max: usize,
    call_count: u64,
    is_cut: bool,
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.calls == other.calls
            && self.events == other.events
            && self.call_count == other.call_count
            && self.is_cut == other.is_cut
    }
}

impl Eq for History {}

impl History {
    /// An empty history that keeps at most `events_max` events, and past them what a verdict needs: faults,
    /// and reads that hid a commit.
    pub fn new(header: Header, events_max: usize) -> Self {
        Self {
            header,
            calls: Vec::new(),
            events: Vec::new(),
            events_max,
            call_count: 0,
            is_cut: false,
        }
    }

    /// What the grader may know beside the events.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What a call asked for.
    pub fn call(&self, call: CallIndex) -> &CallRecord {
        &self.calls[call.0 as usize]
    }

    /// The name of a call.
    pub fn call_id(&self, call: CallIndex) -> CallId {
        let record = self.call(call);
        CallId {
            order: self.order_id(record.order).clone(),
            operation: record.operation,
            attempt: record.attempt,
        }
    }

    /// The name of an order.
    pub fn order_id(&self, order: OrderIndex) -> &OrderId {
        self.header.ticket.orders()[order.get()].id()
    }

    /// Calls of the run, kept or not.
    pub fn call_count(&self) -> u64 {
        self.call_count
    }

    /// Whether events are missing since the history was full.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The faulted calls of the run; none is ever missing.
    pub fn fault_log(&self) -> FaultLog {
        let faulted = self.events.iter().filter_map(|event| match event {
            Event::Fault(call, fault) => Some((self.call_id(*call), *fault)),
            _ => None,
        });
        FaultLog::new(self.header.seed, faulted.collect())
    }

    /// The plan that injects exactly the faults of this run, and no others.
    ///
    /// # Panics
    ///
    /// Never: a history that exists holds no fault on an operation that cannot have it.
    pub fn to_plan(&self) -> Plan {
        Plan::replay(&self.fault_log())
            .expect("a recorded fault was checked when it was injected or read")
            .with_settings(self.header.settings)
    }

    /// Writes down a call, and the fault that it meets; past the bound the fault alone.
    pub(crate) fn invoke(&mut self, mut call: CallRecord, fault: Option<Fault>) -> CallIndex {
        self.call_count += 1;
        let is_full = self.is_full();
        if is_full {
            if fault.is_none() {
                return CallIndex::DROPPED;
            }
            // Only its fault is written down, and what is kept is what can be read back.
            call = CallRecord { amount: None, key: None, caller: None, ..call };
        }
        let index = CallIndex(
            u32::try_from(self.calls.len()).expect("a history keeps fewer than 2^32 calls"),
        );
        self.calls.push(call);
        if !is_full {
            self.events.push(Event::Invoke(index));
        }
        if let Some(fault) = fault {
            self.events.push(Event::Fault(index, fault));
        }
        index
    }

    /// Writes down what happened to a call; past the bound no more than decides on the exposure.
    pub(crate) fn record(&mut self, call: CallIndex, event: Event) {
        let is_exposing = matches!(event, Event::Ok(_, Some(shown)) if shown.hidden > 0);
        if call != CallIndex::DROPPED && (!self.is_full() || is_exposing) {
            self.events.push(event);
        }
    }

    /// Writes down a request that was refused at the door.
    pub(crate) fn turn_away(&mut self, request: TurnedAway) {
        if !self.is_full() {
            self.events.push(Event::TurnedAway(Box::new(request)));
        }
    }

    /// Writes down what concerns the whole run, even past the bound.
    pub(crate) fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    fn is_full(&mut self) -> bool {
        self.is_cut |= self.events.len() >= self.events_max;
        self.is_cut
    }
}
