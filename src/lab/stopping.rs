//! Who stops calling a service that is dead, and who calls one that would have recovered.
//!
//! One refund of each ticket fails with 503 for its first k attempts. The rule of the third arm is the
//! source's: it stands above an agent that has no retries beneath it. In the fourth it stands above both.

use serde::Serialize;

use super::{
    Settings, Sheet,
    parallel::{Merge, tally},
    round,
};
use crate::{
    Seed, Ticket,
    agent::{Agent, Manner},
    bank::Bank,
    call::Operation,
    fault::{Attempts, Fault, Plan, Rule},
    harness::{self, Design, Harness, StoppingRule, VirtualTime},
};

/// Failing attempts, before the refund works.
const FAILING: [u32; 3] = [2, 4, 1000];

/// A harness, what the source says of it for each number of failing attempts, and its attempts a call.
struct Way {
    name: &'static str,
    article: [&'static str; 3],
    design: Design,
    stops_after: Option<u32>,
}

const WAYS: [Way; 4] = [
    Way {
        name: "agent alone",
        article: ["recovers", "gives up in 10 of 10", "2.9 calls, reported as failed"],
        design: Design::ModelOnly,
        stops_after: None,
    },
    Way {
        name: "3 attempts",
        article: ["recovers", "recovers in 10 of 10", "8.7 calls"],
        design: Design::Keyed,
        stops_after: None,
    },
    Way {
        name: "agent alone, rule of 3",
        article: ["never fires", "never fires", "never fires"],
        design: Design::ModelOnly,
        stops_after: Some(3),
    },
    Way {
        name: "3 attempts, rule of 3",
        article: ["", "", ""],
        design: Design::Keyed,
        stops_after: Some(3),
    },
];

/// What came of each harness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stopping {
    /// Tickets in each row.
    pub tickets: u64,
    /// A row for each number of failing attempts and each harness.
    pub rows: Vec<StoppingRow>,
}

/// What came of one harness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoppingRow {
    /// Attempts that fail before the refund works.
    pub failing: u32,
    /// The harness.
    pub harness: &'static str,
    /// What the source says.
    pub article: &'static str,
    /// Tickets whose refund was paid in the end.
    pub recovered: u64,
    /// Calls to the failing refund, a ticket.
    pub calls: f64,
    /// The same, worked out: the agent sends a refund three times at the most.
    pub calls_exact: u32,
    /// Calls that the rule answered by itself, a ticket.
    pub answered: f64,
    /// Tickets whose report said what the ledger says.
    pub true_reports: u64,
}

/// Runs every harness on every number of failing attempts.
///
/// # Determinism
///
/// Everything follows from the number of tickets and the seed.
pub fn run(settings: &Settings<'_>) -> Stopping {
    let cells =
        || FAILING.into_iter().flat_map(|failing| WAYS.iter().map(move |way| (failing, way)));
    let counts: Counts = tally(settings, |place, counts: &mut Counts| {
        let seed = Seed::new(settings.seed.number().wrapping_add(place));
        let ticket = Ticket::generate(seed);
        for (count, (failing, way)) in counts.0.iter_mut().zip(cells()) {
            way.count(&ticket, failing, seed, count);
        }
    });
    let rows = cells().zip(counts.0).map(|((failing, way), count)| StoppingRow {
        failing,
        harness: way.name,
        article: way.article_on(failing),
        recovered: count.recovered,
        calls: mean(count.calls, settings.tickets),
        calls_exact: way.calls_on(failing),
        answered: mean(count.answered, settings.tickets),
        true_reports: count.true_reports,
    });
    Stopping { tickets: settings.tickets, rows: rows.collect() }
}

#[derive(Default)]
struct Counts([Count; FAILING.len() * WAYS.len()]);

#[derive(Default)]
struct Count {
    recovered: u64,
    calls: u64,
    answered: u64,
    true_reports: u64,
}

impl Merge for Counts {
    fn merge(&mut self, other: Self) {
        for (count, other) in self.0.iter_mut().zip(other.0) {
            count.recovered += other.recovered;
            count.calls += other.calls;
            count.answered += other.answered;
            count.true_reports += other.true_reports;
        }
    }
}

impl Way {
    /// Runs a ticket whose first order's refund fails so often.
    fn count(&self, ticket: &Ticket, failing: u32, seed: Seed, count: &mut Count) {
        let attempts: Attempts = format!("1-{failing}").parse().expect("a range from 1 on");
        let order = ticket.orders()[0].id().clone();
        let rule = Rule::scripted(Operation::Refund, order, attempts, Fault::TRANSIENT);
        let plan = Plan::calm().rule(rule).expect("a refund can fail");
        let mut bank = Bank::open(ticket, plan);
        let mut harness = Harness::new(self.design, seed);
        if let Some(failures) = self.stops_after {
            harness = harness.with_stopping_rule(StoppingRule::after(failures));
        }
        let outcome = harness::run_in(
            &mut harness,
            &mut Agent::new(Manner::Careful, ticket),
            &mut bank,
            &mut VirtualTime,
        );
        let grade = bank.grade(&outcome.report);
        count.recovered += u64::from(grade.all_ok());
        count.calls += u64::from(grade.orders()[0].attempts.refund);
        count.answered += harness.stopping_rule().map_or(0, StoppingRule::answered);
        count.true_reports += u64::from(grade.report_true() == Some(true));
    }

    /// Calls to the failing refund, worked out.
    fn calls_on(&self, failing: u32) -> u32 {
        let all = 3 * self.design.retry().attempts_max;
        let sent = self.stops_after.map_or(all, |failures| all.min(failures));
        sent.min(failing + 1)
    }

    fn article_on(&self, failing: u32) -> &'static str {
        let place = FAILING.iter().position(|known| *known == failing);
        place.map_or("", |place| self.article[place])
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 calls")]
fn mean(sum: u64, of: u64) -> f64 {
    round(sum as f64 / of.max(1) as f64)
}

impl Sheet for Stopping {
    fn title(&self) -> String {
        format!(
            "Stopping rules: one refund a ticket fails with 503 for its first k attempts, {} tickets a row",
            self.tickets
        )
    }

    fn header(&self) -> Vec<&'static str> {
        vec![
            "k",
            "harness",
            "article",
            "recovered",
            "refund calls a ticket",
            "exact",
            "answered by the rule",
            "true reports",
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cells = |row: &StoppingRow| {
            vec![
                row.failing.to_string(),
                row.harness.to_owned(),
                row.article.to_owned(),
                format!("{} of {}", row.recovered, self.tickets),
                format!("{:.1}", row.calls),
                row.calls_exact.to_string(),
                format!("{:.1}", row.answered),
                format!("{} of {}", row.true_reports, self.tickets),
            ]
        };
        self.rows.iter().map(cells).collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "The scripted agent sends a refund three times at the most, so a rule of 3 above it alone has \
             nothing to stop."
                .to_owned(),
            "Above the harness's retries the rule keeps the layers from multiplying, and gives up what a \
             fourth attempt would have paid."
                .to_owned(),
        ]
    }
}
