//! The bank: a ledger, an injector before it, and a history of what happened.
//!
//! A call **arrives** and **finishes**; [`Bank::call`] does both at once. Between the two lies whatever
//! the face that serves the bank makes of the plan's latency. The bank itself is synchronous, without
//! I/O, clock or lock; [`SharedBank`] is the same for threads.

mod answer;
mod delivery;
mod door;
mod later;
mod shared;
mod unheard;

use std::{collections::BTreeMap, time::Duration};

pub use self::shared::{BankGuard, SharedBank};
use self::{
    delivery::{Course, Failing, Told},
    later::Later,
    unheard::Unheard,
};
use crate::{
    call::{AmountInput, Answer, CallError, OrderState, Payments, Refunded, Reply, Request, Sent},
    fault::{FaultLog, Injector, Plan},
    grade::{Evidence, Grade},
    history::{Armed, EVENTS_MAX, Event, Header, History, PlanChange},
    ledger::Ledger,
    money::Amount,
    seed::Seed,
    ticket::Ticket,
};

/// A payments backend that fails on purpose.
///
/// # Examples
///
/// A harness that repeats a refund after a lost reply pays twice, and the grade says why:
///
/// ```
/// use badbank::{Bank, Ticket, call::CallError, fault::{Fault, Plan}};
///
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let mut bank = Bank::open(&ticket, Plan::calm().script(call, Fault::TIMEOUT)?);
///
/// let first = bank.refund(order.id(), order.amount(), None);
/// assert_eq!(first, Err(CallError::Timeout));
/// let second = bank.refund(order.id(), order.amount(), None)?;
/// assert_eq!(second.number, 2);
///
/// let grade = bank.grade("");
/// assert!(!grade.all_ok());
/// assert_eq!(grade.extra_refunds(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Determinism
///
/// Which call meets which fault follows from plan, seed and the call's identity; what the bank answers,
/// from that and from the order in which calls on the same order arrive and finish.
#[derive(Clone, Debug)]
pub struct Bank {
    plan: Plan,
    ledger: Ledger,
    injector: Injector,
    history: History,
    attempts: Vec<[u32; 2]>,
    open: BTreeMap<u64, Open>,
    /// Calls whose delivery is still out.
    late: Later<Course>,
    failing: Later<Failing>,
    /// Answers that are on their way, by number of their call.
    unheard: BTreeMap<u64, Unheard>,
    tokens: u64,
    now_ms: u64,
    has_ended: bool,
}

/// A call that was taken in and is not yet collected.
#[derive(Clone, Debug)]
enum Open {
    UnderWay(Course),
    Concluded(Sent),
}

/// What an arriving call leads to.
#[derive(Debug)]
pub enum Arrival {
    /// It is answered.
    Answered(Sent),
    /// It is under way until it is finished.
    Pending(Pending),
}

/// A call that is under way.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a call that is never finished is never answered"]
pub struct Pending {
    token: u64,
    is_doubled: bool,
    is_waiting: bool,
}

impl Pending {
    /// Whether it arrived twice, and [`Bank::finish_first`] can finish one of the deliveries before the other.
    pub const fn is_doubled(&self) -> bool {
        self.is_doubled
    }

    /// Whether it waits for the first refund under its key, and so has no latency of its own: it is due as soon as
    /// [`Bank::is_decided`] says so.
    pub const fn is_waiting(&self) -> bool {
        self.is_waiting
    }
}

/// Why a run keeps its plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanChangeError {
    /// The plan names another seed than the run's.
    #[error(
        "the plan names seed {named}, and the run has seed {seed}, which it keeps; leave the seed out, or open another run"
    )]
    OtherSeed {
        /// The seed that the plan names.
        named: Seed,
        /// The run's seed.
        seed: Seed,
    },
    /// The run is over.
    #[error("the run has ended; its plan stays as it was")]
    RunEnded,
}

impl Bank {
    /// A bank at the start of a run of `ticket` under `plan`.
    pub fn open(ticket: &Ticket, plan: Plan) -> Self {
        Self::with_events_max(ticket, plan, EVENTS_MAX)
    }

    /// As [`open`](Self::open), keeping at most `events_max` events of the history.
    ///
    /// Past the bound verdicts stay exact and the fault log is not cut; causes may be missing, and the
    /// grade says that its evidence is partial.
    pub fn with_events_max(ticket: &Ticket, plan: Plan, events_max: usize) -> Self {
        Self {
            ledger: Ledger::open(ticket, plan.settings().ledger()),
            injector: Injector::new(&plan, ticket.orders().iter().map(crate::ticket::Order::id)),
            history: History::new(Header::new(ticket, &plan), events_max),
            attempts: vec![[0; 2]; ticket.orders().len()],
            open: BTreeMap::new(),
            late: Later::default(),
            failing: Later::default(),
            unheard: BTreeMap::new(),
            tokens: 0,
            now_ms: 0,
            has_ended: false,
            plan,
        }
    }

    /// The task.
    pub fn ticket(&self) -> &Ticket {
        &self.history.header().ticket
    }

    /// The plan, as it is now.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What has happened.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The lines of the history that were not taken yet, to be written to a file while the run goes on.
    ///
    /// The first time these are the lines so far. From then on the bank holds the lines that come until they
    /// are taken, also those past [the bound](Self::with_events_max): what is written is whole.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::{Bank, Ticket, fault::Plan, grade::Grade, history::History};
    ///
    /// let ticket = Ticket::generate(7);
    /// // Of all that happens ten events are kept.
    /// let mut bank = Bank::with_events_max(&ticket, Plan::article().seed(7), 10);
    /// let mut file = bank.drain_history();
    /// for order in ticket.orders() {
    ///     let _paid_or_not = bank.refund(order.id(), order.amount(), None);
    ///     file += &bank.drain_history();
    /// }
    /// let grade = bank.grade("");
    /// file += &bank.drain_history();
    ///
    /// let recorded = Grade::of(&History::parse(&file)?.history, None);
    /// assert_eq!(recorded.extra_refunds(), grade.extra_refunds());
    /// // In the file is what the bank has forgotten.
    /// assert!(bank.history().is_cut() && !History::parse(&file)?.history.is_cut());
    /// # Ok::<(), badbank::DocumentError>(())
    /// ```
    pub fn drain_history(&mut self) -> String {
        self.history.drain()
    }

    /// The faulted calls so far.
    pub fn fault_log(&self) -> FaultLog {
        self.history.fault_log()
    }

    /// Whether the run is over.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Milliseconds on the run's clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Moves the run's clock on.
    pub fn advance(&mut self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.now_ms = self.now_ms.saturating_add(by);
    }

    /// Puts another plan in force, from the next call on.
    ///
    /// A run has one seed, under which its fault log replays: a plan that names none gets the run's.
    ///
    /// # Errors
    ///
    /// [`PlanChangeError`] if the plan names another seed, or the run has ended; the plan in force stays.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::{Bank, Ticket, fault::Plan};
    ///
    /// let ticket = Ticket::generate(7);
    /// let order = &ticket.orders()[0];
    /// let mut bank = Bank::open(&ticket, Plan::article().seed(7));
    /// bank.set_plan(Plan::calm())?;
    /// assert!(bank.set_plan(Plan::article().seed(8)).is_err());
    /// assert_eq!(bank.refund(order.id(), order.amount(), None)?.amount, order.amount());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_plan(&mut self, plan: Plan) -> Result<(), PlanChangeError> {
        if self.has_ended {
            return Err(PlanChangeError::RunEnded);
        }
        let seed = self.plan.effective_seed();
        if let Some(named) = plan.named_seed().filter(|named| *named != seed) {
            return Err(PlanChangeError::OtherSeed { named, seed });
        }
        let plan = plan.seed(seed);
        self.ledger.set_settings(plan.settings().ledger());
        self.injector =
            Injector::new(&plan, self.ticket().orders().iter().map(crate::ticket::Order::id));
        let armed = Armed::new(self.ticket(), &plan);
        self.history.note(Event::Plan(Box::new(PlanChange { settings: *plan.settings(), armed })));
        self.plan = plan;
        Ok(())
    }

    /// Writes down what the program under test reports; of several reports the last counts.
    pub fn report(&mut self, text: &str) {
        if !self.has_ended {
            self.history.note(Event::Report(text.into()));
        }
    }

    /// Writes down that the program under test died and was started again.
    pub fn crash(&mut self) {
        if !self.has_ended {
            self.history.note(Event::Crash);
        }
    }

    /// Reads an order and its refunds.
    ///
    /// # Errors
    ///
    /// [`CallError`] where a fault strikes, and for an order that the ticket lacks.
    pub fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        match self.call(&Request::get_order(order))? {
            Reply::Order(state) => Ok(state),
            Reply::Refunded(_) => unreachable!("a read is answered with an order"),
        }
    }

    /// Moves `amount` back to the buyer of `order`.
    ///
    /// # Errors
    ///
    /// [`CallError`] where a fault strikes, and for what the ledger refuses.
    pub fn refund<'a>(
        &mut self,
        order: &'a str,
        amount: impl Into<AmountInput<'a>>,
        key: Option<&'a str>,
    ) -> Result<Refunded, CallError> {
        match self.call(&Request::refund(order, amount.into(), key))? {
            Reply::Refunded(refunded) => Ok(refunded),
            Reply::Order(_) => unreachable!("a refund is answered with a refund"),
        }
    }

    /// Takes a call in and answers it at once.
    ///
    /// # Errors
    ///
    /// As the bank answers. A call that would have to wait for one that is still under way is told
    /// [`RefusalCode::InFlight`](crate::call::RefusalCode::InFlight), since nobody else could finish that one meanwhile.
    pub fn call(&mut self, request: &Request<'_>) -> Answer {
        let sent = self.send(request);
        self.delivered(&sent);
        sent.received()
    }

    /// As [`call`](Self::call), with what becomes of the answer on its way left to the face, which also says what
    /// became of a slow one: [`delivered`](Self::delivered) or [`abandoned`](Self::abandoned).
    pub fn send(&mut self, request: &Request<'_>) -> Sent {
        match self.begin(request) {
            Err(sent) => sent,
            Ok(mut course) => match self.proceed(&mut course) {
                Some(sent) => sent,
                None => self.give_up(course),
            },
        }
    }

    /// Takes a call in: numbers it, decides its fault, and lets its first delivery arrive.
    pub fn arrive(&mut self, request: &Request<'_>) -> Arrival {
        match self.begin(request) {
            Err(answer) => Arrival::Answered(answer),
            Ok(mut course) if course.is_ready() => match self.proceed(&mut course) {
                Some(answer) => Arrival::Answered(answer),
                None => Arrival::Pending(self.keep(course)),
            },
            Ok(course) => Arrival::Pending(self.keep(course)),
        }
    }

    /// Finishes a call that is under way; what becomes of its answer is left to the face, as by [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// Gives the call back if it waits for the first refund under its key, which is not finished.
    pub fn finish(&mut self, pending: Pending) -> Result<Sent, Pending> {
        match self.open.remove(&pending.token) {
            Some(Open::Concluded(answer)) => Ok(answer),
            Some(Open::UnderWay(mut course)) => self.proceed(&mut course).ok_or_else(|| {
                self.open.insert(pending.token, Open::UnderWay(course));
                pending
            }),
            None => unreachable!("a pending call is collected once"),
        }
    }

    /// Finishes the first of two deliveries that are under way; says whether nothing keeps it waiting.
    ///
    /// [`finish`](Self::finish) then finishes the second and answers the call. Between the two other calls may come.
    pub fn finish_first(&mut self, pending: &Pending) -> bool {
        let Some(Open::UnderWay(course)) = self.open.get(&pending.token) else {
            // The run has ended, which finished both.
            return true;
        };
        let mut course = course.clone();
        let has_finished = self.push_first(&mut course);
        self.open.insert(pending.token, Open::UnderWay(course));
        has_finished
    }

    /// Whether a call that waited has nothing left to execute: what it waited for has finished, and it is answered
    /// with that.
    pub fn is_decided(&self, pending: &Pending) -> bool {
        match self.open.get(&pending.token) {
            Some(Open::UnderWay(course)) => self.has_decided(course),
            // The run has ended.
            Some(Open::Concluded(_)) | None => true,
        }
    }

    /// Notes that whoever made a call has left: it goes on, and nobody will hear its answer.
    pub fn leave(&mut self, pending: &Pending) {
        if let Some(Open::UnderWay(course)) = self.open.get_mut(&pending.token) {
            course.told = Told::Left;
        }
    }

    /// Ends the run: what is under way finishes, nobody stays for what is on its way, and further calls are refused.
    pub fn settle(&mut self) {
        if self.has_ended {
            return;
        }
        self.finish_all();
        self.land_all();
        self.finish_all();
        self.fail_all();
        self.abandon_all();
        self.history.note(Event::Settle);
        self.has_ended = true;
    }

    /// Ends the run and grades it. A report that is not blank counts as the last, also of a run that is over, whose
    /// history stays as it is.
    pub fn grade(&mut self, report: &str) -> Grade {
        let report = Some(report).filter(|report| !report.trim().is_empty());
        if let Some(report) = report {
            self.report(report);
        }
        self.settle();
        let held = self.ledger.accounts().iter().map(|account| account.held().collect());
        Evidence::of_run(&self.history, held.collect(), &self.attempts).grade(report)
    }

    /// The grade of a settled copy; the run goes on.
    pub fn preview(&self) -> Grade {
        self.clone().grade("")
    }

    fn keep(&mut self, course: Course) -> Pending {
        self.tokens += 1;
        let (is_doubled, is_waiting) = (course.is_doubled(), course.is_waiting());
        let pending = Pending { token: self.tokens, is_doubled, is_waiting };
        self.open.insert(pending.token, Open::UnderWay(course));
        pending
    }

    /// Finishes everything that is under way, those that wait after those that they wait for.
    fn finish_all(&mut self) {
        let mut has_progressed = true;
        while has_progressed {
            has_progressed = false;
            let tokens: Vec<u64> = self.open.keys().copied().collect();
            for token in tokens {
                let Some(Open::UnderWay(course)) = self.open.get_mut(&token) else {
                    continue;
                };
                let mut course = course.clone();
                let state = match self.proceed(&mut course) {
                    Some(answer) => Open::Concluded(answer),
                    None => Open::UnderWay(course),
                };
                has_progressed |= matches!(state, Open::Concluded(_));
                self.open.insert(token, state);
            }
        }
    }
}

impl Payments for Bank {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        Self::get_order(self, order)
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        Self::refund(self, order, amount, key)
    }
}
