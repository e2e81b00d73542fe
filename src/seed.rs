//! The number that a whole run follows from, and the mixing that turns it into draws.
//!
//! Everything random in badbank is a pure function of a [`Seed`] and of what is being drawn for. The
//! functions here are frozen: golden vectors in the tests hold every bit of them.

use std::{fmt, num::ParseIntError, str::FromStr};

use rand::Rng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// What every draw of a run follows from.
///
/// # Examples
///
/// ```
/// use badbank::Seed;
///
/// let seed: Seed = "7".parse()?;
/// assert_eq!(seed, Seed::new(7));
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    /// A seed; every `u64` is one.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The seed as a number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl FromStr for Seed {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `SplitMix64`'s finaliser: a bijection of 64-bit words in which every input bit moves every output
/// bit (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A uniform whole number below `bound`, from the high bits of one draw.
///
/// The bias is below `bound / 2^64`. rand's own ranges may change between its releases, so none is used.
pub(crate) fn below(rng: &mut Pcg64, bound: u64) -> u64 {
    scale(rng.next_u64(), bound)
}

/// Where `draw` falls when the range of `u64` is divided into `parts` equal parts, counted from 0.
pub(crate) const fn scale(draw: u64, parts: u64) -> u64 {
    ((draw as u128 * parts as u128) >> 64) as u64
}
