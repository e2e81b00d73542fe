//! An answer on its way.

use std::num::NonZero;

use super::{Answer, CallError};

/// What becomes of an answer on its way to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It arrives.
    Whole,
    /// It arrives late, and in pieces.
    Slow,
    /// It is cut short.
    Truncated,
    /// The connection is reset.
    Reset,
    /// The connection is closed without a byte.
    Closed,
    /// Nothing comes, and the connection stays open.
    Hang,
}

impl Passage {
    /// What the caller of an answer has in its hands instead, if it does not get there.
    pub(crate) fn error(self) -> Option<CallError> {
        let broken = |detail: &str| Some(CallError::Broken { detail: detail.to_owned() });
        match self {
            Self::Whole | Self::Slow => None,
            Self::Truncated => broken("the answer was cut short"),
            Self::Reset => broken("connection reset"),
            Self::Closed => broken("connection closed"),
            Self::Hang => Some(CallError::Timeout),
        }
    }
}

/// An answer that the bank has sent, and what becomes of it.
///
/// A slow one is [on its way](Self::is_on_its_way) until its face tells the bank that it was
/// [delivered](crate::Bank::delivered) or [abandoned](crate::Bank::abandoned).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The answer.
    pub answer: Answer,
    /// What becomes of it.
    pub passage: Passage,
    /// Number of the call, for as long as the history lacks its answer.
    pub(crate) on_its_way: Option<NonZero<u64>>,
}

impl Sent {
    /// An answer that arrives.
    pub(crate) const fn whole(answer: Answer) -> Self {
        Self { answer, passage: Passage::Whole, on_its_way: None }
    }

    /// Whether the bank was not told yet what became of it when this was sent.
    pub const fn is_on_its_way(&self) -> bool {
        self.on_its_way.is_some()
    }

    /// What the caller has in its hands.
    ///
    /// # Errors
    ///
    /// [`CallError`] as the bank answered, or as the passage has it.
    pub fn received(self) -> Answer {
        self.passage.error().map_or(self.answer, Err)
    }
}
