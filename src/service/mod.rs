//! The bank as a [`tower` service](tower_service::Service), and its injector as a layer for anybody's.
//!
//! [`BankService`] is the whole bank, for clients and middleware that are written against tower.
//! [`InjectLayer`] needs no bank: it loses, doubles and delays the calls of a service that is yours, by the
//! same plan, seed and decisions, and keeps the same fault log.
//!
//! Both answer on tokio, and neither lets work die with its caller: a client that leaves cancels nothing.

mod bank;
mod desk;
mod future;
mod inject;
mod landing;

pub use self::{
    bank::{BankFuture, BankRequest, BankService},
    future::InjectFuture,
    inject::{Inject, InjectError, InjectLayer},
};
