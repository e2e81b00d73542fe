//! Answers that are on their way, and what becomes of them.

use std::mem;

use super::Bank;
use crate::{
    call::Sent,
    history::{CallIndex, CallRecord, Event, Silence},
};

/// An answer that its caller does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Unheard {
    pub(super) call: CallIndex,
    pub(super) record: CallRecord,
    /// What is written down once the caller has it.
    pub(super) event: Event,
}

impl Bank {
    /// Notes that the caller has an answer. To be told of one [on its way](Sent::is_on_its_way) before the last of it
    /// is handed over: then the caller's next call comes after it in the history too.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::{Bank, Ticket, call::Request, fault::{Fault, Plan}};
    ///
    /// let ticket = Ticket::generate(7);
    /// let order = &ticket.orders()[0];
    /// let plan = Plan::calm().script(format!("{} refund #1", order.id()).parse()?, Fault::SLOW)?;
    /// let mut bank = Bank::open(&ticket, plan);
    /// let request = Request::refund(order.id(), order.amount().into(), None);
    /// let sent = bank.send(&request);
    /// // The money has moved, but the caller does not know, and asks again.
    /// assert!(sent.is_on_its_way());
    /// bank.call(&request)?;
    /// bank.delivered(&sent);
    /// let grade = bank.grade("");
    /// assert_eq!(grade.extra_refunds(), 1);
    /// assert!(grade.to_json().contains("repeat_in_flight"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delivered(&mut self, sent: &Sent) {
        if let Some(unheard) = self.take_unheard(sent) {
            self.history.record(&unheard.record, unheard.event);
        }
    }

    /// Notes that the caller did not stay for an answer that was on its way.
    pub fn abandoned(&mut self, sent: &Sent) {
        if let Some(unheard) = self.take_unheard(sent) {
            self.note_left(&unheard);
        }
    }

    /// Notes, in the order of the calls, that nobody has the answers that are on their way.
    pub(super) fn abandon_all(&mut self) {
        for unheard in mem::take(&mut self.unheard).values() {
            self.note_left(unheard);
        }
    }

    /// None if it was told of already, or the run has ended.
    fn take_unheard(&mut self, sent: &Sent) -> Option<Unheard> {
        self.unheard.remove(&sent.on_its_way?.get())
    }

    fn note_left(&mut self, unheard: &Unheard) {
        self.history.record(&unheard.record, Event::Info(unheard.call, Silence::Left));
    }
}
