//! Experiments that measure which designs keep a run correct, beside what the sources report.
//!
//! Every experiment gives a [`Sheet`]: a table whose numbers follow from its [`Settings`] alone, whatever
//! the number of threads. Where a value can be derived from the faults' probabilities it stands beside
//! the measured one, derived by enumerating the fault process, not by simulating it.
#![allow(clippy::float_arithmetic, reason = "this is where rates are made of counts")]

pub mod amplification;
pub mod breaker;
mod exact;
pub mod keys;
mod parallel;
pub mod recovery;
pub mod retries;
pub mod stopping;

use std::num::NonZero;

use serde::Serialize;

use crate::{render::columns, seed::Seed};

/// How an experiment is run.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Tickets in each arm.
    pub tickets: u64,
    /// Seed of the first ticket; those after it have the seeds after it.
    pub seed: Seed,
    /// Threads that share the work.
    pub jobs: NonZero<usize>,
    /// Told how many further tickets are done.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("tickets", &self.tickets)
            .field("seed", &self.seed)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

impl Settings<'static> {
    /// So many tickets from a seed on, on one thread.
    pub fn new(tickets: u64, seed: impl Into<Seed>) -> Self {
        Self { tickets, seed: seed.into(), jobs: NonZero::<usize>::MIN, progress: &|_| {} }
    }
}

/// A table of an experiment.
pub trait Sheet: Serialize {
    /// What was measured, in a line.
    fn title(&self) -> String;

    /// The names of the columns.
    fn header(&self) -> Vec<&'static str>;

    /// The cells, row by row.
    fn rows(&self) -> Vec<Vec<String>>;

    /// What is to be said below the table.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The table for people.
    fn text(&self) -> String {
        text(self)
    }

    /// The table for programs.
    ///
    /// # Panics
    ///
    /// If a map in it has keys that are not strings.
    fn json(&self) -> String {
        serde_json::to_string(self).expect("no map has keys that are not strings") + "\n"
    }
}

/// One table for people.
fn text(sheet: &(impl Sheet + ?Sized)) -> String {
    let header = sheet.header().into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(sheet.rows()).collect();
    let mut text = format!("{}\n\n{}", sheet.title(), columns(&rows));
    let notes = sheet.notes();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text += &note;
        text.push('\n');
    }
    text
}

/// A share as people read it.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// To six places: further digits differ between platforms.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
