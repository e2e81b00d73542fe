//! The command line.

mod program;
