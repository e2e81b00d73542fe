//! What the program under test says it did.

/// What a report claims of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is refunded.
    Refunded,
    /// It is not.
    Failed,
    /// It is refunded more than once.
    Duplicated,
    /// Nobody can say.
    Unknown,
}

impl Claim {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        "REFUNDED"
    }
}

/// A report, read.
#[derive(Clone, Debug, Default)]
pub struct Report;

impl Report {
    /// Reads.
    pub fn read(_: &str) -> Self {
        Self
    }
    /// Whether.
    pub fn is_readable(&self) -> bool {
        false
    }
    /// Claims.
    pub fn claims(&self, _: &str) -> impl Iterator<Item = Claim> {
        [Claim::Refunded, Claim::Failed, Claim::Duplicated, Claim::Unknown].into_iter()
    }
}
