//! The command line: what the `badbank` binary does.
//!
//! stdout carries data, stderr talk. Whatever goes wrong ends in one of the exit codes that `badbank --help` lists.

mod arguments;
mod child;
mod exit;
mod grade;
mod input;
mod junit;
mod lab;
mod output;
mod picture;
mod plan;
mod program;
mod run;
mod serve;
mod snapshot;
mod totals;

use std::process::ExitCode;

use clap::Parser as _;

use self::{
    arguments::{Badbank, Command},
    exit::{CliError, Exit},
};

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let arguments = match Badbank::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Pass }.into();
        }
    };
    match command(arguments.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            if error.exit() != Exit::Interrupted {
                output::complain(&error);
            }
            error.exit().into()
        }
    }
}

fn command(command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Replay(arguments) => run::replay(&arguments),
        Command::Serve(arguments) => serve::serve(arguments),
        Command::Grade(arguments) => grade::grade(&arguments),
        Command::Plan(arguments) => plan::plan(arguments),
        Command::Lab(arguments) => lab::lab(&arguments),
        Command::Program(arguments) => child::run(&arguments),
    }
}
