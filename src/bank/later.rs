//! What happens on an order a number of calls later.

use std::{collections::BTreeMap, mem};

use crate::{history::CallRecord, ledger::OrderIndex};

/// Things that wait for further calls on the orders of the calls that they come from.
#[derive(Clone, Debug)]
pub(super) struct Later<T> {
    by_order: BTreeMap<OrderIndex, Vec<Waiting<T>>>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    /// Number of the call that it comes from.
    number: u64,
    /// Further calls until it is due.
    due_after: u32,
    thing: T,
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self { by_order: BTreeMap::new() }
    }
}

impl<T> Later<T> {
    /// Lets a thing that comes from `call` wait for so many further ones.
    pub(super) fn put(&mut self, call: &CallRecord, due_after: u32, thing: T) {
        let waiting = self.by_order.entry(call.order).or_default();
        waiting.push(Waiting { number: call.number, due_after, thing });
    }

    /// Counts a further call on its order, and gives what is due by it, in the order of the calls.
    pub(super) fn due(&mut self, further: &CallRecord) -> Vec<T> {
        let Some(waiting) = self.by_order.get_mut(&further.order) else {
            return Vec::new();
        };
        for waiting in waiting.iter_mut().filter(|waiting| waiting.number < further.number) {
            waiting.due_after -= 1;
        }
        let mut due: Vec<Waiting<T>> =
            waiting.extract_if(.., |waiting| waiting.due_after == 0).collect();
        if waiting.is_empty() {
            self.by_order.remove(&further.order);
        }
        due.sort_by_key(|waiting| waiting.number);
        due.into_iter().map(|waiting| waiting.thing).collect()
    }

    /// What waits for calls on an order.
    pub(super) fn of(&self, order: OrderIndex) -> impl Iterator<Item = &T> {
        self.by_order.get(&order).into_iter().flatten().map(|waiting| &waiting.thing)
    }

    /// All that still waits, order by order.
    pub(super) fn take(&mut self) -> Vec<T> {
        let rest = mem::take(&mut self.by_order).into_values().flatten();
        rest.map(|waiting| waiting.thing).collect()
    }
}
