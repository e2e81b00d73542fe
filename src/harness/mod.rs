//! What stands between an agent and the bank: retries, backoff and keys.
//!
//! Everything here is a plain state machine without a clock and, but for the file of a
//! [`checkpoint::FileStore`], without I/O. [`run`] drives a whole program on virtual time: waits are counted, and a
//! [`Sleeper`] decides whether anybody really waits. A [`checkpoint::Runner`] does so for a program that may die and
//! is started again. A harness sees nothing but a [`Payments`] service; that faults exist, it learns from their
//! errors.

mod backoff;
pub mod checkpoint;
mod design;
mod key;
mod retry;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::{
    backoff::{Backoff, Jitter},
    design::{Design, DesignError},
    key::{Key, KeyKindError, Sending},
    retry::{Retry, Retrying, Step},
};
use crate::{
    Seed, Ticket,
    agent::{Action, Agent, ToolCall, Turn},
    call::{Answer, Payments, Reply},
};

/// Sends an agent's calls: how often, and under which keys.
#[derive(Clone, Debug)]
pub struct Harness {
    retry: Retry,
    key: Key,
    seed: Seed,
    life: u32,
    waited: Duration,
}

impl Harness {
    /// The harness of a design that has not sent anything; its waits follow from `seed`.
    pub fn new(design: Design, seed: Seed) -> Self {
        Self::with(design.retry(), design.key(), seed)
    }

    /// A harness of these parts that has not sent anything; its waits follow from `seed`.
    pub fn with(retry: Retry, key: Key, seed: Seed) -> Self {
        Self { retry, key, seed, life: 1, waited: Duration::ZERO }
    }

    /// Tells the harness which process it is in, from 1: it makes no fresh key that another life has made.
    pub fn begin_life(&mut self, life: u32) {
        self.life = life;
    }

    /// Sends `call` until it is answered or given up, one attempt after the other.
    ///
    /// # Errors
    ///
    /// The worst [`CallError`](crate::call::CallError) of all attempts, as [`Retrying::conclude`] has it.
    pub fn call(
        &mut self,
        call: &ToolCall,
        bank: &mut (impl Payments + ?Sized),
        sleeper: &mut (impl Sleeper + ?Sized),
    ) -> Answer {
        let mut retrying = self.retry.begin(self.seed, call.id.number());
        let mut sending = Sending { attempt: 1, life: self.life };
        loop {
            let answer = send(call, self.key, sending, bank);
            match retrying.next(&answer) {
                Step::Stop => return retrying.conclude(answer),
                Step::Wait(delay) => {
                    self.waited += delay;
                    sleeper.sleep(delay);
                    sending.attempt += 1;
                }
            }
        }
    }

    /// The sum of the waits so far.
    pub fn waited(&self) -> Duration {
        self.waited
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
    let mut harness = Harness::new(design, seed);
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
