//! How long to wait before a call is sent again.
//!
//! The rules for jitter are those of the AWS simulator (Brooker: Exponential backoff and jitter, 2015).
//! Every wait follows from a seed and the call's number alone. Those under full and equal jitter are whole
//! milliseconds.

use std::time::Duration;

use rand_pcg::Pcg64;

use crate::{
    Seed,
    call::CallError,
    seed::{below, mix},
};

/// Sets the waits apart from everything else that is drawn from the same seed.
const STREAM: u128 = 0x6261_6462_616e_6b00_7761_6974;

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
    /// The longest wait before the first retry; under decorrelated jitter, the shortest of all.
    pub base: Duration,
    /// The longest wait there is, unless the service asks for a longer one.
    pub cap: Duration,
    /// How the wait is chosen below its longest.
    pub jitter: Jitter,
}

/// How a wait is chosen below its longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// Always the longest wait: clients that failed together come back together.
    None,
    /// Anything from nothing to the longest wait, all equally likely.
    #[default]
    Full,
    /// Half the longest wait, and anything up to the other half.
    Equal,
    /// Anything from the base to three times the wait before, whatever the number of the retry.
    Decorrelated,
}

impl Default for Backoff {
    /// Half a second, doubled up to eight, with full jitter.
    fn default() -> Self {
        Self { base: Duration::from_millis(500), cap: Duration::from_secs(8), jitter: Jitter::Full }
    }
}

impl Backoff {
    /// The longest wait that a service may ask for; one that asks for a longer one is asked again after this.
    ///
    /// Within it a service's word beats the cap: to come earlier than it says is to be turned away once
    /// more. Beyond it a mistaken header would stall its caller for hours. Older Stripe clients drew the
    /// line at the same minute.
    pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

    /// The longest wait before a retry; the first is number 0.
    pub fn ceiling(&self, retry: u32) -> Duration {
        let factor = match self.jitter {
            Jitter::None | Jitter::Full | Jitter::Equal => 1_u32.checked_shl(retry),
            Jitter::Decorrelated => 3_u32.checked_pow(retry.saturating_add(1)),
        };
        self.base.saturating_mul(factor.unwrap_or(u32::MAX)).min(self.cap)
    }

    /// The waits of a call, one before each retry.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use badbank::{Seed, harness::{Backoff, Jitter}};
    ///
    /// let backoff = Backoff { jitter: Jitter::Equal, ..Backoff::default() };
    /// let waits: Vec<Duration> = backoff.waits(Seed::new(7), 1).take(2).collect();
    /// assert!(waits[0] >= Duration::from_millis(250) && waits[0] <= Duration::from_millis(500));
    /// assert!(waits[1] >= Duration::from_millis(500) && waits[1] <= Duration::from_millis(1000));
    /// ```
    ///
    /// # Determinism
    ///
    /// They follow from `seed` and `call`, the call's number in its program, alone.
    pub fn waits(&self, seed: Seed, call: u32) -> Waits {
        let high = mix(seed.number() ^ mix(u64::from(call)));
        let state = u128::from(high) << 64 | u128::from(mix(high));
        Waits { backoff: *self, retry: 0, last: self.base, rng: Pcg64::new(state, STREAM) }
    }
}

/// The waits of one call; there is always another.
#[derive(Clone, Debug)]
pub struct Waits {
    backoff: Backoff,
    retry: u32,
    last: Duration,
    rng: Pcg64,
}

impl Waits {
    /// The wait after `error`: the next one, and no shorter than the service asks for, up to
    /// [`Backoff::RETRY_AFTER_MAX`].
    pub fn after(&mut self, error: &CallError) -> Duration {
        let wait = self.draw();
        match error {
            CallError::RateLimited { retry_after_s } => {
                wait.max(Duration::from_secs(*retry_after_s).min(Backoff::RETRY_AFTER_MAX))
            }
            _ => wait,
        }
    }

    fn draw(&mut self) -> Duration {
        let ceiling = self.backoff.ceiling(self.retry);
        self.retry = self.retry.saturating_add(1);
        let ceiling_ms = millis(ceiling);
        let wait = match self.backoff.jitter {
            Jitter::None => ceiling,
            Jitter::Full => Duration::from_millis(self.between(0, ceiling_ms)),
            Jitter::Equal => Duration::from_millis(self.between(ceiling_ms / 2, ceiling_ms)),
            Jitter::Decorrelated => {
                let (base, longest) =
                    (nanos(self.backoff.base), nanos(self.last).saturating_mul(3));
                Duration::from_nanos(self.between(base, longest)).min(self.backoff.cap)
            }
        };
        self.last = wait;
        wait
    }

    /// Anything from `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + below(&mut self.rng, high.saturating_sub(low).saturating_add(1))
    }
}

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.draw())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JITTERS: [Jitter; 4] = [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated];

    fn with(jitter: Jitter) -> Backoff {
        Backoff { jitter, ..Backoff::default() }
    }

    /// The waits before a retry, in milliseconds, of many calls.
    fn waits_ms(backoff: Backoff, retry: usize) -> Vec<u64> {
        let wait = |call| backoff.waits(Seed::new(7), call).nth(retry).map(millis).unwrap();
        (1..=2_000).map(wait).collect()
    }

    #[test]
    fn jitter_fills_its_range_and_keeps_to_it() {
        for (jitter, retry, low, high) in [
            (Jitter::Full, 0, 0, 500),
            (Jitter::Full, 1, 0, 1000),
            (Jitter::Full, 4, 0, 8000),
            (Jitter::Full, 40, 0, 8000),
            (Jitter::Equal, 0, 250, 500),
            (Jitter::Equal, 4, 4000, 8000),
            (Jitter::Decorrelated, 0, 500, 1500),
            (Jitter::Decorrelated, 9, 500, 8000),
        ] {
            let waits = waits_ms(with(jitter), retry);
            let near = (high - low) / 50;
            assert!(waits.iter().all(|wait| (low..=high).contains(wait)), "{jitter:?} {retry}");
            assert!(waits.iter().any(|wait| *wait >= high - near), "{jitter:?} {retry}");
            assert!(waits.iter().any(|wait| *wait <= low + near), "{jitter:?} {retry}");
        }
    }

    #[test]
    fn decorrelated_jitter_goes_up_to_three_times_the_wait_before() {
        let backoff = Backoff { cap: Duration::from_secs(3600), ..with(Jitter::Decorrelated) };
        assert_eq!(backoff.ceiling(2), Duration::from_millis(13_500));
        for call in 0..200 {
            let waits: Vec<Duration> = backoff.waits(Seed::new(7), call).take(8).collect();
            let is_in_range = |pair: &[Duration]| (backoff.base..=3 * pair[0]).contains(&pair[1]);
            assert!(waits.windows(2).all(is_in_range));
        }
    }

    #[test]
    fn a_base_below_a_millisecond_is_no_wait_of_nothing() {
        let base = Duration::from_micros(900);
        let backoff = Backoff { base, ..with(Jitter::Decorrelated) };
        let mut longest = Duration::ZERO;
        for call in 0..200 {
            let waits: Vec<Duration> = backoff.waits(Seed::new(7), call).take(40).collect();
            assert!(waits[0] >= base && waits[0] <= 3 * base, "{waits:?}");
            assert!(waits.iter().all(|wait| (base..=backoff.cap).contains(wait)), "{waits:?}");
            longest = longest.max(waits[39]);
        }
        assert!(longest > Duration::from_secs(1), "{longest:?}");
        let plain = Backoff { base, ..with(Jitter::None) };
        assert_eq!(plain.waits(Seed::new(7), 1).next(), Some(base));
    }

    #[test]
    fn the_same_call_waits_the_same() {
        for jitter in JITTERS {
            let waits = |seed, call| -> Vec<Duration> {
                with(jitter).waits(Seed::new(seed), call).take(5).collect()
            };
            assert_eq!(waits(7, 1), waits(7, 1));
            assert_eq!(waits(7, 1) == waits(7, 2), jitter == Jitter::None);
            assert_eq!(waits(7, 1) == waits(8, 1), jitter == Jitter::None);
        }
    }

    #[test]
    fn without_jitter_the_wait_is_the_longest() {
        assert!(waits_ms(with(Jitter::None), 1).iter().all(|wait| *wait == 1000));
    }

    #[test]
    fn no_wait_at_all_is_a_backoff_too() {
        for jitter in JITTERS {
            let backoff = Backoff { base: Duration::ZERO, ..with(jitter) };
            assert_eq!(waits_ms(backoff, 3), [0; 2_000]);
        }
    }

    #[test]
    fn a_service_that_names_a_time_is_not_asked_before_it() {
        for (retry_after_s, wait_s) in [(0, 8), (3, 8), (30, 30), (60, 60), (u64::MAX, 60)] {
            let backoff = Backoff { base: Duration::from_secs(8), ..with(Jitter::None) };
            let mut waits = backoff.waits(Seed::new(7), 1);
            let wait = waits.after(&CallError::RateLimited { retry_after_s });
            assert_eq!(wait, Duration::from_secs(wait_s));
        }
        let mut waits = with(Jitter::None).waits(Seed::new(7), 1);
        assert_eq!(waits.after(&CallError::Unavailable), Duration::from_millis(500));
    }
}
