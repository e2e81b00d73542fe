//! The walk along a burst's chain of states, one attempt after the other.
//!
//! A state follows from the draws of all attempts up to its own. How far a chain was walked is remembered, so that
//! calls which come in turn cost a draw each; what is remembered changes no state.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Burst;
use crate::seed::scale;

/// The chain of one burst on one operation and order.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The furthest attempt whose state is known, and in the lowest bit that state.
    furthest: AtomicU64,
}

impl Walk {
    /// Whether the chain is in its bad state at an attempt; each attempt has its own draw.
    pub(super) fn is_bad(&self, burst: Burst, attempt: u32, draw: impl Fn(u32) -> u64) -> bool {
        let (good, bad) = (u64::from(burst.good.thousandths()), u64::from(burst.bad.thousandths()));
        let furthest = self.furthest.load(Relaxed);
        let known = u32::try_from(furthest >> 1).expect("an attempt was put there");
        let (from, is_bad) = if (1..=attempt).contains(&known) {
            (known, furthest & 1 == 1)
        } else {
            (1, scale(draw(1), good + bad) < bad)
        };
        let is_bad = (from..=attempt).skip(1).fold(is_bad, |is_bad, attempt| {
            // A stretch of mean length m ends with a chance of 1 in m.
            let ends = scale(draw(attempt), if is_bad { bad } else { good }) < 1000;
            is_bad != ends
        });
        self.furthest.fetch_max(u64::from(attempt) << 1 | u64::from(is_bad), Relaxed);
        is_bad
    }
}

impl Clone for Walk {
    fn clone(&self) -> Self {
        Self { furthest: AtomicU64::new(self.furthest.load(Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rand::seq::SliceRandom;
    use rand_pcg::Pcg64;

    use super::*;
    use crate::seed::mix;

    const ATTEMPTS: u32 = 60;

    fn burst(good: &str, bad: &str) -> Burst {
        Burst { good: good.parse().unwrap(), bad: bad.parse().unwrap() }
    }

    fn draw(seed: u64) -> impl Fn(u32) -> u64 + Copy {
        move |attempt| mix(mix(seed) ^ u64::from(attempt))
    }

    /// The states of the attempts from the first on, walked in one go.
    fn states(burst: Burst, draw: impl Fn(u32) -> u64) -> Vec<bool> {
        let (good, bad) = (u64::from(burst.good.thousandths()), u64::from(burst.bad.thousandths()));
        let mut is_bad = scale(draw(1), good + bad) < bad;
        let mut states = vec![is_bad];
        for attempt in 2..=ATTEMPTS {
            let mean = if is_bad { bad } else { good };
            is_bad ^= scale(draw(attempt), mean) < 1000;
            states.push(is_bad);
        }
        states
    }

    #[test]
    fn a_state_is_the_same_whatever_was_asked_before() {
        for (good, bad) in [("4", "3"), ("1", "1"), ("2.5", "1.001"), ("20", "7"), ("1", "1000")] {
            let burst = burst(good, bad);
            for seed in 0..100 {
                let expected = states(burst, draw(seed));
                let forwards: Vec<u32> = (1..=ATTEMPTS).collect();
                let backwards = forwards.iter().rev().copied().collect();
                let mut at_random = forwards.repeat(2);
                at_random.shuffle(&mut Pcg64::new(u128::from(seed), 1));
                for attempts in [forwards, backwards, at_random] {
                    let walk = Walk::default();
                    for attempt in attempts {
                        let before = walk.clone();
                        for walk in [&walk, &walk.clone(), &before] {
                            let found = walk.is_bad(burst, attempt, draw(seed));
                            assert_eq!(found, expected[attempt as usize - 1], "seed {seed}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn attempts_that_come_in_turn_cost_a_draw_each_and_a_look_back_forgets_nothing() {
        let draws = Cell::new(0);
        let counted = |attempt| {
            draws.set(draws.get() + 1);
            draw(7)(attempt)
        };
        let walk = Walk::default();
        for attempt in 1..=100_000 {
            walk.is_bad(burst("4", "3"), attempt, counted);
        }
        assert_eq!(draws.take(), 100_000);
        walk.is_bad(burst("4", "3"), 10, counted);
        assert_eq!(draws.take(), 10);
        walk.clone().is_bad(burst("4", "3"), 100_001, counted);
        assert_eq!(draws.take(), 1);
    }
}
