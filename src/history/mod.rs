//! Every call, delivery, commit, replay and answer of a run, in order.
//!
//! A [`History`] is what the bank writes down and all that the grader reads. As JSON lines it can be
//! judged, and replayed, from disk. Its events bear no times and no addresses, so the same run gives
//! the same bytes.

mod event;
mod header;
mod line;
mod read;
mod stream;
mod totals;

use self::stream::Stream;
pub use self::{
    event::{
        CallIndex, CallRecord, Delivery, Event, Failure, PlanChange, RefundNumber, Replayed, Shown,
        Silence, TurnedAway,
    },
    header::{Armed, Header, Script},
    read::{HistoryError, ReadHistory},
    totals::{OrderTotals, Totals},
};
use crate::{
    call::CallId,
    fault::{Fault, FaultLog, Plan},
    ledger::OrderIndex,
    ticket::OrderId,
};

/// Events that a history keeps in memory unless told otherwise.
pub const EVENTS_MAX: usize = 4_000_000;

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
    /// What the events no longer tell, if they are cut and that is known.
    totals: Option<Box<Totals>>,
    stream: Option<Stream>,
}

/// What becomes of an event in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Keeps,
    Forgets,
}

impl Memory {
    const fn unless(is_lost: bool) -> Self {
        if is_lost { Self::Forgets } else { Self::Keeps }
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
            && self.calls == other.calls
            && self.events == other.events
            && self.call_count == other.call_count
            && self.is_cut == other.is_cut
            && self.totals == other.totals
    }
}

impl Eq for History {}

impl History {
    /// An empty history that keeps at most `events_max` events, and past them what a verdict needs: faults,
    /// reads that hid a commit, and [totals](Totals).
    pub fn new(header: Header, events_max: usize) -> Self {
        Self {
            header,
            calls: Vec::new(),
            events: Vec::new(),
            events_max,
            call_count: 0,
            is_cut: false,
            totals: None,
            stream: None,
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
        self.header.order_id(order)
    }

    /// Calls of the run, kept or not.
    pub fn call_count(&self) -> u64 {
        self.call_count
    }

    /// Calls and refunds of each order, kept or not.
    pub fn totals(&self) -> Totals {
        self.totals.as_deref().cloned().unwrap_or_else(|| Totals::of_events(self))
    }

    /// Whether events are missing since the history was full.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the run is over.
    pub fn has_ended(&self) -> bool {
        matches!(self.events.last(), Some(Event::Settle))
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
    pub(crate) fn invoke(&mut self, call: &CallRecord, fault: Option<Fault>) -> CallIndex {
        self.call_count += 1;
        let is_full = self.is_full();
        let index = match (is_full, fault) {
            (false, _) => self.keep(call.clone()),
            (true, None) => CallIndex::DROPPED,
            // Only its fault is written down, and what is kept is what can be read back.
            (true, Some(_)) => {
                self.keep(CallRecord { amount: None, key: None, caller: None, ..call.clone() })
            }
        };
        self.write(Event::Invoke(index), Some(call), Memory::unless(is_full));
        if let Some(fault) = fault {
            self.write(Event::Fault(index, fault), Some(call), Memory::Keeps);
        }
        index
    }

    fn keep(&mut self, call: CallRecord) -> CallIndex {
        let index = u32::try_from(self.calls.len()).expect("a history keeps fewer than 2^32 calls");
        self.calls.push(call);
        CallIndex(index)
    }

    /// Writes down what happened to a call; past the bound no more than decides on the exposure.
    pub(crate) fn record(&mut self, call: &CallRecord, event: Event) {
        let is_exposing = matches!(event, Event::Ok(_, Some(shown)) if shown.hidden > 0);
        let is_dropped = event.call() == Some(CallIndex::DROPPED);
        let is_lost = is_dropped || (self.is_full() && !is_exposing);
        self.write(event, Some(call), Memory::unless(is_lost));
    }

    /// Writes down a request that was refused at the door.
    pub(crate) fn turn_away(&mut self, request: TurnedAway) {
        let memory = Memory::unless(self.is_full());
        self.write(Event::TurnedAway(Box::new(request)), None, memory);
    }

    /// Writes down what concerns the whole run, even past the bound.
    pub(crate) fn note(&mut self, event: Event) {
        self.write(event, None, Memory::Keeps);
    }

    fn write(&mut self, event: Event, call: Option<&CallRecord>, memory: Memory) {
        if let (Some(totals), Some(call)) = (&mut self.totals, call) {
            totals.take(&event, call);
        }
        if self.stream.is_some() {
            self.stream_on(&event, call, memory);
        }
        if memory == Memory::Keeps {
            self.events.push(event);
        }
    }

    fn is_full(&mut self) -> bool {
        if !self.is_cut && self.events.len() >= self.events_max {
            self.totals = Some(Box::new(Totals::of_events(self)));
            self.is_cut = true;
        }
        self.is_cut
    }
}
