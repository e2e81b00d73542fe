//! Parts of the [`harness`](crate::harness) as layers, for a client that is a tower service.
//!
//! The layers are glue: they hold a clock against the plain state machines, which decide alone. Closures say
//! what a request is and what an answer means; where a layer answers by itself, a closure makes the whole
//! answer, be it an error or a response with a status.
//!
//! [`Guard`] is what those have in common that let a call through or answer it, and [`TallyLayer`] those that
//! count by name.

mod breaker;
mod dead_letter;
mod deadline;
mod guard;
mod key;
mod outbox;
mod retry;
mod stopping;
mod tally;

pub use self::{
    breaker::{BreakerError, BreakerLayer, BreakerService},
    dead_letter::{DeadLetterLayer, DeadLetterService},
    deadline::{DeadlineFuture, DeadlineLayer, DeadlineService},
    guard::{Guard, Guarded, GuardedFuture},
    key::{KeyLayer, KeyService},
    outbox::{OutboxLayer, OutboxService, Posted},
    retry::{RetryFuture, RetryLayer, RetryService},
    stopping::{StoppingLayer, StoppingService},
    tally::{Tally, TallyLayer},
};
