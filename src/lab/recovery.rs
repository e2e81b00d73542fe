//! What is paid twice when a program dies and is started again.
//!
//! The bank has no faults here: whatever is paid twice is the recovery's doing. [`run`] lets the careful agent die at
//! the moment at which most is lost, right after its refunds were answered and before that is saved, and takes it up
//! again in five ways; then at every other moment of every step.

use serde::Serialize;

use super::{
    Settings, Sheet,
    figure::{self, Figure, Value, unless_exact},
    parallel::{Merge, tally},
    round,
};
use crate::{
    Ticket,
    agent::Manner,
    bank::Bank,
    fault::Plan,
    grade::{Cause, OrderVerdict},
    harness::{
        Key, Retry, VirtualTime,
        checkpoint::{Crash, Ending, MemoryStore, Moment, Program, Recovery, Runner},
    },
    seed::Seed,
    stats::Sums,
};

/// A way to take up a program that died.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    recovery: Recovery,
    key: Key,
    /// Orders of 80 that the article saw refunded twice.
    article: u64,
}

/// The five ways of the article.
const WAYS: [Way; 5] = [
    Way { name: "restart", recovery: Recovery::Restart, key: Key::None, article: 0 },
    Way { name: "stale", recovery: Recovery::Stale, key: Key::None, article: 80 },
    Way { name: "stale_call_key", recovery: Recovery::Stale, key: Key::CallId, article: 80 },
    Way {
        name: "write_ahead_call_key",
        recovery: Recovery::WriteAhead,
        key: Key::CallId,
        article: 0,
    },
    Way { name: "stale_business_key", recovery: Recovery::Stale, key: Key::Intent, article: 0 },
];

/// The step of the careful agent that issues the refunds.
const REFUNDS: u32 = 2;

/// Orders of a ticket: calls of a batch.
const ORDERS: u32 = 8;

/// Calls of a batch that are sent when the program dies in its midst.
const SENT: u32 = 4;

/// Steps of the careful agent: reads, refunds, report.
const STEPS: u32 = 3;

/// Orders on all tickets of a way in the article.
const ARTICLE_ORDERS: u64 = 80;

/// Right after the refunds were answered, and before that is saved.
const WORST: Crash = Crash { step: REFUNDS, moment: Moment::AfterReply };

/// Every moment of every step: reads, refunds, and the report, which has no calls.
const CRASHES: [Crash; 9] = [
    Crash { step: 1, moment: Moment::BeforeSending },
    Crash { step: 1, moment: Moment::AfterCommit { calls: SENT } },
    Crash { step: 1, moment: Moment::AfterReply },
    Crash { step: 1, moment: Moment::AfterSave },
    Crash { step: REFUNDS, moment: Moment::BeforeSending },
    Crash { step: REFUNDS, moment: Moment::AfterCommit { calls: SENT } },
    WORST,
    Crash { step: REFUNDS, moment: Moment::AfterSave },
    Crash { step: 3, moment: Moment::BeforeSending },
];

/// What came of the tickets that were taken up in one way after one crash.
#[derive(Clone, Debug, Serialize)]
pub struct WayRow {
    /// The way's name.
    pub name: &'static str,
    /// Tickets.
    pub tickets: u64,
    /// Orders on them.
    pub orders: u64,
    /// Orders that were refunded twice.
    pub doubled_orders: u64,
    /// The same in the article, of 80 orders.
    pub article_doubled_orders: u64,
    /// Orders that lack a refund.
    pub missed_orders: u64,
    /// Turns of the agent in both lives, the report included.
    pub calls_per_ticket: f64,
    /// Extra refunds that the grade puts down to the crash.
    pub repeats_after_crash: u64,
    #[serde(skip)]
    figures: Vec<Figure>,
}

/// Orders that were refunded twice after one crash.
#[derive(Clone, Debug, Serialize)]
pub struct PointRow {
    /// The way's name.
    pub name: &'static str,
    /// The step in which the program died, from 1.
    pub step: u32,
    /// Where in the step.
    pub moment: &'static str,
    /// Orders on all tickets.
    pub orders: u64,
    /// Orders that were refunded twice.
    pub doubled_orders: u64,
    /// Turns of the agent in both lives.
    pub calls_per_ticket: f64,
    #[serde(skip)]
    exact_doubled: u32,
    #[serde(skip)]
    figures: Vec<Figure>,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct RecoverySheet {
    /// The five ways after the worst crash.
    pub ways: Vec<WayRow>,
    /// The five ways after every crash.
    pub points: Vec<PointRow>,
}

/// Lets the careful agent die and takes it up again, in every way and after every crash.
///
/// # Examples
///
/// ```
/// use badbank::lab::{Settings, recovery};
///
/// let sheet = recovery::run(&Settings::new(10, 1));
/// let doubled = sheet.ways.iter().map(|way| way.doubled_orders);
/// assert_eq!(doubled.collect::<Vec<_>>(), [0, 80, 80, 0, 0]);
/// ```
///
/// # Determinism
///
/// The counts follow from the settings' seed and number of tickets.
pub fn run(settings: &Settings<'_>) -> RecoverySheet {
    let points = tally(settings, |place, points: &mut Points| {
        let seed = Seed::new(settings.seed.number().wrapping_add(place));
        let ticket = Ticket::generate(seed);
        for (crash, row) in CRASHES.into_iter().zip(&mut points.0) {
            for (way, counts) in WAYS.into_iter().zip(row) {
                counts.add(way, crash, &ticket, seed);
            }
        }
    });
    RecoverySheet::new(&points)
}

/// What is counted over the tickets.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    tickets: u64,
    orders: u64,
    doubled: u64,
    missed: u64,
    agent_calls: Sums,
    repeats: u64,
}

#[derive(Default)]
struct Points([[Counts; WAYS.len()]; CRASHES.len()]);

impl Merge for Points {
    fn merge(&mut self, other: Self) {
        for (counts, others) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            counts.tickets += others.tickets;
            counts.orders += others.orders;
            counts.doubled += others.doubled;
            counts.missed += others.missed;
            counts.agent_calls.merge(others.agent_calls);
            counts.repeats += others.repeats;
        }
    }
}

impl Counts {
    /// One ticket: the program dies, is taken up again, and is graded.
    fn add(&mut self, way: Way, crash: Crash, ticket: &Ticket, seed: Seed) {
        let Way { recovery, key, .. } = way;
        let program = Program { manner: Manner::Careful, retry: Retry::default(), key, recovery };
        let mut runner = Runner::new(program, ticket, MemoryStore::default(), seed);
        let mut bank = Bank::open(ticket, Plan::calm().seed(seed));
        let report = report_despite(Some(crash), &mut runner, &mut bank);
        let grade = bank.grade(&report);
        let count =
            |verdict| grade.orders().iter().filter(|order| order.verdict == verdict).count() as u64;
        let causes = grade.orders().iter().flat_map(|order| &order.causes);
        let repeats = causes.filter(|finding| finding.cause == Cause::RepeatAfterCrash).count();
        self.tickets += 1;
        self.orders += ticket.orders().len() as u64;
        self.doubled += count(OrderVerdict::Duplicated);
        self.missed += count(OrderVerdict::Missed);
        self.agent_calls.add(u64::from(runner.agent_calls()));
        self.repeats += repeats as u64;
    }

    fn calls_per_ticket(&self) -> f64 {
        round(self.agent_calls.mean(self.tickets).unwrap_or(0.0))
    }

    /// What was counted after a crash, beside what must come out; what the article has is of the worst crash.
    fn figures(&self, way: Way, crash: Crash) -> [Figure; 3] {
        let of_eight = |count: u32| f64::from(count) / f64::from(ORDERS);
        let doubled = Figure::share("orders refunded twice", self.doubled, self.orders)
            .exact(of_eight(way.doubled(crash)));
        let missed = Figure::share("orders not refunded", self.missed, self.orders).exact(0.0);
        let calls = Figure::mean("agent calls a ticket", &self.agent_calls, self.tickets, 1.0)
            .exact(f64::from(way.turns(crash)));
        if crash != WORST {
            return [doubled, missed, calls];
        }
        let fewest = if way.recovery == Recovery::WriteAhead { "the fewest" } else { "" };
        [doubled.article_counts(way.article, ARTICLE_ORDERS), missed, calls.article(fewest)]
    }
}

impl Way {
    /// Orders of a ticket that must be refunded twice: those that the agent does not know to be paid, and whose
    /// second refund the bank cannot know for the first.
    fn doubled(self, crash: Crash) -> u32 {
        let is_forgotten = self.recovery == Recovery::Stale && self.key != Key::Intent;
        match crash.moment {
            _ if !is_forgotten || crash.step != REFUNDS => 0,
            Moment::BeforeSending | Moment::AfterSave => 0,
            Moment::AfterCommit { calls } => calls,
            Moment::AfterReply => ORDERS,
        }
    }

    /// Turns of the agent that there must be in both lives.
    fn turns(self, crash: Crash) -> u32 {
        let Crash { step, moment } = crash;
        let is_saved = moment == Moment::AfterSave;
        let again = match self.recovery {
            // It reads, pays what is not paid, and reports.
            Recovery::Restart => {
                let is_paid = step > REFUNDS
                    || step == REFUNDS && matches!(moment, Moment::AfterReply | Moment::AfterSave);
                STEPS - u32::from(is_paid)
            }
            Recovery::Stale => STEPS - step + u32::from(!is_saved),
            // The calls of the step are there already; a report is no call, and is written anew.
            Recovery::WriteAhead => STEPS - step + u32::from(step == STEPS),
        };
        step + again
    }
}

/// Runs a program up to its report, with a crash on the way.
pub(super) fn report_despite(
    mut crash: Option<Crash>,
    runner: &mut Runner<'_, MemoryStore>,
    bank: &mut Bank,
) -> String {
    loop {
        let ending = runner.run(bank, &mut VirtualTime, crash.take());
        match ending.expect("memory gives back what it was given") {
            Ending::Reported(outcome) => return outcome.report,
            Ending::Crashed => bank.crash(),
        }
    }
}

impl RecoverySheet {
    fn new(points: &Points) -> Self {
        let worst = CRASHES.iter().position(|crash| *crash == WORST).expect("it is one of them");
        let ways = WAYS.into_iter().zip(&points.0[worst]).map(|(way, counts)| WayRow {
            name: way.name,
            tickets: counts.tickets,
            orders: counts.orders,
            doubled_orders: counts.doubled,
            article_doubled_orders: way.article,
            missed_orders: counts.missed,
            calls_per_ticket: counts.calls_per_ticket(),
            repeats_after_crash: counts.repeats,
            figures: counts
                .figures(way, WORST)
                .map(|figure| figure.at("ways", [("way", way.name.into())]))
                .into(),
        });
        let points = CRASHES.into_iter().zip(&points.0).flat_map(|(crash, row)| {
            WAYS.into_iter().zip(row).map(move |(way, counts)| PointRow {
                name: way.name,
                step: crash.step,
                moment: crash.moment.as_str(),
                orders: counts.orders,
                doubled_orders: counts.doubled,
                calls_per_ticket: counts.calls_per_ticket(),
                exact_doubled: way.doubled(crash),
                figures: counts
                    .figures(way, crash)
                    .map(|figure| figure.at("moments", point(way, crash)))
                    .into(),
            })
        });
        Self { ways: ways.collect(), points: points.collect() }
    }
}

fn point(way: Way, crash: Crash) -> [(&'static str, Value); 3] {
    [
        ("way", way.name.into()),
        ("step", crash.step.into()),
        ("moment", crash.moment.as_str().into()),
    ]
}

impl Sheet for RecoverySheet {
    fn title(&self) -> String {
        "the program dies after its refunds were answered, before that is saved".to_owned()
    }

    fn header(&self) -> Vec<&'static str> {
        ["way"].into_iter().chain(figure::COLUMNS).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        figure::rows(self.ways.iter().flat_map(|way| &way.figures))
    }

    fn figures(&self) -> Vec<Figure> {
        let ways = self.ways.iter().flat_map(|way| &way.figures);
        ways.chain(self.points.iter().flat_map(|point| &point.figures)).cloned().collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "agent calls: in both lives; the article, too, has the fewest where the calls were written ahead"
                .to_owned(),
        ]
    }

    fn text(&self) -> String {
        let header: Vec<&str> =
            ["step", "moment"].into_iter().chain(WAYS.map(|way| way.name)).collect();
        let row = |points: &[PointRow]| {
            let place = [points[0].step.to_string(), points[0].moment.to_owned()];
            let doubled = points.iter().map(PointRow::doubled);
            place.into_iter().chain(doubled).collect()
        };
        let orders = self.ways.first().map_or(0, |way| way.orders);
        let points = super::table(
            &format!("orders refunded twice, of {orders}, by the moment at which the program dies"),
            &header,
            self.points.chunks(WAYS.len()).map(row).collect(),
            &[
                format!(
                    "step 1 reads, step 2 refunds, step 3 reports; after_commit: {SENT} of the {ORDERS} calls are \
                     sent, and the last reply never comes"
                ),
                "what must come out is shown where something else was measured".to_owned(),
            ],
        );
        format!("{}\n{points}", super::text(self))
    }
}

impl PointRow {
    fn doubled(&self) -> String {
        let exact = self.orders * u64::from(self.exact_doubled) / u64::from(ORDERS);
        unless_exact(&self.doubled_orders.to_string(), &exact.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_ways_come_out_as_in_the_article() {
        let sheet = run(&Settings::new(10, 7));
        for way in &sheet.ways {
            assert_eq!((way.tickets, way.orders), (10, 80));
            assert_eq!(way.doubled_orders, way.article_doubled_orders, "{}", way.name);
            // What is doubled is put down to the crash, and to nothing else.
            assert_eq!(way.repeats_after_crash, way.doubled_orders, "{}", way.name);
            assert_eq!(way.missed_orders, 0, "{}", way.name);
        }
        let fewest = sheet
            .ways
            .iter()
            .min_by(|one, other| one.calls_per_ticket.total_cmp(&other.calls_per_ticket));
        assert_eq!(fewest.unwrap().name, "write_ahead_call_key");
        let calls: Vec<f64> = sheet.ways.iter().map(|way| way.calls_per_ticket).collect();
        assert_eq!(calls, [4.0, 4.0, 4.0, 3.0, 4.0]);
    }

    #[test]
    fn every_crash_comes_out_as_worked_out() {
        for figure in run(&Settings::new(10, 7)).figures() {
            assert_eq!(figure.measured, figure.exact, "{figure:?}");
        }
    }

    #[test]
    fn the_tables_follow_from_the_settings_whatever_the_threads() {
        let sheet = run(&Settings::new(10, 1));
        let jobs = std::num::NonZero::new(3).unwrap();
        let threaded = run(&Settings { jobs, ..Settings::new(10, 1) });
        assert_eq!(sheet.json(), threaded.json());
    }
}
