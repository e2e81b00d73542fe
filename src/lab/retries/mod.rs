//! Who retries: four arms on the same tickets and the same faults.

mod arm;
mod article;

use serde::Serialize;

pub use self::arm::{ArmResult, Exact};
use self::{
    arm::Counts as ArmCounts,
    article::{ARMS, TICKETS},
};
use super::{
    Settings, Sheet,
    facts::Facts,
    figure::{self, Figure, Value},
    parallel::{Merge, tally},
    round,
};
use crate::{
    bank::Bank,
    fault::Plan,
    harness::{self, VirtualTime},
    seed::Seed,
    stats::{mcnemar, mcnemar_log10},
    ticket::Ticket,
};

/// Orders of a generated ticket.
const ORDERS: i32 = 8;

/// Runs all four arms on the same tickets under `plan`; the exact values are those of its rates, and know of no wait
/// that a service asks for.
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
    let arms = ARMS.iter().zip(&counts.arms);
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

impl Counts {
    /// Runs one ticket in every arm.
    fn add(&mut self, seed: Seed, plan: &Plan) {
        let ticket = Ticket::generate(seed);
        let mut doubled = [false; 4];
        for (place, arm) in ARMS.iter().enumerate() {
            let mut bank = Bank::open(&ticket, plan.clone().seed(seed));
            let outcome = harness::run(arm.design, &ticket, &mut bank, &mut VirtualTime, seed);
            let grade = bank.grade(&outcome.report);
            let facts = Facts::of(&bank, &grade);
            doubled[place] = facts.is_doubled();
            let waited_ms = u64::try_from(outcome.waited.as_millis()).unwrap_or(u64::MAX);
            self.arms[place].add(&facts, outcome.agent_calls, waited_ms);
        }
        for (first, row) in self.doubled_only.iter_mut().enumerate() {
            for (second, count) in row.iter_mut().enumerate() {
                *count += u64::from(doubled[first] && !doubled[second]);
            }
        }
    }
}

impl Merge for Counts {
    fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.arms.iter_mut().zip(other.arms) {
            mine.merge(theirs);
        }
        let theirs = other.doubled_only.iter().flatten();
        for (mine, theirs) in self.doubled_only.iter_mut().flatten().zip(theirs) {
            *mine += theirs;
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
    /// The two-sided p-value of the exact McNemar test; where it is less than the least normal float, that.
    pub p: f64,
    /// Its decimal logarithm, however small it is.
    pub log10_p: f64,
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
                    p: round(mcnemar(first_only, second_only)).max(f64::MIN_POSITIVE),
                    log10_p: round(mcnemar_log10(first_only, second_only)),
                });
            }
        }
        pairs
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let place = || [("first", self.first.into()), ("second", self.second.into())];
        let figures: [(_, Value); 4] = [
            ("doubled in the first alone", self.first_only.into()),
            ("doubled in the second alone", self.second_only.into()),
            ("p of the exact McNemar test", self.p.into()),
            ("log10 of p", self.log10_p.into()),
        ];
        figures
            .into_iter()
            .map(move |(measure, value)| Figure::new(measure).measured(value).at("pairs", place()))
    }

    /// The p-value for people, however small it is.
    fn p(&self) -> String {
        if self.log10_p > -4.0 {
            return format!("p = {:.4}", self.p);
        }
        let power = self.log10_p.floor();
        match format!("{:.1}", 10_f64.powf(self.log10_p - power)) {
            ten if ten == "10.0" => format!("p = 1.0e{}", power + 1.0),
            mantissa => format!("p = {mantissa}e{power}"),
        }
    }
}

impl Retries {
    /// The arms.
    pub fn arms(&self) -> &[ArmResult] {
        &self.arms
    }

    /// The arms compared.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
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
        ["arm"].into_iter().chain(figure::COLUMNS).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        figure::rows(self.arms.iter().flat_map(ArmResult::figures))
    }

    fn figures(&self) -> Vec<Figure> {
        let arms = self.arms.iter().flat_map(ArmResult::figures).cloned();
        arms.chain(self.pairs.iter().flat_map(Pair::figures)).collect()
    }

    fn notes(&self) -> Vec<String> {
        let pairs = self.pairs.iter().map(|pair| {
            let Pair { first, second, first_only, second_only, .. } = pair;
            let p = pair.p();
            format!("doubled in {first} alone {first_only}, in {second} alone {second_only}: {p} (exact McNemar)")
        });
        let notes = [
            "intervals: Wilson for shares, normal for means; exact: from the plan's rates"
                .to_owned(),
            format!(
                "article: {TICKETS} tickets an arm, a language model as the agent; here a scripted one, which makes \
                 no slips"
            ),
        ];
        pairs.chain(notes).collect()
    }
}
