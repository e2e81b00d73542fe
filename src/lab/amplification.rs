//! How layers of retries multiply against a dead service, and how budgets keep them from it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::{
    Settings, Sheet,
    figure::Figure,
    parallel::{CHUNK, Merge, chunks, share},
    round,
};
use crate::{
    call::CallError,
    harness::{Budget, Retry, Step},
    seed::Seed,
};

/// The most layers.
const LAYERS: usize = 5;

/// Calls of an operation through five layers, as the source has it.
const ARTICLE: u64 = 243;

/// What an operation without budgets, through each number of layers, weighs in the progress; one with budgets, through
/// one number of them, weighs 1.
const PLAIN: u64 = 100;

/// Operations with budgets between two reports of progress.
const REPORTED: u64 = 1 << 16;

/// What reaches a dead service through one to five layers of retries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Amplification {
    /// Operations in each row.
    pub operations: u64,
    /// Attempts that each layer makes.
    pub attempts: u32,
    /// A row for each number of layers.
    pub rows: Vec<AmplificationRow>,
}

/// What reaches the service through so many layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AmplificationRow {
    /// Layers that retry.
    pub layers: u32,
    /// Calls for each operation, as the source has it.
    pub article: Option<u64>,
    /// The same, measured.
    pub calls: f64,
    /// The same, worked out: attempts to the power of layers.
    pub exact: u64,
    /// Calls of the first operation when each layer has a fresh budget.
    pub budget_first: u64,
    /// Calls for each operation with budgets.
    pub budget_calls: f64,
    /// The most that budgets let through for each operation: every layer adds a share and a burst.
    pub budget_bound: f64,
}

/// Sends operations through one to five layers; a ticket of the settings is an operation.
///
/// # Determinism
///
/// Nothing here is random. Operations that share budgets are sent one after the other, whatever the number of threads.
pub fn run(settings: &Settings<'_>) -> Amplification {
    let operations = settings.tickets;
    let retry = Retry::default();
    let progress = Progress { settings, done: AtomicU64::new(0) };
    // The layers with budgets are a piece of work each, and the longest come first.
    let budgeted = LAYERS as u64;
    let calls = share(settings.jobs, budgeted + chunks(operations), |piece, calls: &mut Calls| {
        match usize::try_from(piece) {
            Ok(place) if place < LAYERS => {
                let layers = LAYERS - place;
                calls.0[layers - 1].send_within_budgets(retry, layers, &progress);
            }
            _ => {
                let before = (piece - budgeted) * CHUNK;
                let operations = CHUNK.min(operations - before);
                for (layers, calls) in (1..).zip(&mut calls.0) {
                    (0..operations).for_each(|_| calls.plain += send(retry, layers, &mut []));
                }
                progress.add(operations * PLAIN);
            }
        }
    });
    let rows = (1_u32..).zip(calls.0).map(|(layers, calls)| AmplificationRow {
        layers,
        article: (layers as usize == LAYERS).then_some(ARTICLE),
        calls: mean(calls.plain, operations),
        exact: u64::from(retry.attempts_max).pow(layers),
        budget_first: calls.budget_first,
        budget_calls: mean(calls.budget, operations),
        budget_bound: mean(bound(operations, layers), operations),
    });
    Amplification { operations, attempts: retry.attempts_max, rows: rows.collect() }
}

/// Calls that reached the service through each number of layers.
#[derive(Default)]
struct Calls([LayerCalls; LAYERS]);

#[derive(Clone, Copy, Default)]
struct LayerCalls {
    plain: u64,
    budget: u64,
    budget_first: u64,
}

impl Merge for Calls {
    fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            mine.plain += theirs.plain;
            mine.budget += theirs.budget;
            mine.budget_first += theirs.budget_first;
        }
    }
}

impl LayerCalls {
    /// Sends all operations, one after the other, through layers with a budget each.
    fn send_within_budgets(&mut self, retry: Retry, layers: usize, progress: &Progress<'_>) {
        let operations = progress.settings.tickets;
        let mut budgets = vec![Budget::default(); layers];
        let mut left = operations;
        while left > 0 {
            let sent = left.min(REPORTED);
            for _ in 0..sent {
                let calls = send(retry, layers, &mut budgets);
                self.budget += calls;
                if self.budget_first == 0 {
                    self.budget_first = calls;
                }
            }
            left -= sent;
            progress.add(sent);
        }
    }
}

/// Tells of whole operations when parts of them are done.
struct Progress<'a> {
    settings: &'a Settings<'a>,
    done: AtomicU64,
}

impl Progress<'_> {
    fn add(&self, weight: u64) {
        let before = self.done.fetch_add(weight, Ordering::Relaxed);
        let operation = PLAIN + LAYERS as u64;
        (self.settings.progress)((before + weight) / operation - before / operation);
    }
}

/// Sends an operation through so many layers to a dead service; gives the calls that reach it.
fn send(retry: Retry, layers: usize, budgets: &mut [Budget]) -> u64 {
    if layers == 0 {
        return 1;
    }
    let (mut own, mut below) = (None, budgets);
    if let Some((first, rest)) = std::mem::take(&mut below).split_first_mut() {
        (own, below) = (Some(first), rest);
    }
    let mut retrying = retry.begin(Seed::new(0), 0);
    let mut calls = 0;
    loop {
        calls += send(retry, layers - 1, below);
        let dead: Result<(), CallError> = Err(CallError::Unavailable);
        let step = match own.as_deref_mut() {
            Some(budget) => retrying.next_within(&dead, budget),
            None => retrying.next(&dead),
        };
        if step == Step::Stop {
            return calls;
        }
    }
}

/// The most calls that layers with a default budget each make of so many operations.
fn bound(operations: u64, layers: u32) -> u64 {
    let after = |calls: u64| {
        let retries = Budget::default().left() + calls / 5;
        calls + retries.min(2 * calls)
    };
    (0..layers).fold(operations, |calls, _| after(calls))
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 calls")]
fn mean(sum: u64, of: u64) -> f64 {
    round(sum as f64 / of.max(1) as f64)
}

impl Sheet for Amplification {
    fn title(&self) -> String {
        format!(
            "Layers of {} attempts before a dead service: calls for each of {} operations",
            self.attempts, self.operations
        )
    }

    fn header(&self) -> Vec<&'static str> {
        vec![
            "layers",
            "article",
            "measured",
            "exact",
            "budgets: first operation",
            "budgets: measured",
            "budgets: bound",
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cells = |row: &AmplificationRow| {
            vec![
                row.layers.to_string(),
                row.article.map_or(String::new(), |calls| calls.to_string()),
                format!("{:.0}", row.calls),
                row.exact.to_string(),
                row.budget_first.to_string(),
                format!("{:.2}", row.budget_calls),
                format!("{:.2}", row.budget_bound),
            ]
        };
        self.rows.iter().map(cells).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figures = |row: &AmplificationRow| {
            let mut plain =
                Figure::new("calls for an operation").measured(row.calls).exact(row.exact);
            if let Some(article) = row.article {
                plain = plain.article(article);
            }
            let figures = [
                plain,
                Figure::new("calls of the first operation with budgets").measured(row.budget_first),
                Figure::new("calls for an operation with budgets").measured(row.budget_calls),
                Figure::new("the most calls that budgets let through").exact(row.budget_bound),
            ];
            figures.map(|figure| figure.at("amplification", [("layers", row.layers.into())]))
        };
        self.rows.iter().flat_map(figures).collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "A budget at each layer: a fifth of its first attempts, and a burst of ten. The first operation \
             spends the bursts."
                .to_owned(),
        ]
    }
}
