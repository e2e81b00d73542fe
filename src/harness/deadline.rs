//! How long a caller waits before it stops waiting.
//!
//! There is no clock here: the caller says how long something took, in whatever time it keeps.

use std::time::Duration;

use crate::call::CallError;

/// A bound on how long something may take: one attempt, or a whole call with all its attempts and waits.
///
/// # Examples
///
/// A refund whose answer comes after the deadline may have been paid, whatever that answer says:
///
/// ```
/// use std::time::Duration;
/// use badbank::{call::CallError, harness::Deadline};
///
/// let deadline = Deadline::after(Duration::from_secs(5));
/// let in_time = deadline.observe(Ok("paid 42.50"), Duration::from_secs(5));
/// assert_eq!(in_time, Ok("paid 42.50"));
/// let late = deadline.observe(Err::<&str, _>(CallError::Unavailable), Duration::from_secs(6));
/// assert_eq!(late, Err(CallError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// How long it may take.
    pub limit: Duration,
}

impl Deadline {
    /// A deadline so long after the start.
    pub const fn after(limit: Duration) -> Self {
        Self { limit }
    }

    /// What the caller has in its hands at the deadline, if the answer took so long.
    ///
    /// An answer that comes at the deadline is in time.
    ///
    /// # Errors
    ///
    /// [`CallError::Timeout`] for an answer that comes later: the caller has left and never learns what it
    /// says, not even that nothing has happened.
    pub fn observe<T>(&self, answer: Result<T, CallError>, took: Duration) -> Result<T, CallError> {
        if took > self.limit { Err(CallError::Timeout) } else { answer }
    }

    /// What is left for an attempt that begins after `elapsed` and a further wait; nothing if none may begin.
    ///
    /// A wait that would end at the deadline or later is not worth beginning: no attempt follows it.
    pub fn left_after(&self, elapsed: Duration, wait: Duration) -> Option<Duration> {
        let begins = elapsed.checked_add(wait)?;
        self.limit.checked_sub(begins).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_late_success_is_a_timeout_too() {
        let deadline = Deadline::after(SECOND);
        assert_eq!(deadline.observe(Ok(1), SECOND), Ok(1));
        let late = deadline.observe(Ok(1), SECOND + Duration::from_nanos(1));
        assert_eq!(late, Err(CallError::Timeout));
    }

    #[test]
    fn no_attempt_begins_at_the_deadline() {
        let deadline = Deadline::after(3 * SECOND);
        assert_eq!(deadline.left_after(SECOND, SECOND), Some(SECOND));
        assert_eq!(deadline.left_after(SECOND, 2 * SECOND), None);
        assert_eq!(deadline.left_after(4 * SECOND, Duration::ZERO), None);
        assert_eq!(deadline.left_after(Duration::MAX, SECOND), None);
    }
}
