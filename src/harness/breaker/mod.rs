//! When a backend is left alone for a while, because too many calls to it have failed.
//!
//! - There is one clock, in UTC: the same one stamps an outcome and counts it. Outcomes that lie in its
//!   future are not counted but kept, count once their time has come, and are reported until then; failures
//!   older than the window do not count. Outcomes are in the order of their stamps; equal stamps count apart.
//! - What workers decide together holds by its place among the entries, whatever its stamp: trips, probes, and
//!   what came of them. Otherwise clocks that differ by seconds would have two workers probe, or trip. But
//!   what lies further in the future than a pause, and than a minute, is passed over until it no longer does,
//!   or one wrong clock could block everybody for years.
//! - A success says that its own call went well and nothing about the others, so it never clears a window.
//!   The one exception is a controlled probe: after the pause exactly one call is let through, among all
//!   workers, and its outcome decides. A late success of a call from before the trip is no probe.
//! - Refusals that the client has earned itself are neutral.
//! - A pause ends at `now >= until`.
//!
//! A breaker is derived from [`Entry`]s alone: what it decides are further entries. [`SharedBreaker`]
//! keeps them in a file for several processes.

mod entry;
mod evidence;
mod outcomes;
mod shared;

use std::time::Duration;

use self::outcomes::{Outcome, Outcomes};
pub use self::{
    entry::{Entry, Kind, Timestamp},
    evidence::{Evidence, EvidenceError, EvidenceLog},
    shared::{Reading, SharedBreaker},
};
use crate::call::CallError;

/// When a breaker opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// After so many failures in a row. A success in between starts the count anew, whoever had it: with
    /// several workers the count depends on whose call ends first, by their stamps.
    Streak {
        /// The failures.
        failures: u32,
    },
    /// After so many failures within a time, whatever succeeded in between.
    Window {
        /// The failures.
        failures: u32,
        /// The time; a failure just as old still counts.
        within: Duration,
    },
}

impl Policy {
    const fn failures(self) -> u32 {
        match self {
            Self::Streak { failures } | Self::Window { failures, .. } => failures,
        }
    }
}

/// What an outcome says about the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It did what was asked.
    Success,
    /// It did not answer, or not as it should; being told to come later is that, too.
    Failure,
    /// It answered, and the fault was the client's: this says nothing either way.
    Neutral,
}

impl Signal {
    /// What an outcome says: every error is a failure but a refusal, which is neutral.
    pub fn of<T>(outcome: &Result<T, CallError>) -> Self {
        match outcome {
            Ok(_) => Self::Success,
            Err(CallError::Refused(_)) => Self::Neutral,
            Err(_) => Self::Failure,
        }
    }
}

/// Whether a call may be sent.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not handed back with an outcome proves nothing"]
pub enum Admission {
    /// It may.
    Allowed(Permit),
    /// It may, and its outcome decides whether the circuit closes.
    Probe(Permit),
    /// It may not, before this time at the earliest.
    Refused {
        /// The time.
        until: Timestamp,
    },
}

impl Admission {
    /// The permit of a call that may be sent.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Allowed(permit) | Self::Probe(permit) => Some(permit),
            Self::Refused { .. } => None,
        }
    }
}

/// A call that was let through, to be handed back with its outcome, once.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    /// Probes that had closed the circuit before.
    closings: u64,
    probe: Option<u64>,
}

/// Where a circuit stands at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Calls are let through.
    Closed,
    /// No call is let through.
    Open {
        /// The end of the pause, which is no longer part of it.
        until: Timestamp,
    },
    /// The pause is over; one probe is let through, or under way.
    HalfOpen,
}

/// What a breaker knows at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where the circuit stands.
    pub state: State,
    /// Failures that count.
    pub count: usize,
    /// Entries that lie in the future and do not count yet.
    pub future: usize,
}

/// What an outcome has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This outcome opened the circuit.
    Opened {
        /// The end of the pause.
        until: Timestamp,
    },
    /// This outcome, a probe's success, closed the circuit and cleared the window.
    Closed,
}

/// Leaves a backend alone for a pause once its failures meet a [`Policy`].
///
/// A worker that dies with the probe would leave the circuit half open for good; so a probe without an
/// outcome is given up after as long as the pause, or after a minute where there is none, and the next call is
/// the probe.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use badbank::harness::{Admission, Change, CircuitBreaker, Policy, Signal, Timestamp};
///
/// let hour = Duration::from_secs(3600);
/// let mut breaker = CircuitBreaker::new(Policy::Window { failures: 3, within: hour }, hour);
/// let noon = Timestamp::from_unix_ms(1_700_000_000_000);
/// for signal in [Signal::Failure, Signal::Success, Signal::Failure, Signal::Failure] {
///     let permit = breaker.admit(noon).permit().expect("the circuit is closed");
///     breaker.record(permit, signal, noon);
/// }
/// // No refund is sent to a backend that fails more often than not.
/// assert_eq!(breaker.admit(noon), Admission::Refused { until: noon.plus(hour) });
/// ```
///
/// # Determinism
///
/// Everything follows from the calls made and the times handed in. Where several threads share a breaker,
/// read the clock under the lock: whoever reads it before and waits then sees the failures of those who
/// were faster in its future.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    policy: Policy,
    pause: Duration,
    outcomes: Outcomes,
    position: Position,
    last_probe: u64,
    /// Probes that have closed the circuit: what was admitted before the last says nothing about the time after.
    closings: u64,
    passed_over: usize,
}

/// How far clocks may differ, and how long a probe may take, however short the pause.
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Closed,
    Open { until: Timestamp },
    Probing { id: u64, until: Timestamp },
}

impl CircuitBreaker {
    /// A closed breaker that knows of no failure.
    pub fn new(policy: Policy, pause: Duration) -> Self {
        Self {
            policy,
            pause,
            outcomes: Outcomes::default(),
            position: Position::Closed,
            last_probe: 0,
            closings: 0,
            passed_over: 0,
        }
    }

    /// The breaker that these entries, in their order, have led to at `now`.
    ///
    /// A trip, a probe or an answer to one holds by its place, unless it lies further in the future than a pause
    /// and than a minute: then it is passed over, and [`Status::future`] tells of it. So is an answer from the future
    /// to no probe.
    pub fn replay<'a>(
        policy: Policy,
        pause: Duration,
        entries: impl IntoIterator<Item = &'a Entry>,
        now: Timestamp,
    ) -> Self {
        let mut breaker = Self::new(policy, pause);
        for entry in entries {
            if entry.at <= breaker.horizon(entry.kind, now) {
                breaker.apply(*entry);
            } else {
                breaker.pass_over(*entry);
            }
        }
        breaker
    }

    /// The latest stamp with which such an entry is heeded at `now`.
    fn horizon(&self, kind: Kind, now: Timestamp) -> Timestamp {
        let is_probing = matches!(self.position, Position::Probing { .. });
        match kind {
            // They are heeded now, and count when their time has come.
            Kind::Failure | Kind::Success => Timestamp::MAX,
            // It answers no probe that is known of.
            Kind::Void | Kind::Closed if !is_probing => now,
            _ => now.plus(self.pause.max(MINUTE)),
        }
    }

    fn pass_over(&mut self, entry: Entry) {
        self.passed_over += 1;
        if let Kind::Probe { id, .. } = entry.kind {
            self.last_probe = id;
        }
    }

    /// Asks whether a call may be sent at `now`.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        let (admission, entry) = self.decide_admission(now);
        if let Some(entry) = entry {
            self.apply(entry);
        }
        admission
    }

    /// Takes the outcome, at `now`, of a call that was let through.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a permit is used up: no call has two outcomes"
    )]
    pub fn record(&mut self, permit: Permit, signal: Signal, now: Timestamp) -> Option<Change> {
        let entries = self.decide_outcome(&permit, signal, now);
        for entry in &entries {
            self.apply(*entry);
        }
        self.outcomes.forget(self.policy, now);
        change(&entries)
    }

    /// What the breaker knows at `now`.
    pub fn status(&self, now: Timestamp) -> Status {
        let state = match self.position {
            Position::Closed => State::Closed,
            Position::Open { until } if now < until => State::Open { until },
            Position::Open { .. } | Position::Probing { .. } => State::HalfOpen,
        };
        let future = self.outcomes.future(now) + self.passed_over;
        Status { state, count: self.outcomes.count(self.policy, now), future }
    }

    pub(super) fn decide_admission(&self, now: Timestamp) -> (Admission, Option<Entry>) {
        match self.position {
            Position::Closed => (Admission::Allowed(self.permit(None)), None),
            Position::Open { until } | Position::Probing { until, .. } if now < until => {
                (Admission::Refused { until }, None)
            }
            Position::Open { .. } | Position::Probing { .. } => {
                let id = self.last_probe.wrapping_add(1);
                let patience = if self.pause.as_millis() == 0 { MINUTE } else { self.pause };
                let entry = Entry::new(now, Kind::Probe { id, until: now.plus(patience) });
                (Admission::Probe(self.permit(Some(id))), Some(entry))
            }
        }
    }

    fn permit(&self, probe: Option<u64>) -> Permit {
        Permit { closings: self.closings, probe }
    }

    pub(super) fn decide_outcome(
        &self,
        permit: &Permit,
        signal: Signal,
        now: Timestamp,
    ) -> Vec<Entry> {
        let entry = |kind| Entry::new(now, kind);
        let opened = || entry(Kind::Opened { until: now.plus(self.pause) });
        let is_probe =
            matches!(self.position, Position::Probing { id, .. } if permit.probe == Some(id));
        let is_closed = self.position == Position::Closed;
        match signal {
            Signal::Success if is_probe => vec![entry(Kind::Closed)],
            Signal::Failure if is_probe => vec![entry(Kind::Failure), opened()],
            // A refusal is no proof: the next call is the probe.
            Signal::Neutral if is_probe => vec![entry(Kind::Void)],
            Signal::Failure if self.is_stale(permit) => vec![],
            Signal::Failure
                if is_closed
                    && self.outcomes.count(self.policy, now) + 1
                        >= self.policy.failures() as usize =>
            {
                vec![entry(Kind::Failure), opened()]
            }
            Signal::Failure => vec![entry(Kind::Failure)],
            Signal::Success if is_closed && matches!(self.policy, Policy::Streak { .. }) => {
                vec![entry(Kind::Success)]
            }
            Signal::Success | Signal::Neutral => vec![],
        }
    }

    /// Whether a call was let through before a probe closed the circuit.
    fn is_stale(&self, permit: &Permit) -> bool {
        permit.closings < self.closings
    }

    pub(super) fn apply(&mut self, entry: Entry) {
        match entry.kind {
            Kind::Failure => self.outcomes.add(Outcome { at: entry.at, is_failure: true }),
            Kind::Success => self.outcomes.add(Outcome { at: entry.at, is_failure: false }),
            Kind::Opened { until } => self.position = Position::Open { until },
            Kind::Probe { id, until } => {
                self.last_probe = id;
                self.position = Position::Probing { id, until };
            }
            // The pause was over, also for those whose clocks are behind.
            Kind::Void => self.position = Position::Open { until: Timestamp::default() },
            Kind::Closed => {
                self.position = Position::Closed;
                self.closings += 1;
                self.outcomes.clear(entry.at);
            }
        }
    }
}

/// What the entries of one outcome have changed.
pub(super) fn change(entries: &[Entry]) -> Option<Change> {
    entries.iter().find_map(|entry| match entry.kind {
        Kind::Opened { until } => Some(Change::Opened { until }),
        Kind::Closed => Some(Change::Closed),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
