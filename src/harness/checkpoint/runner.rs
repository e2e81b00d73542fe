//! Drives a program through its lives.

use super::{Checkpoint, CheckpointError, Crash, Moment, Recovery, Store};
use crate::{
    Seed, Ticket,
    agent::{Manner, ToolCall, Turn},
    call::Payments,
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

    /// The program as one that was started so often before, in other processes.
    #[must_use]
    pub fn after_lives(self, lives: u32) -> Self {
        Self { lives, ..self }
    }

    /// Starts the program, and runs it up to its report or its death.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if a checkpoint cannot be saved, or the saved one cannot be gone on from.
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
        loop {
            let step = state.steps + 1;
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
            if dies(Moment::BeforeSending) {
                return Ok(Ending::Crashed);
            }
            if let Some(calls) = crash.and_then(|crash| crash.unanswered(step)) {
                self.send_unheard(&state.pending, calls, bank, sleeper);
                return Ok(Ending::Crashed);
            }
            for call in std::mem::take(&mut state.pending) {
                let answer = self.harness.call(&call, bank, sleeper);
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
        self.lives += 1;
        self.harness.begin_life(self.lives);
        let saved = match self.program.recovery {
            Recovery::Restart => None,
            Recovery::Stale | Recovery::WriteAhead => self.store.load()?,
        };
        let mut state = match saved {
            Some(text) => Checkpoint::parse(&text, self.ticket)?,
            None => Checkpoint::new(self.program.manner, self.ticket),
        };
        // Only what it writes from now on has new ids; what was saved keeps its own.
        state.agent.begin_life(self.lives);
        Ok(state)
    }

    fn save(&mut self, state: &Checkpoint) -> Result<(), CheckpointError> {
        self.store.save(&state.to_json())
    }

    /// Sends the first calls of a batch, of whose answers nothing will be left.
    fn send_unheard(
        &mut self,
        pending: &[ToolCall],
        calls: u32,
        bank: &mut (impl Payments + ?Sized),
        sleeper: &mut (impl Sleeper + ?Sized),
    ) {
        for call in pending.iter().take(calls as usize) {
            let _unheard = self.harness.call(call, bank, sleeper);
        }
    }

    fn outcome(&self, report: String) -> Outcome {
        Outcome { report, agent_calls: self.agent_calls, waited: self.harness.waited() }
    }
}

impl Crash {
    /// How many calls of the step are sent without their answers being heard.
    fn unanswered(self, step: u32) -> Option<u32> {
        match self.moment {
            Moment::AfterCommit { calls } if self.step == step => Some(calls),
            _ => None,
        }
    }
}
