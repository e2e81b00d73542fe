//! What badbank promises, held to it from outside: one binary, a module for each promise.
#![allow(clippy::unwrap_used, reason = "a broken test should panic")]

mod cases;
#[cfg(feature = "cli")]
mod cli;
mod determinism;
mod fault;
mod front_door;
mod fuzz;
mod grade;
mod history;
#[cfg(feature = "http")]
mod http;
mod ledger_model;
mod report_cases;
#[cfg(feature = "http")]
mod support;
mod trial;
