//! One program against one bank.

use std::{env, ffi::OsString, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use quick_junit::TestSuite;
use serde::Serialize;
use tokio::sync::watch;

use super::{Again, hint, recorder::Recorder};
use crate::{
    cli::{
        arguments::{Expect, ProgramArguments},
        exit::{CliError, Exit},
        junit, output,
        program::{self, Ended, Noise, Program, ProgramError},
    },
    fault::{FaultLog, Plan},
    grade::Grade,
    http::{Server, ServerOptions},
    seed::Seed,
    ticket::Ticket,
};

/// Lines of the program's stderr that are shown when it ended badly.
const LAST_WORDS: usize = 6;

/// How long whoever interrupts a run waits for the rest of its history.
const GRACE: Duration = Duration::from_secs(3);

/// What is to be run, whatever the seed.
#[derive(Debug)]
pub(super) struct Task {
    ticket: Option<Ticket>,
    plan: Plan,
    command: Vec<OsString>,
    time_limit: Duration,
    /// The file that the run's history is written to.
    history: Option<PathBuf>,
    again: Again,
}

/// A run that is over.
#[derive(Debug)]
pub(super) struct Trial {
    seed: Seed,
    plan: String,
    ticket: String,
    pub(super) grade: Grade,
    faults: FaultLog,
    /// Whether its history could be written, if it was to be.
    pub(super) written: Result<(), CliError>,
    ended: Ended,
    time_limit: Duration,
    /// The command that does it again.
    pub(super) replay: String,
}

#[derive(Serialize)]
struct TrialDocument<'a> {
    seed: Seed,
    plan: &'a str,
    grade: &'a Grade,
    faults: Vec<String>,
    program: ProgramDocument,
    replay: &'a str,
}

#[derive(Serialize)]
struct ProgramDocument {
    exit_code: Option<i32>,
    signal: Option<i32>,
    restarts: u32,
    timed_out: bool,
}

impl Task {
    pub(super) fn new(
        ticket: Option<Ticket>,
        plan: Plan,
        program: &ProgramArguments,
        history: Option<PathBuf>,
        again: Again,
    ) -> Result<Self, CliError> {
        let command = match program.harness {
            None => program.command.clone(),
            Some(design) => {
                let badbank = env::current_exe()
                    .context("badbank cannot find itself")
                    .map_err(CliError::could_not_run)?;
                let mut command = vec![badbank.into(), "program".into(), design.as_str().into()];
                command.extend(program.real_time.then(|| "--real-time".into()));
                command
            }
        };
        Ok(Self { ticket, plan, command, time_limit: program.time_limit, history, again })
    }

    /// The command that does a run again.
    pub(super) fn replay(&self, seed: Seed) -> String {
        self.again.line(seed)
    }

    /// The seed of a run for which the command line names none.
    pub(super) fn seed(&self) -> Seed {
        self.plan.effective_seed()
    }

    /// Runs the program against a bank of its own, and grades it.
    pub(super) async fn run(
        self: Arc<Self>,
        seed: Seed,
        noise: Noise,
        interrupts: watch::Receiver<bool>,
    ) -> Result<Trial, CliError> {
        let plan = self.plan.clone().seed(seed);
        let name = plan.name().unwrap_or("unnamed").to_owned();
        let ticket = self.ticket.clone().unwrap_or_else(|| Ticket::generate(seed));
        let server =
            Server::bind(ServerOptions::default()).await.map_err(CliError::could_not_run)?;
        let run = server.open_run(&ticket, plan);
        let file = ticket_file(&ticket)?;
        let program = Program {
            command: self.command.clone(),
            env: vec![
                ("BADBANK_URL".to_owned(), run.url().into()),
                ("BADBANK_TICKET".to_owned(), file.path().into()),
            ],
        };
        let limit = Some(self.time_limit);
        let mut recorder = None;
        let ended = match program::start(&program, noise) {
            Ok(running) => {
                let path = self.history.as_ref();
                recorder = path.map(|path| Recorder::start(path, run.clone()));
                running.end(limit, interruption(interrupts.clone())).await
            }
            Err(error) => Err(error),
        };
        let graded = ended.map(|ended| {
            let report = String::from_utf8_lossy(&ended.stdout).into_owned();
            let (grade, faults) = run.with_bank(|bank| (bank.grade(&report), bank.fault_log()));
            (ended, grade, faults)
        });
        let written = match recorder {
            Some(recorder) => rest_of(recorder, interrupts).await,
            None => Ok(()),
        };
        let (ended, grade, faults) = graded.map_err(|error| match error {
            ProgramError::Interrupted => CliError::interrupted(),
            error => CliError::could_not_run(error),
        })?;
        server.shutdown().await;
        Ok(Trial {
            seed,
            plan: name,
            ticket: ticket.id().to_string(),
            grade,
            faults,
            written,
            ended,
            time_limit: self.time_limit,
            replay: self.replay(seed),
        })
    }
}

/// Resolves when the command is interrupted.
async fn interruption(mut interrupts: watch::Receiver<bool>) {
    if interrupts.wait_for(|is_interrupted| *is_interrupted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits for the rest of a history to be written, for whoever is interrupted only a moment.
async fn rest_of(recorder: Recorder, interrupts: watch::Receiver<bool>) -> Result<(), CliError> {
    tokio::select! { biased;
        written = recorder.finish() => written,
        () = async {
            interruption(interrupts).await;
            tokio::time::sleep(GRACE).await;
        } => Err(CliError::interrupted()),
    }
}

/// The ticket as a file, for as long as the run lasts.
fn ticket_file(ticket: &Ticket) -> Result<tempfile::NamedTempFile, CliError> {
    let write = || {
        let mut file =
            tempfile::Builder::new().prefix("badbank-ticket-").suffix(".json").tempfile()?;
        file.write_all(ticket.to_json().as_bytes())?;
        file.flush()?;
        Ok::<_, std::io::Error>(file)
    };
    write().context("the ticket's file cannot be written").map_err(CliError::could_not_run)
}

impl Trial {
    /// How the program's own end ends the command.
    pub(super) fn exit(&self) -> Exit {
        if self.ended.timed_out { Exit::Fail } else { Exit::Pass }
    }

    /// Whether there is anything to warn of.
    pub(super) fn is_odd(&self) -> bool {
        let Ended { timed_out, left_processes, is_stdout_cut, .. } = self.ended;
        let has_last_words = !self.ended.stderr_tail.is_empty() && self.ended.exit != Some(0);
        timed_out || left_processes || is_stdout_cut || has_last_words
    }

    /// What is odd about the program's end.
    pub(super) fn warn(&self) {
        let seed = self.seed;
        if self.ended.timed_out {
            let limit = self.time_limit;
            output::warn(&format!(
                "seed {seed}: the program was killed at its time limit of {limit:?}"
            ));
        }
        if self.ended.left_processes {
            output::warn(&format!(
                "seed {seed}: the program left processes behind; they were ended"
            ));
        }
        if self.ended.is_stdout_cut {
            output::warn(&format!(
                "seed {seed}: the program printed too much; only the end of it was read"
            ));
        }
        if !self.ended.stderr_tail.is_empty() && self.ended.exit != Some(0) {
            let tail = String::from_utf8_lossy(&self.ended.stderr_tail);
            let lines: Vec<&str> = tail.trim_end().lines().collect();
            let tail = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
            output::say(&format!("seed {seed}: the program's last words:\n{tail}"));
        }
    }

    fn program(&self) -> String {
        match (self.ended.timed_out, self.ended.exit, self.ended.signal) {
            (true, ..) => "killed at its time limit".to_owned(),
            (_, Some(code), _) => format!("exit code {code}"),
            (_, None, Some(signal)) => format!("ended by signal {signal}"),
            (_, None, None) => "ended".to_owned(),
        }
    }

    /// The run for people.
    pub(super) fn text(&self) -> String {
        let Self { seed, plan, ticket, faults, grade, .. } = self;
        let program = self.program();
        format!(
            "seed {seed}, plan {plan}, ticket {ticket}\n\n{faults}\n{grade}program   {program}\n"
        )
    }

    /// The run for programs.
    pub(super) fn json(&self) -> String {
        let document = TrialDocument {
            seed: self.seed,
            plan: &self.plan,
            grade: &self.grade,
            faults: self.faults.lines(),
            program: ProgramDocument {
                exit_code: self.ended.exit,
                signal: self.ended.signal,
                restarts: 0,
                timed_out: self.ended.timed_out,
            },
            replay: &self.replay,
        };
        serde_json::to_string(&document).expect("no map has keys that are not strings")
    }

    /// The run for build servers.
    pub(super) fn suite(&self, expect: Expect) -> TestSuite {
        let name = format!("seed {}, plan {}", self.seed, self.plan);
        let notes = format!("{}{}", self.faults, hint(&self.replay));
        let mut suite = junit::suite(&name, &self.grade, expect, &notes);
        if self.ended.timed_out {
            let message = format!("it was killed at its time limit of {:?}", self.time_limit);
            suite.add_test_case(junit::complaint("program", "time_limit", &message));
        }
        suite
    }

    /// The run as a snapshot holds it: nothing in it moves between runs of one seed.
    pub(super) fn snapshot(&self) -> String {
        let grade = serde_json::to_string_pretty(&self.grade)
            .expect("no map has keys that are not strings");
        format!("{}\n{grade}\n", self.faults)
    }
}
