//! Whether a run met the faults that its plan held ready.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    call::Operation,
    history::{Armed, CallIndex, CallRecord, Event, History, Script},
    ledger::OrderIndex,
    ticket::OrderId,
};

/// Which faults were met, and whether those are enough for the run to show something.
#[derive(Debug)]
pub(super) struct Exposure {
    /// Calls that met each fault.
    pub(super) met: Vec<(String, u64)>,
    /// Scripted faults that no call met.
    pub(super) unfired: Vec<String>,
    /// Orders on which a call came while another was unanswered.
    pub(super) overlapped: Vec<OrderId>,
    pub(super) is_exposed: bool,
}

/// Measures the exposure of a run.
pub(super) fn measure(history: &History) -> Exposure {
    let mut tally = Tally::new(history);
    for event in history.events() {
        tally.take(event);
    }
    tally.sum_up()
}

/// The scripted calls of one operation on one order.
type Place = (Option<OrderIndex>, Operation);

/// What a plan arms.
struct Ready<'a> {
    armed: &'a Armed,
    /// Places of its scripts by the order that they name, if they name one.
    scripts: BTreeMap<Option<&'a OrderId>, Vec<usize>>,
}

impl<'a> Ready<'a> {
    fn new(armed: &'a Armed) -> Self {
        let mut scripts: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, script) in armed.scripted.iter().enumerate() {
            scripts.entry(script.order.as_ref()).or_default().push(place);
        }
        Self { armed, scripts }
    }

    /// The first script that names a call, which is the one that struck, and its place.
    fn striking(&self, call: &CallRecord, order: &OrderId) -> Option<(usize, &'a Script)> {
        let names = |(_, script): &(usize, &Script)| {
            script.on.includes(call.operation) && script.attempts.contains(call.attempt)
        };
        let first = |order: Option<&OrderId>| {
            let places = self.scripts.get(&order)?.iter();
            places.map(|place| (*place, &self.armed.scripted[*place])).find(names)
        };
        [first(None), first(Some(order))].into_iter().flatten().min_by_key(|(place, _)| *place)
    }
}

struct Tally<'a> {
    history: &'a History,
    armed: Vec<Ready<'a>>,
    met: BTreeMap<String, u64>,
    has_met_doubling: bool,
    /// Places of scripts (in `armed`, and in its list) that a call met.
    fired: BTreeSet<(usize, usize, Place)>,
    /// Whether a call came under the plan in force.
    has_call: bool,
    /// Calls per order that are unanswered, and not because their answer is withheld.
    unanswered: Vec<u32>,
    /// Whether calls have no latency.
    is_instant: bool,
    /// Calls whose answer takes its time once they have had their effect.
    slow: BTreeSet<CallIndex>,
    /// Of these, those that have had it and are not answered.
    withheld: BTreeSet<CallIndex>,
    overlapped: BTreeSet<OrderIndex>,
}

impl<'a> Tally<'a> {
    fn new(history: &'a History) -> Self {
        let armed = &history.header().armed;
        let orders = history.header().ticket.orders().len();
        Self {
            history,
            armed: vec![Ready::new(armed)],
            met: BTreeMap::new(),
            has_met_doubling: false,
            fired: BTreeSet::new(),
            // Of a history that is cut it cannot be told.
            has_call: history.is_cut(),
            unanswered: vec![0; orders],
            is_instant: history.header().settings.latency_ms == 0,
            slow: BTreeSet::new(),
            withheld: BTreeSet::new(),
            overlapped: BTreeSet::new(),
        }
    }

    fn take(&mut self, event: &'a Event) {
        match event {
            Event::Invoke(call) => {
                self.has_call = true;
                let order = self.history.call(*call).order;
                let unanswered = &mut self.unanswered[order.get()];
                *unanswered += 1;
                if *unanswered > 1 {
                    self.overlapped.insert(order);
                }
            }
            Event::Ok(call, _) | Event::Fail(call, _) | Event::Info(call, _) => {
                // A stale read doubles only if it hid something.
                self.has_met_doubling |=
                    matches!(event, Event::Ok(_, Some(shown)) if shown.hidden > 0);
                if !self.withheld.remove(call) {
                    self.answered(*call);
                }
            }
            Event::Commit(call, 1, _) | Event::Replay(call, 1, _) | Event::Refuse(call, 1, _) => {
                self.took_effect(*call);
            }
            // With latency nothing tells when a read has had its effect.
            Event::Arrive(call, _) if self.is_instant && self.is_read(*call) => {
                self.took_effect(*call);
            }
            Event::Fault(call, fault) => {
                if fault.is_slow() {
                    self.slow.insert(*call);
                }
                let record = self.history.call(*call);
                self.has_met_doubling |=
                    record.operation == Operation::Refund && fault.is_doubling();
                let fault = fault.to_string();
                self.fire(record, &fault);
                *self.met.entry(fault).or_default() += 1;
            }
            Event::Plan(change) => {
                self.is_instant = change.settings.latency_ms == 0;
                self.change_plan(&change.armed);
            }
            _ => {}
        }
    }

    fn is_read(&self, call: CallIndex) -> bool {
        self.history.call(call).operation == Operation::GetOrder
    }

    /// From here on the answer to a slow call is withheld.
    fn took_effect(&mut self, call: CallIndex) {
        if self.slow.remove(&call) {
            self.withheld.insert(call);
            self.answered(call);
        }
    }

    fn answered(&mut self, call: CallIndex) {
        let unanswered = &mut self.unanswered[self.history.call(call).order.get()];
        *unanswered = unanswered.saturating_sub(1);
    }

    /// Takes in what another plan arms. One under which no call came has held nothing ready for any.
    fn change_plan(&mut self, armed: &'a Armed) {
        if !self.has_call {
            self.armed.pop();
        }
        self.armed.push(Ready::new(armed));
        self.has_call = self.history.is_cut();
    }

    /// Marks the script that struck.
    fn fire(&mut self, call: &CallRecord, fault: &str) {
        let plan = self.armed.len() - 1;
        let striking = self.armed[plan].striking(call, self.history.order_id(call.order));
        if let Some((place, _)) = striking.filter(|(_, script)| script.fault == fault) {
            self.fired.insert((plan, place, (Some(call.order), call.operation)));
        }
    }

    fn sum_up(mut self) -> Exposure {
        if !self.has_call && self.armed.len() > 1 {
            self.armed.pop();
        }
        let mut fired = BTreeSet::new();
        let mut unfired = Vec::new();
        let mut listed = BTreeSet::new();
        let mut groups: BTreeMap<(Option<&OrderId>, Place), bool> = BTreeMap::new();
        for (plan, Ready { armed, .. }) in self.armed.iter().enumerate() {
            for (place, script) in armed.scripted.iter().enumerate() {
                let lacking = self.lacking(script);
                for at in self.places(script) {
                    let has_fired = self.fired.contains(&(plan, place, at));
                    *groups.entry((lacking, at)).or_default() |= has_fired;
                    let name = self.name(script, at);
                    if has_fired {
                        fired.insert(name);
                    } else if listed.insert(name.clone()) {
                        unfired.push(name);
                    }
                }
            }
            let unmatched = armed.unmatched.iter().filter(|name| listed.insert((*name).clone()));
            unfired.extend(unmatched.cloned());
        }
        // A plan that came again may have fired what it did not fire before.
        unfired.retain(|name| !fired.contains(name));
        let mut armed = self.armed.iter().map(|ready| ready.armed);
        let has_armed = armed.clone().any(|armed| !armed.faults.is_empty());
        let has_armed_doubling = armed.any(|armed| armed.is_doubling);
        let has_met_enough = if has_armed_doubling {
            self.has_met_doubling
        } else {
            !has_armed || !self.met.is_empty()
        };
        let is_exposed = has_met_enough && groups.values().all(|has_fired| *has_fired);
        let overlapped =
            self.overlapped.iter().map(|order| self.history.order_id(*order).clone()).collect();
        Exposure { met: self.met(), unfired, overlapped, is_exposed }
    }

    /// The faults that were met in plan order, whatever order the calls came in.
    fn met(&self) -> Vec<(String, u64)> {
        let names = self.armed.iter().flat_map(|ready| &ready.armed.faults);
        let mut places = BTreeMap::new();
        for (place, name) in names.enumerate() {
            places.entry(name).or_insert(place);
        }
        let mut met: Vec<(String, u64)> =
            self.met.iter().map(|(name, count)| (name.clone(), *count)).collect();
        met.sort_by_key(|(name, _)| places.get(name).copied().unwrap_or(usize::MAX));
        met
    }

    /// Every order and operation that a script is about.
    fn places(&self, script: &Script) -> Vec<Place> {
        let ticket = &self.history.header().ticket;
        let orders: Vec<Option<OrderIndex>> = match &script.order {
            Some(id) => vec![ticket.place(id).map(OrderIndex::new)],
            None => (0..ticket.orders().len()).map(|place| Some(OrderIndex::new(place))).collect(),
        };
        orders
            .iter()
            .flat_map(|order| script.on.operations().map(|operation| (*order, operation)))
            .collect()
    }

    /// A scripted fault at a place, in words.
    fn name(&self, script: &Script, at: Place) -> String {
        let order = script.order.as_ref().unwrap_or_else(|| {
            let place = at.0.expect("a script without an order is at each order of the ticket");
            self.history.order_id(place)
        });
        format!("{order} {} #{} {}", at.1, script.attempts, script.fault)
    }

    /// The order of a script, if the ticket lacks it.
    fn lacking<'b>(&self, script: &'b Script) -> Option<&'b OrderId> {
        script.order.as_ref().filter(|order| self.history.header().ticket.order(order).is_none())
    }
}
