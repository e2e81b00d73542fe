//! What the history says about each order, call by call.

use crate::{
    call::{CallId, Operation, RefusalCode},
    history::{CallIndex, Event, Failure, History, Replayed, Shown, Silence},
    ledger::{Caller, Dedupe, IdempotencyKey, OrderIndex},
    money::Amount,
};

/// Place of an event in the history.
pub(super) type Seq = usize;

/// An order's part of the history.
#[derive(Debug, Default)]
pub(super) struct OrderFacts {
    /// Its calls, in order of arrival.
    pub(super) calls: Vec<CallFacts>,
    /// Requests about it that were refused at the door.
    pub(super) turned_away: Vec<RefusalCode>,
    /// When the program under test was started again.
    pub(super) crashes: Vec<Seq>,
}

/// What happened to a call.
#[derive(Debug)]
pub(super) struct CallFacts {
    pub(super) id: CallId,
    pub(super) amount: Option<Amount>,
    pub(super) key: Option<(Option<Caller>, IdempotencyKey)>,
    pub(super) invoked: Seq,
    pub(super) fault: Option<String>,
    pub(super) deliveries: Vec<DeliveryFacts>,
    pub(super) answer: Option<(Seq, Heard)>,
    /// What a read showed.
    pub(super) shown: Option<Shown>,
}

/// What happened to a delivery.
#[derive(Debug)]
pub(super) struct DeliveryFacts {
    pub(super) number: u8,
    pub(super) arrived: Seq,
    pub(super) is_late: bool,
    /// What the ledger did with keys when it looked this one's up.
    pub(super) dedupe: Dedupe,
    pub(super) end: Option<(Seq, End)>,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Committed(u32),
    /// Committed, and failed since.
    Reverted(u32),
    Replayed(Replayed),
    Refused(RefusalCode),
}

/// What a caller heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Ok,
    Failed(Failure),
    Nothing(Silence),
}

/// A refund, by the call and delivery that committed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit<'a> {
    pub(super) refund: u32,
    pub(super) call: &'a CallFacts,
    pub(super) delivery: &'a DeliveryFacts,
    pub(super) at: Seq,
}

impl OrderFacts {
    /// The facts about every order of a history, in the ticket's order.
    pub(super) fn collect(history: &History) -> Vec<Self> {
        let mut orders: Vec<Self> = Vec::new();
        orders.resize_with(history.header().ticket.orders().len(), Self::default);
        let mut places: std::collections::BTreeMap<CallIndex, (OrderIndex, usize)> =
            std::collections::BTreeMap::new();
        let mut dedupe = history.header().settings.dedupe;
        for (seq, event) in history.events().iter().enumerate() {
            if let Event::Invoke(call) = event {
                let order = history.call(*call).order;
                let calls = &mut orders[order.get()].calls;
                places.insert(*call, (order, calls.len()));
                calls.push(CallFacts::new(history, *call, seq));
                continue;
            }
            let known = event.call().and_then(|call| places.get(&call));
            match (event, known) {
                (Event::Crash, _) => orders.iter_mut().for_each(|order| order.crashes.push(seq)),
                (Event::TurnedAway(request), _) => {
                    let ticket = &history.header().ticket;
                    let place = request.order.as_ref().and_then(|order| ticket.place(order));
                    if let Some(place) = place {
                        orders[place].turned_away.push(request.code);
                    }
                }
                (Event::Plan(change), _) => dedupe = change.settings.dedupe,
                (event, Some((order, place))) => {
                    orders[order.get()].calls[*place].take(seq, event, dedupe);
                }
                _ => {}
            }
        }
        orders
    }

    /// Whether they tell of every call of the order, up to its answer, and of every commit that holds.
    pub(super) fn are_whole(&self, [reads, asked]: [u32; 2], commits: usize) -> bool {
        let refunds = self.calls.iter().filter(|call| call.is_refund()).count();
        (self.calls.len() - refunds, refunds) == (reads as usize, asked as usize)
            && self.calls.iter().all(|call| call.answer.is_some())
            && self.commits().len() == commits
    }

    /// The refunds that calls of this run committed, in the order in which they did.
    pub(super) fn commits(&self) -> Vec<Commit<'_>> {
        let mut commits: Vec<Commit<'_>> = Vec::new();
        for call in &self.calls {
            for delivery in &call.deliveries {
                if let Some((at, End::Committed(refund))) = delivery.end {
                    commits.push(Commit { refund, call, delivery, at });
                }
            }
        }
        commits.sort_by_key(|commit| commit.at);
        commits
    }
}

impl CallFacts {
    fn new(history: &History, call: CallIndex, invoked: Seq) -> Self {
        let record = history.call(call);
        Self {
            id: history.call_id(call),
            amount: record.amount,
            key: record.key.clone().map(|key| (record.caller, key)),
            invoked,
            fault: None,
            deliveries: Vec::new(),
            answer: None,
            shown: None,
        }
    }

    fn take(&mut self, seq: Seq, event: &Event, dedupe: Dedupe) {
        let end = |delivery: u8, end: End| (delivery, Some((seq, end)));
        let (number, end) = match event {
            Event::Fault(_, fault) => return self.fault = Some(fault.to_string()),
            Event::Ok(_, shown) => {
                self.shown = *shown;
                return self.answer = Some((seq, Heard::Ok));
            }
            Event::Fail(_, failure) => return self.answer = Some((seq, Heard::Failed(*failure))),
            Event::Info(_, silence) => return self.answer = Some((seq, Heard::Nothing(*silence))),
            Event::Arrive(_, number) | Event::Land(_, number) => {
                let is_late = matches!(event, Event::Land(..));
                return self.deliveries.push(DeliveryFacts {
                    number: *number,
                    arrived: seq,
                    is_late,
                    dedupe,
                    end: None,
                });
            }
            Event::Revert(_, refund) => {
                let reverted = |delivery: &&mut DeliveryFacts| matches!(delivery.end, Some((_, End::Committed(number))) if number == *refund);
                if let Some(delivery) = self.deliveries.iter_mut().find(reverted) {
                    delivery.end = Some((seq, End::Reverted(*refund)));
                }
                return;
            }
            Event::Commit(_, delivery, refund) => end(*delivery, End::Committed(*refund)),
            Event::Replay(_, delivery, of) => end(*delivery, End::Replayed(*of)),
            Event::Refuse(_, delivery, code) => end(*delivery, End::Refused(*code)),
            _ => return,
        };
        if let Some(delivery) =
            self.deliveries.iter_mut().find(|delivery| delivery.number == number)
        {
            delivery.end = end;
        } else {
            let (arrived, is_late) = (seq, false);
            self.deliveries.push(DeliveryFacts { number, arrived, is_late, dedupe, end });
        }
    }

    pub(super) fn is_refund(&self) -> bool {
        self.id.operation == Operation::Refund
    }

    /// What the caller had heard of this call at `seq`.
    pub(super) fn heard_by(&self, seq: Seq) -> Option<Heard> {
        self.answer.filter(|(at, _)| *at < seq).map(|(_, heard)| heard)
    }
}
