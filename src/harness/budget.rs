//! How many calls may be sent again, however many fail.
//!
//! A bound on the attempts of one call still lets every call of an outage be sent that often. A budget
//! bounds the sum: retries are a share of first attempts, and a burst beyond it.

/// A bucket of retries: each first attempt puts a share of one in, each retry takes one out.
///
/// It starts full, at its burst, and never holds more. Of n calls at most `burst + n × share` retries
/// come, so layers that have a budget each add up to a few calls instead of multiplying them.
///
/// # Examples
///
/// Against a dead service, a thousand calls of three attempts each are not three thousand:
///
/// ```
/// use badbank::{Seed, call::CallError, harness::{Budget, Retry, Step}};
///
/// let mut budget = Budget::default();
/// let mut calls = 0;
/// for number in 0..1000 {
///     let mut retrying = Retry::default().begin(Seed::new(7), number);
///     let failed: Result<(), CallError> = Err(CallError::Unavailable);
///     calls += 1;
///     while retrying.next_within(&failed, &mut budget) != Step::Stop {
///         calls += 1;
///     }
/// }
/// assert!(calls <= 1000 + 200 + 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    share: Share,
    burst: u32,
    hundredths: u64,
    refused: u64,
}

/// Retries for every hundred first attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(u32);

/// What a retry costs, in hundredths.
const RETRY: u64 = 100;

impl Default for Budget {
    /// A fifth of the first attempts, and a burst of ten; Finagle has the same share.
    fn default() -> Self {
        Self::of_percent(20).with_burst(10)
    }
}

impl Budget {
    /// A budget of so many retries for every hundred first attempts, without a burst.
    pub const fn of_percent(percent: u32) -> Self {
        Self { share: Share(percent), burst: 0, hundredths: 0, refused: 0 }
    }

    /// The same, starting full with `burst` retries, and never holding more than that or than one.
    #[must_use]
    pub const fn with_burst(self, burst: u32) -> Self {
        Self { burst, hundredths: burst as u64 * RETRY, ..self }
    }

    /// Notes that a call was sent for the first time.
    pub fn first_attempt(&mut self) {
        let most = u64::from(self.burst.max(1)) * RETRY;
        self.hundredths = most.min(self.hundredths + u64::from(self.share.0));
    }

    /// Takes a retry out, if there is one.
    pub fn try_retry(&mut self) -> bool {
        let left = self.hundredths.checked_sub(RETRY);
        match left {
            Some(left) => self.hundredths = left,
            None => self.refused = self.refused.saturating_add(1),
        }
        left.is_some()
    }

    /// Retries that are left.
    pub fn left(&self) -> u64 {
        self.hundredths / RETRY
    }

    /// Retries that were asked for in vain.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_burst_and_then_a_share() {
        let mut budget = Budget::of_percent(20).with_burst(2);
        assert!(budget.try_retry() && budget.try_retry() && !budget.try_retry());
        let paid: Vec<bool> = (0..10)
            .map(|_| {
                budget.first_attempt();
                budget.try_retry()
            })
            .collect();
        assert_eq!(paid.iter().filter(|is_paid| **is_paid).count(), 2);
        assert_eq!(budget.refused(), 9);
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_the_burst() {
        let mut budget = Budget::of_percent(50).with_burst(3);
        (0..1000).for_each(|_| budget.first_attempt());
        assert_eq!(budget.left(), 3);
    }

    #[test]
    fn a_budget_without_a_burst_still_pays_its_share() {
        let mut budget = Budget::of_percent(25);
        (0..4).for_each(|_| budget.first_attempt());
        assert!(budget.try_retry());
        assert!(!budget.try_retry());
    }
}
