//! What is paid twice when a program dies and is started again.
//!
//! The bank has no faults here: whatever is paid twice is the recovery's doing. [`run`] lets the careful agent die at
//! the moment at which most is lost, right after its refunds were answered and before that is saved, and takes it up
//! again in five ways; then at every other moment of every step.

use serde::Serialize;

use super::{
    Settings, Sheet,
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

/// Calls of a batch of eight that are sent when the program dies in its midst.
const SENT: u32 = 4;

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
    agent_calls: u64,
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
            counts.agent_calls += others.agent_calls;
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
        self.agent_calls += u64::from(runner.agent_calls());
        self.repeats += repeats as u64;
    }

    fn calls_per_ticket(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let (calls, tickets) = (self.agent_calls as f64, self.tickets as f64);
        round(calls / tickets)
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
        let ways = WAYS.iter().zip(&points.0[worst]).map(|(way, counts)| WayRow {
            name: way.name,
            tickets: counts.tickets,
            orders: counts.orders,
            doubled_orders: counts.doubled,
            article_doubled_orders: way.article,
            missed_orders: counts.missed,
            calls_per_ticket: counts.calls_per_ticket(),
            repeats_after_crash: counts.repeats,
        });
        let points = CRASHES.iter().zip(&points.0).flat_map(|(crash, row)| {
            WAYS.iter().zip(row).map(|(way, counts)| PointRow {
                name: way.name,
                step: crash.step,
                moment: crash.moment.as_str(),
                orders: counts.orders,
                doubled_orders: counts.doubled,
                calls_per_ticket: counts.calls_per_ticket(),
            })
        });
        Self { ways: ways.collect(), points: points.collect() }
    }
}

impl Sheet for RecoverySheet {
    fn title(&self) -> String {
        "orders refunded twice: the program dies after its refunds were answered, before that is saved"
            .to_owned()
    }

    fn header(&self) -> Vec<&'static str> {
        vec!["way", "article", "measured", "agent calls a ticket"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |way: &WayRow| {
            vec![
                way.name.to_owned(),
                format!("{} of 80", way.article_doubled_orders),
                format!("{} of {}", way.doubled_orders, way.orders),
                format!("{:.1}", way.calls_per_ticket),
            ]
        };
        self.ways.iter().map(row).collect()
    }

    fn text(&self) -> String {
        format!("{}\n{}", super::text(self), super::text(&AtEveryPoint(self)))
    }
}

/// The second table: the same after every crash.
#[derive(Serialize)]
struct AtEveryPoint<'a>(&'a RecoverySheet);

impl Sheet for AtEveryPoint<'_> {
    fn title(&self) -> String {
        "orders refunded twice, by the moment at which the program dies".to_owned()
    }

    fn header(&self) -> Vec<&'static str> {
        ["step", "moment"].into_iter().chain(WAYS.map(|way| way.name)).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |points: &[PointRow]| {
            let place = [points[0].step.to_string(), points[0].moment.to_owned()];
            let doubled = points.iter().map(|point| point.doubled_orders.to_string());
            place.into_iter().chain(doubled).collect()
        };
        self.0.points.chunks(WAYS.len()).map(row).collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![format!(
            "step 1 reads, step 2 refunds, step 3 reports; after_commit: {SENT} of the 8 calls are sent, \
             and the last reply never comes"
        )]
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
    fn the_tables_follow_from_the_settings_whatever_the_threads() {
        let sheet = run(&Settings::new(10, 1));
        let jobs = std::num::NonZero::new(3).unwrap();
        let threaded = run(&Settings { jobs, ..Settings::new(10, 1) });
        assert_eq!(sheet.json(), threaded.json());
    }
}
