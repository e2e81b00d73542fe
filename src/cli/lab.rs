//! `badbank lab`: experiments.

use std::{num::NonZero, thread};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    arguments::{Experiment, LabArguments, SheetFormat},
    exit::{CliError, Exit},
    output,
};
use crate::{
    fault::Plan,
    lab::{Settings, Sheet, amplification, breaker, keys, recovery, retries, stopping},
};

/// Runs an experiment and writes its table.
pub(super) fn lab(arguments: &LabArguments) -> Result<Exit, CliError> {
    let bar = progress(arguments.tickets);
    let jobs = arguments.jobs.and_then(|jobs| NonZero::new(usize::from(jobs)));
    let settings = Settings {
        tickets: arguments.tickets,
        seed: arguments.seed,
        jobs: jobs
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZero::<usize>::MIN),
        progress: &|done| bar.inc(done),
    };
    let text = match arguments.experiment {
        Experiment::Retries => write(&retries::run(&settings, &Plan::article()), arguments.format),
        Experiment::Recovery => write(&recovery::run(&settings), arguments.format),
        Experiment::Stopping => write(&stopping::run(&settings), arguments.format),
        Experiment::Amplification => write(&amplification::run(&settings), arguments.format),
        Experiment::Breaker => write(&breaker::run(&settings), arguments.format),
        Experiment::Keys => write(&keys::run(&settings), arguments.format),
    };
    bar.finish_and_clear();
    output::data(&text?)?;
    Ok(Exit::Pass)
}

/// A bar on a terminal; nothing elsewhere.
fn progress(tickets: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} tickets, {eta} left");
    ProgressBar::new(tickets).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn write(sheet: &impl Sheet, format: SheetFormat) -> Result<String, CliError> {
    match format {
        SheetFormat::Text => Ok(sheet.text()),
        SheetFormat::Json => Ok(sheet.json()),
        SheetFormat::Csv => {
            csv(sheet).context("the table cannot be written").map_err(CliError::could_not_run)
        }
    }
}

fn csv(sheet: &impl Sheet) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(sheet.header())?;
    for row in sheet.rows() {
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
