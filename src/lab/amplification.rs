//! How layers of retries multiply against a dead service, and how budgets keep them from it.

use serde::Serialize;

use super::{Settings, Sheet, round};
use crate::{
    call::CallError,
    harness::{Budget, Retry, Step},
    seed::Seed,
};

const LAYERS: u32 = 5;

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
/// Nothing here is random.
pub fn run(settings: &Settings<'_>) -> Amplification {
    let operations = settings.tickets;
    let retry = Retry::default();
    let rows = (1..=LAYERS).map(|layers| {
        let mut calls = 0;
        (0..operations).for_each(|_| calls += send(retry, layers, &mut []));
        let mut budgets = vec![Budget::default(); layers as usize];
        let budgeted: Vec<u64> =
            (0..operations).map(|_| send(retry, layers, &mut budgets)).collect();
        AmplificationRow {
            layers,
            article: (layers == LAYERS).then_some(243),
            calls: mean(calls, operations),
            exact: u64::from(retry.attempts_max).pow(layers),
            budget_first: budgeted.first().copied().unwrap_or(0),
            budget_calls: mean(budgeted.iter().sum(), operations),
            budget_bound: mean(bound(operations, layers), operations),
        }
    });
    let rows = rows.collect();
    (settings.progress)(operations);
    Amplification { operations, attempts: retry.attempts_max, rows }
}

/// Sends an operation through so many layers to a dead service; gives the calls that reach it.
fn send(retry: Retry, layers: u32, budgets: &mut [Budget]) -> u64 {
    if layers == 0 {
        return 1;
    }
    let (mut own, mut below) = (None, budgets);
    if let Some((first, rest)) = std::mem::take(&mut below).split_first_mut() {
        (own, below) = (Some(first), rest);
    }
    let mut retrying = retry.begin(Seed::new(0), layers);
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

    fn notes(&self) -> Vec<String> {
        vec![
            "A budget at each layer: a fifth of its first attempts, and a burst of ten. The first operation \
             spends the bursts."
                .to_owned(),
        ]
    }
}
