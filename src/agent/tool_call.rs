//! A call as an agent writes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    money::{Amount, Currency},
    ticket::OrderId,
};

/// A call as the agent wrote it: one intent, however often its harness sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How the agent words the call.
    pub wording: Wording,
    pub(super) currency: Currency,
    /// Where the agent keeps what it knows of the order.
    pub(super) task: usize,
}

impl ToolCall {
    /// The arguments as the agent wrote them, in JSON.
    pub fn arguments(&self) -> String {
        self.worded(self.wording)
    }

    /// The arguments as everybody would write them, whatever their wording: what they mean.
    pub fn canonical_arguments(&self) -> String {
        self.worded(Wording::FIRST)
    }

    /// The key that the agent gives a refund, where it is asked for one: its own words for the intent. Worded anew,
    /// they are others.
    pub fn chosen_key(&self) -> String {
        match self.wording.0 {
            0 => self.intent.clone(),
            1 => self.intent.replace(':', "-"),
            _ => self.intent.replace(':', "_"),
        }
    }

    fn worded(&self, Wording(wording): Wording) -> String {
        let order = &self.order;
        let Action::Refund(amount) = self.action else {
            return format!(r#"{{"order":"{order}"}}"#);
        };
        let full = amount.display(self.currency).to_string();
        let short = match full.split_once('.') {
            Some(_) => full.trim_end_matches('0').trim_end_matches('.'),
            None => &full,
        };
        match wording {
            0 => format!(r#"{{"order":"{order}","amount":"{full}"}}"#),
            1 => format!(r#"{{"amount":"{short}","order":"{order}"}}"#),
            _ => format!(r#"{{"order": "{order}", "amount": {short}}}"#),
        }
    }
}

/// What a tool call does with its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read it and its refunds.
    GetOrder,
    /// Move this amount back to the buyer.
    Refund(Amount),
}

/// How a call is worded: there are several ways to write the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wording(u32);

impl Wording {
    /// The plain one.
    pub const FIRST: Self = Self(0);

    /// The wording of a call that was written so often before.
    pub(crate) const fn after(calls: u32) -> Self {
        Self(calls)
    }
}

/// The name of a tool call, such as `call-1`; in a further life of its agent, such as `call-2-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolCallId {
    life: u32,
    number: u32,
}

impl ToolCallId {
    /// The `number`-th call that an agent writes, from 1, in its first life.
    pub const fn new(number: u32) -> Self {
        Self { life: 1, number }
    }

    /// The call of the same number in another life, from 1.
    #[must_use]
    pub const fn in_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// Which call of its agent it is, from 1.
    pub const fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.life {
            1 => write!(f, "call-{}", self.number),
            life => write!(f, "call-{life}-{}", self.number),
        }
    }
}
