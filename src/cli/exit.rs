//! How the command ends.

use std::{fmt, process::ExitCode};

use crate::grade::Verdict;

/// The exit codes; of several, the greatest here wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything is as it should be.
    Pass,
    /// Nothing is wrong, and nothing was shown.
    NotExposed,
    /// Something is wrong.
    Fail,
    /// The command line or a file makes no sense.
    Usage,
    /// The work could not be done.
    CouldNotRun,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Pass => 0,
            Exit::Fail => 1,
            Exit::Usage => 2,
            Exit::CouldNotRun => 3,
            Exit::NotExposed => 4,
            Exit::Interrupted => 130,
        })
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Fail => Self::Fail,
            Verdict::NotExposed => Self::NotExposed,
        }
    }
}

/// Why the command could not do its work.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    error: anyhow::Error,
}

impl CliError {
    /// The command line, or a file that it names, makes no sense.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }

    /// The work could not be done.
    pub(crate) fn could_not_run(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::CouldNotRun, error: error.into() }
    }

    /// Somebody pressed Ctrl-C.
    pub(crate) fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, error: anyhow::anyhow!("interrupted") }
    }

    /// How the command ends because of it.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A chain of causes in one line.
        write!(f, "{:#}", self.error)
    }
}
