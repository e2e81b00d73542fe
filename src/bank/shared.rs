//! A bank for threads.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bank: Mutex<Bank>,
    /// Told when a call may have finished that others wait for.
    finished: Condvar,
    /// Threads that wait for that; changed only under the lock.
    waiting: AtomicUsize,
}

impl SharedBank {
    /// Puts a bank behind a lock.
    pub fn new(bank: Bank) -> Self {
        let (bank, finished) = (Mutex::new(bank), Condvar::new());
        Self { shared: Arc::new(Shared { bank, finished, waiting: AtomicUsize::new(0) }) }
    }

    /// The bank, for as long as the guard lives. Whatever is done to it, those that wait for it are woken.
    pub fn lock(&self) -> BankGuard<'_> {
        // A thread that panicked in between left no half-done call: the bank's steps do not unwind.
        let bank = self.shared.bank.lock().unwrap_or_else(PoisonError::into_inner);
        BankGuard { bank, wake: Wake(&self.shared) }
    }

    /// Takes a call in and answers it under one hold of the lock; waits only where the first refund under its
    /// key is not finished.
    ///
    /// # Errors
    ///
    /// As the bank answers.
    pub fn call(&self, request: &Request<'_>) -> Answer {
        let mut bank = self.lock();
        match bank.arrive(request) {
            Arrival::Answered(sent) => sent.received(),
            Arrival::Pending(pending) => bank.wait(pending).received(),
        }
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
        self.lock().wait(pending)
    }
}

/// The bank of a [`SharedBank`], for one thread at a time.
#[derive(Debug)]
pub struct BankGuard<'a> {
    bank: MutexGuard<'a, Bank>,
    /// Dropped after the lock: those that are woken find it free.
    wake: Wake<'a>,
}

/// Wakes those that wait for a call when it is dropped.
#[derive(Debug)]
struct Wake<'a>(&'a Shared);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        if self.0.waiting.load(Relaxed) > 0 {
            self.0.finished.notify_all();
        }
    }
}

impl BankGuard<'_> {
    fn wait(self, mut pending: Pending) -> Sent {
        let Self { wake, mut bank } = self;
        let Wake(Shared { finished, waiting, .. }) = wake;
        loop {
            match bank.finish(pending) {
                Ok(sent) => return sent,
                Err(again) => pending = again,
            }
            waiting.fetch_add(1, Relaxed);
            bank = finished.wait(bank).unwrap_or_else(PoisonError::into_inner);
            waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl Deref for BankGuard<'_> {
    type Target = Bank;

    fn deref(&self) -> &Bank {
        &self.bank
    }
}

impl DerefMut for BankGuard<'_> {
    fn deref_mut(&mut self) -> &mut Bank {
        &mut self.bank
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
