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

struct Tally<'a> {
    history: &'a History,
    armed: Vec<&'a Armed>,
    met: Vec<(String, u64)>,
    has_met_doubling: bool,
    /// Places of scripts (in `armed`, and in its list) that a call met.
    fired: BTreeSet<(usize, usize, Place)>,
    /// Whether a call came under the plan in force.
    has_call: bool,
    /// Calls per order that are unanswered, and not because their answer is withheld.
    unanswered: Vec<u32>,
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
            armed: vec![armed],
            met: Vec::new(),
            has_met_doubling: false,
            fired: BTreeSet::new(),
            // Of a history that is cut it cannot be told.
            has_call: history.is_cut(),
            unanswered: vec![0; orders],
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
            Event::Arrive(call, _) if self.history.call(*call).operation == Operation::GetOrder => {
                self.took_effect(*call);
            }
            Event::Fault(call, fault) => {
                if fault.is_slow() {
                    self.slow.insert(*call);
                }
                let record = self.history.call(*call);
                self.has_met_doubling |=
                    record.operation == Operation::Refund && fault.is_doubling();
                self.count(&fault.to_string());
                self.fire(record, &fault.to_string());
            }
            Event::Plan(change) => self.change_plan(&change.armed),
            _ => {}
        }
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
        self.armed.push(armed);
        self.has_call = self.history.is_cut();
    }

    fn count(&mut self, fault: &str) {
        match self.met.iter_mut().find(|(name, _)| name == fault) {
            Some((_, count)) => *count += 1,
            None => self.met.push((fault.to_owned(), 1)),
        }
    }

    /// Marks the first script that names the call, which is the one that struck.
    fn fire(&mut self, call: &CallRecord, fault: &str) {
        let plan = self.armed.len() - 1;
        let order = self.history.order_id(call.order);
        let is_it = |script: &Script| {
            script.on.includes(call.operation)
                && script.order.as_ref().is_none_or(|of| of == order)
                && script.attempts.contains(call.attempt)
        };
        let Some(place) = self.armed[plan].scripted.iter().position(is_it) else {
            return;
        };
        if self.armed[plan].scripted[place].fault == fault {
            self.fired.insert((plan, place, (Some(call.order), call.operation)));
        }
    }

    fn sum_up(mut self) -> Exposure {
        let mut fired = BTreeSet::new();
        let mut unfired = Vec::new();
        let mut groups: BTreeMap<(Option<&OrderId>, Place), bool> = BTreeMap::new();
        for (plan, armed) in self.armed.iter().enumerate() {
            for (place, script) in armed.scripted.iter().enumerate() {
                for at in self.places(script) {
                    let has_fired = self.fired.contains(&(plan, place, at));
                    *groups.entry((self.lacking(script), at)).or_default() |= has_fired;
                    let name = self.name(script, at);
                    if has_fired {
                        fired.insert(name);
                    } else if !unfired.contains(&name) {
                        unfired.push(name);
                    }
                }
            }
            unfired.extend(armed.unmatched.iter().cloned());
        }
        // A plan that came again may have fired what it did not fire before.
        unfired.retain(|name| !fired.contains(name));
        let has_armed = self.armed.iter().any(|armed| !armed.faults.is_empty());
        let has_armed_doubling = self.armed.iter().any(|armed| armed.is_doubling);
        let has_met_enough = if has_armed_doubling {
            self.has_met_doubling
        } else {
            !has_armed || !self.met.is_empty()
        };
        let is_exposed = has_met_enough && groups.values().all(|has_fired| *has_fired);
        self.sort();
        let overlapped =
            self.overlapped.iter().map(|order| self.history.order_id(*order).clone()).collect();
        Exposure { met: self.met, unfired, overlapped, is_exposed }
    }

    /// Puts the faults that were met into plan order, whatever order the calls came in.
    fn sort(&mut self) {
        let names: Vec<&String> = self.armed.iter().flat_map(|armed| &armed.faults).collect();
        self.met.sort_by_key(|(name, _)| {
            (names.iter().position(|known| *known == name).unwrap_or(usize::MAX), name.clone())
        });
    }

    /// Every order and operation that a script is about.
    fn places(&self, script: &Script) -> Vec<Place> {
        let orders = self.history.header().ticket.orders();
        let orders: Vec<Option<OrderIndex>> = match &script.order {
            Some(id) => vec![orders.iter().position(|order| order.id() == id).map(OrderIndex::new)],
            None => (0..orders.len()).map(|place| Some(OrderIndex::new(place))).collect(),
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
