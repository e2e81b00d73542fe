//! The badbank command.

use std::process::ExitCode;

fn main() -> ExitCode {
    badbank::cli::main()
}
