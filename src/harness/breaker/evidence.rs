//! The evidence of a breaker as a file of JSON lines, one [`Entry`] a line.
//!
//! Lines that are no entries are skipped and counted. The file is only ever appended to, under its lock,
//! and a new entry never lands on a line that a dying writer has left unfinished. Nobody waits for the lock for
//! ever: its holder may have been stopped.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::Entry;

/// A log of entries that several processes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceLog {
    path: PathBuf,
}

/// Why a log could not be used.
///
/// Nothing that it held was changed; of an append that failed, a part may stand at its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// There is no opening it, or it is no regular file.
    #[error("the evidence log {} cannot be opened", path.display())]
    Open {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no locking it, so nobody may decide anything.
    #[error("the evidence log {} cannot be locked", path.display())]
    Lock {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else has locked it, for two seconds already.
    #[error(
        "the evidence log {} is locked by another process; see which one and why it is stuck, then try again",
        path.display()
    )]
    Locked {
        /// The log.
        path: PathBuf,
    },
    /// There is no reading it, or the legacy counter beside it.
    #[error("the evidence in {} cannot be read", path.display())]
    Read {
        /// The log, or the counter.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no writing to it.
    #[error("the evidence log {} cannot be written to", path.display())]
    Write {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Its entries, in the order in which they were written.
    pub entries: Vec<Entry>,
    /// Lines that are no entries.
    pub malformed: usize,
    ends_cut_off: bool,
}

/// How often the lock is tried, once in a [`PERIOD`]: about two seconds.
const TRIES: u32 = 2000;
const PERIOD: Duration = Duration::from_millis(1);

impl EvidenceLog {
    /// The log at a path; it is made when it is first written to.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the log while nobody writes to it; a log that is not there is empty.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if it cannot be opened, locked or read.
    pub fn read(&self) -> Result<Evidence, EvidenceError> {
        let mut file = match expect_file(&self.path).and_then(|()| File::open(&self.path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Evidence::default()),
            Err(source) => return Err(EvidenceError::Open { path: self.path.clone(), source }),
        };
        self.lock(|| file.try_lock_shared())?;
        self.evidence_of(&mut file)
    }

    /// Reads the log, lets `decide` say what to add, and adds it, all under one lock.
    ///
    /// Whoever stamps entries reads the clock in `decide`: a time taken before the lock was free is older
    /// than what others have written in between.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if it cannot be opened, locked, read or written.
    pub fn update<T>(
        &self,
        decide: impl FnOnce(&Evidence) -> (T, Vec<Entry>),
    ) -> Result<T, EvidenceError> {
        let path = || self.path.clone();
        let mut file =
            self.open().map_err(|source| EvidenceError::Open { path: path(), source })?;
        self.lock(|| file.try_lock())?;
        let evidence = self.evidence_of(&mut file)?;
        let (outcome, entries) = decide(&evidence);
        let text = lines(&entries, evidence.ends_cut_off);
        // One write: a reader never sees half of a decision, unless the writer dies in the middle of it.
        file.write_all(text.as_bytes())
            .map_err(|source| EvidenceError::Write { path: path(), source })?;
        Ok(outcome)
    }

    fn open(&self) -> io::Result<File> {
        match expect_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => OpenOptions::new().read(true).append(true).create(true).open(&self.path),
        }
    }

    /// Tries to lock the log until it succeeds or patience runs out.
    fn lock(&self, try_lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), EvidenceError> {
        for _ in 0..TRIES {
            match try_lock() {
                Ok(()) => return Ok(()),
                // The system has no lock that one waits for so long and no longer. Whoever wakes this thread
                // meanwhile shortens its patience, and does no other harm.
                Err(TryLockError::WouldBlock) => thread::park_timeout(PERIOD),
                Err(TryLockError::Error(source)) => {
                    return Err(EvidenceError::Lock { path: self.path.clone(), source });
                }
            }
        }
        Err(EvidenceError::Locked { path: self.path.clone() })
    }

    fn evidence_of(&self, file: &mut File) -> Result<Evidence, EvidenceError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|source| EvidenceError::Read { path: self.path.clone(), source })?;
        Ok(Evidence::parse(&bytes))
    }
}

/// Refuses what is no regular file: to open a pipe may take for ever, and so may reading a device.
pub(super) fn expect_file(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

impl Evidence {
    fn parse(bytes: &[u8]) -> Self {
        let mut evidence = Self {
            ends_cut_off: bytes.last().is_some_and(|last| *last != b'\n'),
            ..Self::default()
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
        {
            match serde_json::from_slice(line) {
                Ok(entry) => evidence.entries.push(entry),
                Err(_) => evidence.malformed += 1,
            }
        }
        evidence
    }
}

/// Entries as lines, on a line of their own.
fn lines(entries: &[Entry], follows_cut_off: bool) -> String {
    let mut text = String::new();
    if follows_cut_off && !entries.is_empty() {
        text.push('\n');
    }
    for entry in entries {
        text += &serde_json::to_string(entry).expect("an entry is numbers and words");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Kind, Timestamp};

    #[test]
    fn every_kind_of_entry_is_written_and_read_back() {
        let until = Timestamp::from_unix_ms(9);
        let kinds = [
            (Kind::Failure, r#""failure"}"#),
            (Kind::Success, r#""success"}"#),
            (Kind::Opened { until }, r#""opened","until_ms":9}"#),
            (Kind::Probe { id: 1, until }, r#""probe","id":1,"until_ms":9}"#),
            (Kind::Void, r#""void"}"#),
            (Kind::Closed, r#""closed"}"#),
        ];
        let entries = kinds.map(|(kind, _)| Entry::new(Timestamp::from_unix_ms(7), kind));
        let text = lines(&entries, false);
        let expected = kinds.map(|(_, end)| format!("{{\"at_ms\":7,\"kind\":{end}\n")).concat();
        assert_eq!(text, expected);
        assert_eq!(Evidence::parse(text.as_bytes()).entries, entries);
    }

    #[test]
    fn damaged_lines_are_skipped_and_counted() {
        let log = b"not json {\n\n\xff\xfe\n{\"at_ms\":-1,\"kind\":\"failure\"}\n{\"at_ms\":1}\n[]\n\
            {\"at_ms\":1,\"kind\":\"new\"}\n{\"at_ms\":1,\"kind\":\"failure\",\"by\":\"w1\"}\r\n{\"at_ms\":2,\"ki";
        let evidence = Evidence::parse(log);
        assert_eq!(evidence.entries, [Entry::new(Timestamp::from_unix_ms(1), Kind::Failure)]);
        assert_eq!(evidence.malformed, 7);
        assert!(evidence.ends_cut_off);
    }
}
