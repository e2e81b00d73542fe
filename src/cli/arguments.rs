//! What can be said on the command line.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::{
    harness::Design,
    ledger::{Dedupe, OverRefund},
    seed::Seed,
};

const EXIT_CODES: &str = "\
Exit codes: 0 pass, 1 fail, 2 usage, 3 could not run, 4 not exposed (the faults that matter were not met), 130 interrupted.";

const RUN_USAGE: &str = "\
badbank run [OPTIONS] -- <CMD>...
       badbank run [OPTIONS] --harness <NAME>";

const REPLAY_USAGE: &str = "\
badbank replay [OPTIONS] <HISTORY|FAULTS> -- <CMD>...
       badbank replay [OPTIONS] <HISTORY|FAULTS> --harness <NAME>";

/// A payments backend that fails on purpose, the same way every time, and says whether each order was
/// refunded exactly once.
#[derive(Debug, Parser)]
#[command(name = "badbank", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Badbank {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program against a bank that fails, and grade its refunds.
    ///
    /// The program finds the run's base URL in `BADBANK_URL` and the path of its ticket, a JSON file, in
    /// `BADBANK_TICKET`. What it prints to stdout is its report: lines such as `REFUNDED: A-1, A-2`.
    #[command(after_help = EXIT_CODES, override_usage = RUN_USAGE)]
    Run(RunArguments),
    /// Run a program against exactly the faults of a recorded run.
    #[command(after_help = EXIT_CODES, override_usage = REPLAY_USAGE)]
    Replay(ReplayArguments),
    /// Serve a bank until interrupted.
    ///
    /// Prints one JSON line when ready: `{"url","control","token","run"}`. The bank lives in memory: a
    /// restarted server is a new bank.
    Serve(ServeArguments),
    /// Grade a recorded run.
    #[command(after_help = EXIT_CODES)]
    Grade(GradeArguments),
    /// Show what plans there are, what one says, and what each call will meet.
    Plan(PlanArguments),
    /// Measure which designs pay twice, beside what the sources report and what must come out.
    Lab(LabArguments),
    /// Be one of the built-in programs under test.
    #[command(hide = true)]
    Program(ChildArguments),
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For build servers: a JUnit report, a suite for each run and a case for each order.
    Junit,
}

/// How what is known of plans is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// The verdict that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expect {
    /// A pass is exit code 0.
    #[default]
    Pass,
    /// A fail is exit code 0, and a pass 1: pins a program that is known to be wrong.
    Fail,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("program").args(["harness", "command"]).required(true))]
pub(crate) struct ProgramArguments {
    /// Run a built-in design instead of a command: model-only, retries, keyed, business-key, model-key, hasty,
    /// trusting, forgetful or paraphrasing.
    #[arg(long, value_name = "NAME", value_parser = Design::from_str)]
    pub(crate) harness: Option<Design>,
    /// Let the built-in design wait its back-off in full, not a hundredth of it.
    #[arg(long, requires = "harness", conflicts_with = "command")]
    pub(crate) real_time: bool,
    /// Kill the program after so long, such as `90s`, `5m` or `500ms`; grade what it did; exit 1.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) time_limit: Duration,
    /// The program under test and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl ProgramArguments {
    /// The time limit that is not worth repeating.
    pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(600);
}

#[derive(Debug, Args)]
pub(crate) struct ResultArguments {
    /// How to write the result.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Compare fault log and grade with a file; a difference, or a missing file, is exit 1.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Write the snapshot's file instead of comparing with it.
    #[arg(long, requires = "snapshot")]
    pub(crate) update: bool,
    /// The verdict that is wanted.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) expect: Expect,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("several").args(["seeds", "repeat"]))]
pub(crate) struct RunArguments {
    /// What the faults follow from; beats the plan's seed. Without --ticket it also makes the ticket.
    #[arg(long, value_name = "S", value_parser = seed, conflicts_with = "seeds")]
    pub(crate) seed: Option<Seed>,
    /// Run once for each seed from A to B, both included.
    #[arg(long, value_name = "A..B", value_parser = SeedRange::from_str)]
    pub(crate) seeds: Option<SeedRange>,
    /// Run N times with one seed, for programs that vary, such as those with a language model in them;
    /// says how likely k runs in a row are to pass (pass^k).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "seeds")]
    pub(crate) repeat: Option<u32>,
    /// How many runs go on at once, of several [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "several")]
    pub(crate) jobs: Option<u16>,
    /// Stop at the first run that fails; runs after it are not counted.
    #[arg(long, requires = "several")]
    pub(crate) fail_fast: bool,
    /// The task, a JSON file [default: eight orders made from the seed].
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket: Option<PathBuf>,
    /// The plan: a name that `badbank plan list` shows, or a JSON file.
    #[arg(long, value_name = "FILE|NAME", default_value = "article")]
    pub(crate) plan: String,
    /// Write the run's history, as JSON lines, to a file, while the run goes on.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "repeat"])]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultArguments,
    #[command(flatten)]
    pub(crate) program: ProgramArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// A history, or a fault log; `-` is stdin.
    #[arg(value_name = "HISTORY|FAULTS")]
    pub(crate) record: PathBuf,
    /// The task, a JSON file [default: the history's, or the one that the fault log's seed makes].
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket: Option<PathBuf>,
    /// What the bank does with keys, for a fault log [default: first-reply].
    #[arg(long, value_name = "MODE", value_parser = dedupe)]
    pub(crate) dedupe: Option<Dedupe>,
    /// What the bank does past the balance, for a fault log [default: allow].
    #[arg(long, value_name = "MODE", value_parser = over_refund)]
    pub(crate) over_refund: Option<OverRefund>,
    /// Write the run's history, as JSON lines, to a file, while the run goes on.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultArguments,
    #[command(flatten)]
    pub(crate) program: ProgramArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Port of the data plane, which the program under test may reach [default: a free one].
    #[arg(long, value_name = "P", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Port of the control plane [default: a free one].
    #[arg(long, value_name = "P", default_value_t = 0, hide_default_value = true)]
    pub(crate) control_port: u16,
    /// Address that both listen on; anything but loopback wants --token.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub(crate) bind: IpAddr,
    /// Token of the control plane [default: a random one].
    #[arg(long, value_name = "T", env = "BADBANK_TOKEN", hide_env_values = true, value_parser = token)]
    pub(crate) token: Option<String>,
    /// The task of run 1, a JSON file [default: eight orders made from the seed].
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket: Option<PathBuf>,
    /// The plan of run 1: a name that `badbank plan list` shows, or a JSON file.
    #[arg(long, value_name = "FILE|NAME", default_value = "article")]
    pub(crate) plan: String,
    /// What the faults of run 1 follow from; beats the plan's seed.
    #[arg(long, value_name = "S", value_parser = seed)]
    pub(crate) seed: Option<Seed>,
}

#[derive(Debug, Args)]
pub(crate) struct GradeArguments {
    /// The history of a run, as `--history` wrote it; `-` is stdin.
    #[arg(value_name = "HISTORY")]
    pub(crate) history: PathBuf,
    /// The report to judge in place of the recorded one, text or JSON; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How to write the grade.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The verdict that is wanted.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) expect: Expect,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(subcommand)]
    pub(crate) command: PlanCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// The plans that badbank brings along.
    List {
        /// How to write the list.
        #[arg(long, value_enum, default_value_t)]
        format: PlanFormat,
    },
    /// A plan as JSON, with all that is left out filled in.
    Show {
        /// A name, or a JSON file.
        #[arg(value_name = "FILE|NAME")]
        plan: String,
    },
    /// Whether a plan is sound, and whether it fits a ticket.
    Check {
        /// A name, or a JSON file.
        #[arg(value_name = "FILE|NAME")]
        plan: String,
        /// The task that the plan is meant for, a JSON file.
        #[arg(long, value_name = "FILE")]
        ticket: Option<PathBuf>,
    },
    /// What each call of a ticket will meet.
    Forecast {
        /// A name, or a JSON file.
        #[arg(value_name = "FILE|NAME", default_value = "article")]
        plan: String,
        /// The task, a JSON file [default: eight orders made from the seed].
        #[arg(long, value_name = "FILE")]
        ticket: Option<PathBuf>,
        /// What the faults follow from; beats the plan's seed.
        #[arg(long, value_name = "S", value_parser = seed)]
        seed: Option<Seed>,
        /// Attempts of each operation on each order to look at.
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
        attempts: u32,
        /// How to write the forecast.
        #[arg(long, value_enum, default_value_t)]
        format: PlanFormat,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) experiment: Experiment,
    /// Tickets in each arm.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) tickets: u64,
    /// Seed of the first ticket; those after it have the seeds after it.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seed)]
    pub(crate) seed: Seed,
    /// Threads that share the work, at the most one for each core; the table does not depend on it [default: one for
    /// each core].
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// How to write the table.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: SheetFormat,
    /// Draw the table too, as SVG: retries, amplification and breaker have a picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// What the lab can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Who retries: the agent, the harness, the harness with a key, the agent with a key.
    Retries,
    /// What a crash costs: the five ways to go on, at each moment of each step.
    Recovery,
    /// When to stop: a refund that fails for its first 2, 4 or 1000 attempts, and what layers make of it.
    Stopping,
    /// Layers of three attempts each before a dead service: how their calls multiply.
    Amplification,
    /// Three failures in a row against three within an hour, by one worker and by many.
    Breaker,
    /// Which keys save a refund from which repeat, and which swallow a legitimate one.
    Keys,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SheetFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct ChildArguments {
    /// The design.
    #[arg(value_parser = Design::from_str)]
    pub(crate) design: Design,
    /// Wait in full.
    #[arg(long)]
    pub(crate) real_time: bool,
}

/// Seeds from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeedRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl SeedRange {
    /// More runs than this are a typing error.
    const RUNS_MAX: u64 = 10_000_000;

    /// The seeds.
    pub(crate) fn seeds(self) -> impl Iterator<Item = Seed> {
        (self.first..=self.last).map(Seed::new)
    }

    /// How many there are.
    pub(crate) fn count(self) -> u64 {
        self.last - self.first + 1
    }
}

impl FromStr for SeedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text
            .split_once("..")
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let (first, last) =
            ends.ok_or("write two whole numbers, such as 1..100; both are included")?;
        if first > last {
            return Err(format!("{first} comes after {last}; write the smaller seed first"));
        }
        if last - first >= Self::RUNS_MAX {
            return Err(format!("more than {} runs", Self::RUNS_MAX));
        }
        Ok(Self { first, last })
    }
}

fn seed(text: &str) -> Result<Seed, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(scale)
        .and_then(|(number, scale)| number.checked_mul(scale))
        .filter(|ms| (1..=86_400_000).contains(ms))
        .map(Duration::from_millis)
        .ok_or_else(|| {
            "write a whole number above 0 and ms, s, m or h, such as 90s; a day at the most"
                .to_owned()
        })
}

fn dedupe(text: &str) -> Result<Dedupe, String> {
    let word = text.replace('-', "_");
    let mode = Dedupe::ALL.iter().copied().find(|mode| mode.as_str() == word);
    mode.ok_or_else(|| {
        let modes: Vec<String> =
            Dedupe::ALL.iter().map(|mode| mode.as_str().replace('_', "-")).collect();
        format!("it is one of {}", modes.join(", "))
    })
}

fn over_refund(text: &str) -> Result<OverRefund, String> {
    [OverRefund::Allow, OverRefund::Reject]
        .into_iter()
        .find(|mode| mode.as_str() == text)
        .ok_or_else(|| "it is allow or reject".to_owned())
}

fn token(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err("a token is printable ASCII without blanks".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Badbank::command().debug_assert();
    }

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        for text in ["", "s", "0", "-1s", "1d", "1.5s", "25h", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seeds_have_both_ends() {
        let seeds: SeedRange = "3..5".parse().unwrap();
        assert_eq!(seeds.seeds().map(Seed::number).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!("7..7".parse::<SeedRange>().unwrap().count(), 1);
        for text in ["", "3", "5..3", "a..b", "1...3", "1..=3", "0..18446744073709551615"] {
            assert!(text.parse::<SeedRange>().is_err(), "{text}");
        }
    }
}
