//! Programs that decide what to refund, in the place of a language model.
//!
//! An [`Agent`] is a plain state machine: [`Agent::turn`] gives a batch of [`ToolCall`]s or the final report, and
//! [`Agent::answered`] takes what came of each call. It sends nothing itself, and it knows nothing of retries:
//! those are its harness's. All that it knows can be saved and read back, so that it outlives its process.
//!
//! Agents differ in their [`Manner`] alone: what they do after an error, and how they word a call. Whatever the
//! manner:
//!
//! - It reads all orders in one batch ([`Manner::Hasty`] does not); a read that fails is sent again in the next, up
//!   to 25 times in a row.
//! - Then it refunds, in one batch, one of what remains on each order.
//! - It sends three refund calls for each expected refund at the most, and then reports.
//!
//! What remains on an order is what the ticket expects without the refunds that the last read showed and
//! those that have succeeded since. Orders of which the ticket expects nothing are left alone.

mod manner;
mod task;
#[cfg(test)]
mod tests;
mod tool_call;

use serde::{Deserialize, Serialize};

use self::task::{Claim, Task};
pub use self::{
    manner::{Manner, MannerError},
    tool_call::{Action, ToolCall, ToolCallId, Wording},
};
use crate::{
    call::{Answer, Reply},
    ticket::Ticket,
};

/// What an agent does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A batch of calls, to be sent one after the other; at most one for an order.
    Calls(Vec<ToolCall>),
    /// The final report. There are no turns after it.
    Report(String),
}

/// An agent in the middle of its work.
///
/// # Examples
///
/// ```
/// use badbank::{Ticket, agent::{Action, Agent, Manner, Turn}};
///
/// let ticket = Ticket::parse(r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#)?;
/// let Turn::Calls(calls) = Agent::new(Manner::Careful, &ticket).turn() else { unreachable!() };
/// assert_eq!(calls[0].id.to_string(), "call-1");
/// assert_eq!(calls[0].action, Action::GetOrder); // no money moves before the order is known
///
/// let Turn::Calls(calls) = Agent::new(Manner::Hasty, &ticket).turn() else { unreachable!() };
/// assert_eq!(calls[0].arguments(), r#"{"order":"A-1","amount":"42.50"}"#); // it pays at once
/// # Ok::<(), badbank::DocumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    manner: Manner,
    tasks: Vec<Task>,
    life: u32,
    calls: u32,
}

impl Agent {
    /// An agent that has just been given `ticket`.
    pub fn new(manner: Manner, ticket: &Ticket) -> Self {
        let asked = ticket.orders().iter().filter(|order| !order.expect().is_empty());
        let tasks = asked.map(|order| Task::new(manner, order)).collect();
        Self { manner, tasks, life: 1, calls: 0 }
    }

    /// How it goes about its work.
    pub fn manner(&self) -> Manner {
        self.manner
    }

    /// Tells the agent which process it is in, from 1: it gives no call the id of one of another life.
    ///
    /// A model names its calls at random. An agent whose names follow from its state would, taken back to an
    /// older one, give new calls the names of those that it has forgotten.
    pub fn begin_life(&mut self, life: u32) {
        self.life = life;
    }

    /// Which process it is in.
    pub(crate) fn life(&self) -> u32 {
        self.life
    }

    /// Whether a call can be one of its own: it has the task that the call is a part of.
    pub(crate) fn is_author_of(&self, call: &ToolCall) -> bool {
        self.tasks.get(call.task).is_some_and(|task| *task.order() == call.order)
    }

    /// The next batch, or the report once there is nothing left to do.
    ///
    /// Reads come first: as long as an order has to be read, a batch holds only such reads. A call that
    /// nobody answers counts as one that may have happened.
    pub fn turn(&mut self) -> Turn {
        let mut calls = self.batch(|task| task.needs_read().then_some(Action::GetOrder));
        if calls.is_empty() {
            let manner = self.manner;
            calls = self.batch(|task| task.pay(manner));
        }
        if calls.is_empty() { Turn::Report(self.report()) } else { Turn::Calls(calls) }
    }

    /// Takes what came of a call of the last batch.
    ///
    /// # Panics
    ///
    /// If a read is answered as a refund, or a refund as a read.
    pub fn answered(&mut self, call: &ToolCall, answer: &Answer) {
        let manner = self.manner;
        let task = &mut self.tasks[call.task];
        match (call.action, answer) {
            (Action::GetOrder, Ok(Reply::Order(order))) => task.read(&order.held()),
            (Action::GetOrder, Err(error)) => task.read_failed(manner, error),
            (Action::Refund(amount), Ok(Reply::Refunded(refund))) => {
                task.paid(manner, amount, refund.number as usize);
            }
            (Action::Refund(_), Err(error)) => task.refund_failed(manner, error),
            (action, Ok(reply)) => panic!("{action:?} was answered with {reply:?}"),
        }
    }

    /// One call for each order for which `choose` has an action, in the ticket's order.
    fn batch(&mut self, mut choose: impl FnMut(&mut Task) -> Option<Action>) -> Vec<ToolCall> {
        let mut batch = Vec::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            if let Some(action) = choose(task) {
                self.calls += 1;
                batch.push(ToolCall {
                    id: ToolCallId::new(self.calls).in_life(self.life),
                    order: task.order().clone(),
                    action,
                    intent: task.intent(),
                    wording: task.wording(self.manner),
                    currency: task.currency(),
                    task: index,
                });
            }
        }
        batch
    }

    fn report(&self) -> String {
        let line = |claim: Claim| {
            let claimed = self.tasks.iter().filter(|task| task.claim() == claim);
            let orders: Vec<&str> = claimed.map(|task| task.order().as_str()).collect();
            let orders = if orders.is_empty() { "none".to_owned() } else { orders.join(", ") };
            format!("{}: {orders}\n", claim.as_str())
        };
        Claim::ALL.into_iter().map(line).collect()
    }
}
