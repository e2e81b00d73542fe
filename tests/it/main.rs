//! What badbank promises, held to it from outside: one binary, a module for each promise.
#![allow(clippy::unwrap_used, reason = "a broken test should panic")]

mod breaker;
mod cases;
#[cfg(feature = "cli")]
mod cli;
mod determinism;
mod fault;
mod front_door;
mod grade;
mod harness_parts;
mod history;
#[cfg(feature = "http")]
mod http;
mod lab_stopping;
mod ledger_model;
mod report_cases;
#[cfg(feature = "http")]
mod support;
mod trial;
