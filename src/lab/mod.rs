//! Experiments that measure which designs keep a run correct, beside what the sources report.
//!
//! Every experiment gives a [`Sheet`]: tables whose numbers follow from its [`Settings`] alone, whatever
//! the number of threads. Each number is a [`Figure`]: what the source says of it, what was measured and how
//! surely, and what must come out where that can be derived, from the faults' probabilities by enumerating the
//! fault process, not by simulating it.
#![allow(clippy::float_arithmetic, reason = "this is where rates are made of counts")]

pub mod amplification;
pub mod breaker;
mod exact;
mod facts;
mod figure;
pub mod keys;
mod parallel;
pub mod recovery;
pub mod retries;
pub mod stopping;

use std::num::NonZero;

use serde::Serialize;

pub use self::figure::{Figure, Value};
pub(crate) use self::figure::{hundredths, percent};
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

/// What an experiment has found.
pub trait Sheet: Serialize {
    /// What was measured, in a line.
    fn title(&self) -> String;

    /// The names of the columns of the table for people.
    fn header(&self) -> Vec<&'static str>;

    /// Its cells, row by row.
    fn rows(&self) -> Vec<Vec<String>>;

    /// What is to be said below it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// All numbers of the experiment, of all its tables.
    fn figures(&self) -> Vec<Figure>;

    /// The table for people.
    fn text(&self) -> String {
        text(self)
    }

    /// The tables for programs, and all their numbers as `figures`.
    ///
    /// # Panics
    ///
    /// If a map in it has keys that are not strings.
    fn json(&self) -> String {
        let document = Document { sheet: self, figures: self.figures() };
        serde_json::to_string(&document).expect("no map has keys that are not strings") + "\n"
    }

    /// All numbers as records of one width, a number each; the first has the names of the columns.
    fn records(&self) -> Vec<Vec<String>> {
        figure::records(&self.figures())
    }
}

/// The tables as programs read them.
#[derive(Serialize)]
struct Document<'a, S: ?Sized> {
    #[serde(flatten)]
    sheet: &'a S,
    figures: Vec<Figure>,
}

/// One table for people.
fn text(sheet: &(impl Sheet + ?Sized)) -> String {
    table(&sheet.title(), &sheet.header(), sheet.rows(), &sheet.notes())
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>, notes: &[String]) -> String {
    let header = header.iter().copied().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let mut text = format!("{title}\n\n{}", columns(&rows));
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text += note;
        text.push('\n');
    }
    text
}

/// To twelve significant digits: further ones differ between platforms. What is not quite 1 does not become 1.
fn round(value: f64) -> f64 {
    let rounded = format!("{value:.11e}").parse().unwrap_or(value);
    if value < 1.0 && rounded >= 1.0 { value } else { rounded }
}
