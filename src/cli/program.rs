//! Runs a program under test, and ends it with all that it started.
