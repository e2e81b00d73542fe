//! The bank on the wire.

mod answers;
mod client;
mod control;
mod departures;
mod faults;
mod latency;
mod lost;
mod openapi;
mod overlapping;
mod patience;
mod planes;
mod refusals;
mod refused_by_control;
mod secrets;
mod server;
mod slow;
mod unread;
mod waiting;
