//! badbank
pub mod agent;
pub mod bank;
pub mod call;
mod document;
pub mod fault;
pub mod grade;
pub mod harness;
pub mod history;
pub mod ledger;
pub mod money;
mod seed;
pub mod stats;
pub mod ticket;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "http")]
pub mod http;

pub use bank::{Bank, SharedBank};
pub use document::DocumentError;
pub use seed::Seed;
pub use ticket::Ticket;
