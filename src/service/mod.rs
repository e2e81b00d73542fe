//! The bank as a [`tower` service](tower_service::Service), and its injector as a layer for anybody's.
//!
//! [`BankService`] is the whole bank, for clients and middleware that are written against tower.
//! [`InjectLayer`] needs no bank: it loses, doubles and delays the calls of a service that is yours, by the
//! same plan, seed and decisions, and keeps the same fault log.
//!
//! Both answer on tokio, and neither lets work die with its caller: a client that leaves cancels nothing.
//!
//! On the client's side [`RetryLayer`], [`DeadlineLayer`] and [`BreakerLayer`] put parts of the
//! [`harness`](crate::harness) before such a service.

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
        BreakerFuture, BreakerLayer, BreakerService, DeadlineFuture, DeadlineLayer,
        DeadlineService, RetryFuture, RetryLayer, RetryService,
    },
    inject::{Inject, InjectError, InjectLayer},
};
