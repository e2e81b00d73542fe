//! How long to wait before a call is sent again.

use std::time::Duration;

use rand_pcg::Pcg64;

use crate::seed::below;

/// Capped exponential backoff: the longest wait doubles with every retry, up to a cap.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use badbank::harness::Backoff;
///
/// let backoff = Backoff::default();
/// let longest: Vec<u128> = (0..6).map(|retry| backoff.ceiling(retry).as_millis()).collect();
/// assert_eq!(longest, [500, 1000, 2000, 4000, 8000, 8000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait before the first retry.
    pub base: Duration,
    /// The longest wait there is.
    pub cap: Duration,
    /// How the wait is chosen below its longest.
    pub jitter: Jitter,
}

/// How a wait is chosen below its longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// Always the longest wait: clients that failed together come back together.
    None,
    /// Anything from nothing to the longest wait, all equally likely (Brooker: Exponential backoff and
    /// jitter, 2015).
    #[default]
    Full,
}

impl Default for Backoff {
    /// Half a second, doubled up to eight, with full jitter.
    fn default() -> Self {
        Self { base: Duration::from_millis(500), cap: Duration::from_secs(8), jitter: Jitter::Full }
    }
}

impl Backoff {
    /// The longest wait before a retry; the first is number 0.
    pub fn ceiling(&self, retry: u32) -> Duration {
        let factor = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// The wait before a retry, in whole milliseconds; the first is number 0.
    pub(super) fn delay(&self, retry: u32, rng: &mut Pcg64) -> Duration {
        let ceiling = self.ceiling(retry);
        match self.jitter {
            Jitter::None => ceiling,
            Jitter::Full => {
                let longest_ms = u64::try_from(ceiling.as_millis()).unwrap_or(u64::MAX);
                Duration::from_millis(below(rng, longest_ms.saturating_add(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(backoff: Backoff, retry: u32, stream: u128) -> Vec<Duration> {
        let mut rng = Pcg64::new(7, stream);
        (0..2_000).map(|_| backoff.delay(retry, &mut rng)).collect()
    }

    #[test]
    fn full_jitter_fills_the_range_and_keeps_to_it() {
        for (retry, longest_ms) in [(0, 500), (1, 1000), (4, 8000), (40, 8000)] {
            let delays = delays(Backoff::default(), retry, 1);
            let longest = Duration::from_millis(longest_ms);
            assert!(delays.iter().all(|delay| *delay <= longest), "{retry}");
            assert!(delays.iter().any(|delay| *delay > longest / 100 * 99));
            assert!(delays.iter().any(|delay| *delay < longest / 100));
        }
    }

    #[test]
    fn the_same_stream_gives_the_same_delays() {
        let backoff = Backoff::default();
        assert_eq!(delays(backoff, 0, 1), delays(backoff, 0, 1));
        assert_ne!(delays(backoff, 0, 1), delays(backoff, 0, 2));
    }

    #[test]
    fn without_jitter_the_wait_is_the_longest() {
        let backoff = Backoff { jitter: Jitter::None, ..Backoff::default() };
        let delays = delays(backoff, 1, 1);
        assert!(delays.iter().all(|delay| *delay == Duration::from_secs(1)));
    }

    #[test]
    fn no_wait_at_all_is_a_backoff_too() {
        let backoff = Backoff { base: Duration::ZERO, ..Backoff::default() };
        assert_eq!(backoff.delay(3, &mut Pcg64::new(7, 1)), Duration::ZERO);
    }
}
