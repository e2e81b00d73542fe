//! Programs that decide what to refund, in the place of a language model.
//!
//! An agent is a plain state machine: [`Careful::turn`] gives a batch of [`ToolCall`]s or the final
//! report, and [`Careful::answered`] takes what came of each call. It sends nothing itself, and it knows
//! nothing of retries and keys: those are its harness's.

mod careful;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::careful::Careful;
use crate::{money::Amount, ticket::OrderId};

/// What an agent does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A batch of calls, to be sent one after the other; at most one for an order.
    Calls(Vec<ToolCall>),
    /// The final report. There are no turns after it.
    Report(String),
}

/// A call as the agent wrote it: one intent, however often its harness sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Its name; no other call of this agent has it.
    pub id: ToolCallId,
    /// The order that the call is about.
    pub order: OrderId,
    /// What to do with the order.
    pub action: Action,
    /// What the call is for, however often the agent writes it anew: `refund:A-1`, or `refund:A-1/2` for
    /// the second of several refunds that are expected of the order.
    pub intent: String,
    /// Where the agent keeps what it knows of the order.
    task: usize,
}

/// What a tool call does with its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read it and its refunds.
    GetOrder,
    /// Move this amount back to the buyer.
    Refund(Amount),
}

/// The name of a tool call, such as `call-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolCallId(u32);

impl ToolCallId {
    /// The `number`-th call that an agent writes, from 1.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Which call of its agent it is, from 1.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call-{}", self.0)
    }
}
