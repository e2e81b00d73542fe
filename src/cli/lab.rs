//! `badbank lab`: experiments.

use std::{num::NonZero, thread};

use anyhow::{Context as _, anyhow};
use clap::{ValueEnum as _, builder::PossibleValue};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    arguments::{Experiment, LabArguments, SheetFormat},
    exit::{CliError, Exit},
    output, picture,
};
use crate::{
    fault::Plan,
    lab::{Settings, Sheet, amplification, breaker, keys, recovery, retries, stopping},
};

/// Runs an experiment and writes its table, and its picture where one is wanted.
pub(super) fn lab(arguments: &LabArguments) -> Result<Exit, CliError> {
    check_picture(arguments)?;
    let bar = progress(arguments.tickets);
    // More threads than cores only cost memory, which may be scarce.
    let cores = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = arguments.jobs.and_then(|jobs| NonZero::new(usize::from(jobs)));
    let settings = Settings {
        tickets: arguments.tickets,
        seed: arguments.seed,
        jobs: jobs.unwrap_or(cores).min(cores),
        progress: &|done| bar.inc(done),
    };
    let result = match arguments.experiment {
        Experiment::Retries => {
            let table = retries::run(&settings, &Plan::article());
            present(arguments, &table, Some(picture::retries))
        }
        Experiment::Recovery => present(arguments, &recovery::run(&settings), None),
        Experiment::Stopping => present(arguments, &stopping::run(&settings), None),
        Experiment::Amplification => {
            let table = amplification::run(&settings);
            present(arguments, &table, Some(picture::amplification))
        }
        Experiment::Breaker => present(arguments, &breaker::run(&settings), Some(picture::breaker)),
        Experiment::Keys => present(arguments, &keys::run(&settings), None),
    };
    bar.finish_and_clear();
    let (text, picture) = result?;
    if let Some((path, picture)) = arguments.svg.as_deref().zip(picture) {
        output::file(path, &picture)?;
    }
    output::data(&text)?;
    Ok(Exit::Pass)
}

/// Makes sure, before any work is done for it, that a picture can be drawn and written where one is wanted.
fn check_picture(arguments: &LabArguments) -> Result<(), CliError> {
    let Some(path) = &arguments.svg else { return Ok(()) };
    match arguments.experiment {
        Experiment::Retries | Experiment::Amplification | Experiment::Breaker => {
            output::check_target(path)
        }
        Experiment::Recovery | Experiment::Stopping | Experiment::Keys => {
            let experiment = arguments.experiment.to_possible_value();
            let name = experiment.as_ref().map_or("this table", PossibleValue::get_name);
            Err(CliError::usage(anyhow!(
                "--svg draws retries, amplification and breaker; {name} has no picture, only its table"
            )))
        }
    }
}

/// The table's text, and its picture if that is wanted.
fn present<S: Sheet>(
    arguments: &LabArguments,
    sheet: &S,
    draw: Option<fn(&S) -> String>,
) -> Result<(String, Option<String>), CliError> {
    let picture = draw.filter(|_| arguments.svg.is_some()).map(|draw| draw(sheet));
    Ok((write(sheet, arguments.format)?, picture))
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
    for record in sheet.records() {
        writer.write_record(record)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
