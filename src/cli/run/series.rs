//! The runs that one command asks for.

use crate::{cli::arguments::SeedRange, seed::Seed};

/// Several runs, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Series {
    /// One for each seed.
    Seeds(SeedRange),
    /// So many with one seed.
    Repeat(Seed, u32),
}

impl Series {
    /// How many runs there are.
    pub(super) fn count(self) -> u64 {
        match self {
            Self::Seeds(range) => range.count(),
            Self::Repeat(_, times) => u64::from(times),
        }
    }

    /// The seeds, a run each.
    pub(super) fn seeds(self) -> Box<dyn Iterator<Item = Seed>> {
        match self {
            Self::Seeds(range) => Box::new(range.seeds()),
            Self::Repeat(seed, times) => Box::new(std::iter::repeat_n(seed, times as usize)),
        }
    }

    /// What a run is called, by its place from 0.
    pub(super) fn name(self, place: u64) -> String {
        match self {
            Self::Seeds(range) => (range.first + place).to_string(),
            Self::Repeat(..) => format!("run {}", place + 1),
        }
    }

    /// What the runs are called together.
    pub(super) fn title(self) -> String {
        match self {
            Self::Seeds(SeedRange { first, last }) => format!("seeds {first}..{last}"),
            Self::Repeat(seed, times) => format!("seed {seed}, {times} times"),
        }
    }

    /// What one of them is.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Seeds(_) => "seeds",
            Self::Repeat(..) => "runs",
        }
    }
}
