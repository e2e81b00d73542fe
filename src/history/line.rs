//! A history as JSON lines, version 1.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Armed, CallIndex, Event, Failure, Header, History, PlanChange, Remainder, Replayed, Script,
    Silence, read::in_words,
};
use crate::{
    call::{Operation, RefusalCode},
    fault::{Fault, PlanSettings},
    money::Amount,
    seed::Seed,
    ticket::Ticket,
};

/// The first line.
#[derive(Serialize)]
struct HeaderLine<'a> {
    badbank: &'static str,
    version: u32,
    seed: Seed,
    #[serde(flatten)]
    settings: PlanSettings,
    #[serde(flatten)]
    armed: ArmedFields,
    ticket: &'a Ticket,
}

/// The faults to be expected, as fields of a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArmedFields {
    faults: Vec<String>,
    /// Left out, it follows from the names.
    doubling: Option<bool>,
    #[serde(default)]
    scripted: Vec<ScriptFields>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unmatched: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ScriptFields {
    on: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    attempts: String,
    fault: String,
}

/// An event, as one line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) op: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delivery: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refund: Option<u32>,
    /// The order whose refund was replayed, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<String>,
    /// Refunds that a read showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shown: Option<u32>,
    /// Commits that a stale read left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<PlanFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remainder: Option<RemainderFields>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PlanFields {
    #[serde(flatten)]
    settings: PlanSettings,
    #[serde(flatten)]
    armed: ArmedFields,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemainderFields {
    pub(super) calls: u64,
    pub(super) orders: Vec<RemainderOrder>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemainderOrder {
    pub(super) get_order: u32,
    pub(super) refund: u32,
    pub(super) refunds: Vec<String>,
}

impl From<&Armed> for ArmedFields {
    fn from(armed: &Armed) -> Self {
        let scripted = armed.scripted.iter().map(|script| ScriptFields {
            on: script.on.as_str().to_owned(),
            order: script.order.as_ref().map(ToString::to_string),
            attempts: script.attempts.to_string(),
            fault: script.fault.clone(),
        });
        Self {
            faults: armed.faults.clone(),
            doubling: Some(armed.is_doubling),
            scripted: scripted.collect(),
            unmatched: armed.unmatched.clone(),
        }
    }
}

impl TryFrom<ArmedFields> for Armed {
    type Error = String;

    fn try_from(fields: ArmedFields) -> Result<Self, String> {
        let scripted = fields.scripted.into_iter().map(|script| {
            Ok(Script {
                on: script.on.parse().map_err(in_words)?,
                order: script.order.map(|order| order.parse()).transpose().map_err(in_words)?,
                attempts: script.attempts.parse().map_err(in_words)?,
                fault: script.fault,
            })
        });
        let doubles = |name: &String| name.parse().is_ok_and(Fault::is_doubling);
        Ok(Self {
            is_doubling: fields.doubling.unwrap_or_else(|| fields.faults.iter().any(doubles)),
            faults: fields.faults,
            scripted: scripted.collect::<Result<_, String>>()?,
            unmatched: fields.unmatched,
        })
    }
}

impl PlanFields {
    pub(super) fn into_change(self) -> Result<PlanChange, String> {
        Ok(PlanChange { settings: self.settings, armed: self.armed.try_into()? })
    }
}

impl Header {
    fn line(&self) -> HeaderLine<'_> {
        HeaderLine {
            badbank: "history",
            version: 1,
            seed: self.seed,
            settings: self.settings,
            armed: (&self.armed).into(),
            ticket: &self.ticket,
        }
    }
}

impl History {
    /// The history as JSON lines, from the event of index `from` on; the header comes before the first.
    pub fn lines_from(&self, from: usize) -> String {
        let header = (from == 0).then(|| json_line(&self.header.line()));
        let events = self.events.iter().enumerate().skip(from);
        header
            .into_iter()
            .chain(events.map(|(index, event)| json_line(&self.line(index, event))))
            .collect()
    }

    fn line(&self, index: usize, event: &Event) -> Line {
        let mut line =
            Line { seq: index as u64 + 1, event: event.word().to_owned(), ..Line::default() };
        match event {
            Event::Invoke(call) => {
                self.name(&mut line, *call);
                self.describe(&mut line, *call);
            }
            Event::Fault(call, fault) => {
                self.name(&mut line, *call);
                line.fault = Some(fault.to_string());
            }
            Event::Arrive(call, delivery) | Event::Land(call, delivery) => {
                self.name(&mut line, *call);
                line.delivery = Some(*delivery);
            }
            Event::Commit(call, delivery, refund) => {
                self.name(&mut line, *call);
                self.describe(&mut line, *call);
                line.delivery = Some(*delivery);
                line.refund = Some(*refund);
            }
            Event::Revert(call, refund) => {
                self.name(&mut line, *call);
                line.refund = Some(*refund);
            }
            Event::Replay(call, delivery, Replayed { order, number }) => {
                self.name(&mut line, *call);
                self.describe(&mut line, *call);
                line.delivery = Some(*delivery);
                line.refund = Some(*number);
                line.of =
                    (*order != self.call(*call).order).then(|| self.order_id(*order).to_string());
            }
            Event::Refuse(call, delivery, code) => {
                self.name(&mut line, *call);
                line.delivery = Some(*delivery);
                line.code = Some(code.as_str().to_owned());
            }
            Event::Ok(call, shown) => {
                self.name(&mut line, *call);
                line.shown = shown.map(|shown| shown.refunds);
                line.hidden = shown.map(|shown| shown.hidden).filter(|hidden| *hidden > 0);
            }
            Event::Fail(call, failure) => {
                self.name(&mut line, *call);
                line.code = Some(failure.as_str().to_owned());
            }
            Event::Info(call, silence) => {
                self.name(&mut line, *call);
                line.code = Some(silence.as_str().to_owned());
            }
            Event::TurnedAway(request) => {
                line.op = request.operation;
                line.order = request.order.as_ref().map(ToString::to_string);
                line.code = Some(request.code.as_str().to_owned());
            }
            Event::Plan(change) => {
                line.plan =
                    Some(PlanFields { settings: change.settings, armed: (&change.armed).into() });
            }
            Event::Report(text) => line.text = Some(text.to_string()),
            Event::Settle(remainder) => {
                line.remainder = remainder.as_ref().map(|rest| self.remainder(rest));
            }
            Event::Crash => {}
        }
        line
    }

    fn name(&self, line: &mut Line, call: CallIndex) {
        let record = self.call(call);
        line.call = Some(record.number);
        line.op = Some(record.operation);
        line.order = Some(self.order_id(record.order).to_string());
        line.attempt = Some(record.attempt);
    }

    fn describe(&self, line: &mut Line, call: CallIndex) {
        let record = self.call(call);
        let currency = self.header.ticket.orders()[record.order.get()].currency();
        line.key = record.key.as_ref().map(ToString::to_string);
        line.caller = record.caller.map(|caller| caller.to_string());
        line.amount = record.amount.map(|amount| amount.display(currency).to_string());
    }

    fn remainder(&self, rest: &Remainder) -> RemainderFields {
        let orders = rest.orders.iter().zip(self.header.ticket.orders());
        let orders = orders.map(|((get_order, refund, refunds), order)| {
            let text = |amount: &Amount| amount.display(order.currency()).to_string();
            RemainderOrder {
                get_order: *get_order,
                refund: *refund,
                refunds: refunds.iter().map(text).collect(),
            }
        });
        RemainderFields { calls: rest.calls, orders: orders.collect() }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines_from(0))
    }
}

fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a line has no map whose keys are not strings") + "\n"
}

impl Event {
    /// The word in histories.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Invoke(_) => "invoke",
            Self::Fault(..) => "fault",
            Self::Arrive(..) => "arrive",
            Self::Land(..) => "land",
            Self::Commit(..) => "commit",
            Self::Revert(..) => "revert",
            Self::Replay(..) => "replay",
            Self::Refuse(..) | Self::TurnedAway(_) => "refuse",
            Self::Ok(..) => "ok",
            Self::Fail(..) => "fail",
            Self::Info(..) => "info",
            Self::Plan(_) => "plan",
            Self::Crash => "crash",
            Self::Report(_) => "report",
            Self::Settle(_) => "settle",
        }
    }
}

impl Failure {
    /// The word in histories.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::RateLimited => "rate_limited",
            Self::Refused(code) => code.as_str(),
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        if let Some(known) =
            [Self::Unavailable, Self::RateLimited].into_iter().find(|known| known.as_str() == word)
        {
            return Some(known);
        }
        word.parse::<RefusalCode>().ok().map(Self::Refused)
    }
}

impl Silence {
    /// The word in histories.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Left => "left",
            Self::Broken => "broken",
            Self::ServerError => "server_error",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::Timeout, Self::Left, Self::Broken, Self::ServerError]
            .into_iter()
            .find(|known| known.as_str() == word)
    }
}
