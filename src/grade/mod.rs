//! Judges a run from evidence alone.

mod report;

pub use self::report::{Claim, Report};
