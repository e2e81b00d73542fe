//! A bank for threads, and for tasks.
//!
//! Whoever uses the bank under its lock wakes, on giving it back, those that wait for something in it.
//! Waiting is written with the standard library's wakers alone, so the core needs no runtime.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use super::{Arrival, Bank, Pending};
use crate::{
    call::{Answer, CallError, OrderState, Payments, Refunded, Reply, Request, Sent},
    money::Amount,
};

/// A [`Bank`] behind a lock; clones are the same bank.
///
/// # Examples
///
/// ```
/// use badbank::{Bank, SharedBank, Ticket, fault::Plan};
///
/// let ticket = Ticket::generate(7);
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm()));
/// std::thread::scope(|scope| {
///     for order in ticket.orders() {
///         let bank = bank.clone();
///         scope.spawn(move || bank.lock().refund(order.id(), order.amount(), None).is_ok());
///     }
/// });
/// assert_eq!(bank.lock().grade("").extra_refunds(), 0);
/// ```
///
/// # Determinism
///
/// Threads that work on different orders change neither faults, nor fault log, nor grade.
#[derive(Clone, Debug)]
pub struct SharedBank {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    bank: Bank,
    /// Those that wait for a call under way to finish.
    waiting: Vec<Waker>,
}

/// What else is to be done when a call has finished.
type Conclude = fn(&mut Bank, &Sent);

impl Shared {
    fn wake_later(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }
}

impl SharedBank {
    /// Puts a bank behind a lock.
    pub fn new(bank: Bank) -> Self {
        Self { shared: Arc::new(Mutex::new(Shared { bank, waiting: Vec::new() })) }
    }

    /// The bank, for as long as the guard lives. Whatever is done to it, those that wait for it are woken.
    pub fn lock(&self) -> BankGuard<'_> {
        BankGuard { shared: Some(self.shared()) }
    }

    /// Takes a call in and answers it; waits where the first refund under its key is not finished.
    ///
    /// # Errors
    ///
    /// As the bank answers.
    pub fn call(&self, request: &Request<'_>) -> Answer {
        let finished = self.take_in(request);
        finished.unwrap_or_else(|pending| self.wait_and(pending, Bank::delivered)).received()
    }

    /// Takes a call in and answers it, if it need not wait, under one hold of the lock.
    fn take_in(&self, request: &Request<'_>) -> Result<Sent, Pending> {
        let mut bank = self.lock();
        let sent = match bank.arrive(request) {
            Arrival::Answered(sent) => sent,
            Arrival::Pending(pending) => bank.finish(pending)?,
        };
        bank.delivered(&sent);
        Ok(sent)
    }

    /// Takes a call in, as [`Bank::arrive`] does, and leaves it under way.
    pub fn arrive(&self, request: &Request<'_>) -> Arrival {
        self.lock().arrive(request)
    }

    /// Finishes a call that is under way, and wakes the calls that wait for it.
    ///
    /// # Errors
    ///
    /// Gives the call back if it waits for the first refund under its key, which is not finished.
    pub fn finish(&self, pending: Pending) -> Result<Sent, Pending> {
        self.lock().finish(pending)
    }

    /// As [`finish`](Self::finish), after another thread has finished the first refund under its key if need be.
    pub fn wait(&self, pending: Pending) -> Sent {
        self.wait_and(pending, |_, _| ())
    }

    fn wait_and(&self, pending: Pending, conclude: Conclude) -> Sent {
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        let mut pending = Some(pending);
        loop {
            let mut context = Context::from_waker(&waker);
            match self.poll_finish_and(&mut pending, &mut context, conclude) {
                Poll::Ready(sent) => return sent,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// As [`Bank::finish`], for a task, which is woken when it is worth trying again.
    ///
    /// # Panics
    ///
    /// If `pending` is empty, as it is once the call has finished.
    pub fn poll_finish(
        &self,
        pending: &mut Option<Pending>,
        context: &mut Context<'_>,
    ) -> Poll<Sent> {
        self.poll_finish_and(pending, context, |_, _| ())
    }

    /// Finishes a call, and does the rest under the same hold of the lock.
    fn poll_finish_and(
        &self,
        pending: &mut Option<Pending>,
        context: &mut Context<'_>,
        conclude: Conclude,
    ) -> Poll<Sent> {
        // Not the public guard: whoever has to wait has changed nothing that others wait for.
        let mut shared = self.shared();
        let call = pending.take().expect("a call that has finished is not polled again");
        match shared.bank.finish(call) {
            Ok(sent) => {
                conclude(&mut shared.bank, &sent);
                drop(BankGuard { shared: Some(shared) });
                Poll::Ready(sent)
            }
            Err(again) => {
                *pending = Some(again);
                shared.wake_later(context);
                Poll::Pending
            }
        }
    }

    /// Ready when a call that waits is [decided](Bank::is_decided), for a task, which is woken when it is worth asking
    /// again.
    pub fn poll_decided(&self, pending: &Pending, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.shared();
        if shared.bank.is_decided(pending) {
            return Poll::Ready(());
        }
        shared.wake_later(context);
        Poll::Pending
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // A thread that panicked in between left no half-done call: the bank's steps do not unwind.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bank behind a [`SharedBank`], while it is locked.
#[derive(Debug)]
pub struct BankGuard<'a> {
    /// There until the guard is dropped.
    shared: Option<MutexGuard<'a, Shared>>,
}

impl Deref for BankGuard<'_> {
    type Target = Bank;

    fn deref(&self) -> &Bank {
        &self.shared.as_ref().expect("a guard holds the lock for as long as it lives").bank
    }
}

impl DerefMut for BankGuard<'_> {
    fn deref_mut(&mut self) -> &mut Bank {
        &mut self.shared.as_mut().expect("a guard holds the lock for as long as it lives").bank
    }
}

impl Drop for BankGuard<'_> {
    fn drop(&mut self) {
        let waiting = self.shared.as_mut().map(|shared| std::mem::take(&mut shared.waiting));
        // Given back first: whoever is woken finds the bank free.
        self.shared = None;
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// A thread that is parked until it is woken.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Payments for SharedBank {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        match self.call(&Request::get_order(order))? {
            Reply::Order(state) => Ok(state),
            Reply::Refunded(_) => unreachable!("a read is answered with an order"),
        }
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        match self.call(&Request::refund(order, amount.into(), key))? {
            Reply::Refunded(refunded) => Ok(refunded),
            Reply::Order(_) => unreachable!("a refund is answered with a refund"),
        }
    }
}
