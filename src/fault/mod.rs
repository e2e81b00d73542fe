//! Decides which calls go wrong, and how.
//!
//! A [`Plan`] lists rules; an [`Injector`] answers for each call which [`Fault`] it meets, if any. The
//! answer is a pure function of seed, operation, order and attempt. Nothing here touches the ledger or
//! the clock, so a verdict replays from its log's first line.

mod injector;
mod log;
mod plan;
mod read;
mod rule;

use std::{fmt, str::FromStr};

pub use self::{
    injector::{Injector, OrderHash},
    log::FaultLog,
    plan::{LostReply, NAMED_PLANS, NamedPlan, Plan, PlanError, PlanSettings},
    rule::{Attempts, AttemptsError, On, OnError, Rate, RateError, Rule, Trigger},
};
use crate::{call::Operation, money::shorten};

/// What happens to the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Commit {
    /// The ledger never hears of it.
    Never,
    /// It is executed.
    Once,
    /// It is delivered twice, one after the other.
    Twice,
    /// It is delivered twice: arrive, arrive, finish, finish.
    TwiceOverlapping,
}

/// What the caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Told {
    /// The ledger's answer; to two deliveries, the first.
    Reply,
    /// That the service is unavailable and has changed nothing.
    Unavailable,
    /// Nothing: no answer comes.
    Timeout,
}

/// A disagreement between the ledger and the caller: what happens to the money × what the caller is told.
///
/// # Examples
///
/// ```
/// use badbank::fault::Fault;
///
/// assert_eq!("once+timeout".parse::<Fault>()?, Fault::TIMEOUT);
/// assert_eq!(Fault::TIMEOUT.to_string(), "timeout");
/// # Ok::<(), badbank::fault::FaultError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    commit: Commit,
    told: Told,
}

/// Why a text is not a fault, or why a fault makes no sense where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// No fault has that name.
    #[error(
        "`{text}` is not a fault; there are {}, and pairs such as `twice+timeout`",
        Fault::names()
    )]
    Unknown {
        /// The text, shortened.
        text: String,
    },
    /// The two halves contradict each other.
    #[error("`{commit}+{told}` makes no sense: {reason}")]
    Senseless {
        /// What would happen to the money.
        commit: &'static str,
        /// What the caller would be told.
        told: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The fault needs an operation that moves money.
    #[error("`{fault}` cannot happen to {operation}, which commits nothing; use it on refund")]
    NotOn {
        /// The fault.
        fault: Fault,
        /// The operation that cannot meet it.
        operation: Operation,
    },
}

impl Commit {
    const ALL: [Self; 4] = [Self::Never, Self::Once, Self::Twice, Self::TwiceOverlapping];

    /// The word in plans and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Once => "once",
            Self::Twice => "twice",
            Self::TwiceOverlapping => "twice_overlapping",
        }
    }
}

impl Told {
    const ALL: [Self; 3] = [Self::Reply, Self::Unavailable, Self::Timeout];

    /// The word in plans and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
        }
    }
}

impl Fault {
    /// Never × unavailable: the bank answers before it touches the ledger.
    pub const TRANSIENT: Self = Self {
        commit: Commit::Never,
        told: Told::Unavailable,
    };
    /// Once × timeout: the money has moved, and the reply is lost.
    pub const TIMEOUT: Self = Self {
        commit: Commit::Once,
        told: Told::Timeout,
    };
    /// Twice × reply: the network delivers the request twice.
    pub const DUPLICATE: Self = Self {
        commit: Commit::Twice,
        told: Told::Reply,
    };
    /// Never × timeout: the request is lost, which the caller cannot tell from a lost reply.
    pub const LOST: Self = Self {
        commit: Commit::Never,
        told: Told::Timeout,
    };

    /// The faults that have a name of their own.
    const NAMED: [(&'static str, Self); 4] = [
        ("transient", Self::TRANSIENT),
        ("timeout", Self::TIMEOUT),
        ("duplicate", Self::DUPLICATE),
        ("lost", Self::LOST),
    ];

    /// The fault of two halves.
    ///
    /// # Errors
    ///
    /// [`FaultError::Senseless`] where the halves contradict each other.
    pub const fn new(commit: Commit, told: Told) -> Result<Self, FaultError> {
        let reason = match (commit, told) {
            (Commit::Never, Told::Reply) => {
                "a call that the ledger never hears of has no answer of the ledger's"
            }
            (Commit::Once, Told::Reply) => "nothing goes wrong in it",
            (Commit::Once | Commit::Twice | Commit::TwiceOverlapping, Told::Unavailable) => {
                "`unavailable` tells the caller that nothing was changed, and money has moved"
            }
            _ => return Ok(Self { commit, told }),
        };
        Err(FaultError::Senseless {
            commit: commit.as_str(),
            told: told.as_str(),
            reason,
        })
    }

    /// What happens to the money.
    pub const fn commit(self) -> Commit {
        self.commit
    }

    /// What the caller is told.
    pub const fn told(self) -> Told {
        self.told
    }

    /// Refuses a fault that moves money on an operation that cannot.
    ///
    /// # Errors
    ///
    /// [`FaultError::NotOn`].
    pub fn check_on(self, operation: Operation) -> Result<(), FaultError> {
        if operation == Operation::GetOrder && self.commit != Commit::Never {
            return Err(FaultError::NotOn {
                fault: self,
                operation,
            });
        }
        Ok(())
    }

    /// Whether a caller without a key may pay twice for it: it commits without a plain reply, or twice.
    pub const fn is_doubling(self) -> bool {
        match self.commit {
            Commit::Never => false,
            Commit::Once => !matches!(self.told, Told::Reply),
            Commit::Twice | Commit::TwiceOverlapping => true,
        }
    }

    fn names() -> String {
        Self::NAMED.map(|(name, _)| name).join(", ")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, named)| named == self) {
            Some((name, _)) => f.pad(name),
            None => write!(f, "{}+{}", self.commit.as_str(), self.told.as_str()),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let word = text.replace('-', "_");
        if let Some((_, fault)) = Self::NAMED.iter().find(|(name, _)| *name == word) {
            return Ok(*fault);
        }
        let halves = word.split_once('+').and_then(|(commit, told)| {
            let commit = Commit::ALL
                .into_iter()
                .find(|known| known.as_str() == commit)?;
            let told = Told::ALL.into_iter().find(|known| known.as_str() == told)?;
            Some((commit, told))
        });
        let (commit, told) = halves.ok_or_else(|| FaultError::Unknown {
            text: shorten(text),
        })?;
        Self::new(commit, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_has_a_name_is_written_by_it() {
        for (text, written) in [
            ("never+unavailable", "transient"),
            ("once+timeout", "timeout"),
            ("twice+reply", "duplicate"),
            ("never+timeout", "lost"),
            ("twice+timeout", "twice+timeout"),
            ("twice-overlapping+reply", "twice_overlapping+reply"),
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn pairs_that_contradict_themselves_are_refused() {
        for text in [
            "never+reply",
            "once+reply",
            "once+unavailable",
            "twice+unavailable",
        ] {
            assert!(
                matches!(text.parse::<Fault>(), Err(FaultError::Senseless { .. })),
                "{text}"
            );
        }
        for text in ["", "+", "time out", "once+", "transient+", "Timeout"] {
            assert!(
                matches!(text.parse::<Fault>(), Err(FaultError::Unknown { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn a_read_meets_no_fault_that_commits() {
        assert!(Fault::LOST.check_on(Operation::GetOrder).is_ok());
        assert!(Fault::TRANSIENT.check_on(Operation::GetOrder).is_ok());
        assert!(Fault::TIMEOUT.check_on(Operation::GetOrder).is_err());
        assert!(Fault::DUPLICATE.check_on(Operation::GetOrder).is_err());
    }

    #[test]
    fn doubling_faults_are_those_that_commit_unseen() {
        assert!(Fault::TIMEOUT.is_doubling() && Fault::DUPLICATE.is_doubling());
        assert!(!Fault::TRANSIENT.is_doubling() && !Fault::LOST.is_doubling());
    }
}
