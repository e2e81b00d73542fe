//! What an idempotency key is made of.

use std::{fmt, str::FromStr};

use siphasher::sip128::SipHasher13;

use crate::{agent::ToolCall, money::shorten};

/// What the key of a refund is made of, and with that, which refunds the bank takes for one.
///
/// A key that changes between two requests for one refund protects from nothing; one that stays the same for two
/// refunds that are both wanted swallows the second.
///
/// # Examples
///
/// ```
/// use badbank::{Ticket, agent::{Agent, Manner, Turn}, harness::{Key, Sending}};
///
/// let ticket = Ticket::parse(r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#)?;
/// let Turn::Calls(calls) = Agent::new(Manner::Hasty, &ticket).turn() else { unreachable!() };
/// let again = Sending { attempt: 2, ..Sending::FIRST };
/// for key in [Key::CallId, Key::Intent, Key::Arguments] {
///     // The money moves once, however often it is sent.
///     assert_eq!(key.of(&calls[0], again), key.of(&calls[0], Sending::FIRST));
/// }
/// assert_ne!(Key::Fresh.of(&calls[0], again), Key::Fresh.of(&calls[0], Sending::FIRST));
/// # Ok::<(), badbank::DocumentError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// There is none.
    None,
    /// Made anew for each attempt, which is as good as none.
    Fresh,
    /// The tool call's id: the same at each attempt, another when the agent writes the call anew.
    CallId,
    /// A hash of the tool and of its arguments as the agent wrote them.
    RawArguments,
    /// A hash of the tool and of what its arguments mean, however they are written.
    Arguments,
    /// `refund:<order>`: one refund an order, whatever is asked for.
    Order,
    /// What the agent chose, in its own words.
    Model,
    /// What the refund is for: `refund:<order>`, with a number where several are expected of the order.
    Intent,
}

/// A text that names no kind of key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no kind of key; the kinds are none, fresh, call-id, raw-arguments, arguments, order, model and intent"
)]
pub struct KeyKindError {
    /// The text, shortened.
    pub text: String,
}

/// Which time it is that a call is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Number among the times that this process sends the call, from 1.
    pub attempt: u32,
    /// Which process it is that sends, from 1.
    pub life: u32,
}

impl Sending {
    /// The first time.
    pub const FIRST: Self = Self { attempt: 1, life: 1 };
}

impl Key {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Fresh,
        Self::CallId,
        Self::RawArguments,
        Self::Arguments,
        Self::Order,
        Self::Model,
        Self::Intent,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fresh => "fresh",
            Self::CallId => "call-id",
            Self::RawArguments => "raw-arguments",
            Self::Arguments => "arguments",
            Self::Order => "order",
            Self::Model => "model",
            Self::Intent => "intent",
        }
    }

    /// The key under which a call is sent, if any.
    ///
    /// # Determinism
    ///
    /// It follows from the call and, for [`Key::Fresh`] alone, from `sending`.
    pub fn of(self, call: &(impl Keyed + ?Sized), sending: Sending) -> Option<String> {
        let Sending { attempt, life } = sending;
        match self {
            Self::None => None,
            Self::Fresh => Some(format!("{}/{life}-{attempt}", call.id())),
            Self::CallId => Some(call.id()),
            Self::RawArguments => Some(hash(&call.arguments())),
            Self::Arguments => Some(hash(&call.canonical_arguments())),
            Self::Order => Some(format!("refund:{}", call.order())),
            Self::Model => Some(call.chosen_key()),
            Self::Intent => Some(call.intent()),
        }
    }
}

/// A refund as somebody wrote it, with all that a key can be made of.
///
/// A [`ToolCall`] is one; a request of a service that is not ours can be another.
pub trait Keyed {
    /// Its name, which no other call of its program has; written anew, it has another.
    fn id(&self) -> String;

    /// The order, or whatever else it is refunded on.
    fn order(&self) -> String;

    /// What it is for, in words that stay the same however often it is written anew.
    fn intent(&self) -> String;

    /// Its arguments as they were written.
    fn arguments(&self) -> String;

    /// What its arguments mean, in one way of writing it; as they were written, if there is but one.
    fn canonical_arguments(&self) -> String {
        self.arguments()
    }

    /// The key that whoever wrote it chose; what it is for, if nobody chose another.
    fn chosen_key(&self) -> String {
        self.intent()
    }
}

impl Keyed for ToolCall {
    fn id(&self) -> String {
        self.id.to_string()
    }

    fn order(&self) -> String {
        self.order.to_string()
    }

    fn intent(&self) -> String {
        self.intent.clone()
    }

    fn arguments(&self) -> String {
        Self::arguments(self)
    }

    fn canonical_arguments(&self) -> String {
        Self::canonical_arguments(self)
    }

    fn chosen_key(&self) -> String {
        Self::chosen_key(self)
    }
}

/// SipHash-1-3-128 of the tool's name and its arguments, key 0.
fn hash(arguments: &str) -> String {
    let hash = SipHasher13::new().hash(format!("refund {arguments}").as_bytes());
    format!("refund-{:016x}{:016x}", hash.h1, hash.h2)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Key {
    type Err = KeyKindError;

    fn from_str(text: &str) -> Result<Self, KeyKindError> {
        let name = text.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|key| key.as_str() == name)
            .ok_or_else(|| KeyKindError { text: shorten(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ticket,
        agent::{Agent, Manner, Turn},
    };

    /// The refunds that a hasty agent writes of two parts of 30.00 each, were all its calls lost.
    fn calls(manner: Manner) -> Vec<ToolCall> {
        let ticket = r#"{"version": 1, "currency": "EUR", "orders": [
            {"id": "A-1", "amount": "80.00", "expect": ["30.00", "30.00"]}]}"#;
        let mut agent = Agent::new(manner, &Ticket::parse(ticket).unwrap());
        let mut calls = Vec::new();
        while let Turn::Calls(batch) = agent.turn() {
            for call in batch {
                agent.answered(&call, &Err(crate::call::CallError::Unavailable));
                calls.push(call);
            }
        }
        calls
    }

    #[test]
    fn a_kind_of_key_is_read_from_its_name_in_either_case() {
        let error = "keyed".parse::<Key>().unwrap_err();
        for key in Key::ALL {
            assert_eq!(key.as_str().parse(), Ok(key));
            assert_eq!(key.as_str().replace('-', "_").parse(), Ok(key));
            assert!(error.to_string().contains(key.as_str()), "{error}");
        }
    }

    #[test]
    fn each_kind_makes_its_key_of_what_it_says() {
        let call = &calls(Manner::Hasty)[1];
        let sending = Sending { attempt: 3, life: 2 };
        let keys = Key::ALL.map(|key| key.of(call, sending).unwrap_or_default());
        assert_eq!(
            keys,
            [
                "",
                "call-2/2-3",
                "call-2",
                "refund-ead535332c3b10e68ccc8f2dda56eb1a",
                "refund-ead535332c3b10e68ccc8f2dda56eb1a",
                "refund:A-1",
                "refund:A-1/1",
                "refund:A-1/1",
            ]
        );
    }
}
