//! Who stops calling a service that is dead, and who calls one that would have recovered.
//!
//! One refund of each ticket fails with 503 for its first k attempts. The rule of the third arm is the
//! source's: it stands above an agent that has no retries beneath it. In the fourth it stands above both.

use serde::Serialize;

use super::{
    Settings, Sheet,
    figure::{self, Figure, Value},
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
    stats::Sums,
};

/// Failing attempts, before the refund works.
const FAILING: [u32; 3] = [2, 4, 1000];

/// Refunds that the agent sends, however they fail.
const AGENT_MAX: u32 = 3;

/// Tickets of each harness in the source. Every report of these matched the backend.
const ARTICLE_TICKETS: u64 = 10;

/// A harness, and what the source says of it for each number of failing attempts.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    article: Option<[Article; 3]>,
    design: Design,
    stops_after: Option<u32>,
}

/// What the source says; nothing where it says nothing.
#[derive(Clone, Copy)]
struct Article {
    recovered: Option<u64>,
    calls: Option<f64>,
    /// Whether the rule answered a call.
    answered: &'static str,
}

const SILENT: Article = Article { recovered: None, calls: None, answered: "" };
const RECOVERS: Article = Article { recovered: Some(ARTICLE_TICKETS), ..SILENT };
const GIVES_UP: Article = Article { recovered: Some(0), ..SILENT };
const NEVER_FIRES: Article = Article { answered: "never fires", ..SILENT };

const WAYS: [Way; 4] = [
    Way {
        name: "agent alone",
        article: Some([RECOVERS, GIVES_UP, Article { calls: Some(2.9), ..GIVES_UP }]),
        design: Design::ModelOnly,
        stops_after: None,
    },
    Way {
        name: "3 attempts",
        article: Some([RECOVERS, RECOVERS, Article { calls: Some(8.7), ..GIVES_UP }]),
        design: Design::Keyed,
        stops_after: None,
    },
    Way {
        name: "agent alone, rule of 3",
        article: Some([NEVER_FIRES; 3]),
        design: Design::ModelOnly,
        stops_after: Some(3),
    },
    Way {
        name: "3 attempts, rule of 3",
        article: None,
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
    /// Turns of the agent, a ticket.
    pub agent_calls: f64,
    #[serde(skip)]
    figures: Vec<Figure>,
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
    let rows = cells().zip(counts.0).map(|((failing, way), count)| {
        let mean = |sums: Sums| round(sums.mean(settings.tickets).unwrap_or(0.0));
        StoppingRow {
            failing,
            harness: way.name,
            recovered: count.recovered,
            calls: mean(count.calls),
            calls_exact: way.calls_on(failing),
            answered: mean(count.answered),
            true_reports: count.true_reports,
            agent_calls: mean(count.agent_calls),
            figures: way.figures(failing, &count, settings.tickets),
        }
    });
    Stopping { tickets: settings.tickets, rows: rows.collect() }
}

#[derive(Default)]
struct Counts([Count; FAILING.len() * WAYS.len()]);

#[derive(Default)]
struct Count {
    recovered: u64,
    calls: Sums,
    answered: Sums,
    true_reports: u64,
    agent_calls: Sums,
}

impl Merge for Counts {
    fn merge(&mut self, other: Self) {
        for (count, other) in self.0.iter_mut().zip(other.0) {
            count.recovered += other.recovered;
            count.calls.merge(other.calls);
            count.answered.merge(other.answered);
            count.true_reports += other.true_reports;
            count.agent_calls.merge(other.agent_calls);
        }
    }
}

impl Way {
    /// Runs a ticket whose first order's refund fails so often.
    fn count(self, ticket: &Ticket, failing: u32, seed: Seed, count: &mut Count) {
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
        count.calls.add(u64::from(grade.orders()[0].attempts.refund));
        count.answered.add(harness.stopping_rule().map_or(0, StoppingRule::answered));
        count.true_reports += u64::from(grade.report_true() == Some(true));
        count.agent_calls.add(u64::from(outcome.agent_calls));
    }

    /// Calls to the failing refund, worked out.
    fn calls_on(self, failing: u32) -> u32 {
        let all = AGENT_MAX * self.design.retry().attempts_max;
        let sent = self.stops_after.map_or(all, |failures| all.min(failures));
        sent.min(failing + 1)
    }

    fn recovers(self, failing: u32) -> bool {
        self.calls_on(failing) > failing
    }

    /// Refunds that the agent writes, worked out.
    fn written_on(self, failing: u32) -> u32 {
        if self.recovers(failing) {
            (failing + 1).div_ceil(self.design.retry().attempts_max)
        } else {
            AGENT_MAX
        }
    }

    /// Refunds that the rule answers by itself, worked out: those that the agent writes after it has stopped.
    fn answered_on(self, failing: u32) -> u32 {
        let sent = self.calls_on(failing).div_ceil(self.design.retry().attempts_max);
        self.written_on(failing) - sent
    }

    /// Turns of the agent, worked out: it reads first and after each refund that failed, and reports.
    fn turns_on(self, failing: u32) -> u32 {
        let written = self.written_on(failing);
        2 + 2 * written - u32::from(self.recovers(failing))
    }

    fn figures(self, failing: u32, count: &Count, tickets: u64) -> Vec<Figure> {
        let place = FAILING.iter().position(|known| *known == failing);
        let article = self.article.zip(place).map(|(article, place)| article[place]);
        let reports = article.map(|_| (ARTICLE_TICKETS, ARTICLE_TICKETS));
        let article = article.unwrap_or(SILENT);
        let share = |measure, hits| Figure::share(measure, hits, tickets);
        let mean = |measure, sums: &Sums, exact: u32| {
            Figure::mean(measure, sums, tickets, 1.0).exact(f64::from(exact))
        };
        let mut calls = mean("refund calls a ticket", &count.calls, self.calls_on(failing));
        if let Some(article) = article.calls {
            calls = calls.article(article);
        }
        let mut figures = vec![
            share("recovered", count.recovered)
                .article_may_count(article.recovered.map(|count| (count, ARTICLE_TICKETS)))
                .exact(if self.recovers(failing) { 1.0 } else { 0.0 }),
            calls,
            share("true reports", count.true_reports).article_may_count(reports).exact(1.0),
            mean("agent calls a ticket", &count.agent_calls, self.turns_on(failing)),
        ];
        if self.stops_after.is_some() {
            figures.push(
                mean("answered by the rule", &count.answered, self.answered_on(failing))
                    .article(article.answered),
            );
        }
        let row = || [("k", Value::from(failing)), ("harness", self.name.into())];
        figures.into_iter().map(|figure| figure.at("stopping", row())).collect()
    }
}

impl Sheet for Stopping {
    fn title(&self) -> String {
        format!(
            "Stopping rules: one refund a ticket fails with 503 for its first k attempts, {} tickets a row",
            self.tickets
        )
    }

    fn header(&self) -> Vec<&'static str> {
        ["k", "harness"].into_iter().chain(figure::COLUMNS).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        figure::rows(self.rows.iter().flat_map(|row| &row.figures))
    }

    fn figures(&self) -> Vec<Figure> {
        self.rows.iter().flat_map(|row| &row.figures).cloned().collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "The scripted agent sends a refund three times at the most, so a rule of 3 above it alone has \
             nothing to stop."
                .to_owned(),
            "The article, too, has fewer agent calls at k = 4 where the harness makes 3 attempts.".to_owned(),
            "Above the harness's retries the rule keeps the layers from multiplying, and gives up what a \
             fourth attempt would have paid."
                .to_owned(),
        ]
    }
}
