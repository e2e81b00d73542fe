#![allow(clippy::unwrap_used, reason = "a broken test should panic")]
//! What badbank promises, held to it from outside: one binary, a module for each promise.

mod cases;
#[cfg(feature = "cli")]
mod cli;
mod determinism;
mod fault;
mod front_door;
mod grade;
mod history;
mod ledger_model;
mod trial;
