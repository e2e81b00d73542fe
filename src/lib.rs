//! A payments backend that fails the way real ones do, on purpose, the same way every time, and then
//! says whether the program under test refunded each order exactly once, and if not, why.
//!
//! A [`Ticket`] says what is to be refunded; a [`fault::Plan`] and a seed decide which calls go wrong, and
//! how; the [`Bank`] is what the program calls; the [`grade::Grade`] is what comes of it.
//!
//! # Examples
//!
//! A harness that repeats whatever fails, with a key that names the intent:
//!
//! ```
//! use badbank::{Bank, Ticket, call::CallError, fault::Plan};
//!
//! fn my_harness(bank: &mut Bank, ticket: &Ticket) -> Result<String, CallError> {
//!     let mut report = String::from("REFUNDED:");
//!     for order in ticket.orders() {
//!         let key = format!("refund:{}", order.id());
//!         while let Err(error) = bank.refund(order.id(), order.amount(), Some(&key)) {
//!             if !error.is_retryable() {
//!                 return Err(error);
//!             }
//!         }
//!         report += &format!(" {}", order.id());
//!     }
//!     Ok(report)
//! }
//!
//! let ticket = Ticket::generate(7);
//! let mut bank = Bank::open(&ticket, Plan::article().seed(7));
//! let report = my_harness(&mut bank, &ticket)?;
//! let grade = bank.grade(&report);
//! assert!(grade.all_ok(), "{grade}");
//! assert_eq!(grade.extra_refunds(), 0);
//! # Ok::<(), CallError>(())
//! ```
//!
//! # A map of the code
//!
//! ```text
//!  lab  cli                                experiments, commands
//!  http  service     ║  harness  agent     the faces that serve the bank ║ the programs that use it
//!  money ticket ledger call fault history bank grade
//! ```
//!
//! Below the wall lies the core: synchronous, without I/O, clock or lock.
//!
//! - [`money`], [`ticket`]: exact amounts, and the task.
//! - [`ledger`]: orders, refunds and idempotency keys; where money moves. It knows nothing of faults.
//! - [`call`]: what can be asked and answered, and [`call::Payments`], which programs are written against.
//! - [`fault`]: plans, and the decision which call meets which fault.
//! - [`history`]: everything that happened, as events.
//! - [`bank`]: ledger, injector and history as one.
//! - [`grade`]: the verdict, from evidence alone.
//! - `http`: the bank on the wire, and a client.
//! - `service`: the bank as a tower service, and the injector as a layer for anybody's service; retries, keys,
//!   deadlines, breakers, stopping rules, dead letters and an outbox as layers before it.
//! - [`harness`], [`agent`]: the reference designs, which see a service and nothing else.
//! - [`lab`]: experiments that measure which designs pay twice.
//! - [`stats`]: intervals for what is counted over many runs.
//!
//! # Invariants
//!
//! 1. A fault decision is a pure function of plan, seed and the call's identity. The order of calls,
//!    threads and time never change it; a rule added at the end never moves another rule's draw.
//! 2. The ledger knows nothing of faults: without [`fault`] it still compiles.
//! 3. The grader sees evidence only: ticket, ledger, history, report. It can judge a run read from disk.
//! 4. A harness sees a service only: neither faults, nor history, nor seed.
//! 5. Wire formats live at the edges.
//! 6. There is no ambient time or randomness in the core.
//! 7. The fault log is an API: a version in its first line, one canonical rendering, no redactions.

pub mod agent;
pub mod bank;
pub mod call;
mod document;
pub mod fault;
pub mod grade;
pub mod harness;
pub mod history;
pub mod lab;
pub mod ledger;
pub mod money;
mod render;
mod seed;
pub mod stats;
pub mod ticket;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod service;

pub use bank::{Bank, SharedBank};
pub use document::DocumentError;
pub use seed::Seed;
pub use ticket::Ticket;
