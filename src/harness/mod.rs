//! What stands between an agent and the bank: retries, backoff and keys.
//!
//! Everything here is a plain state machine without I/O or a clock. [`run`] drives a whole program on
//! virtual time: waits are counted, and a [`Sleeper`] decides whether anybody really waits. A harness sees
//! nothing but a [`Payments`] service; that faults exist, it learns from their errors.

mod backoff;
mod design;
mod retry;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::{
    backoff::{Backoff, Jitter},
    design::{Design, DesignError},
    retry::{Retry, Retrying, Step},
};
use crate::{
    Seed, Ticket,
    agent::{Action, Careful, ToolCall, Turn},
    call::{Answer, Payments, Reply},
};

/// Sends an agent's calls in the way of one [`Design`].
#[derive(Clone, Debug)]
pub struct Harness {
    design: Design,
    seed: Seed,
    waited: Duration,
}

impl Harness {
    /// A harness that has not sent anything; its waits follow from `seed`.
    pub fn new(design: Design, seed: Seed) -> Self {
        Self { design, seed, waited: Duration::ZERO }
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
        // One key for all attempts: the bank sees one intent, however often it arrives.
        let key = self.design.key(call);
        let mut retrying = self.design.retry().begin(self.seed, call.id.number());
        loop {
            let answer = send(call, key.as_deref(), bank);
            match retrying.next(&answer) {
                Step::Stop => return retrying.conclude(answer),
                Step::Wait(delay) => {
                    self.waited += delay;
                    sleeper.sleep(delay);
                }
            }
        }
    }

    /// The sum of the waits so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

fn send(call: &ToolCall, key: Option<&str>, bank: &mut (impl Payments + ?Sized)) -> Answer {
    match call.action {
        Action::GetOrder => bank.get_order(&call.order).map(Reply::Order),
        Action::Refund(amount) => bank.refund(&call.order, amount, key).map(Reply::Refunded),
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

/// Runs the [`Careful`] agent on `ticket` in a harness of the given design, up to its report.
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
    let mut agent = Careful::new(ticket);
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
