//! Files that the command line names.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use anyhow::{Context as _, anyhow};

use super::{exit::CliError, output};
use crate::{
    document::{DocumentError, line_breaks},
    fault::{NAMED_PLANS, Plan},
    history::History,
    seed::Seed,
    ticket::Ticket,
};

/// What is read of stdin at the most.
const STDIN_MAX_BYTES: u64 = 1 << 32;

/// The text of a file; `-` is stdin. One that is cut off in the middle of a letter ends before it.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(STDIN_MAX_BYTES + 1).read_to_end(&mut bytes);
        read.and_then(|count| {
            let is_all = count as u64 <= STDIN_MAX_BYTES;
            is_all.then_some(bytes).ok_or_else(|| io::Error::other("it is larger than 4 GiB"))
        })
    } else {
        fs::read(path)
    };
    let bytes = bytes
        .with_context(|| format!("{} cannot be read", name(path).display()))
        .map_err(CliError::usage)?;
    String::from_utf8(bytes).or_else(|error| {
        let end = error.utf8_error();
        if end.error_len().is_none() {
            let mut bytes = error.into_bytes();
            bytes.truncate(end.valid_up_to());
            return Ok(String::from_utf8(bytes).expect("it was found valid up to there"));
        }
        let line = line_breaks(&error.as_bytes()[..error.utf8_error().valid_up_to()]) + 1;
        let path = name(path).display();
        Err(CliError::usage(anyhow!("{path}:{line}: this is not UTF-8 text")))
    })
}

/// A file as people call it.
pub(super) fn name(path: &Path) -> &Path {
    if path.as_os_str() == "-" { Path::new("stdin") } else { path }
}

/// An error about the content of a file.
pub(super) fn refuse(path: &Path, error: &DocumentError) -> CliError {
    CliError::usage(anyhow!(error.in_file(name(path))))
}

/// The history of a file; warns if it is cut off.
pub(super) fn history(path: &Path, text: &str) -> Result<History, CliError> {
    if !History::is_one(text) {
        return Err(CliError::usage(anyhow!(
            "{}:1: this is not a recorded run; a history is what `badbank run --history FILE` writes, and a fault \
             log begins with `badbank faults v1 seed=`",
            name(path).display()
        )));
    }
    let read = History::parse(text).map_err(|error| refuse(path, &error))?;
    if let Some(warning) = &read.warning {
        output::warn(&format!("{}: {warning}", name(path).display()));
    } else if !read.history.has_ended() {
        let path = name(path).display();
        output::warn(&format!("{path}: the run had not ended when its history was written"));
    }
    Ok(read.history)
}

/// The ticket of a file.
pub(super) fn ticket(path: &Path) -> Result<Ticket, CliError> {
    Ticket::parse(&read(path)?).map_err(|error| refuse(path, &error))
}

/// The plan of a name, or of a file.
pub(super) fn plan(name_or_path: &str) -> Result<Plan, CliError> {
    if let Some(plan) = Plan::find(name_or_path) {
        return Ok(plan);
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let names = NAMED_PLANS.iter().map(|plan| plan.name).collect::<Vec<_>>().join(", ");
        return Err(CliError::usage(anyhow!(
            "`{name_or_path}` is neither a plan ({names}) nor a file"
        )));
    }
    let plan = Plan::parse(&read(path)?).map_err(|error| refuse(path, &error))?;
    Ok(plan.named(name_or_path))
}

/// A ticket and a plan that belong together: files, or what the seed makes.
pub(super) fn task(
    ticket_path: Option<&Path>,
    plan_name: &str,
    seed: Option<Seed>,
) -> Result<(Option<Ticket>, Plan), CliError> {
    let plan = plan(plan_name)?;
    let plan = match seed {
        Some(seed) => plan.seed(seed),
        None => plan,
    };
    let ticket = ticket_path.map(ticket).transpose()?;
    match &ticket {
        Some(ticket) => warn_of_lacking_orders(&plan, ticket),
        None => warn_of_lacking_orders(&plan, &Ticket::generate(plan.effective_seed())),
    }
    Ok((ticket, plan))
}

/// Says which orders a plan names and a ticket lacks.
pub(super) fn warn_of_lacking_orders(plan: &Plan, ticket: &Ticket) {
    for warning in plan.warnings(ticket) {
        output::warn(&warning);
    }
}
