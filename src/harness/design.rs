//! The designs there are, by name.

use std::{fmt, str::FromStr};

use super::Retry;
use crate::{agent::ToolCall, money::shorten};

/// What stands between an agent's calls and the bank.
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
    /// No retries, but a key that the model chooses and uses again when it repeats a refund.
    ModelKey,
}

/// A text that names no design.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a design; the designs are model-only, retries, keyed, business-key and model-key"
)]
pub struct DesignError {
    /// The text, shortened.
    pub text: String,
}

impl Design {
    /// Every design.
    pub const ALL: [Self; 5] =
        [Self::ModelOnly, Self::Retries, Self::Keyed, Self::BusinessKey, Self::ModelKey];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelOnly => "model-only",
            Self::Retries => "retries",
            Self::Keyed => "keyed",
            Self::BusinessKey => "business-key",
            Self::ModelKey => "model-key",
        }
    }

    /// What it does, in one line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::ModelOnly => "no retries and no key: every fault reaches the agent",
            Self::Retries => "three attempts with backoff and full jitter, no key",
            Self::Keyed => "three attempts under one key, the tool call's id",
            Self::BusinessKey => "three attempts under one key, the intent: refund:<order>",
            Self::ModelKey => "no retries; the agent sends the same key when it repeats a refund",
        }
    }

    /// How it sends a call again.
    pub fn retry(self) -> Retry {
        match self {
            Self::ModelOnly | Self::ModelKey => Retry::never(),
            Self::Retries | Self::Keyed | Self::BusinessKey => Retry::default(),
        }
    }

    /// The key under which it sends a refund, at every attempt.
    pub fn key(self, call: &ToolCall) -> Option<String> {
        match self {
            Self::ModelOnly | Self::Retries => None,
            Self::Keyed => Some(call.id.to_string()),
            Self::BusinessKey | Self::ModelKey => Some(call.intent.clone()),
        }
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
