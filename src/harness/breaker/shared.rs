//! A circuit breaker that several processes share through its evidence log.

use std::{
    fs, io,
    num::{IntErrorKind, ParseIntError},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use super::{
    Admission, Change, CircuitBreaker, Entry, Evidence, EvidenceError, EvidenceLog, Kind, Permit,
    Policy, Signal, Status, Timestamp, evidence::expect_file,
};

/// A [`CircuitBreaker`] whose evidence lies in a file that any number of workers write to.
///
/// Every decision is one step under the file's lock: read, decide, append. Nobody keeps a count of its own.
/// The clock is handed in and read under the lock, so that a worker that had to wait does not take the
/// failures of the faster ones for the future.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use badbank::harness::{Change, Policy, SharedBreaker, Signal, State, Timestamp};
///
/// let folder = tempfile::tempdir()?;
/// let hour = Duration::from_secs(3600);
/// let policy = Policy::Window { failures: 2, within: hour };
/// let workers = [1, 2].map(|_| SharedBreaker::at(folder.path().join("refunds.log"), policy, hour));
/// let noon = Timestamp::from_unix_ms(1_700_000_000_000);
///
/// let mut changes = Vec::new();
/// for worker in &workers {
///     let permit = worker.admit(|| noon)?.permit().expect("the circuit is closed");
///     changes.push(worker.record(permit, Signal::Failure, || noon)?);
/// }
/// // Neither worker has seen two failures, and yet no further refund is sent.
/// assert_eq!(changes, [None, Some(Change::Opened { until: noon.plus(hour) })]);
/// assert!(workers[0].admit(|| noon)?.permit().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedBreaker {
    log: EvidenceLog,
    legacy: Option<PathBuf>,
    policy: Policy,
    pause: Duration,
}

/// What a reader of a shared breaker learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the entries say.
    pub status: Status,
    /// Lines of the log that are no entries.
    pub malformed: usize,
}

/// Failures that are taken over from a legacy counter at the most, whatever number it holds.
const LEGACY_MAX: usize = 1000;

impl SharedBreaker {
    /// A breaker whose evidence lies at `path`.
    pub fn at(path: impl Into<PathBuf>, policy: Policy, pause: Duration) -> Self {
        Self { log: EvidenceLog::at(path), legacy: None, policy, pause }
    }

    /// The same, heeding a counter of the old kind as long as the log is empty.
    ///
    /// Such a file holds the number of failures in a row, and its modification time is the last one's. It
    /// holds for one pause after that. Its failures go into the log with the first new entry, so that none
    /// is lost when the readers change over; the file itself is left as it is.
    #[must_use]
    pub fn with_legacy_counter(mut self, path: impl Into<PathBuf>) -> Self {
        self.legacy = Some(path.into());
        self
    }

    /// Asks whether a call may be sent; `clock` is read under the lock.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if the log cannot be used.
    pub fn admit(&self, clock: impl FnOnce() -> Timestamp) -> Result<Admission, EvidenceError> {
        self.decide(clock, |breaker, now| {
            let (admission, entry) = breaker.decide_admission(now);
            (admission, entry.into_iter().collect())
        })
    }

    /// Takes the outcome of a call that was let through; `clock` is read under the lock.
    ///
    /// Of all workers, exactly one is told that it opened the circuit, also where their clocks differ by up to a
    /// pause or a minute.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if the log cannot be used; the outcome is then not recorded.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a permit is used up: no call has two outcomes"
    )]
    pub fn record(
        &self,
        permit: Permit,
        signal: Signal,
        clock: impl FnOnce() -> Timestamp,
    ) -> Result<Option<Change>, EvidenceError> {
        self.decide(clock, |breaker, now| {
            let entries = breaker.decide_outcome(&permit, signal, now);
            (super::change(&entries), entries)
        })
    }

    /// Reads where the circuit stands, and writes nothing; `clock` is read once the log was.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if the log cannot be read.
    pub fn read(&self, clock: impl FnOnce() -> Timestamp) -> Result<Reading, EvidenceError> {
        let evidence = self.log.read()?;
        let now = clock();
        let inherited = self.inherited(&evidence, now)?;
        let breaker = self.breaker(&inherited, &evidence, now);
        Ok(Reading { status: breaker.status(now), malformed: evidence.malformed })
    }

    fn decide<T>(
        &self,
        clock: impl FnOnce() -> Timestamp,
        decide: impl FnOnce(&CircuitBreaker, Timestamp) -> (T, Vec<Entry>),
    ) -> Result<T, EvidenceError> {
        self.log.update(|evidence| {
            let now = clock();
            let inherited = match self.inherited(evidence, now) {
                Ok(inherited) => inherited,
                Err(error) => return (Err(error), Vec::new()),
            };
            let (outcome, mut entries) = decide(&self.breaker(&inherited, evidence, now), now);
            if !entries.is_empty() {
                entries.splice(0..0, inherited);
            }
            (Ok(outcome), entries)
        })?
    }

    fn breaker(&self, inherited: &[Entry], evidence: &Evidence, now: Timestamp) -> CircuitBreaker {
        let entries = inherited.iter().chain(&evidence.entries);
        CircuitBreaker::replay(self.policy, self.pause, entries, now)
    }

    /// What a legacy counter says, where there is no log yet.
    fn inherited(&self, evidence: &Evidence, now: Timestamp) -> Result<Vec<Entry>, EvidenceError> {
        let Some(path) = self.legacy.as_deref().filter(|_| evidence.entries.is_empty()) else {
            return Ok(Vec::new());
        };
        let (failures, at) = match counter(path) {
            Ok(counter) => counter,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(EvidenceError::Read { path: path.to_owned(), source }),
        };
        let until = at.plus(self.pause);
        if now >= until {
            return Ok(Vec::new());
        }
        let mut entries = vec![Entry::new(at, Kind::Failure); failures.min(LEGACY_MAX)];
        if failures >= self.policy.failures() as usize && at <= now {
            entries.push(Entry::new(at, Kind::Opened { until }));
        }
        Ok(entries)
    }
}

/// A legacy counter and its modification time; a text that is no number counts as none, and a number that is too
/// large as the largest.
fn counter(path: &Path) -> io::Result<(usize, Timestamp)> {
    expect_file(path)?;
    let text = fs::read(path)?;
    let text = String::from_utf8_lossy(&text);
    let modified = fs::metadata(path)?.modified()?;
    let age = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = Timestamp::default().plus(age);
    let failures = text.trim().parse().unwrap_or_else(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => usize::MAX,
        _ => 0,
    });
    Ok((failures, at))
}
