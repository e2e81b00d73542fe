//! What the caller of a call is told.

use std::num::NonZero;

use super::{
    Bank, Unheard,
    delivery::{Course, Executed, Outcome, Told},
};
use crate::{
    call::{CallError, OrderState, Passage, RefundStatus, Refunded, Reply, Sent},
    fault::Told as FaultTold,
    history::{Event, Failure, Shown, Silence},
    ledger::{LedgerError, OrderIndex},
};

impl Bank {
    /// Answers a call: the ledger's outcome, or what the fault lets through. What is due lands before.
    pub(super) fn conclude(&mut self, course: &Course, outcome: Option<Outcome>) -> Sent {
        let call = course.call;
        let Told::Fault(told) = course.told else {
            if matches!(course.told, Told::Left) {
                self.take_effect(course);
                self.history.record(&course.record, Event::Info(call, Silence::Left));
            }
            return Sent::whole(Err(CallError::Timeout));
        };
        let hidden = match told {
            FaultTold::Stale(commits) => commits.get().min(self.commits(course.record.order)),
            _ => 0,
        };
        let mut sent = self.sent(told, course.record.order, outcome, hidden);
        // The caller's side of the matter, which the passage decides.
        let event = match sent.clone().received() {
            Ok(Reply::Refunded(_)) => Event::Ok(call, None),
            Ok(Reply::Order(state)) => {
                let refunds = u32::try_from(state.refunds.len()).unwrap_or(u32::MAX);
                Event::Ok(call, Some(Shown { refunds, hidden }))
            }
            Err(CallError::Unavailable) => Event::Fail(call, Failure::Unavailable),
            Err(CallError::RateLimited { .. }) => Event::Fail(call, Failure::RateLimited),
            Err(CallError::Refused(refusal)) => Event::Fail(call, Failure::Refused(refusal.code)),
            Err(CallError::Timeout) => Event::Info(call, Silence::Timeout),
            Err(CallError::ServerError) => Event::Info(call, Silence::ServerError),
            Err(CallError::Broken { .. }) => Event::Info(call, Silence::Broken),
        };
        self.take_effect(course);
        if sent.passage == Passage::Slow {
            let record = course.record.clone();
            sent.on_its_way = NonZero::new(record.number);
            self.unheard.insert(record.number, Unheard { call, record, event });
        } else {
            self.history.record(&course.record, event);
        }
        sent
    }

    /// What the bank sends, and what becomes of it on its way.
    fn sent(
        &self,
        told: FaultTold,
        order: OrderIndex,
        outcome: Option<Outcome>,
        hidden: u32,
    ) -> Sent {
        let broken = |passage| Sent { passage, ..Sent::whole(Err(CallError::Timeout)) };
        let passage = match told {
            FaultTold::Unavailable => return Sent::whole(Err(CallError::Unavailable)),
            FaultTold::Timeout => return Sent::whole(Err(CallError::Timeout)),
            FaultTold::RateLimited => {
                let retry_after_s = self.plan.settings().retry_after_s;
                return Sent::whole(Err(CallError::RateLimited { retry_after_s }));
            }
            FaultTold::ServerError => return Sent::whole(Err(CallError::ServerError)),
            FaultTold::Reset => return broken(Passage::Reset),
            FaultTold::Closed => return broken(Passage::Closed),
            FaultTold::Hang => return broken(Passage::Hang),
            FaultTold::Reply | FaultTold::Stale(_) => Passage::Whole,
            FaultTold::Truncated => Passage::Truncated,
            FaultTold::Slow => Passage::Slow,
        };
        let answer = match outcome {
            None => Ok(Reply::Order(self.read(order, hidden))),
            Some(Ok(executed)) => Ok(Reply::Refunded(self.receipt(executed))),
            Some(Err(LedgerError::Failed)) => Err(CallError::ServerError),
            Some(Err(error)) => Err(CallError::Refused(error.into())),
        };
        Sent { passage, ..Sent::whole(answer) }
    }

    /// Refunds on an order that this run has committed.
    fn commits(&self, order: OrderIndex) -> u32 {
        let held = self.ticket().orders()[order.get()].refunded().len();
        u32::try_from(self.ledger.account(order).refunds().len() - held).unwrap_or(u32::MAX)
    }

    /// An order without its newest commits.
    fn read(&self, order: OrderIndex, hidden: u32) -> OrderState {
        let account = self.ledger.account(order);
        let shown = account.refunds().len() - hidden as usize;
        let refunds = account.refunds()[..shown].to_vec();
        let unsettled = self.unsettled(order, shown);
        let refunded = if hidden == 0 {
            account.refunded()
        } else {
            let is_held = |number: &u32| !account.failed().contains(number);
            (1..)
                .zip(&refunds)
                .filter(|(number, _)| is_held(number))
                .map(|(_, amount)| *amount)
                .sum()
        };
        OrderState {
            id: account.id().clone(),
            currency: account.currency(),
            amount: account.amount(),
            refunded,
            refunds,
            unsettled,
        }
    }

    /// The refunds of an order, up to one, that are pending or have failed.
    fn unsettled(&self, order: OrderIndex, shown: usize) -> Vec<(u32, RefundStatus)> {
        let failed = self.ledger.account(order).failed().iter();
        let failed = failed.map(|number| (*number, RefundStatus::Failed));
        let pending = self.failing.of(order);
        let pending = pending.map(|failing| (failing.refund, RefundStatus::Pending));
        let mut unsettled: Vec<_> =
            failed.chain(pending).filter(|(number, _)| *number as usize <= shown).collect();
        unsettled.sort_by_key(|(number, _)| *number);
        unsettled
    }

    fn receipt(&self, Executed { receipt, is_replay }: Executed) -> Refunded {
        let account = self.ledger.account(receipt.order);
        let is_latest = is_replay && self.ledger.answers_latest();
        let status = if is_latest && account.failed().contains(&receipt.number) {
            RefundStatus::Failed
        } else if receipt.is_pending {
            RefundStatus::Pending
        } else {
            RefundStatus::Succeeded
        };
        Refunded {
            order: account.id().clone(),
            number: receipt.number,
            amount: receipt.amount,
            currency: account.currency(),
            status,
            is_replay,
        }
    }
}
