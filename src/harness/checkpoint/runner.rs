//! Drives a program through its lives.

use super::{Checkpoint, CheckpointError, Crash, Moment, Recovery, Store};
use crate::{
    Seed, Ticket,
    agent::{Manner, Turn},
    call::{Answer, CallError, Payments},
    harness::{Harness, Key, Outcome, Retry, Sleeper},
};

/// An agent, and how its calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// How the agent goes about its work.
    pub manner: Manner,
    /// How often a call is sent.
    pub retry: Retry,
    /// What the keys of refunds are made of.
    pub key: Key,
    /// How it is taken up again after it died.
    pub recovery: Recovery,
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a program that died is to be started again"]
pub enum Ending {
    /// With the report; the outcome counts the agent's turns and the waits of all lives.
    Reported(Outcome),
    /// Where the crash has it.
    Crashed,
}

/// Runs a program that may die: each [`run`](Self::run) is the life of one process.
///
/// # Examples
///
/// The process dies when the refund was paid and answered, and before that was saved. From its last checkpoint it
/// would pay again; with the calls written ahead it sends the same call, which the bank recognizes:
///
/// ```
/// use badbank::{Bank, Ticket, Seed, fault::Plan};
/// use badbank::agent::Manner;
/// use badbank::harness::{Key, Retry, VirtualTime};
/// use badbank::harness::checkpoint::{Crash, Ending, MemoryStore, Moment, Program, Recovery, Runner};
///
/// let ticket = Ticket::generate(7);
/// for (recovery, extra_refunds) in [(Recovery::Stale, 8), (Recovery::WriteAhead, 0)] {
///     let program =
///         Program { manner: Manner::Careful, retry: Retry::default(), key: Key::CallId, recovery };
///     let mut runner = Runner::new(program, &ticket, MemoryStore::default(), Seed::new(7));
///     let mut bank = Bank::open(&ticket, Plan::calm());
///     let crash = Crash { step: 2, moment: Moment::AfterReply };
///     assert_eq!(runner.run(&mut bank, &mut VirtualTime, Some(crash))?, Ending::Crashed);
///     bank.crash();
///     let Ending::Reported(outcome) = runner.run(&mut bank, &mut VirtualTime, None)? else { unreachable!() };
///     assert_eq!(bank.grade(&outcome.report).extra_refunds(), extra_refunds);
/// }
/// # Ok::<(), badbank::harness::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Runner<'a, S> {
    program: Program,
    ticket: &'a Ticket,
    store: S,
    harness: Harness,
    lives: u32,
    agent_calls: u32,
}

impl<'a, S: Store> Runner<'a, S> {
    /// A program that has not been started yet; its waits follow from `seed`.
    pub fn new(program: Program, ticket: &'a Ticket, store: S, seed: Seed) -> Self {
        let harness = Harness::with(program.retry, program.key, seed);
        Self { program, ticket, store, harness, lives: 0, agent_calls: 0 }
    }

    /// The program as one that was started so often before, in other processes; those that the store tells of need
    /// not be counted here.
    #[must_use]
    pub fn after_lives(self, lives: u32) -> Self {
        Self { lives, ..self }
    }

    /// Starts the program, and runs it up to its report or its death.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if a checkpoint cannot be saved, or the saved one cannot be gone on from; nobody knows then
    /// how often the program was started, so that [`Recovery::Restart`] is refused, too.
    ///
    /// # Determinism
    ///
    /// The calls follow from the ticket, the program, what is saved, the crash and the bank's answers.
    pub fn run(
        &mut self,
        bank: &mut (impl Payments + ?Sized),
        sleeper: &mut (impl Sleeper + ?Sized),
        crash: Option<Crash>,
    ) -> Result<Ending, CheckpointError> {
        let mut state = self.start()?;
        self.save(&state)?;
        loop {
            let step = state.steps.saturating_add(1);
            let dies = |moment| crash == Some(Crash { step, moment });
            if state.pending.is_empty() {
                self.agent_calls += 1;
                match state.agent.turn() {
                    Turn::Calls(calls) => state.pending = calls,
                    Turn::Report(_) if dies(Moment::BeforeSending) => return Ok(Ending::Crashed),
                    Turn::Report(report) => return Ok(Ending::Reported(self.outcome(report))),
                }
                if self.program.recovery == Recovery::WriteAhead {
                    self.save(&state)?;
                }
            }
            if dies(Moment::BeforeSending) || dies(Moment::AfterCommit { calls: 0 }) {
                return Ok(Ending::Crashed);
            }
            let last = crash.and_then(|crash| crash.last_call(step, state.pending.len()));
            for (number, call) in (1..).zip(std::mem::take(&mut state.pending)) {
                let is_deadly = |answer: &Answer| {
                    last.is_some_and(|last| number >= last) && may_have_been_executed(answer)
                };
                let answer = self.harness.call_or_die(&call, bank, sleeper, is_deadly);
                let Some(answer) = answer else { return Ok(Ending::Crashed) };
                state.agent.answered(&call, &answer);
            }
            state.steps = step;
            if dies(Moment::AfterReply) {
                return Ok(Ending::Crashed);
            }
            self.save(&state)?;
            if dies(Moment::AfterSave) {
                return Ok(Ending::Crashed);
            }
        }
    }

    /// The turns of the agent in all lives so far.
    pub fn agent_calls(&self) -> u32 {
        self.agent_calls
    }

    /// Begins a life with what is left of the one before.
    fn start(&mut self) -> Result<Checkpoint, CheckpointError> {
        let saved =
            self.store.load()?.map(|text| Checkpoint::parse(&text, self.ticket)).transpose()?;
        let saved_life = saved.as_ref().map_or(0, |checkpoint| checkpoint.agent.life());
        self.lives = self.lives.max(saved_life).saturating_add(1);
        self.harness.begin_life(self.lives);
        let mut state = match saved {
            Some(checkpoint) if self.program.recovery != Recovery::Restart => checkpoint,
            _ => Checkpoint::new(self.program.manner, self.ticket),
        };
        // Only what it writes from now on has new ids; what was saved keeps its own.
        state.agent.begin_life(self.lives);
        Ok(state)
    }

    fn save(&mut self, state: &Checkpoint) -> Result<(), CheckpointError> {
        self.store.save(&state.to_json())
    }

    fn outcome(&self, report: String) -> Outcome {
        Outcome { report, agent_calls: self.agent_calls, waited: self.harness.waited() }
    }
}

impl Crash {
    /// The number, from 1, of the call of a step after whose commit it dies.
    fn last_call(self, step: u32, calls_max: usize) -> Option<usize> {
        match self.moment {
            Moment::AfterCommit { calls } if self.step == step => {
                Some(calls_max.min(calls as usize))
            }
            _ => None,
        }
    }
}

/// Whether an attempt with this answer was executed, as far as can be seen from outside.
fn may_have_been_executed(answer: &Answer) -> bool {
    answer.as_ref().err().is_none_or(CallError::is_indeterminate)
}
