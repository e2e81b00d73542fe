//! What the program under test says it did.

/// A report, read.
#[derive(Clone, Debug, Default)]
pub struct Report;
