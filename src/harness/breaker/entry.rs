//! What a breaker's evidence consists of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A time on the one clock: milliseconds since the Unix epoch, in UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The end of time.
    pub(super) const MAX: Self = Self(u64::MAX);

    /// So many milliseconds after the epoch.
    pub const fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms)
    }

    /// Milliseconds since the epoch.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// The time so much later, in whole milliseconds; the end of time for what lies beyond it.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

/// Something that a breaker takes into account, as a line of an evidence log.
///
/// # Examples
///
/// ```
/// use badbank::harness::{Entry, Kind, Timestamp};
///
/// let entry = Entry::new(Timestamp::from_unix_ms(1000), Kind::Failure);
/// assert_eq!(serde_json::to_string(&entry)?, r#"{"at_ms":1000,"kind":"failure"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it happened.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: Kind,
}

impl Entry {
    /// An entry.
    pub const fn new(at: Timestamp, kind: Kind) -> Self {
        Self { at, kind }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A call failed.
    Failure,
    /// A call succeeded; only a breaker that counts streaks writes this down.
    Success,
    /// The circuit opened.
    Opened {
        /// The end of the pause.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
    /// A probe was let through.
    Probe {
        /// Its number among all probes, from 1.
        id: u64,
        /// When it is given up if it has no outcome.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
    /// The probe's outcome said nothing about the backend.
    Void,
    /// The probe succeeded: the circuit closed, and the window was cleared.
    Closed,
}
