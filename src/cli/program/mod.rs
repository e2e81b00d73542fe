//! Runs a program under test, and ends it with all that it started.
//!
//! The program leads a process group of its own. At the time limit, when the run is interrupted, when the program has
//! ended, and when a [`Running`] is dropped, what is in that group is killed. No run waits for
//! more than the program itself: a process that has left the group can neither be ended nor hang badbank.

mod group;
mod output;

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    pin::{Pin, pin},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::io::Errno;
use tokio::process::{Child, Command};

use self::{group::Group, output::Tail};

/// Bytes of stdout that are kept: the report comes last.
const STDOUT_KEPT: usize = 16 << 20;

/// Bytes of stderr that are kept.
const STDERR_KEPT: usize = 16 << 10;

/// How long output is read on once the program has ended. What it wrote itself is there already; only a process
/// that left the group can still hold the pipe.
const GRACE: Duration = Duration::from_millis(500);

/// A command and what it finds in its environment.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The program, a path or a name on the `PATH`, and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Variables that are set for it. Of those that it inherits, the ones of ours (`BADBANK_…`) are removed first.
    pub(crate) env: Vec<(String, OsString)>,
}

/// What becomes of the program's stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noise {
    /// It goes where ours goes.
    Inherit,
    /// Its end is kept.
    Capture,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code, unless a signal ended it.
    pub(crate) exit: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether it was killed at the time limit.
    pub(crate) timed_out: bool,
    /// Whether it ended by itself while processes that it had started lived on. Those of its group are ended by now.
    pub(crate) left_processes: bool,
    /// What it and its processes wrote to stdout: all, or whole lines from the end.
    pub(crate) stdout: Vec<u8>,
    /// Whether stdout was longer than what is kept.
    pub(crate) is_stdout_cut: bool,
    /// The last lines of stderr, if it was captured.
    pub(crate) stderr_tail: Vec<u8>,
}

/// Why a program has no end to tell of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// There is no command.
    #[error("no command was given; name the program under test after `--`")]
    NoCommand,
    /// No such file, or no such name on the `PATH`.
    #[error("`{command}` was not found; give the path of a program, or a name that is on the PATH")]
    NotFound {
        /// The command's first word.
        command: String,
    },
    /// The file is there, but what its first line names is not.
    #[error(
        "`{command}` cannot start: the interpreter in its first line was not found; install it, or correct the line"
    )]
    NoInterpreter {
        /// The command's first word.
        command: String,
    },
    /// The file is there and may be executed, but nobody knows how.
    #[error(
        "`{command}` is not a program of this system; if it is a script, begin it with its interpreter, as in `#!/bin/sh`"
    )]
    NotProgram {
        /// The command's first word.
        command: String,
    },
    /// The file is there, but may not be executed.
    #[error(
        "`{command}` is not executable; run `chmod +x` on it, or name its interpreter before it"
    )]
    NotExecutable {
        /// The command's first word.
        command: String,
    },
    /// The system would not start it for another reason.
    #[error(
        "`{command}` cannot start; if it is a script, its first line must name an interpreter, as in `#!/bin/sh`"
    )]
    Start {
        /// The command's first word.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system would not tell how it ended.
    #[error("the end of the program cannot be told")]
    Wait(#[source] io::Error),
    /// The run was interrupted; the program was ended.
    #[error("interrupted")]
    Interrupted,
}

/// A program that runs. Dropped before its end, it is killed with its group.
#[derive(Debug)]
pub(crate) struct Running {
    // Before the child, so that a dropped run kills the group while its leader still holds its number.
    group: Group,
    child: Child,
}

/// Starts the program.
///
/// The runtime must have its timer and its I/O enabled.
///
/// # Errors
///
/// [`ProgramError`] if the program could not start.
pub(crate) fn start(program: &Program, noise: Noise) -> Result<Running, ProgramError> {
    let child = spawn(program, noise)?;
    Ok(Running { group: Group::of(&child), child })
}

impl Running {
    /// Waits until the program ends, `limit` has passed or `interrupted` resolves.
    ///
    /// # Errors
    ///
    /// [`ProgramError`] if it was interrupted, or its end cannot be told.
    pub(crate) async fn end(
        mut self,
        limit: Option<Duration>,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Ended, ProgramError> {
        let Self { group, child } = &mut self;
        let (mut stdout, mut stderr) = (Tail::new(STDOUT_KEPT), Tail::new(STDERR_KEPT));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let ended = {
            let reading = async { tokio::join!(stdout.fill(out), stderr.fill(err)) };
            attend(child, group, limit, pin!(interrupted), pin!(reading)).await?
        };
        Ok(Ended {
            exit: ended.status.code(),
            signal: ended.status.signal(),
            timed_out: ended.timed_out,
            left_processes: ended.left_processes,
            is_stdout_cut: stdout.is_cut(),
            stdout: stdout.into_lines(),
            stderr_tail: stderr.into_lines(),
        })
    }
}

fn spawn(program: &Program, noise: Noise) -> Result<Child, ProgramError> {
    let (file, arguments) = program.command.split_first().ok_or(ProgramError::NoCommand)?;
    let mut command = Command::new(file);
    command.args(arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(match noise {
            Noise::Inherit => Stdio::inherit(),
            Noise::Capture => Stdio::piped(),
        })
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| start_error(file, error))
}

/// Whether a variable is one of ours: a program under test must not see seed, plan or token.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"BADBANK_")
}

fn start_error(file: &OsStr, source: io::Error) -> ProgramError {
    let command = file.to_string_lossy().into_owned();
    let path = Path::new(file);
    match source.kind() {
        io::ErrorKind::NotFound if path.components().count() > 1 && path.exists() => {
            ProgramError::NoInterpreter { command }
        }
        io::ErrorKind::NotFound => ProgramError::NotFound { command },
        io::ErrorKind::PermissionDenied => ProgramError::NotExecutable { command },
        _ if source.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            ProgramError::NotProgram { command }
        }
        _ => ProgramError::Start { command, source },
    }
}

/// What is known when the program has ended and its group is gone.
struct Attended {
    status: ExitStatus,
    timed_out: bool,
    left_processes: bool,
}

/// Sees the program to its end, and its group after it. Polls `reading` all the while: a full pipe would block the
/// program.
async fn attend(
    child: &mut Child,
    group: &mut Group,
    limit: Option<Duration>,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
    mut reading: Pin<&mut impl Future>,
) -> Result<Attended, ProgramError> {
    let mut limit = pin!(pass(limit));
    let mut is_read = false;
    let own_end = loop {
        // In this order: a program that made it is not said to have run out of time.
        tokio::select! { biased;
            status = child.wait() => break Some(status.map_err(ProgramError::Wait)?),
            () = &mut interrupted => {
                kill(child, group).await?;
                return Err(ProgramError::Interrupted);
            }
            () = &mut limit => break None,
            _ = &mut reading, if !is_read => is_read = true,
        }
    };
    let mut attended = match own_end {
        Some(status) => Attended { status, timed_out: false, left_processes: group.kill() },
        None => {
            Attended { status: kill(child, group).await?, timed_out: true, left_processes: false }
        }
    };
    if !is_read {
        tokio::select! { biased;
            () = &mut interrupted => return Err(ProgramError::Interrupted),
            read = tokio::time::timeout(GRACE, reading) => {
                attended.left_processes |= read.is_err() && !attended.timed_out;
            }
        }
    }
    Ok(attended)
}

/// Kills the program and its group.
async fn kill(child: &mut Child, group: &mut Group) -> Result<ExitStatus, ProgramError> {
    group.kill();
    // The program itself may have moved to another group. If it has ended there is nothing to kill.
    let _ = child.start_kill();
    child.wait().await.map_err(ProgramError::Wait)
}

async fn pass(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
