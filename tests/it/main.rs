//! What badbank promises, held to it from outside: one binary, a module for each promise.
#![allow(clippy::unwrap_used, reason = "a broken test should panic")]

mod accepted;
mod breaker;
mod burst;
mod cases;
mod causes;
#[cfg(feature = "cli")]
mod cli;
mod concurrency;
mod dedupe;
mod determinism;
mod documents;
mod everything;
mod fault;
mod fault_family;
mod front_door;
mod fuzz;
mod grade;
#[cfg(feature = "http")]
mod harness;
mod harness_parts;
mod history;
#[cfg(feature = "http")]
mod http;
mod lab_retries;
mod lab_stopping;
mod ledger_model;
mod matrix;
mod recovery;
mod report_cases;
#[cfg(feature = "http")]
mod service;
mod slow;
mod stream;
#[cfg(feature = "http")]
mod support;
mod trial;
