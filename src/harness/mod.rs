//! What stands between an agent and the bank: retries, backoff, keys, and rules that end the trying.
//!
//! Everything here is a plain state machine without a clock and, but for the file of a
//! [`checkpoint::FileStore`] and the one in which the processes of a [`SharedBreaker`] keep their evidence,
//! without I/O. [`run`] drives a whole program on virtual time: waits are counted, and a [`Sleeper`] decides
//! whether anybody really waits. A [`checkpoint::Runner`] does so for a program that may die and is started
//! again. A harness sees nothing but a [`Payments`] service; that faults exist, it learns from their errors.

mod backoff;
mod breaker;
mod budget;
pub mod checkpoint;
mod dead_letter;
mod deadline;
mod design;
mod key;
mod outbox;
mod retry;
mod stopping;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::{
    backoff::{Backoff, Jitter, Waits},
    breaker::{
        Admission, Change, CircuitBreaker, Entry, Evidence, EvidenceError, EvidenceLog, Kind,
        Permit, Policy, Reading, SharedBreaker, Signal, State, Status, Timestamp,
    },
    budget::Budget,
    dead_letter::{DeadLetter, Letter},
    deadline::Deadline,
    design::{Design, DesignError},
    key::{Key, KeyKindError, Keyed, Sending},
    outbox::Outbox,
    retry::{Retry, Retrying, Step},
    stopping::StoppingRule,
};
use crate::{
    Seed, Ticket,
    agent::{Action, Agent, ToolCall, Turn},
    call::{Answer, Payments, Reply},
};

/// Sends an agent's calls: how often, under which keys, and as far as the rules that it was given allow.
#[derive(Clone, Debug)]
pub struct Harness {
    retry: Retry,
    key: Key,
    seed: Seed,
    life: u32,
    waited: Duration,
    budget: Option<Budget>,
    deadline: Option<Deadline>,
    stopping: Option<StoppingRule>,
}

impl Harness {
    /// The harness of a design that has not sent anything; its waits follow from `seed`.
    pub fn new(design: Design, seed: Seed) -> Self {
        Self::with(design.retry(), design.key(), seed)
    }

    /// A harness of these parts that has not sent anything; its waits follow from `seed`.
    pub fn with(retry: Retry, key: Key, seed: Seed) -> Self {
        let (life, waited) = (1, Duration::ZERO);
        Self { retry, key, seed, life, waited, budget: None, deadline: None, stopping: None }
    }

    /// Tells the harness which process it is in, from 1: it makes no fresh key that another life has made.
    pub fn begin_life(&mut self, life: u32) {
        self.life = life;
    }

    /// The same, paying for its retries from a budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// The same, beginning no attempt once the waits of a call have come to the deadline.
    ///
    /// Only the waits count here: on virtual time the calls themselves take none.
    #[must_use]
    pub fn with_deadline(self, deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same, answering calls by itself that the rule has stopped.
    ///
    /// A call is known to the rule by its intent, so that it stays stopped when the agent writes it anew.
    #[must_use]
    pub fn with_stopping_rule(self, rule: StoppingRule) -> Self {
        Self { stopping: Some(rule), ..self }
    }

    /// Sends `call` until it is answered or given up, one attempt after the other.
    ///
    /// # Errors
    ///
    /// The worst [`CallError`](crate::call::CallError) of all attempts, as [`Retrying::conclude`] has it.
    ///
    /// # Panics
    ///
    /// Never: no answer is deadly here.
    pub fn call(
        &mut self,
        call: &ToolCall,
        bank: &mut (impl Payments + ?Sized),
        sleeper: &mut (impl Sleeper + ?Sized),
    ) -> Answer {
        self.call_or_die(call, bank, sleeper, |_| false).expect("no answer is deadly here")
    }

    /// As [`call`](Self::call), in a process that dies of an attempt with such an answer, before it has heard it.
    fn call_or_die(
        &mut self,
        call: &ToolCall,
        bank: &mut (impl Payments + ?Sized),
        sleeper: &mut (impl Sleeper + ?Sized),
        is_deadly: impl Fn(&Answer) -> bool,
    ) -> Option<Answer> {
        let name = name(call);
        if let Some(error) = self.stopping.as_mut().and_then(|rule| rule.answer(&name)) {
            return Some(Err(error));
        }
        let mut retrying = self.retry.begin(self.seed, call.id.number());
        let mut sending = Sending { attempt: 1, life: self.life };
        let mut elapsed = Duration::ZERO;
        loop {
            let answer = send(call, self.key, sending, bank);
            if is_deadly(&answer) {
                return None;
            }
            let is_stopped = self.stopping.as_mut().is_some_and(|rule| rule.note(&name, &answer));
            let deadline = self.deadline;
            let is_worthwhile = |wait| {
                let is_in_time = |deadline: Deadline| deadline.left_after(elapsed, wait).is_some();
                !is_stopped && deadline.is_none_or(is_in_time)
            };
            let step = retrying.decide(&answer, self.budget.as_mut(), is_worthwhile);
            let Step::Wait(delay) = step else {
                return Some(retrying.conclude(answer));
            };
            elapsed += delay;
            self.waited += delay;
            sleeper.sleep(delay);
            sending.attempt += 1;
        }
    }

    /// The budget, if the harness has one, and what it has counted.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// The stopping rule, if the harness has one, and what it has counted.
    pub fn stopping_rule(&self) -> Option<&StoppingRule> {
        self.stopping.as_ref()
    }

    /// The sum of the waits so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// What a stopping rule knows a call by: a read and a refund of one intent are two calls.
fn name(call: &ToolCall) -> String {
    match call.action {
        Action::GetOrder => format!("get_order:{}", call.order),
        Action::Refund(_) => call.intent.clone(),
    }
}

fn send(
    call: &ToolCall,
    key: Key,
    sending: Sending,
    bank: &mut (impl Payments + ?Sized),
) -> Answer {
    match call.action {
        Action::GetOrder => bank.get_order(&call.order).map(Reply::Order),
        Action::Refund(amount) => {
            let key = key.of(call, sending);
            bank.refund(&call.order, amount, key.as_deref()).map(Reply::Refunded)
        }
    }
}

/// Who waits when a harness says so.
pub trait Sleeper {
    /// Waits, or not, as long as `delay`, in the harness's time.
    fn sleep(&mut self, delay: Duration);
}

/// Virtual time: nobody waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualTime;

impl Sleeper for VirtualTime {
    fn sleep(&mut self, _: Duration) {}
}

/// What a program left when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the agent says it did.
    pub report: String,
    /// Turns of the agent: its batches, and the report.
    pub agent_calls: u32,
    /// The sum of the waits, in the harness's time.
    pub waited: Duration,
}

/// Runs the agent of a design on `ticket` in the design's harness, up to its report.
///
/// # Determinism
///
/// The calls follow from the ticket, the design and the bank's answers; `seed` moves nothing but the waits.
pub fn run(
    design: Design,
    ticket: &Ticket,
    bank: &mut (impl Payments + ?Sized),
    sleeper: &mut (impl Sleeper + ?Sized),
    seed: Seed,
) -> Outcome {
    let mut agent = Agent::new(design.manner(), ticket);
    run_in(&mut Harness::new(design, seed), &mut agent, bank, sleeper)
}

/// As [`run`], for an agent and a harness of the caller's making; the harness tells afterwards what its rules
/// have counted.
pub fn run_in(
    harness: &mut Harness,
    agent: &mut Agent,
    bank: &mut (impl Payments + ?Sized),
    sleeper: &mut (impl Sleeper + ?Sized),
) -> Outcome {
    let mut agent_calls = 0;
    loop {
        agent_calls += 1;
        match agent.turn() {
            Turn::Calls(calls) => {
                for call in &calls {
                    let answer = harness.call(call, bank, sleeper);
                    agent.answered(call, &answer);
                }
            }
            Turn::Report(report) => {
                return Outcome { report, agent_calls, waited: harness.waited() };
            }
        }
    }
}
