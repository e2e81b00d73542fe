//! The bank as a [`tower` service](tower_service::Service), and its injector as a layer for anybody's.
//!
//! [`BankService`] is the whole bank, for clients and middleware that are written against tower.
//! [`InjectLayer`] needs no bank: it loses, doubles and delays the calls of a service that is yours, by the
//! same plan, seed and decisions, and keeps the same fault log.
//!
//! Both answer on tokio, and neither lets work die with its caller: a client that leaves cancels nothing.
//!
//! On the client's side stand parts of the [`harness`](crate::harness), before any service: [`RetryLayer`],
//! [`KeyLayer`], [`DeadlineLayer`], [`BreakerLayer`], [`StoppingLayer`], [`DeadLetterLayer`] and [`OutboxLayer`].
//! Their closures say what a request is and what an answer means; where a layer answers by itself, a closure
//! makes the whole answer, be it an error or a response with a status.

mod bank;
mod desk;
mod future;
mod harness;
mod inject;
mod landing;

pub use self::{
    bank::{BankFuture, BankRequest, BankService},
    future::InjectFuture,
    harness::{
        BreakerError, BreakerLayer, BreakerService, DeadLetterLayer, DeadLetterService,
        DeadlineFuture, DeadlineLayer, DeadlineService, Guard, Guarded, GuardedFuture, KeyLayer,
        KeyService, OutboxLayer, OutboxService, Posted, RetryFuture, RetryLayer, RetryService,
        StoppingLayer, StoppingService, Tally, TallyLayer,
    },
    inject::{Inject, InjectError, InjectLayer},
};
