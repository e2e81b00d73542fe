//! What a history still counts when it is full.

use super::{CallRecord, Event, History};
use crate::{call::Operation, money::Amount, ticket::Ticket};

/// The calls of each order and the refunds that it holds, whether their events were kept or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    calls: u64,
    orders: Vec<OrderTotals>,
}

/// What there was of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderTotals {
    /// Reads.
    pub reads: u32,
    /// Refunds asked for.
    pub refunds_asked: u32,
    /// Its refunds by number, from 1; none in the place of one that has failed.
    pub refunds: Vec<Option<Amount>>,
}

impl OrderTotals {
    /// The refunds that the order holds, by number.
    pub fn held(&self) -> impl Iterator<Item = Amount> {
        self.refunds.iter().copied().flatten()
    }
}

impl Totals {
    pub(super) fn new(calls: u64, orders: Vec<OrderTotals>) -> Self {
        Self { calls, orders }
    }

    /// The totals of a run that has not begun.
    fn of_ticket(ticket: &Ticket) -> Self {
        let orders = ticket.orders().iter();
        let orders = orders.map(|order| OrderTotals {
            refunds: order.refunded().iter().copied().map(Some).collect(),
            ..OrderTotals::default()
        });
        Self::new(0, orders.collect())
    }

    /// What the events of a history come to.
    pub(super) fn of_events(history: &History) -> Self {
        let mut totals = Self::of_ticket(&history.header().ticket);
        for event in history.events() {
            if let Some(call) = event.call() {
                totals.take(event, history.call(call));
            }
        }
        totals
    }

    /// Calls of the run.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The totals of each order, in the ticket's order.
    pub fn orders(&self) -> &[OrderTotals] {
        &self.orders
    }

    /// Counts what happened to a call.
    pub(super) fn take(&mut self, event: &Event, call: &CallRecord) {
        let order = &mut self.orders[call.order.get()];
        match event {
            Event::Invoke(_) => {
                self.calls += 1;
                match call.operation {
                    Operation::GetOrder => order.reads += 1,
                    Operation::Refund => order.refunds_asked += 1,
                }
            }
            Event::Commit(..) => order.refunds.push(call.amount),
            Event::Revert(_, number) => {
                let place = (*number as usize).checked_sub(1);
                if let Some(refund) = place.and_then(|place| order.refunds.get_mut(place)) {
                    *refund = None;
                }
            }
            _ => {}
        }
    }
}
