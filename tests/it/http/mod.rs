//! The bank on the wire.

mod answers;
mod client;
mod control;
mod faults;
mod latency;
mod lost;
mod openapi;
mod refusals;
mod secrets;
mod server;
