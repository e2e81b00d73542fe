//! The built-in designs as programs under test, over HTTP like any other.

use std::{env, path::Path, time::Duration};

use anyhow::{Context as _, anyhow};

use super::{
    arguments::ChildArguments,
    exit::{CliError, Exit},
    input, output,
};
use crate::{
    harness::{self, Outcome, Sleeper},
    http::Client,
    seed::Seed,
};

/// A wait is this many times shorter than the back-off says.
const SHORTENED: u32 = 100;

/// Moves only how long the design waits; what it sends does not depend on it.
const JITTER_SEED: Seed = Seed::new(1);

/// Runs a design against the bank that the environment names, and prints its report.
pub(super) fn run(arguments: &ChildArguments) -> Result<Exit, CliError> {
    let url = variable("BADBANK_URL")?;
    let ticket = input::ticket(Path::new(&variable("BADBANK_TICKET")?))?;
    let mut client = Client::new(&url).map_err(CliError::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.context("no timer").map_err(CliError::could_not_run)?;
    let mut clock = Clock { runtime, shortened: if arguments.real_time { 1 } else { SHORTENED } };
    let outcome = harness::run(arguments.design, &ticket, &mut client, &mut clock, JITTER_SEED);
    let Outcome { report, agent_calls, waited } = outcome;
    output::data(&report)?;
    let waited_ms = waited.as_millis();
    let (seconds, hundredths) = (waited_ms / 1000, waited_ms % 1000 / 10);
    output::say(&format!(
        "agent calls {agent_calls}, simulated waiting {seconds}.{hundredths:02} s"
    ));
    Ok(Exit::Pass)
}

fn variable(name: &str) -> Result<String, CliError> {
    env::var(name).map_err(|_| {
        CliError::usage(anyhow!("{name} is not set; run this with `badbank run --harness`"))
    })
}

/// Time that really passes, though shortened.
struct Clock {
    runtime: tokio::runtime::Runtime,
    shortened: u32,
}

impl Sleeper for Clock {
    fn sleep(&mut self, wait: Duration) {
        let wait = wait / self.shortened;
        self.runtime.block_on(async { tokio::time::sleep(wait).await });
    }
}
