//! Why a request is refused.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::CallError;
use crate::{
    ledger::{KeyError, LedgerError},
    money::AmountError,
};

/// A refusal: a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// Which refusal it is.
    pub code: RefusalCode,
    /// What was wrong, and what is allowed.
    pub detail: String,
}

impl Refusal {
    /// A refusal with a sentence.
    pub fn new(code: RefusalCode, detail: impl fmt::Display) -> Self {
        Self { code, detail: detail.to_string() }
    }
}

macro_rules! refusal_codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// Which refusal it is; no two refusals share a word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum RefusalCode {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl RefusalCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word on the wire and in histories.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

refusal_codes! {
    /// The amount is missing or not one.
    InvalidAmount = "invalid_amount",
    /// The idempotency key is not one.
    InvalidKey = "invalid_key",
    /// The body is not what the operation takes.
    InvalidBody = "invalid_body",
    /// The ticket has no such order.
    UnknownOrder = "unknown_order",
    /// The bank has no such run.
    UnknownRun = "unknown_run",
    /// The bank has no such resource.
    NotFound = "not_found",
    /// The resource does not take this method.
    MethodNotAllowed = "method_not_allowed",
    /// The first refund under the key has not finished.
    InFlight = "in_flight",
    /// The run is over.
    RunEnded = "run_ended",
    /// The body is too large.
    TooLarge = "too_large",
    /// The body is of another type.
    UnsupportedType = "unsupported_type",
    /// The key was used with other parameters.
    KeyMismatch = "key_mismatch",
    /// More than is left on the order.
    OverRefund = "over_refund",
    /// Nothing is left on the order.
    AlreadyRefunded = "already_refunded",
    /// Not the order's currency.
    CurrencyMismatch = "currency_mismatch",
    /// The key is bound to a failure.
    ServerError = "server_error",
}

impl FromStr for RefusalCode {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let word = word.replace('-', "_");
        Self::ALL.iter().copied().find(|code| code.as_str() == word).ok_or(())
    }
}

impl From<LedgerError> for Refusal {
    fn from(error: LedgerError) -> Self {
        let code = match error {
            LedgerError::KeyMismatch { .. } => RefusalCode::KeyMismatch,
            LedgerError::InFlight => RefusalCode::InFlight,
            LedgerError::ExceedsRefundable { .. } => RefusalCode::OverRefund,
            LedgerError::AlreadyRefunded { .. } => RefusalCode::AlreadyRefunded,
            LedgerError::Failed => RefusalCode::ServerError,
        };
        Self::new(code, error)
    }
}

impl From<AmountError> for Refusal {
    fn from(error: AmountError) -> Self {
        Self::new(RefusalCode::InvalidAmount, error)
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::new(RefusalCode::InvalidKey, error)
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
