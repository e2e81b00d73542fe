//! `badbank run` and `badbank replay`: a program under test against a bank, graded.

mod conclusion;
mod many;
mod recorder;
mod series;
mod trial;

use std::{ffi::OsString, path::Path, sync::Arc};

use anyhow::Context as _;
use tokio::sync::watch;

pub(super) use self::conclusion::Complaint;
use self::{conclusion::Conclusion, series::Series, trial::Task};
use super::{
    arguments::{Format, ProgramArguments, ReplayArguments, ResultArguments, RunArguments},
    exit::{CliError, Exit},
    input, junit, output,
    program::Noise,
};
use crate::{
    fault::{FaultLog, Plan},
    grade::Verdict,
    history::Event,
    seed::Seed,
    ticket::Ticket,
};

/// Runs a program against a bank that fails, for one seed or for many.
pub(super) fn run(arguments: &RunArguments) -> Result<Exit, CliError> {
    check_targets(arguments.history.as_deref(), &arguments.results)?;
    let (ticket, plan) = input::task(arguments.ticket.as_deref(), &arguments.plan, arguments.seed)?;
    let mut again = Again::new("run", &arguments.program);
    if let Some(path) = &arguments.ticket {
        again.option("--ticket", path);
    }
    if arguments.plan != "article" {
        again.option("--plan", &arguments.plan);
    }
    let history = arguments.history.clone();
    let task = Task::new(ticket, plan, &arguments.program, history, again)?;
    let runtime = runtime()?;
    let series = match (arguments.seeds, arguments.repeat) {
        (Some(range), _) => Series::Seeds(range),
        (None, Some(times)) => Series::Repeat(task.seed(), times),
        (None, None) => {
            return runtime.block_on(one(task, &arguments.results));
        }
    };
    runtime.block_on(many::many(task, series, arguments))
}

/// Runs a program against exactly the faults of a recorded run.
pub(super) fn replay(arguments: &ReplayArguments) -> Result<Exit, CliError> {
    check_targets(arguments.history.as_deref(), &arguments.results)?;
    let path = &arguments.record;
    let text = input::read(path)?;
    let (recorded, plan) = if FaultLog::is_one(&text) {
        let log: FaultLog = text.parse().map_err(|error| input::refuse(path, &error))?;
        let plan = Plan::replay(&log).map_err(CliError::usage)?;
        (Ticket::generate(log.seed()), plan)
    } else {
        let history = input::history(path, &text)?;
        if history.events().iter().any(|event| matches!(event, Event::Plan(_))) {
            output::warn(&format!(
                "{}: the plan was changed in mid-run; the replay injects all its faults, and keeps the first settings",
                input::name(path).display()
            ));
        }
        (history.header().ticket.clone(), history.to_plan())
    };
    let ticket = match &arguments.ticket {
        Some(path) => input::ticket(path)?,
        None => recorded,
    };
    let mut settings = *plan.settings();
    settings.dedupe = arguments.dedupe.unwrap_or(settings.dedupe);
    settings.over_refund = arguments.over_refund.unwrap_or(settings.over_refund);
    let plan = plan.with_settings(settings);
    input::warn_of_lacking_orders(&plan, &ticket);
    let mut again = Again::new("replay", &arguments.program);
    again.word(path);
    if let Some(path) = &arguments.ticket {
        again.option("--ticket", path);
    }
    if let Some(mode) = arguments.dedupe {
        again.option("--dedupe", mode.as_str());
    }
    if let Some(mode) = arguments.over_refund {
        again.option("--over-refund", mode.as_str());
    }
    let history = arguments.history.clone();
    let task = Task::new(Some(ticket), plan, &arguments.program, history, again)?;
    runtime()?.block_on(one(task, &arguments.results))
}

/// Refuses files that could not be written, before the program does anything.
fn check_targets(history: Option<&Path>, results: &ResultArguments) -> Result<(), CliError> {
    let is_target = |path: &&Path| results.update || path.is_dir();
    let snapshot = results.snapshot.as_deref().filter(is_target);
    [history, snapshot].into_iter().flatten().try_for_each(output::check_target)
}

fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime cannot start").map_err(CliError::could_not_run)
}

/// One run, shown in full.
async fn one(task: Task, results: &ResultArguments) -> Result<Exit, CliError> {
    let interrupts = interrupts()?;
    let seed = task.seed();
    let again = hint(&task.replay(seed));
    let trial = Arc::new(task).run(seed, Noise::Inherit, interrupts).await;
    let trial = trial.inspect_err(|error| {
        if error.exit() == Exit::Interrupted {
            output::say(format!("interrupted\n{again}").trim_end());
        }
    })?;
    trial.warn();
    let verdict = trial.grade.verdict();
    let conclusion = Conclusion::new(verdict, results, || trial.snapshot());
    let has_failed = verdict != Verdict::Pass || conclusion.exit.max(trial.exit()) != Exit::Pass;
    output::data(&match results.format {
        Format::Text if has_failed => trial.text() + &again,
        Format::Text => trial.text(),
        Format::Json => trial.json() + "\n",
        Format::Junit => junit::write([trial.suite(results.expect)], &conclusion.complaints),
    })?;
    match (conclusion.ends_with(trial.exit()), trial.written) {
        (Err(compared), Err(written)) if written.exit() > compared.exit() => Err(written),
        (Ok(_), Err(written)) => Err(written),
        (ends, _) => ends,
    }
}

/// How to do a run again, for people.
fn hint(replay: &str) -> String {
    format!("\nreplay it with\n  {replay}\n")
}

/// Becomes true when somebody presses Ctrl-C, closes the terminal, or asks the process to end.
pub(super) fn interrupts() -> Result<watch::Receiver<bool>, CliError> {
    use tokio::signal::unix::{SignalKind, signal};

    let listen =
        |kind| signal(kind).context("no signal can be heard").map_err(CliError::could_not_run);
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let mut hangup = listen(SignalKind::hangup())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        let _ = sender.send(true);
    });
    Ok(receiver)
}

/// The command that does a run again.
#[derive(Clone, Debug)]
struct Again {
    command: &'static str,
    options: Vec<OsString>,
    program: Vec<OsString>,
}

impl Again {
    fn new(command: &'static str, program: &ProgramArguments) -> Self {
        let mut options: Vec<OsString> = Vec::new();
        if program.time_limit != ProgramArguments::TIME_LIMIT {
            let limit_ms = program.time_limit.as_millis();
            options.extend(["--time-limit".into(), format!("{limit_ms}ms").into()]);
        }
        let words = match program.harness {
            Some(design) => {
                let real_time = program.real_time.then(|| "--real-time".to_owned());
                ["--harness".to_owned(), design.to_string()]
                    .into_iter()
                    .chain(real_time)
                    .map(Into::into)
                    .collect()
            }
            None => std::iter::once("--".into()).chain(program.command.iter().cloned()).collect(),
        };
        Self { command, options, program: words }
    }

    fn word(&mut self, word: impl Into<OsString>) {
        self.options.push(word.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.word(name);
        self.word(value);
    }

    /// The command, quoted for a shell.
    fn line(&self, seed: Seed) -> String {
        let seed = (self.command == "run").then(|| ["--seed".to_owned(), seed.to_string()]);
        let words = ["badbank".into(), self.command.into()]
            .into_iter()
            .chain(seed.into_iter().flatten())
            .chain(
                self.options
                    .iter()
                    .chain(&self.program)
                    .map(|word| word.to_string_lossy().into_owned()),
            );
        let words: Vec<String> = words.collect();
        shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
    }
}
