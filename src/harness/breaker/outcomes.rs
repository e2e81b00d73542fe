//! What a breaker counts.

use super::{Policy, Timestamp};

/// Outcomes in the order of their stamps, and those with the same stamp in the order in which they came.
///
/// Those that lie in the future are kept, and count once their time has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes(pub(super) Vec<Outcome>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) at: Timestamp,
    pub(super) is_failure: bool,
}

impl Outcomes {
    pub(super) fn add(&mut self, outcome: Outcome) {
        let place = self.past(outcome.at).len();
        self.0.insert(place, outcome);
    }

    /// The failures that count at `now`.
    pub(super) fn count(&self, policy: Policy, now: Timestamp) -> usize {
        let counted = &self.past(now)[self.forgotten(policy, now)..];
        counted.iter().filter(|outcome| outcome.is_failure).count()
    }

    /// How many lie in the future.
    pub(super) fn future(&self, now: Timestamp) -> usize {
        self.0.len() - self.past(now).len()
    }

    /// Drops what was over at `at`.
    pub(super) fn clear(&mut self, at: Timestamp) {
        self.0.drain(..self.past(at).len());
    }

    /// Drops what is too old to count ever again.
    pub(super) fn forget(&mut self, policy: Policy, now: Timestamp) {
        self.0.drain(..self.forgotten(policy, now));
    }

    /// Those whose time has come at `now`.
    fn past(&self, now: Timestamp) -> &[Outcome] {
        &self.0[..self.0.partition_point(|outcome| outcome.at <= now)]
    }

    /// How many, from the oldest, do not count any more at `now`.
    fn forgotten(&self, policy: Policy, now: Timestamp) -> usize {
        let past = self.past(now);
        match policy {
            Policy::Streak { .. } => past
                .iter()
                .rposition(|outcome| !outcome.is_failure)
                .map_or(0, |success| success + 1),
            Policy::Window { within, .. } => {
                past.partition_point(|outcome| outcome.at.plus(within) < now)
            }
        }
    }
}
