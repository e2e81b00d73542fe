//! What is counted in an arm, what must come out there, and both as figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    super::{
        exact::{OrderOdds, any_of, order_odds},
        facts::Facts,
        figure::{Figure, Value},
        round,
    },
    ORDERS,
    article::{Arm, Article, DUPLICATES, TICKETS, TIMEOUTS, TRANSIENTS},
};
use crate::{
    fault::Plan,
    stats::{Proportion, Sums},
};

/// What was counted in an arm, over its tickets.
#[derive(Debug, Default)]
pub(super) struct Counts {
    double_tickets: u64,
    clean_tickets: u64,
    /// Tickets with a double refund whose report is false.
    false_reports: u64,
    extra: Sums,
    causes: BTreeMap<&'static str, Sums>,
    missed: Sums,
    turns: Sums,
    waited_ms: Sums,
    transients: Sums,
    timeouts: Sums,
    duplicates: Sums,
    looks: u64,
    repeats: Sums,
    same_keys: u64,
}

impl Counts {
    /// Adds a ticket.
    pub(super) fn add(&mut self, facts: &Facts, turns: u32, waited_ms: u64) {
        self.double_tickets += u64::from(facts.is_doubled());
        self.clean_tickets += u64::from(facts.is_right);
        self.false_reports += u64::from(facts.is_doubled() && facts.is_false);
        for (cause, count) in &facts.causes {
            self.causes.entry(cause).or_default().add(*count);
        }
        self.turns.add(u64::from(turns));
        self.waited_ms.add(waited_ms);
        self.extra.add(facts.extra);
        self.missed.add(facts.missed);
        self.transients.add(facts.transients);
        self.timeouts.add(facts.timeouts);
        self.duplicates.add(facts.duplicates);
        self.looks += facts.looks;
        self.repeats.add(facts.repeats);
        self.same_keys += facts.same_keys;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.double_tickets += other.double_tickets;
        self.clean_tickets += other.clean_tickets;
        self.false_reports += other.false_reports;
        for (cause, sums) in other.causes {
            self.causes.entry(cause).or_default().merge(sums);
        }
        self.turns.merge(other.turns);
        self.waited_ms.merge(other.waited_ms);
        self.extra.merge(other.extra);
        self.missed.merge(other.missed);
        self.transients.merge(other.transients);
        self.timeouts.merge(other.timeouts);
        self.duplicates.merge(other.duplicates);
        self.looks += other.looks;
        self.repeats.merge(other.repeats);
        self.same_keys += other.same_keys;
    }
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
    figures: Vec<Figure>,
}

/// What must come out on average, derived from the plan's rates; the figures have more of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exact {
    /// The chance of a ticket with a refund too many.
    pub double_ticket: f64,
    /// The chance of a ticket on which every order is right.
    pub clean_ticket: f64,
    /// Refunds too many, a ticket.
    pub extra_refunds_per_ticket: f64,
}

impl ArmResult {
    pub(super) fn new(arm: &Arm, counts: &Counts, tickets: u64, plan: &Plan) -> Self {
        let odds = order_odds(arm.design, plan);
        let exact = Exact::of_ticket(&odds);
        let causes = counts.causes.iter().map(|(cause, sums)| (*cause, sums.sum()));
        let figures = Figures { article: arm.article, counts, tickets, odds: &odds, exact };
        let place = || [("arm", Value::from(arm.name))];
        Self {
            name: arm.name,
            tickets,
            double_tickets: counts.double_tickets,
            extra_refunds: counts.extra.sum(),
            clean_tickets: counts.clean_tickets,
            missed_orders: counts.missed.sum(),
            calls_per_ticket: round(counts.turns.mean(tickets).unwrap_or(0.0)),
            wait_s_per_ticket: round(counts.waited_ms.mean(tickets).unwrap_or(0.0) / 1000.0),
            false_reports: counts.false_reports,
            causes: causes.collect(),
            exact,
            figures: figures.all().into_iter().map(|figure| figure.at("arms", place())).collect(),
        }
    }

    /// Every number of the arm, beside what the source says and what must come out.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The source's share of tickets with a refund too many, out of its 30, with its interval.
    pub fn article_double_tickets(&self) -> Proportion {
        let count = self.figures.first().and_then(|figure| figure.article_count);
        Proportion::wilson(count.unwrap_or(0), TICKETS)
    }
}

impl Exact {
    fn of_ticket(odds: &OrderOdds) -> Self {
        Self {
            double_ticket: round(any_of(ORDERS, odds.chance(Facts::is_doubled))),
            clean_ticket: round(1.0 - any_of(ORDERS, odds.chance(|facts| !facts.is_right))),
            extra_refunds_per_ticket: round(a_ticket(odds.mean(|facts| facts.extra))),
        }
    }
}

/// The figures of an arm in the making.
struct Figures<'a> {
    article: Article,
    counts: &'a Counts,
    tickets: u64,
    odds: &'a OrderOdds,
    exact: Exact,
}

impl Figures<'_> {
    fn all(&self) -> Vec<Figure> {
        let mut figures = self.refunds();
        figures.extend(self.work());
        figures.extend(self.faults());
        figures
    }

    /// What became of the money, and what the report says of it.
    fn refunds(&self) -> Vec<Figure> {
        let Self { article, counts, tickets, odds, exact } = self;
        let doubled = counts.double_tickets;
        let mut figures = vec![
            Figure::share("tickets with a double refund", doubled, *tickets)
                .article_counts(article.double_tickets, TICKETS)
                .exact(exact.double_ticket),
            Figure::share("clean tickets", counts.clean_tickets, *tickets)
                .article_may_count(article.clean_tickets.map(|count| (count, TICKETS)))
                .exact(exact.clean_ticket),
            self.mean("extra refunds a ticket", &counts.extra, |facts| facts.extra)
                .article_counts(article.extra_refunds, TICKETS),
        ];
        let known = article.causes.iter().map(|(cause, _)| *cause);
        let causes: BTreeSet<&str> =
            known.chain(odds.causes()).chain(counts.causes.keys().copied()).collect();
        for cause in causes {
            let sums = counts.causes.get(cause).copied().unwrap_or_default();
            let of = |facts: &Facts| facts.causes.get(cause).copied().unwrap_or(0);
            figures.push(
                self.mean(format!("- {cause}"), &sums, of)
                    .article_may_count(article.cause(cause).map(|count| (count, TICKETS))),
            );
        }
        figures.push(self.mean("missed orders a ticket", &counts.missed, |facts| facts.missed));
        let false_reports =
            Figure::share("false reports, of doubled tickets", counts.false_reports, doubled)
                .article_may_count(
                    article.false_reports.map(|count| (count, article.double_tickets)),
                );
        figures.push(may_be(false_reports, self.false_reports()));
        figures
    }

    /// What it cost.
    fn work(&self) -> [Figure; 2] {
        let Self { article, counts, tickets, odds, .. } = self;
        let mut calls = Figure::mean("agent calls a ticket", &counts.turns, *tickets, 1.0)
            .exact(odds.turns(ORDERS));
        let waited_s = a_ticket(odds.waited_ms()) / 1000.0;
        let mut waiting =
            Figure::mean("waiting a ticket, s", &counts.waited_ms, *tickets, 1e-3).exact(waited_s);
        if let Some(article) = article.calls {
            calls = calls.article(article);
        }
        if let Some(article) = article.wait_s {
            waiting = waiting.article(article);
        }
        [calls, waiting]
    }

    /// What it met, and what the agent did about it.
    fn faults(&self) -> Vec<Figure> {
        let Self { article, counts, odds, .. } = self;
        let (timeouts, repeats) = (counts.timeouts.sum(), counts.repeats.sum());
        let mut figures = vec![
            self.mean("transient errors a ticket", &counts.transients, |facts| facts.transients)
                .article(TRANSIENTS),
            self.mean("timeouts a ticket", &counts.timeouts, |facts| facts.timeouts)
                .article(TIMEOUTS),
            self.mean("duplicates a ticket", &counts.duplicates, |facts| facts.duplicates)
                .article(DUPLICATES),
        ];
        if article.looks.is_some() {
            let figure = Figure::share("timeouts after which it reads", counts.looks, timeouts)
                .article_may_count(article.looks);
            let share =
                share_of(odds, |facts| facts.timeouts, |facts| facts.timeouts - facts.looks);
            figures.push(may_be(figure, share));
        }
        if article.same_keys.is_some() {
            figures.push(
                self.mean("refunds sent again a ticket", &counts.repeats, |facts| facts.repeats)
                    .article_may_count(article.same_keys.map(|(_, repeats)| (repeats, TICKETS))),
            );
            let figure = Figure::share("- under the same key", counts.same_keys, repeats)
                .article_may_count(article.same_keys);
            let share =
                share_of(odds, |facts| facts.repeats, |facts| facts.repeats - facts.same_keys);
            figures.push(may_be(figure, share));
        }
        figures
    }

    fn mean(&self, measure: impl Into<String>, sums: &Sums, of: impl Fn(&Facts) -> u64) -> Figure {
        Figure::mean(measure, sums, self.tickets, 1.0).exact(a_ticket(self.odds.mean(of)))
    }

    /// The chance that the report of a ticket with a double refund is false; none if there is no such ticket.
    ///
    /// It is false if what it says of any order is.
    fn false_reports(&self) -> Option<f64> {
        let odds = self.odds;
        let doubled = any_of(ORDERS, odds.chance(Facts::is_doubled));
        let is_either = |facts: &Facts| facts.is_doubled() || facts.is_false;
        let either = any_of(ORDERS, odds.chance(is_either));
        let false_ones = any_of(ORDERS, odds.chance(|facts| facts.is_false));
        (doubled > 0.0).then(|| 1.0 - (either - false_ones) / doubled)
    }
}

/// The share that is left of something when some of it is taken away; none if there is nothing of it.
fn share_of(
    odds: &OrderOdds,
    all: impl Fn(&Facts) -> u64,
    without: impl Fn(&Facts) -> u64,
) -> Option<f64> {
    let all = odds.mean(all);
    (all > 0.0).then(|| 1.0 - odds.mean(without) / all)
}

fn may_be(figure: Figure, exact: Option<f64>) -> Figure {
    match exact {
        Some(exact) => figure.exact(exact),
        None => figure,
    }
}

fn a_ticket(an_order: f64) -> f64 {
    f64::from(ORDERS) * an_order
}
