//! Intents that are written down before anybody acts on them, so that none is lost in a crash.
//!
//! The writer puts an intent in, in the same transaction as whatever gives rise to it; a worker drains the
//! box. A worker that dies between the act and [`Outbox::done`] finds the intent there again: it acts **at
//! least once**, and only the intent as the key of the act makes that once.
//!
//! An outbox in memory is lost with its process. It is a document, to be saved wherever its writer commits.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::DeadLetter;
use crate::call::CallError;

/// Intents and their acts, in the order in which they were written; serde saves and loads it.
///
/// # Examples
///
/// ```
/// use badbank::{Bank, Ticket, call::CallError, fault::{Fault, Plan}, harness::{DeadLetter, Outbox}};
///
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let lost_reply = format!("{} refund #1", order.id()).parse()?;
/// let mut bank = Bank::open(&ticket, Plan::calm().script(lost_reply, Fault::TIMEOUT)?);
///
/// let mut outbox = Outbox::default();
/// outbox.write(format!("refund:{}", order.id()), order.amount());
/// let mut dead = DeadLetter::after(3);
/// let act = |key: &str, amount: &_| bank.refund(order.id(), *amount, Some(key)).map(drop);
/// assert_eq!(outbox.drain(&mut dead, act), 1);
/// // It was sent twice, and paid once.
/// assert_eq!(bank.ledger().accounts()[0].refunds().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outbox<T> {
    open: VecDeque<(String, T)>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { open: VecDeque::new() }
    }
}

impl<T> Outbox<T> {
    /// Writes an intent down; one that is already there is not written twice, and its act stays.
    ///
    /// Says whether it is new.
    pub fn write(&mut self, intent: impl Into<String>, act: T) -> bool {
        let intent = intent.into();
        let is_new = self.open.iter().all(|(known, _)| *known != intent);
        if is_new {
            self.open.push_back((intent, act));
        }
        is_new
    }

    /// The oldest intent and its act; it stays until it is done.
    pub fn next(&self) -> Option<(&str, &T)> {
        self.open.front().map(|(intent, act)| (intent.as_str(), act))
    }

    /// Strikes an intent out: its act is known to have happened, or somebody else looks after it.
    pub fn done(&mut self, intent: &str) -> Option<T> {
        let place = self.open.iter().position(|(known, _)| known == intent)?;
        self.open.remove(place).map(|(_, act)| act)
    }

    /// Intents that are not done.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether everything is done.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The oldest intent that is not set aside, and its act: what a worker acts on next.
    pub fn next_open(&self, dead: &DeadLetter) -> Option<(&str, &T)> {
        let mut entries = self.open.iter().map(|(intent, act)| (intent.as_str(), act));
        entries.find(|(intent, _)| !dead.is_set_aside(intent))
    }

    /// Takes what came of an act: strikes its intent out, or puts it at the end, where it holds up nobody.
    ///
    /// `dead` counts the failures, and none of an intent that somebody else has struck out in the meantime.
    /// Says whether this act has done it.
    pub fn conclude<A>(
        &mut self,
        intent: &str,
        outcome: &Result<A, CallError>,
        dead: &mut DeadLetter,
    ) -> bool {
        let Some(act) = self.done(intent) else {
            return false;
        };
        dead.note(intent, outcome);
        if outcome.is_err() {
            self.open.push_back((intent.to_owned(), act));
        }
        outcome.is_ok()
    }

    /// Acts on every intent, which is handed in as the key, until all are done or set aside.
    ///
    /// What fails comes round again, until `dead` sets it aside for a person. Gives how many were done; those
    /// set aside stay in the box.
    pub fn drain(
        &mut self,
        dead: &mut DeadLetter,
        mut act: impl FnMut(&str, &T) -> Result<(), CallError>,
    ) -> usize {
        let before = self.len();
        while let Some((intent, payload)) = self.next_open(dead) {
            let (outcome, intent) = (act(intent, payload), intent.to_owned());
            self.conclude(&intent, &outcome, dead);
        }
        before - self.len()
    }
}
