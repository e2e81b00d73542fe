//! The designs there are, by name.

use std::{fmt, str::FromStr};

use super::{Key, Retry};
use crate::{agent::Manner, money::shorten};

/// A program: an agent, and what stands between its calls and the bank.
///
/// # Examples
///
/// ```
/// use badbank::harness::Design;
///
/// assert_eq!("model_only".parse(), Ok(Design::ModelOnly));
/// assert_eq!(Design::ModelOnly.as_str(), "model-only");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Design {
    /// Nothing: every fault reaches the agent.
    ModelOnly,
    /// Retries without a key: after a lost reply the money moves twice.
    Retries,
    /// Retries under a key that is the tool call's id, the same at every attempt.
    Keyed,
    /// Retries under a key that names the intent, the same however often the agent writes the call anew.
    BusinessKey,
    /// No retries, but a key: the agent chooses it, and the same again when it sends the refund again.
    ModelKey,
    /// An agent that repeats at once, whatever the error, and nothing else.
    Hasty,
    /// An agent that believes what an error says, and nothing else.
    Trusting,
    /// An agent that takes another call's error for the refund's answer, and nothing else.
    Forgetful,
    /// The careful agent in other words at every repeat, and nothing else.
    Paraphrasing,
}

/// A text that names no design.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a design; the designs are {}", Design::names())]
pub struct DesignError {
    /// The text, shortened.
    pub text: String,
}

impl Design {
    /// Every design: the careful agent's from the least to the most, then the other agents on their own.
    pub const ALL: [Self; 9] = [
        Self::ModelOnly,
        Self::Retries,
        Self::Keyed,
        Self::BusinessKey,
        Self::ModelKey,
        Self::Hasty,
        Self::Trusting,
        Self::Forgetful,
        Self::Paraphrasing,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelOnly => "model-only",
            Self::Retries => "retries",
            Self::Keyed => "keyed",
            Self::BusinessKey => "business-key",
            Self::ModelKey => "model-key",
            Self::Hasty => "hasty",
            Self::Trusting => "trusting",
            Self::Forgetful => "forgetful",
            Self::Paraphrasing => "paraphrasing",
        }
    }

    /// What it does, in one line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::ModelOnly => "no retries and no key: every fault reaches the agent",
            Self::Retries => "three attempts with backoff and full jitter, no key",
            Self::Keyed => "three attempts under one key, the tool call's id",
            Self::BusinessKey => "three attempts under one key, the intent: refund:<order>",
            Self::ModelKey => "no retries, and a key that the agent chooses for each refund",
            Self::Hasty => "no retries and no key; the agent repeats whatever the error",
            Self::Trusting => "no retries and no key; the agent believes what an error says",
            Self::Forgetful => {
                "no retries and no key; the agent takes a read's error for the refund's"
            }
            Self::Paraphrasing => "no retries and no key; the agent words every repeat anew",
        }
    }

    /// How the agent in it goes about its work.
    pub const fn manner(self) -> Manner {
        match self {
            Self::ModelOnly | Self::Retries | Self::Keyed | Self::BusinessKey | Self::ModelKey => {
                Manner::Careful
            }
            Self::Hasty => Manner::Hasty,
            Self::Trusting => Manner::Trusting,
            Self::Forgetful => Manner::Forgetful,
            Self::Paraphrasing => Manner::Paraphrasing,
        }
    }

    /// How it sends a call again.
    pub fn retry(self) -> Retry {
        match self {
            Self::Retries | Self::Keyed | Self::BusinessKey => Retry::default(),
            _ => Retry::never(),
        }
    }

    /// What the key is made of under which it sends a refund.
    pub const fn key(self) -> Key {
        match self {
            Self::Keyed => Key::CallId,
            Self::BusinessKey => Key::Intent,
            Self::ModelKey => Key::Model,
            _ => Key::None,
        }
    }

    /// All names, in a sentence.
    fn names() -> String {
        let names = Self::ALL.map(Self::as_str);
        let (last, others) = names.split_last().expect("there are designs");
        format!("{} and {last}", others.join(", "))
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Design {
    type Err = DesignError;

    fn from_str(text: &str) -> Result<Self, DesignError> {
        let name = text.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|design| design.as_str() == name)
            .ok_or_else(|| DesignError { text: shorten(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_is_read_from_its_name_in_either_case() {
        for design in Design::ALL {
            assert_eq!(design.as_str().parse(), Ok(design));
            assert_eq!(design.as_str().replace('-', "_").parse(), Ok(design));
        }
        let error = "modelonly".parse::<Design>().unwrap_err();
        for design in Design::ALL {
            assert!(error.to_string().contains(design.as_str()), "{error}");
        }
    }
}
