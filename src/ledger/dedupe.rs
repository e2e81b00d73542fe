//! What a ledger does with idempotency keys: the ways of real gateways, and common mistakes.

use serde::{Deserialize, Serialize};

/// Seconds in a day.
const DAY_S: u64 = 86_400;

macro_rules! modes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal $(| $alias:literal)?, $summary:literal;)*) => {
        /// What the ledger does with idempotency keys.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Dedupe {
            $($(#[$doc])* $(#[serde(alias = $alias)])? $variant,)*
        }

        impl Dedupe {
            /// Every mode.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word in plans and histories.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// What it does, in a line.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)*
                }
            }
        }
    };
}

modes! {
    /// Keys are recorded and ignored.
    Off = "off", "keys are recorded and ignored";
    /// The first reply of a key is answered again to every later refund with that key, whatever it asks.
    #[default]
    FirstReply = "first_reply" | "first-reply", "the first reply is answered again, whatever is asked; repeats in flight wait for it";
    /// As `FirstReply`, but other parameters under a key and repeats in flight are refused, and keys expire.
    Strict = "strict", "other parameters and repeats in flight are refused, and keys expire";
    /// Looks keys up on arrival and reserves nothing, so that overlapping deliveries both execute.
    Racy = "racy", "wrong: looks keys up without reserving them, so overlapping deliveries both execute";
    /// As `Strict` for a day, and everything is stored: refusals and server errors too (Stripe's API v1).
    StripeV1 = "stripe_v1" | "stripe-v1", "as strict for a day; refusals and server errors are stored too";
    /// As `Strict` for 30 days: successes are stored, failures executed again (Stripe's API v2).
    StripeV2 = "stripe_v2" | "stripe-v2", "as strict for 30 days; failures are executed again";
    /// As `FirstReply` for a day, but repeats in flight are refused: only 2xx is stored (Checkout.com).
    Checkout = "checkout", "only successes are stored, for a day; repeats in flight are refused";
    /// As `FirstReply` for 45 days, but a repeat is answered with the latest status of the earlier refund,
    /// and repeats in flight are refused (`PayPal`'s payments API v2).
    Paypal = "paypal", "the earlier refund's latest status is answered, for 45 days; repeats in flight are refused";
    /// As `Strict`, but callers share their keys: one caller's key answers another's refund.
    SharedScope = "shared_scope" | "shared-scope", "wrong: as strict, but all callers share one set of keys";
    /// As `Strict`, but blind to parameters: a key answers a refund that asks for something else.
    BodyBlind = "body_blind" | "body-blind", "wrong: as strict, but other parameters under a key are not noticed";
    /// As `Strict`, but only the four newest keys are kept.
    SmallCache = "small_cache" | "small-cache", "wrong: as strict, but only the four newest keys are kept";
    /// As `Strict`, but keys expire a second after their first use.
    EarlyExpiry = "early_expiry" | "early-expiry", "wrong: as strict, but keys expire after a second";
}

/// What happens to a delivery whose key is held by one that has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InFlight {
    /// It waits, and is answered with that one's outcome.
    Waits,
    /// It is refused.
    Refused,
    /// There is no holding: both execute.
    Races,
}

/// A mode, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) in_flight: InFlight,
    /// Whether other parameters under a known key are refused.
    pub(super) checks_parameters: bool,
    /// Whether refusals and server errors are stored like successes.
    pub(super) stores_failures: bool,
    /// Whether a key belongs to its caller.
    pub(super) is_per_caller: bool,
    /// Seconds after its first use at which a key expires.
    pub(super) ttl_s: Option<u64>,
    /// Keys that are kept.
    pub(super) keys_max: Option<u64>,
}

impl Dedupe {
    /// The mode, taken apart; none if keys are ignored.
    pub(super) fn policy(self, key_ttl_s: u64) -> Option<Policy> {
        let strict = Policy {
            in_flight: InFlight::Refused,
            checks_parameters: true,
            stores_failures: false,
            is_per_caller: true,
            ttl_s: Some(key_ttl_s),
            keys_max: None,
        };
        let first_reply =
            Policy { in_flight: InFlight::Waits, checks_parameters: false, ttl_s: None, ..strict };
        Some(match self {
            Self::Off => return None,
            Self::FirstReply => first_reply,
            Self::Strict => strict,
            Self::Racy => Policy { in_flight: InFlight::Races, ..first_reply },
            Self::StripeV1 => Policy { stores_failures: true, ttl_s: Some(DAY_S), ..strict },
            Self::StripeV2 => Policy { ttl_s: Some(30 * DAY_S), ..strict },
            Self::Checkout => {
                Policy { in_flight: InFlight::Refused, ttl_s: Some(DAY_S), ..first_reply }
            }
            Self::Paypal => {
                Policy { in_flight: InFlight::Refused, ttl_s: Some(45 * DAY_S), ..first_reply }
            }
            Self::SharedScope => Policy { is_per_caller: false, ..strict },
            Self::BodyBlind => Policy { checks_parameters: false, ..strict },
            Self::SmallCache => Policy { keys_max: Some(4), ..strict },
            Self::EarlyExpiry => Policy { ttl_s: Some(1), ..strict },
        })
    }

    /// Whether a key may be forgotten, after which a repeat under it is executed.
    pub(crate) fn forgets_keys(self) -> bool {
        let policy = self.policy(DAY_S);
        policy.is_some_and(|policy| policy.ttl_s.is_some() || policy.keys_max.is_some())
    }

    /// Whether two deliveries of one key that overlap and were both executed have raced: elsewhere their key is
    /// ignored, or soon forgotten.
    pub(crate) fn may_race(self) -> bool {
        !matches!(self, Self::Off | Self::SmallCache | Self::EarlyExpiry)
    }
}
