//! What each kind of key makes of each situation.
//!
//! Every cell of the table is a run: a program with that key against a real bank with scripted faults. A refund
//! that was asked for is paid `once`, `twice`, or it is `swallowed`: the bank takes it for another, and it is never
//! paid. What must come out follows from the key alone: whether the two requests that a situation makes of a refund
//! have the same one.

use std::num::NonZero;

use serde::Serialize;

use super::{
    Settings, Sheet,
    figure::{Figure, unless_exact},
    recovery::report_despite,
};
use crate::{
    Ticket,
    agent::{Agent, Manner, ToolCall, ToolCallId, Turn, Wording},
    bank::Bank,
    fault::{Fault, Plan},
    grade::{Cause, Grade},
    harness::{
        Key, Retry, Sending,
        checkpoint::{Crash, MemoryStore, Moment, Program, Recovery, Runner},
    },
    ledger::Dedupe,
};

/// Something that may make one refund two, or two one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// The reply is lost, and the harness sends the call again.
    Retry,
    /// The reply is lost, and a hasty agent writes the call again.
    NewTurn,
    /// The program dies after the refund, and goes on from before it.
    StaleResume,
    /// The program dies after the refund, and sends the call that it had written ahead again.
    WriteAheadResume,
    /// The network delivers the call twice.
    DuplicateDelivery,
    /// The reply is lost, the look at the order shows an old state, and the agent writes the call again in other
    /// words.
    ParaphrasedArguments,
    /// The network delivers the call twice at once, and the bank reserves no keys.
    OverlappingDuplicate,
    /// Two equal refunds of one order, both wanted.
    EqualPartials,
}

/// What became of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was paid as often as was asked for.
    Once,
    /// It was paid once too often.
    Twice,
    /// It was not paid: the bank took it for another refund.
    Swallowed,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The kind of key.
    pub key: &'static str,
    /// The situation.
    pub situation: Situation,
    /// What became of the refund.
    pub outcome: Fate,
    /// Why, if it is not paid once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What the source saw of it (A, steps 2 and 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub article: Option<Fate>,
    /// What must become of it.
    pub exact: Fate,
}

/// The kinds of key, each in every situation.
#[derive(Clone, Debug, Serialize)]
pub struct KeysSheet {
    /// The cells, row by row.
    pub cells: Vec<Cell>,
}

/// Runs every situation with every kind of key.
///
/// # Examples
///
/// ```
/// use badbank::lab::{Settings, keys::{self, Fate, Situation}};
///
/// let sheet = keys::run(&Settings::new(1, 1));
/// let cell = |key, situation| {
///     sheet.cells.iter().find(|cell| cell.key == key && cell.situation == situation).unwrap().outcome
/// };
/// assert_eq!(cell("intent", Situation::StaleResume), Fate::Once);
/// assert_eq!(cell("call-id", Situation::StaleResume), Fate::Twice);
/// assert_eq!(cell("arguments", Situation::EqualPartials), Fate::Swallowed);
/// ```
///
/// # Determinism
///
/// Nothing here is drawn: the settings' seed moves only waits.
///
/// # Panics
///
/// If a refund comes to an end that no cell has a word for, which is a defect of this table.
pub fn run(settings: &Settings<'_>) -> KeysSheet {
    let cells = Key::ALL
        .into_iter()
        .flat_map(|key| Situation::ALL.map(|situation| Cell::of(key, situation, settings)));
    KeysSheet { cells: cells.collect() }
}

impl Situation {
    /// Every situation.
    pub const ALL: [Self; 8] = [
        Self::Retry,
        Self::NewTurn,
        Self::StaleResume,
        Self::WriteAheadResume,
        Self::DuplicateDelivery,
        Self::ParaphrasedArguments,
        Self::OverlappingDuplicate,
        Self::EqualPartials,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::NewTurn => "new_turn",
            Self::StaleResume => "stale_resume",
            Self::WriteAheadResume => "write_ahead_resume",
            Self::DuplicateDelivery => "duplicate_delivery",
            Self::ParaphrasedArguments => "paraphrased_arguments",
            Self::OverlappingDuplicate => "overlapping_duplicate",
            Self::EqualPartials => "equal_partials",
        }
    }

    /// What it is called in the table.
    const fn heading(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::NewTurn => "new turn",
            Self::StaleResume => "stale resume",
            Self::WriteAheadResume => "write-ahead",
            Self::DuplicateDelivery => "duplicate",
            Self::ParaphrasedArguments => "paraphrased",
            Self::OverlappingDuplicate => "overlapping",
            Self::EqualPartials => "two equal",
        }
    }

    fn program(self, key: Key) -> Program {
        let (manner, retry, recovery) = match self {
            Self::NewTurn => (Manner::Hasty, Retry::never(), Recovery::Stale),
            Self::ParaphrasedArguments => (Manner::Paraphrasing, Retry::never(), Recovery::Stale),
            Self::WriteAheadResume => (Manner::Careful, Retry::default(), Recovery::WriteAhead),
            _ => (Manner::Careful, Retry::default(), Recovery::Stale),
        };
        Program { manner, retry, key, recovery }
    }

    fn plan(self) -> Plan {
        let script = |plan: Plan, call: &str, fault| {
            let call = call.parse().expect("it is written as a call");
            plan.script(call, fault).expect("the operation can have this fault")
        };
        let calm = Plan::calm();
        match self {
            Self::Retry | Self::NewTurn => script(calm, "A-1 refund #1", Fault::TIMEOUT),
            Self::ParaphrasedArguments => {
                let lost = script(calm, "A-1 refund #1", Fault::TIMEOUT);
                script(lost, "A-1 get_order #2", Fault::stale(NonZero::<u32>::MIN))
            }
            Self::DuplicateDelivery => script(calm, "A-1 refund #1", Fault::DUPLICATE),
            Self::OverlappingDuplicate => {
                script(calm.dedupe(Dedupe::Racy), "A-1 refund #1", Fault::DUPLICATE)
            }
            Self::StaleResume | Self::WriteAheadResume | Self::EqualPartials => calm,
        }
    }

    fn ticket(self) -> Ticket {
        let order = match self {
            Self::EqualPartials => {
                r#"{"id": "A-1", "amount": "80.00", "expect": ["30.00", "30.00"]}"#
            }
            _ => r#"{"id": "A-1", "amount": "42.50"}"#,
        };
        let ticket = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{order}]}}"#);
        Ticket::parse(&ticket).expect("the ticket is sound")
    }

    fn crash(self) -> Option<Crash> {
        let dies = matches!(self, Self::StaleResume | Self::WriteAheadResume);
        dies.then_some(Crash { step: 2, moment: Moment::AfterReply })
    }
}

impl Cell {
    fn of(key: Key, situation: Situation, settings: &Settings<'_>) -> Self {
        let ticket = situation.ticket();
        let mut bank = Bank::open(&ticket, situation.plan());
        let program = situation.program(key);
        let mut runner = Runner::new(program, &ticket, MemoryStore::default(), settings.seed);
        let report = report_despite(situation.crash(), &mut runner, &mut bank);
        let grade = bank.grade(&report);
        let (outcome, cause) = fate(&grade);
        let (article, exact) = (situation.article(key), situation.exact(key));
        Self { key: key.as_str(), situation, outcome, cause, article, exact }
    }

    /// The word for people.
    fn text(&self) -> String {
        let word = unless_exact(self.outcome.as_str(), self.exact.as_str());
        match self.article {
            None => word,
            Some(article) if article == self.outcome => word + "*",
            Some(article) => format!("{word} (article: {})", article.as_str()),
        }
    }
}

impl Situation {
    /// What must become of a refund: two requests are one where they have the same key, and the bank reserves it.
    fn exact(self, key: Key) -> Fate {
        let [first, second] = self.requests();
        let of = |(call, sending): &(ToolCall, Sending)| key.of(call, *sending);
        let is_one = of(&first).is_some() && of(&first) == of(&second);
        match (self, is_one) {
            (Self::OverlappingDuplicate, _) => Fate::Twice,
            (Self::EqualPartials, true) => Fate::Swallowed,
            (Self::EqualPartials, false) | (_, true) => Fate::Once,
            (_, false) => Fate::Twice,
        }
    }

    /// The two requests that reach the bank, as far as keys can tell them apart.
    fn requests(self) -> [(ToolCall, Sending); 2] {
        let first = (first_refund(&self.ticket()), Sending::FIRST);
        let (mut call, mut sending) = first.clone();
        let life = 2;
        match self {
            Self::Retry => sending.attempt = 2,
            Self::NewTurn => call.id = ToolCallId::new(9),
            Self::StaleResume => (call.id, sending.life) = (ToolCallId::new(9).in_life(life), life),
            Self::WriteAheadResume => sending.life = life,
            Self::DuplicateDelivery | Self::OverlappingDuplicate => {}
            Self::ParaphrasedArguments => {
                (call.id, call.wording) = (ToolCallId::new(9), Wording::after(1));
            }
            Self::EqualPartials => {
                (call.id, call.intent) = (ToolCallId::new(9), "refund:A-1/2".to_owned());
            }
        }
        [first, (call, sending)]
    }

    /// What the source saw: the arms of step 2 and the ways of step 3 that have this key.
    fn article(self, key: Key) -> Option<Fate> {
        match (key, self) {
            (Key::None, Self::Retry | Self::DuplicateDelivery | Self::StaleResume)
            | (Key::CallId, Self::StaleResume) => Some(Fate::Twice),
            (Key::CallId, Self::Retry | Self::DuplicateDelivery | Self::WriteAheadResume)
            | (Key::Model, Self::NewTurn | Self::DuplicateDelivery)
            | (Key::Intent, Self::StaleResume) => Some(Fate::Once),
            _ => None,
        }
    }
}

/// The first refund that an agent writes for a ticket.
fn first_refund(ticket: &Ticket) -> ToolCall {
    match Agent::new(Manner::Hasty, ticket).turn() {
        Turn::Calls(mut calls) => calls.remove(0),
        Turn::Report(_) => unreachable!("a hasty agent pays at once"),
    }
}

fn fate(grade: &Grade) -> (Fate, Option<Cause>) {
    let mut causes = grade.orders().iter().flat_map(|order| &order.causes);
    match (causes.next(), causes.next()) {
        (None, _) => (Fate::Once, None),
        (Some(finding), None) if grade.extra_refunds() == 1 => (Fate::Twice, Some(finding.cause)),
        (Some(finding), None) if finding.cause == Cause::SwallowedByKey => {
            (Fate::Swallowed, Some(finding.cause))
        }
        _ => panic!("there is no word for this: {grade}"),
    }
}

impl Fate {
    /// The word in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Twice => "twice",
            Self::Swallowed => "swallowed",
        }
    }
}

impl Sheet for KeysSheet {
    fn title(&self) -> String {
        "how often a refund is paid, by what its key is made of".to_owned()
    }

    fn header(&self) -> Vec<&'static str> {
        ["key"].into_iter().chain(Situation::ALL.map(Situation::heading)).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |cells: &[Cell]| {
            let outcomes = cells.iter().map(Cell::text);
            std::iter::once(cells[0].key.to_owned()).chain(outcomes).collect()
        };
        self.cells.chunks(Situation::ALL.len()).map(row).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |cell: &Cell| {
            Figure::new("paid")
                .measured(cell.outcome.as_str())
                .article(cell.article.map_or("", Fate::as_str))
                .exact(cell.exact.as_str())
                .at(
                    "keys",
                    [("key", cell.key.into()), ("situation", cell.situation.as_str().into())],
                )
        };
        self.cells.iter().map(figure).collect()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "*: the article saw the same; what must come out, by comparing keys, is shown where it is something else"
                .to_owned(),
            "swallowed: the second of two equal refunds is never paid, and its caller is told that it was"
                .to_owned(),
            "model: as good as the model's memory of its own words; here they follow from the ticket, and only the \
             paraphrasing agent changes them"
                .to_owned(),
            "overlapping: the bank looks keys up but does not reserve them, so no key helps".to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_does_in_every_situation_what_is_expected_of_it() {
        let expected = [
            ("none", [2, 2, 2, 2, 2, 2, 2, 1]),
            ("fresh", [2, 2, 2, 2, 1, 2, 2, 1]),
            ("call-id", [1, 2, 2, 1, 1, 2, 2, 1]),
            ("raw-arguments", [1, 1, 1, 1, 1, 2, 2, 0]),
            ("arguments", [1, 1, 1, 1, 1, 1, 2, 0]),
            ("order", [1, 1, 1, 1, 1, 1, 2, 0]),
            ("model", [1, 1, 1, 1, 1, 2, 2, 1]),
            ("intent", [1, 1, 1, 1, 1, 1, 2, 1]),
        ];
        let sheet = run(&Settings::new(1, 7));
        let outcomes = [Fate::Swallowed, Fate::Once, Fate::Twice];
        for (cells, (key, row)) in sheet.cells.chunks(8).zip(expected) {
            for (cell, times) in cells.iter().zip(row) {
                assert_eq!(cell.key, key);
                assert_eq!(cell.exact, outcomes[times], "{key}, {:?}", cell.situation);
                assert!(cell.article.is_none_or(|fate| fate == cell.outcome), "{cell:?}");
                let name = serde_json::to_value(cell.situation).unwrap();
                assert_eq!(name, cell.situation.as_str());
                assert_eq!(cell.outcome, outcomes[times], "{key}, {:?}", cell.situation);
            }
        }
    }

    #[test]
    fn the_causes_name_the_situation() {
        let sheet = run(&Settings::new(1, 7));
        let causes = |key: &str| -> Vec<Option<Cause>> {
            let row = sheet.cells.iter().filter(|cell| cell.key == key);
            row.map(|cell| cell.cause).collect()
        };
        assert_eq!(
            causes("none"),
            [
                Some(Cause::RepeatAfterTimeout),
                Some(Cause::RepeatAfterTimeout),
                Some(Cause::RepeatAfterCrash),
                Some(Cause::RepeatAfterCrash),
                Some(Cause::DuplicateDelivery),
                Some(Cause::StaleRead),
                Some(Cause::DuplicateDelivery),
                None,
            ]
        );
        let changed = Some(Cause::KeyChanged);
        assert_eq!(causes("fresh")[..2], [changed, changed]);
        assert_eq!(causes("call-id")[1], changed);
        assert_eq!(causes("intent")[6], Some(Cause::RacyDedupe));
        assert_eq!(causes("arguments")[7], Some(Cause::SwallowedByKey));
    }
}
