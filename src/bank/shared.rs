//! A bank for threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Arrival, Bank};
use crate::{
    call::{Answer, CallError, OrderState, Payments, Refunded, Reply, Request},
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
    /// Told whenever a call has finished.
    finished: Condvar,
}

impl SharedBank {
    /// Puts a bank behind a lock.
    pub fn new(bank: Bank) -> Self {
        Self { shared: Arc::new(Shared { bank: Mutex::new(bank), finished: Condvar::new() }) }
    }

    /// The bank, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Bank> {
        // A thread that panicked in between left no half-done call: the bank's steps do not unwind.
        self.shared.bank.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call in and answers it; waits where the first refund under its key is not finished.
    ///
    /// # Errors
    ///
    /// As the bank answers.
    pub fn call(&self, request: &Request<'_>) -> Answer {
        let mut bank = self.lock();
        let mut pending = match bank.arrive(request) {
            Arrival::Answered(sent) => return sent.received(),
            Arrival::Pending(pending) => pending,
        };
        loop {
            match bank.finish(pending) {
                Ok(sent) => {
                    self.shared.finished.notify_all();
                    return sent.received();
                }
                Err(again) => pending = again,
            }
            bank = self.shared.finished.wait(bank).unwrap_or_else(PoisonError::into_inner);
        }
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
