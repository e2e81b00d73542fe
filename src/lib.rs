//! badbank
pub mod agent;
pub mod call;
mod document;
pub mod grade;
pub mod harness;
pub mod ledger;
pub mod money;
mod seed;
pub mod ticket;

#[cfg(feature = "cli")]
pub mod cli;

pub use document::DocumentError;
pub use seed::Seed;
pub use ticket::Ticket;
