//! Reads a history back from JSON lines.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Armed, CallIndex, CallRecord, Event, Failure, Header, History, OrderTotals, Replayed, Shown,
    Silence, Totals, TurnedAway,
    line::{ArmedFields, Line, TotalsFields},
};
use crate::{
    call::Operation,
    document::{DocumentError, Part, check_version, unmarked},
    fault::{Fault, PlanSettings},
    ledger::{Caller, IdempotencyKey, OrderIndex},
    money::{Amount, shorten},
    seed::Seed,
    ticket::{Order, Ticket},
};

/// Why a history cannot be read.
pub type HistoryError = DocumentError;

/// A history that was read, and what was odd about it.
#[derive(Clone, Debug)]
pub struct ReadHistory {
    /// The history.
    pub history: History,
    /// A sentence, if the text was cut off in mid-line.
    pub warning: Option<String>,
}

#[derive(Deserialize)]
struct HeaderDocument<'a> {
    badbank: String,
    #[serde(borrow)]
    version: &'a RawValue,
    seed: Seed,
    #[serde(borrow)]
    ticket: &'a RawValue,
}

impl History {
    /// Reads a history from JSON lines; one that is cut off in mid-line is read up to there.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] with the line, for a text that is no history, and for events that contradict
    /// the ticket or one another.
    pub fn parse(text: &str) -> Result<ReadHistory, HistoryError> {
        let text = unmarked(text);
        let first = text.lines().next().unwrap_or("");
        let mut reader = Reader {
            history: Self::new(read_header(first)?, usize::MAX),
            places: BTreeMap::new(),
            faulted: BTreeSet::new(),
            answered: BTreeSet::new(),
            attempts: Vec::new(),
            refunds: Vec::new(),
            is_over: false,
        };
        let orders = reader.history.header.ticket.orders();
        reader.attempts = vec![[0; 2]; orders.len()];
        reader.refunds = orders.iter().map(|order| order.refunded().len()).collect();
        let mut warning = None;
        for (index, line) in text.split_inclusive('\n').enumerate().skip(1) {
            let number = index + 1;
            let is_complete = line.ends_with('\n');
            let at = |error: DocumentError| DocumentError { line: number, ..error };
            match serde_json::from_str::<Line>(line) {
                Ok(parsed) => {
                    reader.take(&parsed).map_err(|message| DocumentError::new(number, message))?;
                }
                Err(_) if line.trim().is_empty() => {}
                Err(_) if !is_complete => {
                    warning =
                        Some(format!("line {number} is cut off; the history was read up to there"));
                }
                Err(error) => return Err(at(error.into())),
            }
        }
        Ok(ReadHistory { history: reader.history, warning })
    }

    /// Whether a text begins as a history does.
    pub fn is_one(text: &str) -> bool {
        let first = unmarked(text).lines().next().unwrap_or_default();
        first.starts_with('{') && first.contains("\"badbank\"")
    }
}

fn read_header(line: &str) -> Result<Header, DocumentError> {
    let part = Part::whole(line);
    let document: HeaderDocument<'_> = part.read().map_err(|error| {
        DocumentError::new(1, format!("this does not begin a history: {}", error.message))
    })?;
    if document.badbank != "history" {
        let given = shorten(&document.badbank);
        return Err(DocumentError::new(1, format!("this is a badbank `{given}`, not a `history`")));
    }
    check_version("history", part.inner(document.version))?;
    let settings: PlanSettings = part.read()?;
    let armed: ArmedFields = part.read()?;
    Ok(Header {
        ticket: Ticket::read(part.inner(document.ticket))?,
        seed: document.seed,
        settings,
        armed: Armed::try_from(armed).map_err(|message| DocumentError::new(1, message))?,
    })
}

/// A history in the making, and what it takes to check the next line.
struct Reader {
    history: History,
    places: BTreeMap<u64, CallIndex>,
    faulted: BTreeSet<CallIndex>,
    answered: BTreeSet<CallIndex>,
    /// Attempts of each operation on each order so far.
    attempts: Vec<[u32; 2]>,
    /// Refunds on each order so far.
    refunds: Vec<usize>,
    /// Whether nothing may follow.
    is_over: bool,
}

impl Reader {
    fn take(&mut self, line: &Line) -> Result<(), String> {
        if self.is_over {
            return Err("nothing comes after `cut` or `settle`, which end a history".to_owned());
        }
        self.is_over = matches!(line.event.as_str(), "cut" | "settle");
        if line.totals.is_some() && !self.is_over {
            return Err("`totals` stand on `cut` and `settle` alone".to_owned());
        }
        let expected = self.history.events.len() as u64 + 1;
        if line.seq != expected {
            return Err(format!("`seq` is {}, and {expected} comes next", line.seq));
        }
        if let Some(fields) = &line.totals {
            let totals = self.totals(fields)?;
            self.history.call_count = totals.calls();
            self.history.totals = Some(Box::new(totals));
            self.history.is_cut = true;
        }
        if line.event == "cut" {
            return need(line.totals.as_ref(), "totals").map(drop);
        }
        let event = self.event(line)?;
        match event {
            Event::Commit(call, _, number) => self.count(call, number)?,
            Event::Ok(call, _) | Event::Fail(call, _) | Event::Info(call, _) => {
                self.answer(call)?;
            }
            _ => {}
        }
        self.history.events.push(event);
        Ok(())
    }

    fn count(&mut self, call: CallIndex, number: u32) -> Result<(), String> {
        let held = &mut self.refunds[self.history.call(call).order.get()];
        *held += 1;
        if *held != number as usize {
            return Err(format!("`refund` is {number}, and {held} comes next on this order"));
        }
        Ok(())
    }

    fn answer(&mut self, call: CallIndex) -> Result<(), String> {
        if self.answered.insert(call) {
            return Ok(());
        }
        let (number, id) = (self.history.call(call).number, self.history.call_id(call));
        Err(format!("call {number}, `{id}`, is answered twice"))
    }

    /// Checks a call's attempt: the next, or past the bound of the history, where calls are missing, a later one.
    fn attempt(&mut self, line: &Line, call: &CallRecord) -> Result<(), String> {
        let last = &mut self.attempts[call.order.get()][call.operation as usize];
        let is_next = call.attempt.checked_sub(1) == Some(*last);
        let is_past_bound = line.event == "fault" && call.attempt > *last;
        if !is_next && !is_past_bound {
            let (given, next) = (call.attempt, u64::from(*last) + 1);
            return Err(format!(
                "`attempt` is {given}, and {next} comes next for a {} on this order",
                call.operation
            ));
        }
        *last = call.attempt;
        Ok(())
    }

    fn event(&mut self, line: &Line) -> Result<Event, String> {
        Ok(match line.event.as_str() {
            "invoke" => Event::Invoke(self.invoke(line)?),
            "fault" => self.fault(line)?,
            "arrive" => Event::Arrive(self.known(line)?, need(line.delivery, "delivery")?),
            "land" => Event::Land(self.known(line)?, need(line.delivery, "delivery")?),
            "commit" => {
                let call = self.known(line)?;
                if self.history.call(call).operation != Operation::Refund {
                    return Err("a read commits nothing".to_owned());
                }
                Event::Commit(call, need(line.delivery, "delivery")?, need(line.refund, "refund")?)
            }
            "revert" => Event::Revert(self.known(line)?, need(line.refund, "refund")?),
            "replay" => self.replay(line)?,
            "refuse" if line.call.is_some() => Event::Refuse(
                self.known(line)?,
                need(line.delivery, "delivery")?,
                Self::code(line)?,
            ),
            "refuse" => Event::TurnedAway(Box::new(TurnedAway {
                code: Self::code(line)?,
                operation: line.op,
                order: line
                    .order
                    .as_ref()
                    .map(|order| order.parse())
                    .transpose()
                    .map_err(in_words)?,
            })),
            "ok" => {
                let hidden = line.hidden.unwrap_or(0);
                Event::Ok(self.known(line)?, line.shown.map(|refunds| Shown { refunds, hidden }))
            }
            "fail" => {
                let code = need(line.code.as_ref(), "code")?;
                Event::Fail(
                    self.known(line)?,
                    Failure::from_word(code).ok_or_else(|| unknown("code", code))?,
                )
            }
            "info" => {
                let code = need(line.code.as_ref(), "code")?;
                Event::Info(
                    self.known(line)?,
                    Silence::from_word(code).ok_or_else(|| unknown("code", code))?,
                )
            }
            "plan" => Event::Plan(Box::new(need(line.plan.clone(), "plan")?.into_change()?)),
            "crash" => Event::Crash,
            "report" => Event::Report(need(line.text.as_deref(), "text")?.into()),
            "settle" => Event::Settle,
            other => return Err(unknown("event", other)),
        })
    }

    fn fault(&mut self, line: &Line) -> Result<Event, String> {
        let call = match self.known(line) {
            Ok(call) => call,
            Err(_) => self.invoke_past_bound(line)?,
        };
        let fault: Fault = need(line.fault.as_ref(), "fault")?.parse().map_err(in_words)?;
        fault.check_on(self.history.call(call).operation).map_err(in_words)?;
        if !self.faulted.insert(call) {
            let id = self.history.call_id(call);
            return Err(format!("`{id}` meets a second fault; a call meets one at the most"));
        }
        Ok(Event::Fault(call, fault))
    }

    fn replay(&self, line: &Line) -> Result<Event, String> {
        let call = self.known(line)?;
        let order = match &line.of {
            Some(order) => self.order(order)?.0,
            None => self.history.call(call).order,
        };
        let number = need(line.refund, "refund")?;
        Ok(Event::Replay(call, need(line.delivery, "delivery")?, Replayed { order, number }))
    }

    fn code(line: &Line) -> Result<crate::call::RefusalCode, String> {
        let code = need(line.code.as_ref(), "code")?;
        code.parse().map_err(|()| unknown("code", code))
    }

    fn order(&self, id: &str) -> Result<(OrderIndex, &Order), String> {
        let ticket = &self.history.header.ticket;
        let place = ticket.place(id);
        let place = place.ok_or_else(|| format!("the ticket has no order `{}`", shorten(id)))?;
        Ok((OrderIndex::new(place), &ticket.orders()[place]))
    }

    fn known(&self, line: &Line) -> Result<CallIndex, String> {
        let number = need(line.call, "call")?;
        let call = self
            .places
            .get(&number)
            .copied()
            .ok_or_else(|| format!("call {number} was never invoked"))?;
        let id = self.history.call_id(call);
        let record = self.history.call(call);
        let currency = self.history.header.ticket.orders()[record.order.get()].currency();
        let is_same = line.op.is_none_or(|operation| operation == id.operation)
            && line.order.as_ref().is_none_or(|order| *order == *id.order)
            && line.attempt.is_none_or(|attempt| attempt == id.attempt)
            && line
                .amount
                .as_ref()
                .is_none_or(|text| Amount::read_back(text, currency).ok() == record.amount)
            && line
                .key
                .as_deref()
                .is_none_or(|key| record.key.as_ref().is_some_and(|known| known.as_str() == key));
        if is_same {
            Ok(call)
        } else {
            Err(format!("call {number} is `{id}`, and this line says otherwise"))
        }
    }

    fn invoke(&mut self, line: &Line) -> Result<CallIndex, String> {
        let number = need(line.call, "call")?;
        let operation = need(line.op, "op")?;
        let (order, of) = self.order(need(line.order.as_ref(), "order")?)?;
        let amount = line
            .amount
            .as_ref()
            .map(|text| Amount::read_back(text, of.currency()))
            .transpose()
            .map_err(in_words)?;
        // Of a call past the bound nothing is known but its fault.
        let is_whole = line.event == "invoke";
        if (operation == Operation::Refund && is_whole) != amount.is_some() {
            return Err("a refund has an `amount`, and a read has none".to_owned());
        }
        let record = CallRecord {
            number,
            operation,
            order,
            attempt: need(line.attempt, "attempt")?,
            amount,
            key: line
                .key
                .as_deref()
                .filter(|_| is_whole)
                .map(IdempotencyKey::new)
                .transpose()
                .map_err(in_words)?,
            caller: line
                .caller
                .as_ref()
                .filter(|_| is_whole)
                .map(|hash| Caller::from_hash(hash).ok_or_else(|| unknown("caller", hash)))
                .transpose()?,
        };
        let index = CallIndex(u32::try_from(self.history.calls.len()).map_err(in_words)?);
        if self.places.insert(number, index).is_some() {
            return Err(format!("call {number} is invoked twice"));
        }
        self.attempt(line, &record)?;
        self.history.calls.push(record);
        self.history.call_count += 1;
        Ok(index)
    }

    /// Takes in a call of which a history past its bound kept the fault alone.
    fn invoke_past_bound(&mut self, line: &Line) -> Result<CallIndex, String> {
        let call = self.invoke(line)?;
        self.history.is_cut = true;
        Ok(call)
    }

    fn totals(&self, fields: &TotalsFields) -> Result<Totals, String> {
        let orders = self.history.header.ticket.orders();
        if fields.orders.len() != orders.len() {
            return Err(format!(
                "`totals` lists {} orders, and the ticket has {}",
                fields.orders.len(),
                orders.len()
            ));
        }
        let totals = fields.orders.iter().zip(orders).map(|(order, of)| {
            let read = |text: &Option<String>| {
                let text = text.as_ref();
                text.map(|text| Amount::read_back(text, of.currency()).map_err(in_words))
                    .transpose()
            };
            Ok(OrderTotals {
                reads: order.get_order,
                refunds_asked: order.refund,
                refunds: order.refunds.iter().map(read).collect::<Result<_, String>>()?,
            })
        });
        Ok(Totals::new(fields.calls, totals.collect::<Result<_, String>>()?))
    }
}

fn need<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("`{name}` is missing"))
}

fn unknown(field: &str, word: &str) -> String {
    format!("`{}` is no {field} of a history", shorten(word))
}

pub(super) fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
