//! A history as JSON lines, version 1.

use std::{fmt, iter};

use serde::{Deserialize, Serialize};

use super::{
    Armed, CallRecord, Event, Failure, Header, History, PlanChange, Replayed, Script, Silence,
    Totals, read::in_words,
};
use crate::{
    call::Operation,
    fault::{Fault, PlanSettings},
    ledger::OrderIndex,
    money::Amount,
    seed::Seed,
    ticket::{OrderId, Ticket},
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
    pub(super) totals: Option<TotalsFields>,
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
pub(super) struct TotalsFields {
    pub(super) calls: u64,
    pub(super) orders: Vec<OrderTotalsFields>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderTotalsFields {
    pub(super) get_order: u32,
    pub(super) refund: u32,
    pub(super) refunds: Vec<Option<String>>,
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
                fault: canonical(script.fault),
            })
        });
        let doubles = |name: &String| name.parse().is_ok_and(Fault::is_doubling);
        Ok(Self {
            is_doubling: fields.doubling.unwrap_or_else(|| fields.faults.iter().any(doubles)),
            faults: fields.faults.into_iter().map(canonical).collect(),
            scripted: scripted.collect::<Result<_, String>>()?,
            unmatched: fields.unmatched,
        })
    }
}

/// The name of a fault as logs write it.
fn canonical(name: String) -> String {
    name.parse().map_or(name, |fault: Fault| fault.to_string())
}

impl PlanFields {
    pub(super) fn into_change(self) -> Result<PlanChange, String> {
        Ok(PlanChange { settings: self.settings, armed: self.armed.try_into()? })
    }
}

impl Header {
    pub(super) fn order_id(&self, order: OrderIndex) -> &OrderId {
        self.ticket.orders()[order.get()].id()
    }

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

    /// An event as a line; `call` is what the call asked for that it happened to.
    pub(super) fn event_line(
        &self,
        index: usize,
        event: &Event,
        call: Option<&CallRecord>,
        totals: Option<&Totals>,
    ) -> String {
        let mut line =
            Line { seq: index as u64 + 1, event: event.word().to_owned(), ..Line::default() };
        if let Some(call) = call {
            self.name(&mut line, call);
        }
        match event {
            Event::Invoke(_) => self.describe(&mut line, call),
            Event::Fault(_, fault) => line.fault = Some(fault.to_string()),
            Event::Arrive(_, delivery) | Event::Land(_, delivery) => {
                line.delivery = Some(*delivery);
            }
            Event::Commit(_, delivery, refund) => {
                self.describe(&mut line, call);
                line.delivery = Some(*delivery);
                line.refund = Some(*refund);
            }
            Event::Revert(_, refund) => line.refund = Some(*refund),
            Event::Replay(_, delivery, Replayed { order, number }) => {
                self.describe(&mut line, call);
                line.delivery = Some(*delivery);
                line.refund = Some(*number);
                let is_other = call.is_some_and(|call| call.order != *order);
                line.of = is_other.then(|| self.order_id(*order).to_string());
            }
            Event::Refuse(_, delivery, code) => {
                line.delivery = Some(*delivery);
                line.code = Some(code.as_str().to_owned());
            }
            Event::Ok(_, shown) => {
                line.shown = shown.map(|shown| shown.refunds);
                line.hidden = shown.map(|shown| shown.hidden).filter(|hidden| *hidden > 0);
            }
            Event::Fail(_, failure) => line.code = Some(failure.as_str().to_owned()),
            Event::Info(_, silence) => line.code = Some(silence.as_str().to_owned()),
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
            Event::Settle => line.totals = totals.map(|totals| self.totals(totals)),
            Event::Crash => {}
        }
        json_line(&line)
    }

    fn name(&self, line: &mut Line, call: &CallRecord) {
        line.call = Some(call.number);
        line.op = Some(call.operation);
        line.order = Some(self.order_id(call.order).to_string());
        line.attempt = Some(call.attempt);
    }

    fn describe(&self, line: &mut Line, call: Option<&CallRecord>) {
        let Some(call) = call else { return };
        let currency = self.ticket.orders()[call.order.get()].currency();
        line.key = call.key.as_ref().map(ToString::to_string);
        line.caller = call.caller.map(|caller| caller.to_string());
        line.amount = call.amount.map(|amount| amount.display(currency).to_string());
    }

    fn totals(&self, totals: &Totals) -> TotalsFields {
        let orders = totals.orders().iter().zip(self.ticket.orders());
        let orders = orders.map(|(order, of)| {
            let text = |amount: Amount| amount.display(of.currency()).to_string();
            OrderTotalsFields {
                get_order: order.reads,
                refund: order.refunds_asked,
                refunds: order.refunds.iter().map(|refund| refund.map(text)).collect(),
            }
        });
        TotalsFields { calls: totals.calls(), orders: orders.collect() }
    }
}

impl History {
    /// Header and events as JSON lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let totals = self.totals.as_deref();
        let events = self.events.iter().enumerate().map(move |(index, event)| {
            let call = event.call().map(|call| self.call(call));
            self.header.event_line(index, event, call, totals)
        });
        iter::once(json_line(&self.header.line())).chain(events)
    }

    /// What a run that goes on has come to so far, where its events no longer tell.
    fn last_line(&self) -> Option<String> {
        let totals = self.totals.as_deref().filter(|_| !self.has_ended())?;
        Some(json_line(&Line {
            seq: self.events.len() as u64 + 1,
            event: "cut".to_owned(),
            totals: Some(self.header.totals(totals)),
            ..Line::default()
        }))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().chain(self.last_line()).try_for_each(|line| f.write_str(&line))
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
            Self::Settle => "settle",
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
        let underscored = word.replace('-', "_");
        let known = [Self::Unavailable, Self::RateLimited]
            .into_iter()
            .find(|known| known.as_str() == underscored);
        known.or_else(|| word.parse().ok().map(Self::Refused))
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
        let word = word.replace('-', "_");
        [Self::Timeout, Self::Left, Self::Broken, Self::ServerError]
            .into_iter()
            .find(|known| known.as_str() == word)
    }
}
