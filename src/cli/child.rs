//! The built-in designs as programs under test, over HTTP like any other.

use std::{env, path::Path, process, time::Duration};

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, getppid};

use super::{
    arguments::ChildArguments,
    exit::{CliError, Exit},
    input, output,
};
use crate::{
    call::{CallError, OrderState, Payments, Refunded},
    harness::{self, Outcome, Sleeper},
    http::Client,
    money::Amount,
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
    let client = Client::new(&url).map_err(CliError::usage)?;
    let mut bank = Attended { client, parent: getppid() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.context("no timer").map_err(CliError::could_not_run)?;
    let mut clock = Clock { runtime, shortened: if arguments.real_time { 1 } else { SHORTENED } };
    let outcome = harness::run(arguments.design, &ticket, &mut bank, &mut clock, JITTER_SEED);
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

/// The bank, as long as whoever started this program is there: some designs ask until they are answered, and a bank
/// that was killed never answers.
struct Attended {
    client: Client,
    parent: Option<Pid>,
}

impl Attended {
    fn client(&mut self) -> &mut Client {
        if getppid() != self.parent {
            output::complain(&"the bank is gone");
            process::exit(3);
        }
        &mut self.client
    }
}

impl Payments for Attended {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        self.client().get_order(order)
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        self.client().refund(order, amount, key)
    }
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
