//! The course of a call: its deliveries to the ledger, and what its caller is told.

use super::Bank;
use crate::{
    call::{Answer, CallError, OrderState, Refunded, Reply},
    fault::{Commit, Fault, Told as FaultTold},
    history::{CallIndex, Event, Failure, Replayed, Silence},
    ledger::{
        Arrival, Caller, Dedupe, Delivery, Finish, IdempotencyKey, Instruction, LedgerError,
        OrderIndex, Receipt,
    },
    money::Amount,
};

/// A call on its way through the bank.
#[derive(Clone, Debug)]
pub(super) struct Course {
    call: CallIndex,
    order: OrderIndex,
    /// What is to be refunded; none for a read.
    amount: Option<Amount>,
    deliveries: Deliveries,
    pub(super) told: Told,
}

/// What the caller will hear.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// The ledger's answer to the first delivery.
    Reply,
    /// That nothing was changed.
    Unavailable,
    /// Nothing.
    Timeout,
    /// Nothing, since it has left.
    Left,
}

#[derive(Clone, Debug)]
enum Deliveries {
    None,
    One(Stage),
    /// One after the other: the second arrives when the first has finished.
    Twice(Stage, Option<(IdempotencyKey, Option<Caller>)>),
    /// Arrive, arrive, finish, finish.
    Overlapping(Stage, Stage),
}

/// How far a delivery has come.
#[derive(Clone, Debug)]
enum Stage {
    Arrived(Delivery),
    Done(Outcome),
}

/// What the ledger made of a delivery.
type Outcome = Result<Executed, LedgerError>;

#[derive(Clone, Copy, Debug)]
struct Executed {
    receipt: Receipt,
    is_replay: bool,
}

impl Course {
    pub(super) fn new(
        call: CallIndex,
        order: OrderIndex,
        amount: Option<Amount>,
        fault: Option<Fault>,
    ) -> Self {
        let told = match fault.map(Fault::told) {
            None | Some(FaultTold::Reply) => Told::Reply,
            Some(FaultTold::Unavailable) => Told::Unavailable,
            Some(FaultTold::Timeout) => Told::Timeout,
        };
        Self {
            call,
            order,
            amount,
            deliveries: Deliveries::None,
            told,
        }
    }

    /// Whether nothing of it needs time: the ledger has nothing left to execute.
    pub(super) fn is_ready(&self) -> bool {
        let is_done = |stage: &Stage| matches!(stage, Stage::Done(_));
        match &self.deliveries {
            Deliveries::None => false,
            Deliveries::One(stage) | Deliveries::Twice(stage, _) => is_done(stage),
            Deliveries::Overlapping(first, second) => is_done(first) && is_done(second),
        }
    }
}

impl Bank {
    /// Lets the deliveries of a call arrive, as its fault has it.
    ///
    /// # Errors
    ///
    /// The answer, if the ledger never hears of the call.
    pub(super) fn dispatch(
        &mut self,
        mut course: Course,
        fault: Option<Fault>,
        key: Option<&IdempotencyKey>,
        caller: Option<Caller>,
    ) -> Result<Course, Answer> {
        let is_racy = self.plan.settings().dedupe == Dedupe::Racy;
        let Course {
            call,
            order,
            amount,
            ..
        } = course;
        let commit = fault.map_or(Commit::Once, Fault::commit);
        if commit == Commit::Never {
            return Err(self.conclude(&course, None));
        }
        let Some(amount) = amount else {
            self.history.record(call, Event::Arrive(call, 1));
            return Ok(course);
        };
        let instruction = Instruction {
            order,
            amount,
            key,
            caller,
        };
        let first = self.deliver(call, 1, instruction);
        course.deliveries = match commit {
            Commit::TwiceOverlapping => {
                Deliveries::Overlapping(first, self.deliver(call, 2, instruction))
            }
            Commit::Twice if is_racy => {
                Deliveries::Overlapping(first, self.deliver(call, 2, instruction))
            }
            Commit::Twice => Deliveries::Twice(first, key.map(|key| (key.clone(), caller))),
            Commit::Once | Commit::Never => Deliveries::One(first),
        };
        Ok(course)
    }

    fn deliver(&mut self, call: CallIndex, delivery: u8, instruction: Instruction<'_>) -> Stage {
        self.history.record(call, Event::Arrive(call, delivery));
        match self.ledger.arrive(instruction, self.now_ms) {
            Ok(Arrival::Pending(pending)) => Stage::Arrived(pending),
            Ok(Arrival::Replay(receipt)) => Stage::Done(self.replayed(call, delivery, receipt)),
            Err(error) => Stage::Done(self.refused(call, delivery, error)),
        }
    }

    /// Takes a call as far as it goes; answers it unless it has to wait.
    pub(super) fn proceed(&mut self, course: &mut Course) -> Option<Answer> {
        let call = course.call;
        let outcome = match &mut course.deliveries {
            Deliveries::None => None,
            Deliveries::One(stage) => Some(self.advance_stage(call, 1, stage)?),
            Deliveries::Twice(stage, key) => {
                let outcome = self.advance_stage(call, 1, stage)?;
                let (key, caller) = key
                    .take()
                    .map_or((None, None), |(key, caller)| (Some(key), caller));
                let amount = course.amount.expect("only a refund is delivered twice");
                let instruction = Instruction {
                    order: course.order,
                    amount,
                    key: key.as_ref(),
                    caller,
                };
                let mut second = self.deliver(call, 2, instruction);
                // Its key, if any, was just bound or released: it waits for nobody.
                let _dropped = self.advance_stage(call, 2, &mut second);
                Some(outcome)
            }
            Deliveries::Overlapping(first, second) => {
                let outcome = self.advance_stage(call, 1, first)?;
                let _dropped = self.advance_stage(call, 2, second)?;
                Some(outcome)
            }
        };
        Some(self.conclude(course, outcome))
    }

    /// Finishes a delivery, unless it waits for another.
    fn advance_stage(
        &mut self,
        call: CallIndex,
        delivery: u8,
        stage: &mut Stage,
    ) -> Option<Outcome> {
        let outcome = match stage {
            Stage::Done(outcome) => return Some(outcome.clone()),
            Stage::Arrived(pending) => match self.ledger.finish(pending) {
                Finish::Committed(receipt) => {
                    self.history
                        .record(call, Event::Commit(call, delivery, receipt.number));
                    Ok(Executed {
                        receipt,
                        is_replay: false,
                    })
                }
                Finish::Replayed(receipt) => self.replayed(call, delivery, receipt),
                Finish::Refused(error) => self.refused(call, delivery, error),
                Finish::Waits => return None,
            },
        };
        *stage = Stage::Done(outcome.clone());
        Some(outcome)
    }

    fn replayed(&mut self, call: CallIndex, delivery: u8, receipt: Receipt) -> Outcome {
        let of = Replayed {
            order: receipt.order,
            number: receipt.number,
        };
        self.history.record(call, Event::Replay(call, delivery, of));
        Ok(Executed {
            receipt,
            is_replay: true,
        })
    }

    fn refused(&mut self, call: CallIndex, delivery: u8, error: LedgerError) -> Outcome {
        let code = crate::call::Refusal::from(error.clone()).code;
        self.history
            .record(call, Event::Refuse(call, delivery, code));
        Err(error)
    }

    /// Ends a call that would wait for ever.
    pub(super) fn give_up(&mut self, mut course: Course) -> Answer {
        course.told = Told::Reply;
        self.conclude(&course, Some(Err(LedgerError::InFlight)))
    }

    /// Answers a call: the ledger's outcome, or what the fault lets through.
    fn conclude(&mut self, course: &Course, outcome: Option<Outcome>) -> Answer {
        let call = course.call;
        let answer = match course.told {
            Told::Unavailable => Err(CallError::Unavailable),
            Told::Timeout | Told::Left => Err(CallError::Timeout),
            Told::Reply => match outcome {
                None => Ok(Reply::Order(self.read(course.order))),
                Some(Ok(executed)) => Ok(Reply::Refunded(self.receipt(executed))),
                Some(Err(error)) => Err(CallError::Refused(error.into())),
            },
        };
        let event = match (&answer, course.told) {
            (_, Told::Left) => Event::Info(call, Silence::Left),
            (Ok(_), _) => Event::Ok(call),
            (Err(CallError::Unavailable), _) => Event::Fail(call, Failure::Unavailable),
            (Err(CallError::Refused(refusal)), _) => {
                Event::Fail(call, Failure::Refused(refusal.code))
            }
            (Err(_), _) => Event::Info(call, Silence::Timeout),
        };
        self.history.record(call, event);
        answer
    }

    fn read(&self, order: OrderIndex) -> OrderState {
        let account = self.ledger.account(order);
        OrderState {
            id: account.id().clone(),
            currency: account.currency(),
            amount: account.amount(),
            refunded: account.refunded(),
            refunds: account.refunds().to_vec(),
        }
    }

    fn receipt(&self, Executed { receipt, is_replay }: Executed) -> Refunded {
        let account = self.ledger.account(receipt.order);
        Refunded {
            order: account.id().clone(),
            number: receipt.number,
            amount: receipt.amount,
            currency: account.currency(),
            is_replay,
        }
    }
}
