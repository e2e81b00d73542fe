//! Whether a call is sent again, and what is said when it is given up.

use std::time::Duration;

use super::{Backoff, Budget, backoff::Waits};
use crate::{Seed, call::CallError};

/// How often a call is sent, and how long to wait in between.
///
/// Errors for which [`CallError::is_retryable`] holds are worth another attempt: transient ones, calls
/// without an answer, and a first refund under the same key that has not finished.
///
/// # Examples
///
/// ```
/// use badbank::{Seed, call::CallError, harness::{Retry, Step}};
///
/// let mut retrying = Retry::default().begin(Seed::new(7), 1);
/// let lost: Result<(), CallError> = Err(CallError::Timeout);
/// let failed: Result<(), CallError> = Err(CallError::Unavailable);
/// assert!(matches!(retrying.next(&lost), Step::Wait(_)));
/// assert!(matches!(retrying.next(&failed), Step::Wait(_)));
/// assert_eq!(retrying.next(&failed), Step::Stop);
/// // The last error says that nothing has happened; the money may have moved all the same.
/// assert_eq!(retrying.conclude(failed), Err(CallError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often a call is sent at the most, the first time included.
    pub attempts_max: u32,
    /// How long to wait before each further attempt.
    pub backoff: Backoff,
}

impl Default for Retry {
    /// Three attempts, with the default backoff.
    fn default() -> Self {
        Self { attempts_max: 3, backoff: Backoff::default() }
    }
}

impl Retry {
    /// No second attempt: every error is the caller's.
    pub fn never() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }

    /// Begins a call that has not been sent yet.
    ///
    /// # Determinism
    ///
    /// The waits follow from `seed` and `call`, the call's number in its program, alone.
    pub fn begin(&self, seed: Seed, call: u32) -> Retrying {
        let waits = self.backoff.waits(seed, call);
        Retrying { attempts_max: self.attempts_max, attempts: 0, worst: None, waits }
    }
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait as long as this, then send the same call again.
    Wait(Duration),
    /// Send nothing more; [`Retrying::conclude`] has the call's outcome.
    Stop,
}

/// A call between its first attempt and its last.
#[derive(Clone, Debug)]
pub struct Retrying {
    attempts_max: u32,
    attempts: u32,
    worst: Option<CallError>,
    waits: Waits,
}

impl Retrying {
    /// Takes the outcome of an attempt and says what to do next.
    pub fn next<T>(&mut self, outcome: &Result<T, CallError>) -> Step {
        self.decide(outcome, None, |_| true)
    }

    /// As [`next`](Self::next), but a further attempt has to be paid for from a budget.
    pub fn next_within<T>(&mut self, outcome: &Result<T, CallError>, budget: &mut Budget) -> Step {
        self.decide(outcome, Some(budget), |_| true)
    }

    /// As both, for an attempt that has to be worth the wait, too; one that is not is not paid for.
    pub(super) fn decide<T>(
        &mut self,
        outcome: &Result<T, CallError>,
        mut budget: Option<&mut Budget>,
        is_worthwhile: impl FnOnce(Duration) -> bool,
    ) -> Step {
        self.attempts += 1;
        if let Some(budget) = budget.as_deref_mut().filter(|_| self.attempts == 1) {
            budget.first_attempt();
        }
        let Err(error) = outcome else {
            return Step::Stop;
        };
        self.worst.get_or_insert_with(|| error.clone()).worsen(error);
        if self.attempts >= self.attempts_max || !error.is_retryable() {
            return Step::Stop;
        }
        let wait = self.waits.after(error);
        if is_worthwhile(wait) && budget.is_none_or(Budget::try_retry) {
            Step::Wait(wait)
        } else {
            Step::Stop
        }
    }

    /// The worst error of the attempts so far: a timeout, or else the last indeterminate one, or else the last
    /// of all.
    pub fn worst(&self) -> Option<&CallError> {
        self.worst.as_ref()
    }

    /// The outcome of the whole call: its reply, or else the worst error it met.
    ///
    /// # Errors
    ///
    /// [`CallError::Timeout`] if one attempt had no answer, or else the last indeterminate [`CallError`], or
    /// else the last of all. A later attempt that made no changes says nothing about an earlier one.
    pub fn conclude<T>(self, last: Result<T, CallError>) -> Result<T, CallError> {
        last.map_err(|error| self.worst.unwrap_or(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Refusal, RefusalCode};

    type Outcome = Result<u32, CallError>;

    const UNAVAILABLE: Outcome = Err(CallError::Unavailable);
    const TIMEOUT: Outcome = Err(CallError::Timeout);
    const SERVER_ERROR: Outcome = Err(CallError::ServerError);

    fn refused(code: RefusalCode) -> Outcome {
        Err(Refusal::new(code, "no").into())
    }

    /// How many of the outcomes were asked for, and what was concluded.
    fn send(outcomes: &[Outcome]) -> (usize, Outcome) {
        let mut retrying = Retry::default().begin(Seed::new(7), 1);
        for (index, outcome) in outcomes.iter().enumerate() {
            if retrying.next(outcome) == Step::Stop {
                let worst = retrying.worst().cloned();
                let concluded = retrying.clone().conclude(outcome.clone());
                assert!(outcome.is_ok() || concluded.err() == worst);
                return (index + 1, retrying.conclude(outcome.clone()));
            }
        }
        panic!("another attempt after {outcomes:?}");
    }

    #[test]
    fn a_call_is_sent_three_times_at_the_most() {
        assert_eq!(send(&[Ok(1)]), (1, Ok(1)));
        assert_eq!(send(&[TIMEOUT, Ok(1)]), (2, Ok(1)));
        let outcomes = [UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, Ok(1)];
        assert_eq!(send(&outcomes), (3, UNAVAILABLE));
    }

    #[test]
    fn the_worst_error_is_reported_not_the_last() {
        assert_eq!(send(&[TIMEOUT, UNAVAILABLE, UNAVAILABLE]), (3, TIMEOUT));
        assert_eq!(send(&[UNAVAILABLE, TIMEOUT, UNAVAILABLE]), (3, TIMEOUT));
        assert_eq!(send(&[TIMEOUT, SERVER_ERROR, UNAVAILABLE]), (3, TIMEOUT));
        assert_eq!(send(&[SERVER_ERROR, TIMEOUT, SERVER_ERROR]), (3, TIMEOUT));
        let broken: Outcome = Err(CallError::Broken { detail: "reset".to_owned() });
        assert_eq!(send(&[TIMEOUT, UNAVAILABLE, broken.clone()]), (3, TIMEOUT));
        assert_eq!(send(&[broken.clone(), SERVER_ERROR, UNAVAILABLE]), (3, SERVER_ERROR));
        assert_eq!(send(&[SERVER_ERROR, broken.clone(), UNAVAILABLE]), (3, broken));
        let refusal = refused(RefusalCode::AlreadyRefunded);
        assert_eq!(send(&[TIMEOUT, refusal.clone()]), (2, TIMEOUT));
        assert_eq!(send(&[UNAVAILABLE, refusal.clone()]), (2, refusal));
    }

    #[test]
    fn a_refusal_is_final_unless_the_first_refund_is_in_flight() {
        let refusal = refused(RefusalCode::OverRefund);
        assert_eq!(send(std::slice::from_ref(&refusal)), (1, refusal));
        assert_eq!(send(&[refused(RefusalCode::InFlight), Ok(1)]), (2, Ok(1)));
    }

    #[test]
    fn waits_follow_from_seed_and_call_alone() {
        let waits = |seed, call| {
            let mut retrying = Retry::default().begin(Seed::new(seed), call);
            [retrying.next(&TIMEOUT), retrying.next(&UNAVAILABLE)]
        };
        assert_eq!(waits(7, 1), waits(7, 1));
        assert_ne!(waits(7, 1), waits(7, 2));
        assert_ne!(waits(7, 1), waits(8, 1));
    }
}
