//! The bank on the wire: a server with two planes, and a client for programs under test.
//!
//! The **data plane** is what the program under test may reach: ticket, orders, refunds, report. Nothing
//! in its answers names a fault, a plan or a seed; `/openapi.json` describes them. The **control plane** has runs, plans, logs and
//! grades; it wants a bearer token and refuses browsers. Status codes, headers and wire formats live here
//! and nowhere else.
//!
//! What decides a call happens under one lock and without an await: a client that leaves, or a
//! connection that a fault breaks, cancels nothing.

mod body;
mod client;
mod connection;
mod control;
mod data;
mod headers;
mod openapi;
mod outgoing;
mod reply;
mod routes;
mod run;
mod server;
mod wire;

pub use self::{
    client::{Client, ClientError},
    run::RunHandle,
    server::{ControlOptions, Server, ServerError, ServerOptions},
};
