//! When a call that keeps failing in the same way is not sent any more.
//!
//! The rule outlives the single call: an agent that writes a failed call anew, over a harness that has
//! already repeated it, multiplies the attempts. The rule counts across both and answers by itself.

use std::{collections::BTreeMap, mem};

use crate::call::CallError;

/// Stops a call after so many identical failures in a row, by the kind of the error.
///
/// Calls are told apart by a name that stays the same however often the call is written anew, such as its
/// intent. Any other outcome, a different error too, starts the count anew.
///
/// # Examples
///
/// ```
/// use badbank::{call::CallError, harness::StoppingRule};
///
/// let mut rule = StoppingRule::after(3);
/// let unavailable: Result<(), CallError> = Err(CallError::Unavailable);
/// for _ in 0..3 {
///     assert_eq!(rule.stopped("refund:A-1"), None);
///     rule.note("refund:A-1", &unavailable);
/// }
/// // The refund is not sent a fourth time; others are.
/// assert_eq!(rule.stopped("refund:A-1"), Some(&CallError::Unavailable));
/// assert_eq!(rule.stopped("refund:A-2"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppingRule {
    failures: u32,
    calls: BTreeMap<String, Run>,
    answered: u64,
}

/// How a call has failed lately.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    last: CallError,
    length: u32,
    /// The worst error, in this run or before it.
    worst: CallError,
}

impl StoppingRule {
    /// A rule that stops a call after `failures` identical failures in a row, and after one at the least.
    pub const fn after(failures: u32) -> Self {
        let failures = if failures == 0 { 1 } else { failures };
        Self { failures, calls: BTreeMap::new(), answered: 0 }
    }

    /// Takes the outcome of an attempt; says whether the rule stops the call from now on.
    pub fn note<T>(&mut self, call: &str, outcome: &Result<T, CallError>) -> bool {
        let Err(error) = outcome else {
            self.calls.remove(call);
            return false;
        };
        let run = self.calls.entry(call.to_owned()).or_insert_with(|| Run {
            last: error.clone(),
            length: 0,
            worst: error.clone(),
        });
        run.length = if is_same_kind(&run.last, error) { run.length + 1 } else { 1 };
        run.last = error.clone();
        run.worst.worsen(error);
        run.length >= self.failures
    }

    /// The error with which a stopped call is to be answered, unsent: the worst that it met, not the last,
    /// as [`Retrying::worst`](super::Retrying::worst) has it.
    pub fn stopped(&self, call: &str) -> Option<&CallError> {
        let run = self.calls.get(call).filter(|run| run.length >= self.failures)?;
        Some(&run.worst)
    }

    /// As [`stopped`](Self::stopped), and counts the call as one that the rule has answered.
    pub fn answer(&mut self, call: &str) -> Option<CallError> {
        let error = self.stopped(call)?.clone();
        self.answered += 1;
        Some(error)
    }

    /// Calls that the rule has answered by itself.
    pub const fn answered(&self) -> u64 {
        self.answered
    }
}

/// Whether two errors are of one kind, whatever their details; refusals are told apart by their codes.
fn is_same_kind(one: &CallError, other: &CallError) -> bool {
    match (one, other) {
        (CallError::Refused(one), CallError::Refused(other)) => one.code == other.code,
        _ => mem::discriminant(one) == mem::discriminant(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Refusal, RefusalCode};

    type Outcome = Result<(), CallError>;

    const UNAVAILABLE: Outcome = Err(CallError::Unavailable);
    const TIMEOUT: Outcome = Err(CallError::Timeout);

    fn stops_at(outcomes: &[Outcome]) -> Option<usize> {
        let mut rule = StoppingRule::after(3);
        outcomes.iter().position(|outcome| rule.note("call", outcome))
    }

    #[test]
    fn only_identical_failures_in_a_row_stop_a_call() {
        assert_eq!(stops_at(&[UNAVAILABLE, UNAVAILABLE, UNAVAILABLE]), Some(2));
        assert_eq!(stops_at(&[UNAVAILABLE, UNAVAILABLE, TIMEOUT, UNAVAILABLE]), None);
        assert_eq!(stops_at(&[UNAVAILABLE, UNAVAILABLE, Ok(()), UNAVAILABLE]), None);
        let refused = |code, detail| Err(Refusal::new(code, detail).into());
        let (over, mismatch) = (RefusalCode::OverRefund, RefusalCode::KeyMismatch);
        assert_eq!(
            stops_at(&[refused(over, "a"), refused(over, "b"), refused(over, "c")]),
            Some(2)
        );
        assert_eq!(
            stops_at(&[refused(over, "a"), refused(over, "a"), refused(mismatch, "a")]),
            None
        );
        let limited = |retry_after_s| Err(CallError::RateLimited { retry_after_s });
        assert_eq!(stops_at(&[limited(1), limited(2), limited(4)]), Some(2));
    }

    #[test]
    fn a_stopped_call_is_answered_with_the_worst_error_it_met() {
        let mut rule = StoppingRule::after(2);
        for outcome in [&TIMEOUT, &Err(CallError::ServerError), &UNAVAILABLE, &UNAVAILABLE] {
            rule.note("call", outcome);
        }
        assert_eq!(rule.answer("call"), Some(CallError::Timeout));
        assert_eq!(rule.answer("another"), None);
        assert_eq!(rule.answered(), 1);
    }
}
