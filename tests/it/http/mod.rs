//! The bank on the wire.

mod answers;
mod client;
mod control;
mod latency;
mod lost;
mod openapi;
mod refusals;
mod server;
