//! The bank on the wire.

mod answers;
mod client;
mod control;
mod departures;
mod latency;
mod lost;
mod patience;
mod planes;
mod refusals;
mod server;
