//! The source's log of a morning, and its regression test, under either rule.

use std::time::Duration;

use serde::Serialize;

use super::{super::Sheet, HOUR, STREAK, WINDOW};
use crate::harness::{CircuitBreaker, Policy, Signal, State, Timestamp};

/// The two sequences, event by event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The events, in the order in which they ended.
    pub rows: Vec<TimelineRow>,
}

/// A session that ended, and what the rules made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineRow {
    /// Which sequence it belongs to.
    pub sequence: &'static str,
    /// When it ended.
    pub time: String,
    /// How it ended, and how long it took.
    pub event: String,
    /// The count of failures in a row, as far as the source has it.
    pub streak_article: &'static str,
    /// The same, measured.
    pub streak: String,
    /// Failures counted under that rule; none if the session was not sent.
    #[serde(skip)]
    pub streak_count: Option<u32>,
    /// What failures within an hour lead to, as far as the source has it.
    pub window_article: &'static str,
    /// The same, measured.
    pub window: String,
    /// Failures counted under that rule; none if the session was not sent.
    #[serde(skip)]
    pub window_count: Option<u32>,
}

/// A session of the source's log.
struct Session {
    /// Minutes after noon at which it ended.
    ended: u32,
    took_s: u32,
    is_failure: bool,
    streak_article: &'static str,
    window_article: &'static str,
}

const fn session(
    (ended, took_s): (u32, u32),
    is_failure: bool,
    streak_article: &'static str,
    window_article: &'static str,
) -> Session {
    Session { ended, took_s, is_failure, streak_article, window_article }
}

const MORNING: [Session; 6] = [
    session((1, 5), true, "1", ""),
    session((3, 7), true, "2", ""),
    session((5, 18 * 60), false, "0", ""),
    session((9, 6), true, "1", "trips, for an hour"),
    session((14, 11 * 60), false, "0", ""),
    session((18, 4), true, "1", ""),
];

/// The source names the order of these alone; the times are made up.
const REGRESSION: [Session; 4] = [
    session((1, 5), true, "", ""),
    session((2, 50), false, "", ""),
    session((3, 5), true, "", ""),
    session((4, 5), true, "never trips", "trips"),
];

/// Runs both sequences against real breakers.
pub fn timeline() -> Timeline {
    let mut rows = Vec::new();
    for (sequence, sessions) in [("morning", &MORNING[..]), ("regression", &REGRESSION[..])] {
        let [streak, window] = [STREAK, WINDOW].map(|policy| cells(policy, sessions));
        for ((session, streak), window) in sessions.iter().zip(streak).zip(window) {
            rows.push(TimelineRow {
                sequence,
                time: clock(noon().plus(minutes(session.ended))),
                event: session.event(),
                streak_article: session.streak_article,
                streak: streak.text,
                streak_count: streak.count,
                window_article: session.window_article,
                window: window.text,
                window_count: window.count,
            });
        }
    }
    Timeline { rows }
}

impl Session {
    fn event(&self) -> String {
        let word = if self.is_failure { "failure" } else { "success" };
        match self.took_s {
            seconds @ 0..60 => format!("{word} ({seconds} s)"),
            seconds => format!("{word} ({} min)", seconds / 60),
        }
    }

    fn ended(&self) -> Timestamp {
        noon().plus(minutes(self.ended))
    }

    fn began(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.ended().unix_ms() - u64::from(self.took_s) * 1000)
    }
}

/// What a breaker says after a session.
#[derive(Clone, Default)]
struct Cell {
    text: String,
    count: Option<u32>,
}

/// What a breaker says after each session; it is asked when the session begins, and told when it ends.
fn cells(policy: Policy, sessions: &[Session]) -> Vec<Cell> {
    let mut breaker = CircuitBreaker::new(policy, HOUR);
    let mut cells = vec![Cell::default(); sessions.len()];
    let mut permits: Vec<_> = sessions.iter().map(|_| None).collect();
    let begin = sessions.iter().enumerate().map(|(place, session)| (session.began(), 0, place));
    let end = sessions.iter().enumerate().map(|(place, session)| (session.ended(), 1, place));
    let mut moments: Vec<_> = begin.chain(end).collect();
    moments.sort_unstable();
    for (now, is_end, place) in moments {
        if is_end == 0 {
            permits[place] = breaker.admit(now).permit();
            continue;
        }
        let Some(permit) = permits[place].take() else {
            "not sent".clone_into(&mut cells[place].text);
            continue;
        };
        let signal = if sessions[place].is_failure { Signal::Failure } else { Signal::Success };
        breaker.record(permit, signal, now);
        let status = breaker.status(now);
        let text = match status.state {
            State::Open { until } => format!("{}, open until {}", status.count, clock(until)),
            State::Closed | State::HalfOpen => status.count.to_string(),
        };
        cells[place] = Cell { text, count: u32::try_from(status.count).ok() };
    }
    cells
}

/// Noon of some day.
fn noon() -> Timestamp {
    Timestamp::from_unix_ms(1_767_225_600_000).plus(12 * HOUR)
}

fn minutes(minutes: u32) -> Duration {
    minutes * Duration::from_secs(60)
}

/// A time of day as hours and minutes.
fn clock(time: Timestamp) -> String {
    let minute = time.unix_ms() / 60_000;
    format!("{:02}:{:02}", minute / 60 % 24, minute % 60)
}

impl Sheet for Timeline {
    fn title(&self) -> String {
        "Breakers: three failures in a row against three within 60 minutes".to_owned()
    }

    fn header(&self) -> Vec<&'static str> {
        vec![
            "sequence",
            "time",
            "event",
            "in a row: article",
            "measured",
            "in 60 min: article",
            "measured",
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cells = |row: &TimelineRow| {
            vec![
                row.sequence.to_owned(),
                row.time.clone(),
                row.event.clone(),
                row.streak_article.to_owned(),
                row.streak.clone(),
                row.window_article.to_owned(),
                row.window.clone(),
            ]
        };
        self.rows.iter().map(cells).collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "Counts after each event. `not sent`: the session began while the circuit was open."
                .to_owned(),
        ]
    }
}
