//! badbank from outside: one binary for all integration tests.
#![allow(clippy::unwrap_used, reason = "a broken test should panic")]

#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod support;
