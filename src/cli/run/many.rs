//! Many seeds, several at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    sync::Arc,
    thread,
};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use super::{
    interrupts, snapshot,
    trial::{Task, Trial},
};
use crate::{
    cli::{
        arguments::{Format, ResultArguments, SeedRange},
        exit::{CliError, Exit},
        grade::wanted,
        output,
        program::Noise,
        totals::Totals,
    },
    grade::Verdict,
};

/// Failed seeds that are listed by number.
const LISTED_MAX: usize = 20;

/// What is kept of runs that are over, by the place of their seed.
#[derive(Default)]
struct Results {
    totals: Totals,
    exit: Option<Exit>,
    /// The place of the first seed that failed, or else was not exposed, and its run in full.
    worst: Option<(u64, Verdict, String)>,
    failed: BTreeSet<u64>,
    documents: BTreeMap<u64, String>,
    snapshots: BTreeMap<u64, String>,
}

/// Runs the program once for each seed.
pub(super) async fn many(
    task: Task,
    range: SeedRange,
    jobs: Option<u16>,
    results: &ResultArguments,
) -> Result<Exit, CliError> {
    let interrupts = interrupts()?;
    let jobs = jobs.map_or_else(cores, usize::from);
    let task = Arc::new(task);
    let bar = progress(range);
    let mut kept = Results::default();
    let mut seeds = (0_u64..).zip(range.seeds());
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs {
            let Some((place, seed)) = seeds.next() else { break };
            let run = Arc::clone(&task).run(seed, Noise::Capture, interrupts.clone());
            running.spawn(async move { (place, run.await) });
        }
        let Some(joined) = running.join_next().await else { break };
        let (place, trial) =
            joined.context("a run ended unexpectedly").map_err(CliError::could_not_run)?;
        let trial = trial?;
        bar.suspend(|| trial.warn());
        kept.add(range.first + place, &trial, results);
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::data(&kept.write(range, results.format))?;
    let exit = wanted(kept.totals.verdict(), results.expect).max(kept.exit.unwrap_or(Exit::Pass));
    let compared = snapshot(results, || {
        kept.snapshots.values().map(String::as_str).collect::<Vec<_>>().join("\n")
    })?;
    Ok(exit.max(compared))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A bar on a terminal; nothing elsewhere.
fn progress(range: SeedRange) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left");
    ProgressBar::new(range.count())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Results {
    fn add(&mut self, seed: u64, trial: &Trial, results: &ResultArguments) {
        let verdict = trial.grade.verdict();
        self.totals.add(&trial.grade);
        self.exit = self.exit.max(Some(trial.exit()));
        if verdict == Verdict::Fail {
            self.failed.insert(seed);
        }
        let is_worse = match &self.worst {
            _ if verdict == Verdict::Pass => false,
            None => true,
            Some((held, worst, _)) => {
                (verdict == Verdict::Fail, held) > (*worst == Verdict::Fail, &seed)
            }
        };
        if is_worse {
            self.worst = Some((seed, verdict, trial.text()));
        }
        if results.format == Format::Json {
            self.documents.insert(seed, trial.json());
        }
        if results.snapshot.is_some() {
            self.snapshots.insert(seed, trial.snapshot());
        }
    }

    fn write(&self, range: SeedRange, format: Format) -> String {
        match format {
            Format::Json => {
                let runs: Vec<&str> = self.documents.values().map(String::as_str).collect();
                let totals = serde_json::to_string(&self.totals.document())
                    .expect("no map has keys that are not strings");
                format!("{{\"runs\":[{}],\"totals\":{totals}}}\n", runs.join(","))
            }
            Format::Text => {
                let mut text =
                    format!("seeds {}..{}\n\n{}", range.first, range.last, self.totals.text());
                if !self.failed.is_empty() {
                    let listed: Vec<String> =
                        self.failed.iter().take(LISTED_MAX).map(ToString::to_string).collect();
                    let more = self.failed.len() - listed.len();
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    text += "failed seeds: ";
                    text += &listed.join(", ");
                    text += &more;
                    text.push('\n');
                }
                if let Some((_, _, worst)) = &self.worst {
                    text.push_str("\nthe first of them in full:\n\n");
                    text.push_str(worst);
                }
                text
            }
        }
    }
}
