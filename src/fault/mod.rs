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
mod walk;

use std::{fmt, num::NonZero, str::FromStr};

pub use self::{
    injector::{Injector, OrderHash},
    log::FaultLog,
    plan::{
        LostReply, NAMED_PLANS, NamedPlan, Plan, PlanError, PlanSettings, RetryAfter, Truncation,
    },
    rule::{
        Attempts, AttemptsError, Burst, MeanLength, MeanLengthError, On, OnError, Rate, RateError,
        Rule, Trigger,
    },
};
use crate::{call::Operation, ledger::Dedupe, money::shorten};

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
    /// It reaches the ledger right after so many further calls on its order have had their effect.
    Late(NonZero<u32>),
    /// Nothing is executed, and that failure is bound to the key and answered ever after.
    Stored,
    /// It is accepted, and fails right after so many further calls on its order: the amount is free again.
    Accepted(NonZero<u32>),
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
    /// The order without its newest so many commits.
    Stale(NonZero<u32>),
    /// To come again later.
    RateLimited,
    /// That something went wrong inside.
    ServerError,
    /// Nothing: the connection is reset.
    Reset,
    /// Nothing: the connection is closed without a byte.
    Closed,
    /// Nothing: the connection stays open, and silent.
    Hang,
    /// The ledger's answer, cut short.
    Truncated,
    /// The ledger's answer, late and in pieces.
    Slow,
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
        commit: Commit,
        /// What the caller would be told.
        told: Told,
        /// Why not.
        reason: &'static str,
    },
    /// The fault belongs to the other operation.
    #[error("`{fault}` cannot happen to {operation}; use it on {}", other(*operation))]
    NotOn {
        /// The fault.
        fault: Fault,
        /// The operation that cannot meet it.
        operation: Operation,
    },
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Once => f.write_str("once"),
            Self::Twice => f.write_str("twice"),
            Self::TwiceOverlapping => f.write_str("twice_overlapping"),
            Self::Late(calls) => write!(f, "late({calls})"),
            Self::Stored => f.write_str("stored"),
            Self::Accepted(calls) => write!(f, "accepted({calls})"),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply => f.write_str("reply"),
            Self::Unavailable => f.write_str("unavailable"),
            Self::Timeout => f.write_str("timeout"),
            Self::Stale(commits) => write!(f, "stale({commits})"),
            Self::RateLimited => f.write_str("rate_limited"),
            Self::ServerError => f.write_str("server_error"),
            Self::Reset => f.write_str("reset"),
            Self::Closed => f.write_str("closed"),
            Self::Hang => f.write_str("hang"),
            Self::Truncated => f.write_str("truncated"),
            Self::Slow => f.write_str("slow"),
        }
    }
}

/// A word of a fault with the number behind it in brackets, which may be left out and is 1 then.
struct Word<'a> {
    name: &'a str,
    number: Option<NonZero<u32>>,
}

impl<'a> Word<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let Some((name, number)) = text.split_once('(') else {
            return Some(Self { name: text, number: None });
        };
        let number = number
            .strip_suffix(')')
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(Self { name, number: Some(number.parse().ok()?) })
    }

    /// The number, for a word that may have one.
    fn counted(&self) -> NonZero<u32> {
        self.number.unwrap_or(NonZero::<u32>::MIN)
    }

    fn commit(&self) -> Option<Commit> {
        match (self.name, self.number) {
            ("late", _) => Some(Commit::Late(self.counted())),
            ("accepted", _) => Some(Commit::Accepted(self.counted())),
            ("never", None) => Some(Commit::Never),
            ("once", None) => Some(Commit::Once),
            ("twice", None) => Some(Commit::Twice),
            ("twice_overlapping", None) => Some(Commit::TwiceOverlapping),
            ("stored", None) => Some(Commit::Stored),
            _ => None,
        }
    }

    fn told(&self) -> Option<Told> {
        match (self.name, self.number) {
            ("stale", _) => Some(Told::Stale(self.counted())),
            ("reply", None) => Some(Told::Reply),
            ("unavailable", None) => Some(Told::Unavailable),
            ("timeout", None) => Some(Told::Timeout),
            ("rate_limited", None) => Some(Told::RateLimited),
            ("server_error", None) => Some(Told::ServerError),
            ("reset", None) => Some(Told::Reset),
            ("closed", None) => Some(Told::Closed),
            ("hang", None) => Some(Told::Hang),
            ("truncated", None) => Some(Told::Truncated),
            ("slow", None) => Some(Told::Slow),
            _ => None,
        }
    }

    /// The fault that has this word for its name.
    fn fault(&self) -> Option<Fault> {
        match (self.name, self.number) {
            ("late", _) => Some(Fault::late(self.counted())),
            ("stale", _) => Some(Fault::stale(self.counted())),
            ("accepted_then_failed", _) => Some(Fault::accepted_then_failed(self.counted())),
            (name, None) => {
                Fault::NAMED.iter().find(|(known, _)| *known == name).map(|(_, fault)| *fault)
            }
            _ => None,
        }
    }
}

impl Fault {
    /// Never × unavailable: the bank answers before it touches the ledger.
    pub const TRANSIENT: Self = Self { commit: Commit::Never, told: Told::Unavailable };
    /// Once × timeout: the money has moved, and the reply is lost.
    pub const TIMEOUT: Self = Self { commit: Commit::Once, told: Told::Timeout };
    /// Twice × reply: the network delivers the request twice.
    pub const DUPLICATE: Self = Self { commit: Commit::Twice, told: Told::Reply };
    /// Never × timeout: the request is lost, which the caller cannot tell from a lost reply.
    pub const LOST: Self = Self { commit: Commit::Never, told: Told::Timeout };

    /// Never × rate limited: to come again later.
    pub const RATE_LIMITED: Self = Self { commit: Commit::Never, told: Told::RateLimited };
    /// Once × server error: executed, and answered with an error.
    pub const SERVER_ERROR: Self = Self { commit: Commit::Once, told: Told::ServerError };
    /// Never × reset: the connection breaks before the request is read.
    pub const RESET_BEFORE: Self = Self { commit: Commit::Never, told: Told::Reset };
    /// Once × reset: the connection breaks after the request is executed.
    pub const RESET_AFTER: Self = Self { commit: Commit::Once, told: Told::Reset };
    /// Once × closed: the connection is closed without a byte after the request is executed.
    pub const CLOSED: Self = Self { commit: Commit::Once, told: Told::Closed };
    /// Once × hang: executed, and never answered on a connection that stays open.
    pub const HANG: Self = Self { commit: Commit::Once, told: Told::Hang };
    /// Once × truncated: executed, and the answer is cut short.
    pub const TRUNCATED: Self = Self { commit: Commit::Once, told: Told::Truncated };
    /// Once × slow: executed, and the answer comes late and in pieces.
    pub const SLOW: Self = Self { commit: Commit::Once, told: Told::Slow };
    /// Stored × server error: nothing is executed, and the key answers with that failure ever after.
    pub const STORED_ERROR: Self = Self { commit: Commit::Stored, told: Told::ServerError };

    /// The faults that have a name of their own.
    const NAMED: [(&'static str, Self); 13] = [
        ("transient", Self::TRANSIENT),
        ("timeout", Self::TIMEOUT),
        ("duplicate", Self::DUPLICATE),
        ("lost", Self::LOST),
        ("rate_limited", Self::RATE_LIMITED),
        ("server_error", Self::SERVER_ERROR),
        ("reset_before", Self::RESET_BEFORE),
        ("reset_after", Self::RESET_AFTER),
        ("closed", Self::CLOSED),
        ("hang", Self::HANG),
        ("truncated", Self::TRUNCATED),
        ("slow", Self::SLOW),
        ("stored_error", Self::STORED_ERROR),
    ];

    /// The fault of two halves.
    ///
    /// # Errors
    ///
    /// [`FaultError::Senseless`] where the halves contradict each other.
    pub const fn new(commit: Commit, told: Told) -> Result<Self, FaultError> {
        let reason = match (commit, told) {
            (Commit::Once, Told::Reply) => "nothing goes wrong in it",
            (Commit::Once, Told::Stale(_)) | (Commit::Stored, Told::ServerError) => {
                return Ok(Self { commit, told });
            }
            (_, Told::Stale(_)) => "a read is executed once, and what it shows is stale",
            (Commit::Stored, _) => {
                "what is stored is a server error, and that is what the caller is told"
            }
            (Commit::Never | Commit::Late(_), Told::Reply | Told::Truncated | Told::Slow) => {
                "a call that the ledger has not heard of has no answer of the ledger's"
            }
            (Commit::Never, _) | (Commit::Accepted(_), Told::Reply) => {
                return Ok(Self { commit, told });
            }
            (Commit::Accepted(_), _) => "what is accepted is answered, as pending",
            (_, Told::Unavailable | Told::RateLimited) => {
                "it tells the caller that nothing was changed, and money moves"
            }
            _ => return Ok(Self { commit, told }),
        };
        Err(FaultError::Senseless { commit, told, reason })
    }

    /// What happens to the money.
    pub const fn commit(self) -> Commit {
        self.commit
    }

    /// What happens to the money where the ledger treats keys so: a `duplicate` overlaps in a store that may race, to
    /// show that it does.
    pub fn commit_under(self, dedupe: Dedupe) -> Commit {
        let is_racing = self == Self::DUPLICATE && dedupe == Dedupe::Racy;
        if is_racing { Commit::TwiceOverlapping } else { self.commit }
    }

    /// What the caller is told.
    pub const fn told(self) -> Told {
        self.told
    }

    /// Late × timeout: the caller checks, sees nothing and pays again; then both land.
    pub const fn late(calls: NonZero<u32>) -> Self {
        Self { commit: Commit::Late(calls), told: Told::Timeout }
    }

    /// The read shows the order without its newest commits.
    pub const fn stale(commits: NonZero<u32>) -> Self {
        Self { commit: Commit::Once, told: Told::Stale(commits) }
    }

    /// Accepted × reply: the refund is answered as pending, and fails so many further calls later.
    pub const fn accepted_then_failed(calls: NonZero<u32>) -> Self {
        Self { commit: Commit::Accepted(calls), told: Told::Reply }
    }

    /// Refuses a fault on an operation that cannot have it: a read moves no money, and a refund shows
    /// no order.
    ///
    /// # Errors
    ///
    /// [`FaultError::NotOn`].
    pub fn check_on(self, operation: Operation) -> Result<(), FaultError> {
        let is_stale = matches!(self.told, Told::Stale(_));
        let is_possible = match (operation, self.commit) {
            (Operation::Refund, _) => !is_stale,
            (Operation::GetOrder, Commit::Never) => true,
            // A lost answer to a read is `lost`: nobody can tell whether it was executed.
            (Operation::GetOrder, Commit::Once) => self.told != Told::Timeout,
            (Operation::GetOrder, _) => false,
        };
        if is_possible { Ok(()) } else { Err(FaultError::NotOn { fault: self, operation }) }
    }

    /// Whether a caller without a key may pay twice for it: it commits without a plain reply, or twice.
    pub const fn is_doubling(self) -> bool {
        match self.commit {
            Commit::Never | Commit::Stored | Commit::Accepted(_) => false,
            Commit::Once => !matches!(self.told, Told::Reply | Told::Stale(_)),
            Commit::Twice | Commit::TwiceOverlapping | Commit::Late(_) => true,
        }
    }

    /// Whether the answer takes its time, and comes in the end.
    pub const fn is_slow(self) -> bool {
        matches!(self.told, Told::Slow)
    }

    fn names() -> String {
        let named = Self::NAMED.map(|(name, _)| name);
        named
            .into_iter()
            .chain(["late(n)", "stale(n)", "accepted_then_failed(n)"])
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn other(operation: Operation) -> Operation {
    match operation {
        Operation::GetOrder => Operation::Refund,
        Operation::Refund => Operation::GetOrder,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, named)| named == self) {
            return f.pad(name);
        }
        match (self.commit, self.told) {
            (Commit::Late(_), Told::Timeout) => write!(f, "{}", self.commit),
            (Commit::Once, Told::Stale(_)) => write!(f, "{}", self.told),
            (Commit::Accepted(calls), Told::Reply) => write!(f, "accepted_then_failed({calls})"),
            (commit, told) => write!(f, "{commit}+{told}"),
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
        let unknown = || FaultError::Unknown { text: shorten(text) };
        let text = text.replace('-', "_");
        let Some((commit, told)) = text.split_once('+') else {
            return Word::read(&text).and_then(|word| word.fault()).ok_or_else(unknown);
        };
        let commit = Word::read(commit).and_then(|word| word.commit()).ok_or_else(unknown)?;
        let told = Word::read(told).and_then(|word| word.told()).ok_or_else(unknown)?;
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
            ("late", "late(1)"),
            ("late(2)+timeout", "late(2)"),
            ("stale(3)", "stale(3)"),
            ("accepted+reply", "accepted_then_failed(1)"),
            ("accepted-then-failed(2)", "accepted_then_failed(2)"),
            ("once+stale", "stale(1)"),
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn pairs_that_contradict_themselves_are_refused() {
        for text in ["never+reply", "once+reply", "once+unavailable", "twice+unavailable"] {
            assert!(matches!(text.parse::<Fault>(), Err(FaultError::Senseless { .. })), "{text}");
        }
        for text in [
            "",
            "+",
            "time out",
            "once+",
            "transient+",
            "Timeout",
            "late(0)",
            "late(",
            "late()",
            "late(-1)",
            "late(+1)",
            "late(1",
            "lost(1)",
            "once(1)+timeout",
        ] {
            assert!(matches!(text.parse::<Fault>(), Err(FaultError::Unknown { .. })), "{text}");
        }
    }

    #[test]
    fn every_named_fault_makes_sense_somewhere_and_reads_back() {
        for (name, fault) in Fault::NAMED {
            assert_eq!(Fault::new(fault.commit, fault.told), Ok(fault), "{name}");
            assert_eq!(name.parse(), Ok(fault));
            assert_eq!(fault.to_string(), name);
            assert!(fault.check_on(Operation::Refund).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_read_meets_no_fault_that_commits() {
        assert!(Fault::LOST.check_on(Operation::GetOrder).is_ok());
        assert!(Fault::TRANSIENT.check_on(Operation::GetOrder).is_ok());
        assert!(Fault::TIMEOUT.check_on(Operation::GetOrder).is_err());
        assert!(Fault::DUPLICATE.check_on(Operation::GetOrder).is_err());
        let one = NonZero::<u32>::MIN;
        assert!(Fault::late(one).check_on(Operation::GetOrder).is_err());
        assert!(Fault::stale(one).check_on(Operation::GetOrder).is_ok());
        assert!(Fault::stale(one).check_on(Operation::Refund).is_err());
    }

    #[test]
    fn doubling_faults_are_those_that_commit_unseen() {
        assert!(Fault::TIMEOUT.is_doubling() && Fault::DUPLICATE.is_doubling());
        assert!(!Fault::TRANSIENT.is_doubling() && !Fault::LOST.is_doubling());
    }
}
