//! Parts of the [`harness`](crate::harness) as layers, for a client that is a tower service.
//!
//! The layers are glue: they hold a clock against the plain state machines, which decide alone.

mod breaker;
mod deadline;
mod retry;

pub use self::{
    breaker::{BreakerFuture, BreakerLayer, BreakerService},
    deadline::{DeadlineFuture, DeadlineLayer, DeadlineService},
    retry::{RetryFuture, RetryLayer, RetryService},
};
