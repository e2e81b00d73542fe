//! Who retries: four arms on the same tickets and the same faults.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Settings, Sheet,
    exact::{OrderOdds, order_odds},
    parallel::{Merge, tally},
    percent, round,
};
use crate::{
    bank::Bank,
    fault::Plan,
    grade::{Grade, OrderVerdict},
    harness::{self, Design, Outcome, VirtualTime},
    seed::Seed,
    stats::{Proportion, mcnemar},
    ticket::Ticket,
};

/// Orders of a generated ticket.
const ORDERS: i32 = 8;

/// An arm, and what the article reports of it (source A, step 2: 30 tickets).
struct Arm {
    name: &'static str,
    design: Design,
    article: Article,
}

/// The article's figures; none where it gives none.
#[derive(Clone, Copy, Debug)]
struct Article {
    double_tickets: u32,
    extra_refunds: u32,
    clean_tickets: Option<u32>,
    calls: Option<&'static str>,
    wait_s: Option<&'static str>,
    false_reports: Option<&'static str>,
}

/// Tickets of an arm in the article.
const ARTICLE_TICKETS: u32 = 30;

const ARMS: [Arm; 4] = [
    Arm {
        name: "model_only",
        design: Design::ModelOnly,
        article: Article {
            double_tickets: 19,
            extra_refunds: 29,
            clean_tickets: None,
            calls: Some("6.0"),
            wait_s: None,
            false_reports: Some("7 of 19"),
        },
    },
    Arm {
        name: "retries",
        design: Design::Retries,
        article: Article {
            double_tickets: 28,
            extra_refunds: 72,
            clean_tickets: Some(2),
            calls: None,
            wait_s: None,
            false_reports: Some("10 of 28"),
        },
    },
    Arm {
        name: "keyed",
        design: Design::Keyed,
        article: Article {
            double_tickets: 0,
            extra_refunds: 0,
            clean_tickets: Some(30),
            calls: Some("3.4"),
            wait_s: Some("1.4"),
            false_reports: None,
        },
    },
    Arm {
        name: "model_key",
        design: Design::ModelKey,
        article: Article {
            double_tickets: 0,
            extra_refunds: 0,
            clean_tickets: Some(30),
            calls: Some("5.8"),
            wait_s: None,
            false_reports: None,
        },
    },
];

/// Runs all four arms on the same tickets under `plan`; the exact values are those of its rates.
///
/// # Examples
///
/// ```
/// use badbank::{fault::Plan, lab::{Settings, retries}};
///
/// let table = retries::run(&Settings::new(20, 1), &Plan::article());
/// let keyed = &table.arms()[2];
/// assert_eq!((keyed.name, keyed.extra_refunds), ("keyed", 0));
/// ```
///
/// # Determinism
///
/// The table follows from plan, tickets and seed; the number of threads changes nothing.
pub fn run(settings: &Settings<'_>, plan: &Plan) -> Retries {
    let counts: Counts = tally(settings, |place, counts: &mut Counts| {
        let seed = Seed::new(settings.seed.number().wrapping_add(place));
        counts.add(seed, plan);
    });
    let arms = ARMS.iter().zip(counts.arms);
    let arms =
        arms.map(|(arm, counts)| ArmResult::new(arm, counts, settings.tickets, plan)).collect();
    let pairs = Pair::all(&counts.doubled_only);
    Retries { arms, pairs, seed: settings.seed }
}

/// What was counted in each arm, and across arms.
#[derive(Debug, Default)]
struct Counts {
    arms: [ArmCounts; 4],
    /// Tickets that were doubled in the first arm of a pair and not in the second.
    doubled_only: [[u64; 4]; 4],
}

#[derive(Debug, Default)]
struct ArmCounts {
    double_tickets: u64,
    extra_refunds: u64,
    clean_tickets: u64,
    missed_orders: u64,
    agent_calls: u64,
    waited_ms: u64,
    /// Tickets with a double refund whose report does not say so.
    false_reports: u64,
    causes: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Runs one ticket in every arm.
    fn add(&mut self, seed: Seed, plan: &Plan) {
        let ticket = Ticket::generate(seed);
        let mut doubled = [false; 4];
        for (place, arm) in ARMS.iter().enumerate() {
            let mut bank = Bank::open(&ticket, plan.clone().seed(seed));
            let outcome = harness::run(arm.design, &ticket, &mut bank, &mut VirtualTime, seed);
            let grade = bank.grade(&outcome.report);
            doubled[place] = grade.extra_refunds() > 0;
            self.arms[place].add(&grade, &outcome);
        }
        for (first, row) in self.doubled_only.iter_mut().enumerate() {
            for (second, count) in row.iter_mut().enumerate() {
                *count += u64::from(doubled[first] && !doubled[second]);
            }
        }
    }
}

impl ArmCounts {
    fn add(&mut self, grade: &Grade, outcome: &Outcome) {
        let is_double = grade.extra_refunds() > 0;
        self.double_tickets += u64::from(is_double);
        self.extra_refunds += grade.extra_refunds();
        self.clean_tickets += u64::from(grade.all_ok());
        self.agent_calls += u64::from(outcome.agent_calls);
        self.waited_ms += u64::try_from(outcome.waited.as_millis()).unwrap_or(u64::MAX);
        self.false_reports += u64::from(is_double && grade.report_true() == Some(false));
        for order in grade.orders() {
            self.missed_orders += u64::from(order.verdict == OrderVerdict::Missed);
            for finding in order.causes.iter().filter(|finding| finding.refund.is_some()) {
                *self.causes.entry(finding.cause.as_str()).or_default() += 1;
            }
        }
    }
}

impl Merge for Counts {
    fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.arms.iter_mut().zip(other.arms) {
            mine.double_tickets += theirs.double_tickets;
            mine.extra_refunds += theirs.extra_refunds;
            mine.clean_tickets += theirs.clean_tickets;
            mine.missed_orders += theirs.missed_orders;
            mine.agent_calls += theirs.agent_calls;
            mine.waited_ms += theirs.waited_ms;
            mine.false_reports += theirs.false_reports;
            for (cause, count) in theirs.causes {
                *mine.causes.entry(cause).or_default() += count;
            }
        }
        for (mine, theirs) in self.doubled_only.iter_mut().zip(other.doubled_only) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }
}

/// The table of who retries.
#[derive(Debug, Serialize)]
pub struct Retries {
    arms: Vec<ArmResult>,
    pairs: Vec<Pair>,
    seed: Seed,
}

/// What came out in an arm.
#[derive(Debug, Serialize)]
pub struct ArmResult {
    /// The arm's name.
    pub name: &'static str,
    /// Its tickets.
    pub tickets: u64,
    /// Tickets with a refund too many.
    pub double_tickets: u64,
    /// Refunds too many.
    pub extra_refunds: u64,
    /// Tickets on which every order is right.
    pub clean_tickets: u64,
    /// Orders that hold less than was expected.
    pub missed_orders: u64,
    /// Turns of the agent, the report included, a ticket.
    pub calls_per_ticket: f64,
    /// Simulated waiting, in seconds, a ticket.
    pub wait_s_per_ticket: f64,
    /// Tickets with a refund too many whose report is false.
    pub false_reports: u64,
    /// Why refunds were too many.
    pub causes: BTreeMap<&'static str, u64>,
    /// What must come out on average.
    pub exact: Exact,
    #[serde(skip)]
    article: Article,
}

/// What must come out on average, derived from the plan's rates.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exact {
    /// The chance of a ticket with a refund too many.
    pub double_ticket: f64,
    /// The chance of a ticket on which every order is right.
    pub clean_ticket: f64,
    /// Refunds too many, a ticket.
    pub extra_refunds_per_ticket: f64,
    /// The standard deviation of those, over tickets.
    #[serde(skip)]
    pub extra_refunds_deviation: f64,
}

impl Exact {
    fn of_ticket(order: &OrderOdds) -> Self {
        let orders = f64::from(ORDERS);
        let variance = order.extra_squared - order.extra * order.extra;
        Self {
            double_ticket: round(1.0 - (1.0 - order.doubled).powi(ORDERS)),
            clean_ticket: round(order.right.powi(ORDERS)),
            extra_refunds_per_ticket: round(orders * order.extra),
            extra_refunds_deviation: (orders * variance).max(0.0).sqrt(),
        }
    }
}

impl ArmResult {
    #[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 tickets")]
    fn new(arm: &Arm, counts: ArmCounts, tickets: u64, plan: &Plan) -> Self {
        let per_ticket = |sum: u64| round(sum as f64 / tickets.max(1) as f64);
        Self {
            name: arm.name,
            tickets,
            double_tickets: counts.double_tickets,
            extra_refunds: counts.extra_refunds,
            clean_tickets: counts.clean_tickets,
            missed_orders: counts.missed_orders,
            calls_per_ticket: per_ticket(counts.agent_calls),
            wait_s_per_ticket: round(per_ticket(counts.waited_ms) / 1000.0),
            false_reports: counts.false_reports,
            causes: counts.causes,
            exact: Exact::of_ticket(&order_odds(arm.design, plan)),
            article: arm.article,
        }
    }

    /// The article's share of tickets with a refund too many, out of its 30, with its interval.
    pub fn article_double_tickets(&self) -> Proportion {
        Proportion::wilson(u64::from(self.article.double_tickets), u64::from(ARTICLE_TICKETS))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let some = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let of_30 = |count: u32| percent(f64::from(count) / f64::from(ARTICLE_TICKETS));
        let share = |measure: &str, article: String, hits: u64, of: u64, exact: Option<f64>| {
            let Proportion { share, low, high } = Proportion::wilson(hits, of);
            let interval = format!("{} to {}", percent(low), percent(high));
            let exact = exact.map_or_else(|| "-".to_owned(), percent);
            self.row(measure, article, percent(share), interval, exact)
        };
        #[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 refunds")]
        let mean = |sum: u64| format!("{:.3}", sum as f64 / self.tickets.max(1) as f64);
        let article = self.article;
        let extra = f64::from(article.extra_refunds) / f64::from(ARTICLE_TICKETS);
        let none = || "-".to_owned();
        vec![
            share(
                "tickets with a double refund",
                of_30(article.double_tickets),
                self.double_tickets,
                self.tickets,
                Some(self.exact.double_ticket),
            ),
            share(
                "clean tickets",
                article.clean_tickets.map_or_else(none, of_30),
                self.clean_tickets,
                self.tickets,
                Some(self.exact.clean_ticket),
            ),
            self.row(
                "extra refunds a ticket",
                format!("{extra:.3}"),
                mean(self.extra_refunds),
                none(),
                format!("{:.3}", self.exact.extra_refunds_per_ticket),
            ),
            self.row("missed orders a ticket", none(), mean(self.missed_orders), none(), none()),
            self.row(
                "agent calls a ticket",
                some(article.calls),
                format!("{:.2}", self.calls_per_ticket),
                none(),
                none(),
            ),
            self.row(
                "waiting a ticket, s",
                some(article.wait_s),
                format!("{:.2}", self.wait_s_per_ticket),
                none(),
                none(),
            ),
            share(
                "false reports, of doubled tickets",
                some(article.false_reports),
                self.false_reports,
                self.double_tickets,
                None,
            ),
        ]
    }

    fn row(
        &self,
        measure: &str,
        article: String,
        measured: String,
        interval: String,
        exact: String,
    ) -> Vec<String> {
        vec![self.name.to_owned(), measure.to_owned(), article, measured, interval, exact]
    }
}

/// Two arms compared on the same tickets.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// One arm.
    pub first: &'static str,
    /// The other.
    pub second: &'static str,
    /// Tickets that were doubled in the first alone.
    pub first_only: u64,
    /// Tickets that were doubled in the second alone.
    pub second_only: u64,
    /// The two-sided p-value of the exact McNemar test.
    pub p: f64,
}

impl Pair {
    fn all(doubled_only: &[[u64; 4]; 4]) -> Vec<Self> {
        let mut pairs = Vec::new();
        for first in 0..ARMS.len() {
            for second in first + 1..ARMS.len() {
                let (first_only, second_only) =
                    (doubled_only[first][second], doubled_only[second][first]);
                pairs.push(Self {
                    first: ARMS[first].name,
                    second: ARMS[second].name,
                    first_only,
                    second_only,
                    p: round(mcnemar(first_only, second_only)),
                });
            }
        }
        pairs
    }
}

impl Retries {
    /// The arms.
    pub fn arms(&self) -> &[ArmResult] {
        &self.arms
    }
}

impl Sheet for Retries {
    fn title(&self) -> String {
        let tickets = self.arms.first().map_or(0, |arm| arm.tickets);
        format!(
            "who retries: {tickets} tickets of {ORDERS} orders an arm, the same in each, from seed {}",
            self.seed
        )
    }

    fn header(&self) -> Vec<&'static str> {
        vec!["arm", "measure", "article", "measured", "95 % interval", "exact"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.arms.iter().flat_map(ArmResult::rows).collect()
    }

    fn notes(&self) -> Vec<String> {
        let causes = self.arms.iter().filter(|arm| !arm.causes.is_empty()).map(|arm| {
            let causes: Vec<String> =
                arm.causes.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
            format!("{}: {} extra refunds: {}", arm.name, arm.extra_refunds, causes.join(", "))
        });
        let pairs = self.pairs.iter().map(|pair| {
            let Pair { first, second, first_only, second_only, p } = pair;
            let p = if *p < 1e-6 { "p < 0.000001".to_owned() } else { format!("p = {p:.6}") };
            format!("doubled in {first} alone {first_only}, in {second} alone {second_only}: {p} (exact McNemar)")
        });
        let article = format!(
            "article: {ARTICLE_TICKETS} tickets an arm, a language model as the agent; here a scripted one"
        );
        causes.chain(pairs).chain([article]).collect()
    }
}
