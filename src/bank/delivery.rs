//! The course of a call: its deliveries to the ledger, and what its caller is told.

use super::{Bank, Open};
use crate::{
    call::{Refusal, Sent},
    fault::{Commit, Fault, Told as FaultTold},
    history::{CallIndex, CallRecord, Delivery as Number, Event, Replayed},
    ledger::{Arrival, Awaited, Delivery, Finish, Instruction, LedgerError, Receipt},
    money::Amount,
};

/// A call on its way through the bank.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) call: CallIndex,
    /// What the call asks for.
    pub(super) record: CallRecord,
    pub(super) deliveries: Deliveries,
    pub(super) told: Told,
    /// Further calls on its order after which it fails, if it is only accepted.
    pub(super) fails_after: Option<u32>,
}

/// What the caller will hear.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// What its fault has it hear.
    Fault(FaultTold),
    /// Nothing, since it has left.
    Left,
    /// Nothing more: it was answered before its delivery arrived.
    Answered,
}

impl From<Option<Fault>> for Told {
    fn from(fault: Option<Fault>) -> Self {
        Self::Fault(fault.map_or(FaultTold::Reply, Fault::told))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) enum Deliveries {
    /// There is nothing for the ledger to execute.
    #[default]
    None,
    One(Stage),
    /// Fails inside, and binds its key to that.
    Failing(Stage),
    /// One after the other: the second arrives when the first has finished.
    Twice(Stage),
    /// Arrive, arrive, finish, finish.
    Overlapping(Stage, Stage),
}

/// How far a delivery has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Arrived(Delivery),
    Done(Outcome),
}

/// What the ledger made of a delivery.
pub(super) type Outcome = Result<Executed, LedgerError>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    pub(super) receipt: Receipt,
    pub(super) is_replay: bool,
}

/// A refund that was accepted, and is to fail.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    call: CallIndex,
    record: CallRecord,
    pub(super) refund: u32,
}

impl Course {
    /// A call that has just been written down.
    pub(super) fn new(call: CallIndex, record: CallRecord, fault: Option<Fault>) -> Self {
        let deliveries = Deliveries::None;
        Self { call, record, deliveries, told: fault.into(), fails_after: None }
    }

    /// Whether its caller is told that something went wrong inside.
    fn is_told_of_error(&self) -> bool {
        matches!(self.told, Told::Fault(FaultTold::ServerError))
    }

    /// Whether nothing of it needs time: the ledger has nothing left to execute.
    pub(super) fn is_ready(&self) -> bool {
        let is_done = |stage: &Stage| matches!(stage, Stage::Done(_));
        match &self.deliveries {
            Deliveries::None => false,
            Deliveries::One(stage) | Deliveries::Failing(stage) | Deliveries::Twice(stage) => {
                is_done(stage)
            }
            Deliveries::Overlapping(first, second) => is_done(first) && is_done(second),
        }
    }

    /// Whether what has arrived of it waits for another call.
    pub(super) fn is_waiting(&self) -> bool {
        match &self.deliveries {
            Deliveries::None | Deliveries::Failing(_) => false,
            // Of two, the second has the same key.
            Deliveries::One(first)
            | Deliveries::Twice(first)
            | Deliveries::Overlapping(first, _) => {
                matches!(first, Stage::Arrived(delivery) if delivery.is_waiting())
            }
        }
    }

    /// Whether two of its deliveries are under way.
    pub(super) fn is_doubled(&self) -> bool {
        matches!(self.deliveries, Deliveries::Overlapping(Stage::Arrived(_), Stage::Arrived(_)))
    }
}

impl Bank {
    /// Lets the deliveries of a call arrive, as its fault has it.
    ///
    /// # Errors
    ///
    /// The answer, if the ledger does not hear of the call before it is answered.
    pub(super) fn dispatch(
        &mut self,
        mut course: Course,
        fault: Option<Fault>,
    ) -> Result<Course, Sent> {
        let dedupe = self.plan.settings().dedupe;
        let commit = fault.map_or(Commit::Once, |fault| fault.commit_under(dedupe));
        match commit {
            Commit::Never => return Err(self.conclude(&course, None)),
            Commit::Late(calls) => {
                let answer = self.conclude(&course, None);
                course.told = Told::Answered;
                let record = course.record.clone();
                self.late.put(&record, calls.get(), course);
                return Err(answer);
            }
            Commit::Accepted(calls) => course.fails_after = Some(calls.get()),
            Commit::Once | Commit::Twice | Commit::TwiceOverlapping | Commit::Stored => {}
        }
        let Some(amount) = course.record.amount else {
            self.history.record(&course.record, Event::Arrive(course.call, 1));
            return Ok(course);
        };
        let first = self.deliver(&course, 1, amount);
        course.deliveries = match commit {
            Commit::TwiceOverlapping => {
                Deliveries::Overlapping(first, self.deliver(&course, 2, amount))
            }
            Commit::Twice => Deliveries::Twice(first),
            Commit::Stored => Deliveries::Failing(first),
            _ => Deliveries::One(first),
        };
        Ok(course)
    }

    /// Takes a call as far as it goes; answers it unless it has to wait.
    pub(super) fn proceed(&mut self, course: &mut Course) -> Option<Sent> {
        // Taken out for as long as the bank works on them.
        let mut deliveries = std::mem::take(&mut course.deliveries);
        let outcome = match &mut deliveries {
            Deliveries::None => Some(None),
            Deliveries::One(stage) => {
                let arrived = match stage {
                    Stage::Arrived(pending) if course.is_told_of_error() => Some(pending.clone()),
                    _ => None,
                };
                let outcome = self.push_on(course, 1, stage);
                if let (Some(pending), Some(_)) = (arrived, &outcome) {
                    self.ledger.answered_with_error(&pending);
                }
                outcome.map(Some)
            }
            Deliveries::Failing(stage) => {
                if let Stage::Arrived(pending) = stage {
                    let error = self.ledger.fail(pending);
                    *stage = Stage::Done(self.refused(course, 1, error));
                }
                self.push_on(course, 1, stage).map(Some)
            }
            Deliveries::Twice(first) => self.push_on(course, 1, first).map(|outcome| {
                let amount = course.record.amount.expect("only a refund is delivered twice");
                let mut second = self.deliver(course, 2, amount);
                // Its answer has no reader. Where its key came free and a third call has it now, it waits for that one.
                if self.push_on(course, 2, &mut second).is_none() {
                    let deliveries = Deliveries::Overlapping(Stage::Done(outcome.clone()), second);
                    self.leave_under_way(Course {
                        deliveries,
                        told: Told::Answered,
                        ..course.clone()
                    });
                }
                Some(outcome)
            }),
            Deliveries::Overlapping(first, second) => {
                self.push_on(course, 1, first).map(|outcome| {
                    // It waits for the first at the most.
                    let _unread = self.push_on(course, 2, second);
                    Some(outcome)
                })
            }
        };
        course.deliveries = deliveries;
        let outcome = outcome?;
        let sent = self.conclude(course, outcome.clone());
        if let (Some(due_after), Some(Ok(Executed { receipt, is_replay: false }))) =
            (course.fails_after, outcome)
        {
            let (call, record) = (course.call, course.record.clone());
            self.failing.put(
                &course.record,
                due_after,
                Failing { call, record, refund: receipt.number },
            );
        }
        Some(sent)
    }

    /// Whether the call that a course waits for has left the ledger nothing to execute.
    pub(super) fn has_decided(&self, course: &Course) -> bool {
        let becomes = |stage: &Stage, is_enough: fn(Awaited) -> bool| match stage {
            Stage::Done(_) => true,
            Stage::Arrived(delivery) => self.ledger.awaited(delivery).is_some_and(is_enough),
        };
        let is_finished = |awaited| awaited != Awaited::Unfinished;
        match &course.deliveries {
            Deliveries::None | Deliveries::Failing(_) => false,
            Deliveries::One(stage) => becomes(stage, is_finished),
            // The second arrives only when the first has finished, and executes where the key is free again.
            Deliveries::Twice(first) => becomes(first, |awaited| awaited == Awaited::Bound),
            Deliveries::Overlapping(first, second) => {
                becomes(first, is_finished) && becomes(second, is_finished)
            }
        }
    }

    /// Finishes the first of two deliveries that overlap, unless it waits for another call.
    pub(super) fn push_first(&mut self, course: &mut Course) -> bool {
        let mut deliveries = std::mem::take(&mut course.deliveries);
        let has_finished = match &mut deliveries {
            Deliveries::Overlapping(first, _) => self.push_on(course, 1, first).is_some(),
            _ => true,
        };
        course.deliveries = deliveries;
        has_finished
    }

    fn deliver(&mut self, course: &Course, number: Number, amount: Amount) -> Stage {
        let event = if matches!(course.told, Told::Answered) { Event::Land } else { Event::Arrive };
        self.history.record(&course.record, event(course.call, number));
        let instruction = Instruction {
            order: course.record.order,
            amount,
            key: course.record.key.as_ref(),
            caller: course.record.caller,
        };
        match self.ledger.arrive(instruction, self.now_ms) {
            Ok(Arrival::Pending(pending)) if course.fails_after.is_some() => {
                Stage::Arrived(pending.pending())
            }
            Ok(Arrival::Pending(pending)) => Stage::Arrived(pending),
            Ok(Arrival::Replay(receipt)) => Stage::Done(Ok(self.replayed(course, number, receipt))),
            Err(error) => Stage::Done(self.refused(course, number, error)),
        }
    }

    /// Finishes a delivery, unless it waits for another.
    fn push_on(&mut self, course: &Course, number: Number, stage: &mut Stage) -> Option<Outcome> {
        let outcome = match stage {
            Stage::Done(outcome) => return Some(outcome.clone()),
            Stage::Arrived(pending) => match self.ledger.finish(pending) {
                Finish::Committed(receipt) => {
                    let event = Event::Commit(course.call, number, receipt.number);
                    self.history.record(&course.record, event);
                    Ok(Executed { receipt, is_replay: false })
                }
                Finish::Replayed(receipt) => Ok(self.replayed(course, number, receipt)),
                Finish::Refused(error) => self.refused(course, number, error),
                Finish::Waits => return None,
            },
        };
        *stage = Stage::Done(outcome.clone());
        Some(outcome)
    }

    fn replayed(&mut self, course: &Course, number: Number, receipt: Receipt) -> Executed {
        let of = Replayed { order: receipt.order, number: receipt.number };
        self.history.record(&course.record, Event::Replay(course.call, number, of));
        Executed { receipt, is_replay: true }
    }

    fn refused(&mut self, course: &Course, number: Number, error: LedgerError) -> Outcome {
        let code = Refusal::from(error.clone()).code;
        self.history.record(&course.record, Event::Refuse(course.call, number, code));
        Err(error)
    }

    /// Ends a call that would wait for ever.
    pub(super) fn give_up(&mut self, mut course: Course) -> Sent {
        course.told = Told::Fault(FaultTold::Reply);
        self.conclude(&course, Some(Err(LedgerError::InFlight)))
    }

    /// What a call sets off by having had its effect, before it is answered.
    pub(super) fn take_effect(&mut self, course: &Course) {
        for late in self.late.due(&course.record) {
            self.land(late);
        }
        for failing in self.failing.due(&course.record) {
            self.revert(&failing);
        }
    }

    /// Lets everything fail that was only accepted.
    pub(super) fn fail_all(&mut self) {
        let mut rest = self.failing.take();
        rest.sort_by_key(|failing| (failing.record.order, failing.refund));
        for failing in &rest {
            self.revert(failing);
        }
    }

    fn revert(&mut self, failing: &Failing) {
        self.ledger.revert(failing.record.order, failing.refund);
        self.history.record(&failing.record, Event::Revert(failing.call, failing.refund));
    }

    /// Lets everything land that is still out, by order and attempt.
    pub(super) fn land_all(&mut self) {
        let mut rest = self.late.take();
        rest.sort_by(|one, other| {
            let id = |course: &Course| self.ledger.account(course.record.order).id();
            id(one).cmp(id(other)).then(one.record.attempt.cmp(&other.record.attempt))
        });
        for course in rest {
            self.land(course);
        }
    }

    fn land(&mut self, mut course: Course) {
        let amount = course.record.amount.expect("only a refund comes late");
        course.deliveries = Deliveries::One(self.deliver(&course, 1, amount));
        if self.proceed(&mut course).is_none() {
            self.leave_under_way(course);
        }
    }

    /// Keeps a call that waits for another under its key, and that nobody will collect.
    fn leave_under_way(&mut self, course: Course) {
        self.tokens += 1;
        self.open.insert(self.tokens, Open::UnderWay(course));
    }
}
