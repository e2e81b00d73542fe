//! Several runs, some at once.

use std::{collections::BTreeMap, num::NonZero, sync::Arc, thread};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use quick_junit::TestSuite;
use tokio::task::{AbortHandle, JoinSet};

use super::{
    Complaint, Conclusion, Series, hint, interrupts,
    trial::{Task, Trial},
};
use crate::{
    cli::{
        arguments::{Format, RunArguments},
        exit::{CliError, Exit},
        junit, output,
        program::Noise,
        totals::Totals,
    },
    grade::Verdict,
};

/// Failed runs that are listed by name.
const LISTED_MAX: usize = 20;
/// Runs whose odd ends are told of.
const WARNED_MAX: usize = 5;

/// Place of a run in its series, from 0.
type Place = u64;

/// Runs the program once for each run of a series.
pub(super) async fn many(
    task: Task,
    series: Series,
    arguments: &RunArguments,
) -> Result<Exit, CliError> {
    let results = &arguments.results;
    let bar = progress(series);
    let outcome = run_all(task, series, arguments, &bar).await;
    bar.finish_and_clear();
    let kept = match outcome {
        Ok(kept) => kept,
        Err((error, done)) => {
            if error.exit() == Exit::Interrupted {
                output::say(&format!("interrupted after {done} of {} runs", series.count()));
            }
            return Err(error);
        }
    };
    let summary = Summary::of(&kept, series);
    let snapshots = kept.values().filter_map(|run| run.snapshot.as_deref());
    let conclusion = Conclusion::new(summary.totals.verdict(), results, || {
        snapshots.collect::<Vec<_>>().join("\n")
    });
    output::data(&summary.write(&kept, results.format, &conclusion.complaints))?;
    let exit = kept.values().map(|run| run.exit).max().unwrap_or(Exit::Pass);
    conclusion.ends_with(exit)
}

/// What is kept of a run that is over.
struct Kept {
    verdict: Verdict,
    extra_refunds: u64,
    exit: Exit,
    /// The run in full, if it did not pass.
    text: Option<String>,
    json: Option<String>,
    suite: Option<TestSuite>,
    snapshot: Option<String>,
}

impl Kept {
    fn new(trial: &Trial, arguments: &RunArguments) -> Self {
        let results = &arguments.results;
        let verdict = trial.grade.verdict();
        let in_format = |format| results.format == format;
        Self {
            verdict,
            extra_refunds: trial.grade.extra_refunds(),
            exit: trial.exit(),
            text: (in_format(Format::Text) && verdict != Verdict::Pass)
                .then(|| trial.text() + &hint(&trial.replay)),
            json: in_format(Format::Json).then(|| trial.json()),
            suite: in_format(Format::Junit).then(|| trial.suite(results.expect)),
            snapshot: results.snapshot.is_some().then(|| trial.snapshot()),
        }
    }

    fn has_failed(&self) -> bool {
        self.verdict == Verdict::Fail || self.exit == Exit::Fail
    }

    /// Whether its text may be shown: the first failed run's is, or else the first unexposed one's.
    fn is_worse_than(&self, other: &Self) -> bool {
        self.verdict == Verdict::Fail && other.verdict != Verdict::Fail
    }
}

/// Runs them all, or those up to the first that fails.
async fn run_all(
    task: Task,
    series: Series,
    arguments: &RunArguments,
    bar: &ProgressBar,
) -> Result<BTreeMap<Place, Kept>, (CliError, usize)> {
    let mut kept: BTreeMap<Place, Kept> = BTreeMap::new();
    let interrupts = interrupts().map_err(|error| (error, 0))?;
    let jobs = arguments.jobs.map_or_else(cores, usize::from);
    let task = Arc::new(task);
    let mut seeds = (0..).zip(series.seeds());
    let mut running = JoinSet::new();
    let mut handles: BTreeMap<Place, AbortHandle> = BTreeMap::new();
    // The last run that counts.
    let mut last = Place::MAX;
    let mut warned = 0;
    loop {
        while running.len() < jobs {
            let Some((place, seed)) = seeds.next().filter(|(place, _)| *place <= last) else {
                break;
            };
            let run = Arc::clone(&task).run(seed, Noise::Capture, interrupts.clone());
            handles.insert(place, running.spawn(async move { (place, run.await) }));
        }
        let Some(joined) = running.join_next().await else { break };
        // A run that was called off ends its program with it.
        if joined.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
            continue;
        }
        let joined = joined.context("a run ended unexpectedly").map_err(CliError::could_not_run);
        let (place, trial) = joined.map_err(|error| (error, kept.len()))?;
        handles.remove(&place);
        if place > last {
            continue;
        }
        let trial = trial.map_err(|error| (error, kept.len()))?;
        if trial.is_odd() && warned < WARNED_MAX {
            warned += 1;
            bar.suspend(|| trial.warn());
        }
        let run = Kept::new(&trial, arguments);
        if arguments.fail_fast && run.has_failed() {
            last = place;
            handles.split_off(&(place + 1)).values().for_each(AbortHandle::abort);
            kept.retain(|done, _| *done <= last);
        }
        kept.insert(place, run);
        forget_texts(&mut kept);
        bar.inc(1);
    }
    Ok(kept)
}

/// Keeps only the text that will be shown.
fn forget_texts(kept: &mut BTreeMap<Place, Kept>) {
    let Some(shown) = worst(kept) else { return };
    let others = kept.iter_mut().filter(|(place, run)| **place != shown && run.text.is_some());
    others.for_each(|(_, run)| run.text = None);
}

/// The first run that failed, or else was not exposed, of those whose text is at hand.
fn worst(kept: &BTreeMap<Place, Kept>) -> Option<Place> {
    let at_hand = kept.iter().filter(|(_, run)| run.text.is_some());
    at_hand
        .reduce(|held, next| if next.1.is_worse_than(held.1) { next } else { held })
        .map(|(place, _)| *place)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A bar on a terminal; nothing elsewhere.
fn progress(series: Series) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left");
    ProgressBar::new(series.count())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What the runs come to.
struct Summary {
    series: Series,
    totals: Totals,
}

impl Summary {
    fn of(kept: &BTreeMap<Place, Kept>, series: Series) -> Self {
        let mut totals = Totals::default();
        for run in kept.values() {
            totals.add(run.verdict, run.extra_refunds);
        }
        Self { series, totals }
    }

    fn is_repeat(&self) -> bool {
        matches!(self.series, Series::Repeat(..))
    }

    fn write(
        &self,
        kept: &BTreeMap<Place, Kept>,
        format: Format,
        complaints: &[Complaint],
    ) -> String {
        match format {
            Format::Json => {
                let runs: Vec<&str> = kept.values().filter_map(|run| run.json.as_deref()).collect();
                let totals = serde_json::to_string(&self.totals.document(self.is_repeat()));
                let totals = totals.expect("no map has keys that are not strings");
                format!("{{\"runs\":[{}],\"totals\":{totals}}}\n", runs.join(","))
            }
            Format::Junit => {
                junit::write(kept.values().filter_map(|run| run.suite.clone()), complaints)
            }
            Format::Text => self.text(kept),
        }
    }

    fn text(&self, kept: &BTreeMap<Place, Kept>) -> String {
        let mut text = format!("{}\n\n{}", self.series.title(), self.totals.text(self.is_repeat()));
        let failed = kept.iter().filter(|(_, run)| run.verdict == Verdict::Fail);
        let failed: Vec<String> = failed.map(|(place, _)| self.series.name(*place)).collect();
        if !failed.is_empty() {
            let listed = failed.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = match failed.len().saturating_sub(LISTED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &["failed ", self.series.unit(), ": ", &listed, &more, "\n"].concat();
        }
        if let Some(shown) = worst(kept).and_then(|place| kept[&place].text.as_ref()) {
            text += "\nthe first of them in full:\n\n";
            text += shown;
        }
        text
    }
}
