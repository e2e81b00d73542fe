//! The runs of a server: each a bank of its own behind one lock, with a clock.
//!
//! A call arrives and, without latency, finishes under one hold of the lock: nothing is awaited between
//! the decision and the commit. With latency its work is a task of its own, which outlives its client; of a call
//! that is delivered twice at once, each delivery is one. What waits for another call has no latency of its own.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::outgoing::Outgoing;
use crate::{
    bank::{Arrival, Bank, Pending},
    call::{CallError, Request, Sent},
    fault::{Plan, PlanSettings},
    ticket::Ticket,
};

/// The runs of a server, by number; they share nothing.
pub(super) struct Runs {
    /// The data plane's URL, without a slash at its end.
    base: String,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    opened: u64,
    runs: BTreeMap<u64, Arc<Run>>,
}

impl Runs {
    pub(super) fn new(base: String) -> Self {
        Self { base, registry: Mutex::default() }
    }

    /// The data plane's URL, without a slash at its end.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The base URL of a run.
    pub(super) fn url(&self, id: u64) -> String {
        format!("{}/runs/{id}", self.base)
    }

    /// Opens a run under the next number.
    pub(super) fn open(&self, ticket: &Ticket, plan: Plan) -> Arc<Run> {
        let mut registry = self.registry();
        registry.opened += 1;
        let id = registry.opened;
        let run = Arc::new(Run::new(id, Bank::open(ticket, plan)));
        registry.runs.insert(id, Arc::clone(&run));
        run
    }

    /// The run that a path names.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Run>> {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('0');
        let id = name.parse().ok().filter(|_| is_plain)?;
        self.get(id)
    }

    fn get(&self, id: u64) -> Option<Arc<Run>> {
        self.registry().runs.get(&id).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<Run>> {
        self.registry().runs.values().cloned().collect()
    }

    /// Forgets a run; calls under way still get their answers.
    pub(super) fn remove(&self, run: &Run) {
        self.registry().runs.remove(&run.id);
    }

    /// Puts a fresh bank of the same ticket and plan in the place of a run's; calls under way go on in the
    /// old one.
    pub(super) fn reset(&self, run: &Run) {
        let fresh = run.with_bank(|bank| Bank::open(bank.ticket(), bank.plan().clone()));
        let fresh = Arc::new(Run::new(run.id, fresh));
        // It may have been deleted meanwhile.
        if let Some(place) = self.registry().runs.get_mut(&run.id) {
            *place = fresh;
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One ticket × plan × seed × program under test.
pub(super) struct Run {
    id: u64,
    books: Mutex<Books>,
    /// Told whenever a call has finished that another may wait for.
    finished: Notify,
    /// Told when latencies may be over before their time: the clock was moved on, or the run has ended.
    hurried: Notify,
}

struct Books {
    bank: Bank,
    /// When the run's clock stood at 0.
    opened: Instant,
    /// What the control plane has added to the clock.
    added: Duration,
    /// Calls that have arrived and are not collected yet.
    under_way: usize,
}

/// How a call was taken in.
enum Taken {
    Answered(Sent),
    /// To the caller as if it were under way until then on the run's clock, though nothing is.
    Withheld(Sent, Duration),
    /// Until then on the run's clock, at the least.
    UnderWay(Pending, Duration),
}

impl Run {
    fn new(id: u64, bank: Bank) -> Self {
        let books = Books { bank, opened: Instant::now(), added: Duration::ZERO, under_way: 0 };
        Self { id, books: Mutex::new(books), finished: Notify::new(), hurried: Notify::new() }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Uses the bank, and wakes the calls that may have become ready by it.
    pub(super) fn with_bank<T>(&self, use_bank: impl FnOnce(&mut Bank) -> T) -> T {
        let (result, has_ended) = {
            let bank = &mut self.books().bank;
            (use_bank(bank), bank.has_ended())
        };
        self.finished.notify_waiters();
        if has_ended {
            self.hurried.notify_waiters();
        }
        result
    }

    /// Where the run's clock stands.
    pub(super) fn now(&self) -> Duration {
        self.books().now()
    }

    /// Moves the clock on; returns where it stands.
    pub(super) fn advance(&self, by: Duration) -> u64 {
        {
            let mut books = self.books();
            books.added = books.added.saturating_add(by);
        }
        self.hurried.notify_waiters();
        self.books().bank.now_ms()
    }

    /// Makes a call; says also how the bank behaves.
    pub(super) async fn call(self: &Arc<Self>, request: &Request<'_>) -> (Outgoing, PlanSettings) {
        let (taken, settings) = self.take_in(request);
        let slow = Duration::from_millis(settings.slow_ms);
        let outgoing = match taken {
            Taken::Answered(sent) => Outgoing::new(self, sent, slow),
            Taken::Withheld(sent, due) => {
                let latency = Duration::from_millis(settings.latency_ms);
                let outgoing = Outgoing::new(self, sent, latency.saturating_add(slow));
                self.wait_until(due).await;
                outgoing
            }
            Taken::UnderWay(pending, due) => {
                let (sender, receiver) = oneshot::channel();
                tokio::spawn(Arc::clone(self).carry_out(pending, due, slow, sender));
                // The task is dropped unfinished only with the whole runtime, and this one with it.
                let lost =
                    |_| Outgoing { sent: Sent::whole(Err(CallError::Timeout)), witness: None };
                receiver.await.unwrap_or_else(lost)
            }
        };
        (outgoing, settings)
    }

    fn take_in(&self, request: &Request<'_>) -> (Taken, PlanSettings) {
        let mut books = self.books();
        let settings = *books.bank.plan().settings();
        let latency = Duration::from_millis(settings.latency_ms);
        if latency.is_zero() && books.under_way == 0 {
            // There is nobody to wait for, so the bank need not keep the call.
            let sent = books.bank.send(request);
            return (Taken::Answered(sent), settings);
        }
        let due = books.now().saturating_add(latency);
        let taken = match books.bank.arrive(request) {
            // What has not happened must not be told from what may have, not by time either.
            Arrival::Answered(sent) if !latency.is_zero() && is_indeterminate(&sent) => {
                Taken::Withheld(sent, due)
            }
            Arrival::Answered(sent) => Taken::Answered(sent),
            Arrival::Pending(pending) if latency.is_zero() => {
                let finished = books.bank.finish(pending);
                finished.map_or_else(|pending| Taken::UnderWay(pending, due), Taken::Answered)
            }
            Arrival::Pending(pending) => Taken::UnderWay(pending, due),
        };
        if matches!(taken, Taken::UnderWay(..)) {
            books.under_way += 1;
        }
        (taken, settings)
    }

    /// Finishes a call when it is due, whether its client is still there or not.
    async fn carry_out(
        self: Arc<Self>,
        mut pending: Pending,
        due: Duration,
        slow: Duration,
        client: oneshot::Sender<Outgoing>,
    ) {
        if pending.is_doubled() {
            let is_waiting = pending.is_waiting();
            let first = tokio::spawn(Arc::clone(&self).carry_out_first(pending, due));
            if !is_waiting {
                self.wait_until(due).await;
            }
            // Whichever of the two wakes first, the second delivery finishes after the first.
            let Ok(again) = first.await else { return };
            pending = again;
        } else {
            self.wait_until_due(&pending, due).await;
        }
        let finish = |books: &mut Books, pending| books.finish(pending, client.is_closed());
        let sent = self.as_soon_as_possible(pending, finish).await;
        let _left = client.send(Outgoing::new(&self, sent, slow));
    }

    /// Finishes the first of two deliveries when it is due.
    async fn carry_out_first(self: Arc<Self>, pending: Pending, due: Duration) -> Pending {
        self.wait_until_due(&pending, due).await;
        self.as_soon_as_possible(pending, |books, pending| {
            if books.bank.finish_first(&pending) { Ok(pending) } else { Err(pending) }
        })
        .await
    }

    /// Tries a step, and again whenever another call has finished that it may wait for.
    async fn as_soon_as_possible<T>(
        &self,
        mut pending: Pending,
        step: impl Fn(&mut Books, Pending) -> Result<T, Pending>,
    ) -> T {
        loop {
            // Taken before the attempt, so that no finish in between is missed.
            let finished = self.finished.notified();
            let attempt = step(&mut self.books(), pending);
            match attempt {
                Ok(done) => {
                    self.finished.notify_waiters();
                    return done;
                }
                Err(again) => pending = again,
            }
            finished.await;
        }
    }

    /// Waits until the latency of a call is over; what waits for another call has none.
    async fn wait_until_due(&self, pending: &Pending, due: Duration) {
        if !pending.is_waiting() {
            return self.wait_until(due).await;
        }
        tokio::select! {
            () = self.wait_until(due) => {}
            () = self.wait_until_decided(pending) => {}
        }
    }

    async fn wait_until_decided(&self, pending: &Pending) {
        loop {
            // Taken before the look at the bank, so that no finish in between is missed.
            let finished = self.finished.notified();
            if self.books().bank.is_decided(pending) {
                return;
            }
            finished.await;
        }
    }

    /// Waits until a time on the run's clock, or until the run ends.
    pub(super) async fn wait_until(&self, due: Duration) {
        loop {
            // Taken before the look at the clock, so that no move in between is missed.
            let hurried = self.hurried.notified();
            let left = {
                let books = self.books();
                if books.bank.has_ended() { Duration::ZERO } else { books.left_until(due) }
            };
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = hurried => {}
            }
        }
    }

    /// The bank, its clock set to now. The only place where a run reads the time.
    fn books(&self) -> MutexGuard<'_, Books> {
        // A step of the bank that panicked must not take the other runs' tools with it.
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = books.now().saturating_sub(Duration::from_millis(books.bank.now_ms()));
        books.bank.advance(behind);
        books
    }
}

impl Books {
    /// Where the run's clock stands.
    fn now(&self) -> Duration {
        self.opened.elapsed().saturating_add(self.added)
    }

    fn left_until(&self, due: Duration) -> Duration {
        due.saturating_sub(self.now())
    }

    fn finish(&mut self, pending: Pending, has_left: bool) -> Result<Sent, Pending> {
        if has_left {
            self.bank.leave(&pending);
        }
        let finished = self.bank.finish(pending);
        self.under_way -= usize::from(finished.is_ok());
        finished
    }
}

fn is_indeterminate(sent: &Sent) -> bool {
    sent.answer.as_ref().is_err_and(CallError::is_indeterminate)
}

/// A run of a server, for the program that serves it; clones are the same run.
#[derive(Clone)]
pub struct RunHandle {
    runs: Arc<Runs>,
    run: Arc<Run>,
}

impl RunHandle {
    pub(super) fn new(runs: Arc<Runs>, run: Arc<Run>) -> Self {
        Self { runs, run }
    }

    /// Number of the run, from 1.
    pub fn id(&self) -> u64 {
        self.run.id
    }

    /// The run's base URL on the data plane.
    pub fn url(&self) -> String {
        self.runs.url(self.run.id)
    }

    /// Uses the run's bank; calls wait meanwhile, so be brief.
    ///
    /// After a reset by the control plane this is the fresh bank; after a deletion, still the last one.
    pub fn with_bank<T>(&self, use_bank: impl FnOnce(&mut Bank) -> T) -> T {
        let current = self.runs.get(self.run.id);
        current.as_ref().unwrap_or(&self.run).with_bank(use_bank)
    }

    /// Forgets the run, so that a server may make many of them; calls under way still get their answers.
    pub fn close(&self) {
        self.runs.remove(&self.run);
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("url", &self.url()).finish_non_exhaustive()
    }
}
