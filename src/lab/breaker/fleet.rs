//! How soon either rule notices that a backend fails now and then, on virtual time.
//!
//! Each worker runs one session after another against one backend, and all share one breaker. A session
//! that succeeds takes from 8 to 20 minutes, one that fails from 3 to 8 seconds, and up to 4 minutes pass
//! before the worker's next. At the start every worker is in the middle of a session that will succeed.

use rand_pcg::Pcg64;
use serde::Serialize;

use super::{
    super::{
        Settings, Sheet,
        figure::{Figure, Value},
        hundredths,
        parallel::{Merge, tally},
        percent, round,
    },
    HOUR, STREAK, WINDOW,
};
use crate::{
    harness::{Change, CircuitBreaker, Permit, Policy, Signal, Timestamp},
    seed::{below, mix},
    stats::Proportion,
};

const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];
const MINUTE_MS: u64 = 60_000;

/// How a backend behaves for a while.
struct Phase {
    name: &'static str,
    /// Of a hundred sessions, so many fail.
    fail_percent: u64,
    hours: u64,
}

const PHASES: [Phase; 3] = [
    Phase { name: "healthy", fail_percent: 2, hours: 8 },
    Phase { name: "bad", fail_percent: 30, hours: 2 },
    Phase { name: "bad", fail_percent: 60, hours: 2 },
];

/// How often and how soon each rule trips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Runs in each row.
    pub runs: u64,
    /// A row for each phase and size of the fleet.
    pub rows: Vec<FleetRow>,
}

/// A phase under either rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetRow {
    /// What the backend is like.
    pub phase: &'static str,
    /// Of a hundred sessions, so many fail.
    pub fail_percent: u64,
    /// How long that lasts.
    pub hours: u64,
    /// Workers in the fleet.
    pub workers: usize,
    /// Three failures in a row.
    pub streak: Arm,
    /// Three failures within an hour.
    pub window: Arm,
    /// Failures within an hour that grow with the fleet: two and half the workers, and three at the least.
    pub scaled: Arm,
}

/// How often and how soon a rule trips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arm {
    /// Runs in which it tripped before the phase was over.
    pub tripped: u64,
    /// Their share.
    pub share: f64,
    /// Lower end of its 95 % Wilson interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The median over all runs of the time from the start of the phase to the trip, in whole seconds; none
    /// unless more than half trip.
    pub median_delay_ms: Option<u64>,
}

/// Runs fleets of every size through every phase.
///
/// # Determinism
///
/// Everything follows from the number of tickets and the seed; both rules see the same sessions.
pub fn fleet(settings: &Settings<'_>) -> Fleet {
    let cells = || PHASES.iter().flat_map(|phase| WORKERS.map(|workers| (phase, workers)));
    let delays: Delays = tally(settings, |place, delays: &mut Delays| {
        let seed = mix(settings.seed.number().wrapping_add(place));
        for (cell, (phase, workers)) in cells().enumerate() {
            let fleet = || Workers::new(workers, seed, phase.fail_percent);
            let policies = [STREAK, WINDOW, scaled(workers)];
            delays.add(cell, policies.map(|policy| fleet().trip(policy, phase.hours)));
        }
    });
    let row = |(cell, (phase, workers)): (usize, (&Phase, usize))| {
        let [streak, window, scaled] = [0, 1, 2].map(|rule| {
            delays.0.get(cell).map_or_else(
                || Arm::new(&Histogram::default(), settings.tickets),
                |cell| Arm::new(&cell[rule], settings.tickets),
            )
        });
        let &Phase { name, fail_percent, hours } = phase;
        FleetRow { phase: name, fail_percent, hours, workers, streak, window, scaled }
    };
    Fleet { runs: settings.tickets, rows: cells().enumerate().map(row).collect() }
}

/// A window whose threshold grows with the fleet, as the failures of a healthy backend do.
fn scaled(workers: usize) -> Policy {
    let failures = u32::try_from(2 + workers / 2).unwrap_or(u32::MAX).max(3);
    Policy::Window { failures, within: HOUR }
}

/// For each cell and rule, the delays of those runs that trip.
#[derive(Default)]
struct Delays(Vec<[Histogram; 3]>);

/// How many runs trip in each second of their phase.
#[derive(Default)]
struct Histogram(Vec<u32>);

impl Histogram {
    fn add(&mut self, delay_ms: u64) {
        let second = usize::try_from(delay_ms / 1000).expect("a phase has a few thousand seconds");
        self.0.resize(self.0.len().max(second + 1), 0);
        self.0[second] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    /// The second of the run that has so many before it, if there is one.
    fn second(&self, before: u64) -> Option<u64> {
        let counts = self.0.iter().scan(0, |sum, count| {
            *sum += u64::from(*count);
            Some(*sum)
        });
        (0..).zip(counts).find(|(_, sum)| *sum > before).map(|(second, _)| second)
    }
}

impl Delays {
    fn cell(&mut self, cell: usize) -> &mut [Histogram; 3] {
        if self.0.len() <= cell {
            self.0.resize_with(cell + 1, Default::default);
        }
        &mut self.0[cell]
    }

    fn add(&mut self, cell: usize, delays: [Option<u64>; 3]) {
        for (known, delay) in self.cell(cell).iter_mut().zip(delays) {
            if let Some(delay_ms) = delay {
                known.add(delay_ms);
            }
        }
    }
}

impl Merge for Delays {
    fn merge(&mut self, other: Self) {
        for (cell, others) in other.0.iter().enumerate() {
            for (delays, others) in self.cell(cell).iter_mut().zip(others) {
                delays.merge(others);
            }
        }
    }
}

impl Arm {
    fn new(delays: &Histogram, runs: u64) -> Self {
        let tripped = delays.count();
        let Proportion { share, low, high } = Proportion::wilson(tripped, runs);
        let median_delay_ms = delays.second(runs / 2).map(|second| second * 1000);
        Self { tripped, share: round(share), low: round(low), high: round(high), median_delay_ms }
    }

    fn figures(&self, runs: u64) -> [Figure; 2] {
        let tripped = Figure::share("trips", self.tripped, runs);
        let median = Figure::new("median delay, s");
        let seconds = self.median_delay_ms.map(|delay_ms| delay_ms / 1000);
        [tripped, seconds.into_iter().fold(median, Figure::measured)]
    }

    fn cells(&self) -> [String; 2] {
        let [low, high] = [self.low, self.high].map(hundredths);
        let share = format!("{} ({low}–{high})", percent(self.share));
        let minutes = |delay_ms: u64| {
            format!("{}.{} min", delay_ms / MINUTE_MS, delay_ms % MINUTE_MS * 10 / MINUTE_MS)
        };
        [share, self.median_delay_ms.map_or("-".to_owned(), minutes)]
    }
}

/// Workers that share a backend and a breaker.
struct Workers {
    workers: Vec<Worker>,
    fail_percent: u64,
}

/// A worker between the start and the end of a session, or before its next.
struct Worker {
    rng: Pcg64,
    /// When it begins or ends its next session.
    at_ms: u64,
    session: Option<(Permit, Signal)>,
    is_first: bool,
}

impl Workers {
    fn new(count: usize, seed: u64, fail_percent: u64) -> Self {
        let worker = |number: usize| Worker {
            rng: Pcg64::new(u128::from(seed), number as u128),
            at_ms: 0,
            session: None,
            is_first: true,
        };
        Self { workers: (0..count).map(worker).collect(), fail_percent }
    }

    /// When the breaker trips, if it does within so many hours.
    fn trip(mut self, policy: Policy, hours: u64) -> Option<u64> {
        let mut breaker = CircuitBreaker::new(policy, HOUR);
        loop {
            let worker = self.workers.iter_mut().min_by_key(|worker| worker.at_ms)?;
            let now_ms = worker.at_ms;
            if now_ms > hours * 60 * MINUTE_MS {
                return None;
            }
            let now = Timestamp::from_unix_ms(now_ms);
            match worker.session.take() {
                None => worker.begin(breaker.admit(now).permit()?, self.fail_percent),
                Some((permit, signal)) => {
                    worker.at_ms += below(&mut worker.rng, 4 * MINUTE_MS);
                    if let Some(Change::Opened { .. }) = breaker.record(permit, signal, now) {
                        return Some(now_ms);
                    }
                }
            }
        }
    }
}

impl Worker {
    fn begin(&mut self, permit: Permit, fail_percent: u64) {
        let success_ms = 8 * MINUTE_MS + below(&mut self.rng, 12 * MINUTE_MS);
        let is_failure = below(&mut self.rng, 100) < fail_percent;
        let failure_ms = 3_000 + below(&mut self.rng, 5_000);
        let (signal, took_ms) = if self.is_first {
            (Signal::Success, below(&mut self.rng, success_ms))
        } else if is_failure {
            (Signal::Failure, failure_ms)
        } else {
            (Signal::Success, success_ms)
        };
        self.is_first = false;
        self.at_ms += took_ms;
        self.session = Some((permit, signal));
    }
}

impl Sheet for Fleet {
    fn title(&self) -> String {
        format!("Breakers in a fleet: how often and how soon they trip, {} runs a row", self.runs)
    }

    fn header(&self) -> Vec<&'static str> {
        vec![
            "backend",
            "fail",
            "workers",
            "3 in a row",
            "median",
            "3 in 60 min",
            "median",
            "2 + workers/2 in 60 min",
            "median",
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cells = |row: &FleetRow| {
            let mut cells = vec![
                format!("{}, {} h", row.phase, row.hours),
                format!("{} %", row.fail_percent),
                row.workers.to_string(),
            ];
            cells.extend(row.streak.cells());
            cells.extend(row.window.cells());
            cells.extend(row.scaled.cells());
            cells
        };
        self.rows.iter().map(cells).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figures = |row: &FleetRow| {
            let place = |rule: &str| -> [(_, Value); 5] {
                [
                    ("backend", row.phase.into()),
                    ("fail_percent", row.fail_percent.into()),
                    ("hours", row.hours.into()),
                    ("workers", (row.workers as u64).into()),
                    ("rule", rule.into()),
                ]
            };
            let arms = [("streak", &row.streak), ("window", &row.window), ("scaled", &row.scaled)];
            arms.map(|(rule, arm)| {
                arm.figures(self.runs).map(|figure| figure.at("fleet", place(rule)))
            })
        };
        self.rows.iter().flat_map(figures).flatten().collect()
    }

    fn notes(&self) -> Vec<String> {
        let notes = [
            "Runs that trip, with 95 % Wilson intervals; while the backend is healthy they are false.",
            "Medians are those of the delay, over all runs of a row.",
            "Article: a fleet's backend failed six times in a morning, and never three times in a row.",
            "More workers do not hide a streak, they bring it sooner; three in a window are never later.",
            "But a count within a time grows with the fleet even where all is well, so its threshold has to.",
        ];
        notes.map(str::to_owned).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions that a lone worker begins until the rule trips, on average, with a window that never ends.
    #[allow(clippy::cast_precision_loss, reason = "a few sessions")]
    fn sessions(policy: Policy, fail_percent: u64) -> f64 {
        const RUNS: u64 = 3_000;
        let mut sessions = 0_u64;
        for seed in 0..RUNS {
            let mut worker = Workers::new(1, mix(seed), fail_percent).workers.remove(0);
            worker.is_first = false;
            let mut breaker = CircuitBreaker::new(policy, HOUR);
            loop {
                let now = Timestamp::from_unix_ms(worker.at_ms);
                worker.begin(breaker.admit(now).permit().unwrap(), fail_percent);
                let (permit, signal) = worker.session.take().unwrap();
                sessions += 1;
                if breaker.record(permit, signal, Timestamp::from_unix_ms(worker.at_ms)).is_some() {
                    break;
                }
            }
        }
        sessions as f64 / RUNS as f64
    }

    #[test]
    fn a_lone_worker_needs_as_many_sessions_as_can_be_worked_out() {
        let endless = Policy::Window { failures: 3, within: 1_000_000 * HOUR };
        for fail_percent in [30_u32, 60] {
            let p = f64::from(fail_percent) / 100.0;
            let in_a_row = (1.0 - p.powi(3)) / (p.powi(3) * (1.0 - p));
            let measured = sessions(STREAK, u64::from(fail_percent));
            assert!((measured / in_a_row - 1.0).abs() < 0.05, "{measured} is not {in_a_row}");
            let measured = sessions(endless, u64::from(fail_percent));
            assert!((measured * p / 3.0 - 1.0).abs() < 0.05, "{measured} is not {}", 3.0 / p);
        }
    }

    #[test]
    fn the_number_of_threads_moves_nothing() {
        let one = Settings::new(70, 7);
        let three = Settings { jobs: std::num::NonZero::new(3).unwrap(), ..one };
        assert_eq!(fleet(&one), fleet(&three));
    }
}
