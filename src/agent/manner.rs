//! The manners there are, by name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::money::shorten;

/// How an agent goes about its work: what it makes of an error, and how it words a call.
///
/// # Examples
///
/// ```
/// use badbank::agent::Manner;
///
/// assert_eq!("hasty".parse(), Ok(Manner::Hasty));
/// assert_eq!(Manner::Hasty.as_str(), "hasty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// It looks before it pays, and looks again after every error on a refund. A refusal is final: the order is
    /// read, and nothing more is sent to it.
    Careful,
    /// It never looks. Whatever the error, even a refusal, it sends the refund again in its next turn. What an order
    /// holds it knows from the ticket and from its own successes; what it reports goes by the last answer.
    Hasty,
    /// It looks before it pays, and believes what the error says: after one that says that nothing was changed it
    /// sends the refund again without a look, and a refusal it takes as given. Where the error leaves open what
    /// happened, as after a timeout, it looks.
    ///
    /// Alone it is as safe as the careful one. In a harness that reports the last of several errors it is not.
    Trusting,
    /// Careful, but it mixes up its errors: when a look at an order whose refund may have happened fails, it takes
    /// that error for the refund's own answer. One that says that nothing was changed has it pay again.
    Forgetful,
    /// Careful, but it words the arguments of a refund anew whenever it sends it anew: the same order and amount
    /// in another order of fields, without trailing zeros.
    Paraphrasing,
}

/// A text that names no manner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a manner; the manners are careful, hasty, trusting, forgetful and paraphrasing"
)]
pub struct MannerError {
    /// The text, shortened.
    pub text: String,
}

impl Manner {
    /// Every manner.
    pub const ALL: [Self; 5] =
        [Self::Careful, Self::Hasty, Self::Trusting, Self::Forgetful, Self::Paraphrasing];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Careful => "careful",
            Self::Hasty => "hasty",
            Self::Trusting => "trusting",
            Self::Forgetful => "forgetful",
            Self::Paraphrasing => "paraphrasing",
        }
    }
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Manner {
    type Err = MannerError;

    fn from_str(text: &str) -> Result<Self, MannerError> {
        Self::ALL
            .into_iter()
            .find(|manner| manner.as_str() == text)
            .ok_or_else(|| MannerError { text: shorten(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manner_is_read_from_its_name() {
        let error = "rash".parse::<Manner>().unwrap_err();
        for manner in Manner::ALL {
            assert_eq!(manner.as_str().parse(), Ok(manner));
            assert_eq!(serde_json::to_string(&manner).unwrap(), format!("\"{manner}\""));
            assert!(error.to_string().contains(manner.as_str()), "{error}");
        }
    }
}
