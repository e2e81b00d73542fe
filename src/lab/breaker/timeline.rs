//! The source's log of a morning, and its regression test, under either rule.

use std::time::Duration;

use serde::Serialize;

use super::{
    super::{
        Sheet,
        figure::{Figure, Value, unless_exact},
    },
    HOUR, STREAK, WINDOW,
};
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
    /// The same, worked out.
    pub streak_exact: String,
    /// Failures counted under that rule; none if the session was not sent.
    #[serde(skip)]
    pub streak_count: Option<u32>,
    /// What failures within an hour lead to, as far as the source has it.
    pub window_article: &'static str,
    /// The same, measured.
    pub window: String,
    /// The same, worked out.
    pub window_exact: String,
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

/// Failures of the morning, and the minutes from the first to the last, as the source counts them.
const ARTICLE_FAILURES: (u64, u64) = (4, 17);

/// Failures at which either rule opens the circuit.
const FAILURES: usize = 3;

/// Runs both sequences against real breakers.
pub fn timeline() -> Timeline {
    let mut rows = Vec::new();
    for (sequence, sessions) in [("morning", &MORNING[..]), ("regression", &REGRESSION[..])] {
        let [streak, window] = [STREAK, WINDOW].map(|policy| cells(policy, sessions));
        for (place, ((session, streak), window)) in
            sessions.iter().zip(streak).zip(window).enumerate()
        {
            rows.push(TimelineRow {
                sequence,
                time: clock(noon().plus(minutes(session.ended))),
                event: session.event(),
                streak_article: session.streak_article,
                streak: streak.text,
                streak_exact: in_a_row(&sessions[..=place]),
                streak_count: streak.count,
                window_article: session.window_article,
                window: window.text,
                window_exact: within_an_hour(&sessions[..=place]),
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

/// The failures in a row with which sessions end, worked out from them; no sequence has three.
fn in_a_row(sessions: &[Session]) -> String {
    sessions.iter().rev().take_while(|session| session.is_failure).count().to_string()
}

/// What three failures within an hour make of the last of these sessions, worked out from them; no sequence
/// takes longer.
fn within_an_hour(sessions: &[Session]) -> String {
    let mut failures = sessions.iter().filter(|session| session.is_failure);
    let Some(third) = failures.nth(FAILURES - 1) else {
        return sessions.iter().filter(|session| session.is_failure).count().to_string();
    };
    match sessions.last() {
        Some(last) if last.began() > third.ended() => "not sent".to_owned(),
        _ => format!("{FAILURES}, open until {}", clock(third.ended().plus(HOUR))),
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
                unless_exact(&row.streak, &row.streak_exact),
                row.window_article.to_owned(),
                unless_exact(&row.window, &row.window_exact),
            ]
        };
        self.rows.iter().map(cells).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.rows.iter().flat_map(TimelineRow::figures).collect();
        let (failures, minutes) = failures_of_the_morning();
        let morning = || [("sequence", Value::from("morning"))];
        for (measure, measured, article) in [
            ("failures", failures, ARTICLE_FAILURES.0),
            ("minutes from the first failure to the last", minutes, ARTICLE_FAILURES.1),
        ] {
            let figure = Figure::new(measure).measured(measured).article(article);
            figures.push(figure.at("timeline", morning()));
        }
        figures
    }

    fn notes(&self) -> Vec<String> {
        let (failures, minutes) = failures_of_the_morning();
        let (article_failures, article_minutes) = ARTICLE_FAILURES;
        vec![
            "Counts after each event. `not sent`: the session began while the circuit was open."
                .to_owned(),
            "What must come out is shown where something else was measured.".to_owned(),
            format!(
                "The morning: {failures} failures in {minutes} minutes (article: {article_failures} in \
                 {article_minutes}), and never three in a row."
            ),
        ]
    }
}

impl TimelineRow {
    fn figures(&self) -> [Figure; 2] {
        let place = || [self.sequence, &self.time, &self.event].map(Value::from);
        let place = || ["sequence", "time", "event"].into_iter().zip(place());
        [
            Figure::new("failures in a row")
                .article(self.streak_article)
                .measured(self.streak.as_str())
                .exact(self.streak_exact.as_str())
                .at("timeline", place()),
            Figure::new("failures within 60 min")
                .article(self.window_article)
                .measured(self.window.as_str())
                .exact(self.window_exact.as_str())
                .at("timeline", place()),
        ]
    }
}

/// The failures of the morning, and the minutes from the first of them to the last.
fn failures_of_the_morning() -> (u64, u64) {
    let ended = MORNING.iter().filter(|session| session.is_failure).map(|session| session.ended);
    let minutes = ended.clone().max().unwrap_or(0) - ended.clone().min().unwrap_or(0);
    (ended.count() as u64, u64::from(minutes))
}
