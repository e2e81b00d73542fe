//! Programs that die and are started again.
//!
//! A [`Runner`] saves a [`Checkpoint`] after every step; with [`Recovery::WriteAhead`] it also saves the calls of
//! a step, with their ids, before it sends the first of them. A program that is started again goes on from what was
//! saved: what it did after that, it no longer knows. Where it dies, a [`Crash`] says.
//!
//! Each start is a life, numbered from 1, and saves its number before anything else: the calls that it writes have
//! ids that no other life has given, in whatever process that was.

mod runner;
mod store;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize, de::Error as _};
use siphasher::sip128::SipHasher13;

pub use self::{
    runner::{Ending, Program, Runner},
    store::{FileStore, MemoryStore, Store},
};
use crate::{
    agent::{Agent, Manner, ToolCall},
    ticket::{Ticket, TicketId},
};

/// What a program needs to go on where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    version: u32,
    ticket: TicketId,
    /// A hash of the whole ticket: its name may be that of another.
    ticket_hash: String,
    /// The agent, with all that it knows.
    pub agent: Agent,
    /// The calls that the agent has written and that were not answered yet; saved by write-ahead alone.
    pub pending: Vec<ToolCall>,
    /// Steps that are over: turns of the agent whose calls were all answered.
    pub steps: u32,
}

impl Checkpoint {
    /// The version that this badbank reads and writes.
    const VERSION: u32 = 1;

    /// Before the first step.
    pub fn new(manner: Manner, ticket: &Ticket) -> Self {
        Self {
            version: Self::VERSION,
            ticket: ticket.id().clone(),
            ticket_hash: hash(ticket),
            agent: Agent::new(manner, ticket),
            pending: Vec::new(),
            steps: 0,
        }
    }

    /// Reads a checkpoint of a run of `ticket`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Damaged`] for what is no checkpoint of this version, [`CheckpointError::OtherTicket`]
    /// for one of another task, also if that has the same name.
    pub fn parse(text: &str, ticket: &Ticket) -> Result<Self, CheckpointError> {
        let checkpoint: Self = serde_json::from_str(text)?;
        if checkpoint.version != Self::VERSION {
            return Err(CheckpointError::Version { version: checkpoint.version });
        }
        if checkpoint.ticket != *ticket.id() || checkpoint.ticket_hash != hash(ticket) {
            let (found, wanted) = (checkpoint.ticket, ticket.id().clone());
            return Err(CheckpointError::OtherTicket { found, wanted });
        }
        if !checkpoint.pending.iter().all(|call| checkpoint.agent.is_author_of(call)) {
            return Err(
                serde_json::Error::custom("the agent has no task for a pending call").into()
            );
        }
        Ok(checkpoint)
    }

    /// The checkpoint as JSON.
    ///
    /// # Panics
    ///
    /// Never: a checkpoint has no map whose keys are not strings.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a checkpoint has no map whose keys are not strings")
    }
}

/// SipHash-1-3-128 of a ticket as JSON, key 0.
fn hash(ticket: &Ticket) -> String {
    let hash = SipHasher13::new().hash(ticket.to_json().as_bytes());
    format!("{:016x}{:016x}", hash.h1, hash.h2)
}

/// Why a checkpoint was not saved, or cannot be gone on from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The store did not take it, or did not give it back.
    #[error("the checkpoint {path} is out of reach")]
    Store {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// It is no checkpoint.
    #[error("the checkpoint is damaged")]
    Damaged(#[from] serde_json::Error),
    /// It was written by another badbank.
    #[error("checkpoint version {version} is not known; this badbank reads version 1")]
    Version {
        /// The version that it names.
        version: u32,
    },
    /// It is one of another task.
    #[error("the checkpoint is of {}ticket {found}, not of {wanted}", if found == wanted { "another " } else { "" })]
    OtherTicket {
        /// The ticket that it names; another one may have the same name.
        found: TicketId,
        /// The ticket at hand.
        wanted: TicketId,
    },
}

/// How a program that died is taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It begins anew, and knows nothing but how often it was started.
    Restart,
    /// From the end of the last step that was saved: what was sent after that, it does not know of.
    Stale,
    /// From before the calls were sent: they are sent again as they were, with their ids.
    WriteAhead,
}

/// The step and the moment at which a program dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The step, from 1: a turn of the agent, its calls, their answers. The report is a step without calls.
    pub step: u32,
    /// Where in the step.
    pub moment: Moment,
}

/// Where in a step a program dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The calls are written, and none is sent. With write-ahead they are saved.
    BeforeSending,
    /// So many of the calls are sent, and the last of these was executed, but its reply never comes: it dies right
    /// after the attempt that did it, before the harness hears of it.
    ///
    /// As far as can be seen from outside, an attempt was executed if it is answered or leaves open whether it was,
    /// as a timeout does. If no attempt of that call was, the next one that is executed is the last; without one
    /// there is no such moment, and the program lives on.
    AfterCommit {
        /// How many; more than there are count as all.
        calls: u32,
    },
    /// All calls are answered, and that is not saved.
    AfterReply,
    /// The step is saved, and the next has not begun.
    AfterSave,
}

impl Moment {
    /// The word in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeSending => "before_sending",
            Self::AfterCommit { .. } => "after_commit",
            Self::AfterReply => "after_reply",
            Self::AfterSave => "after_save",
        }
    }
}
