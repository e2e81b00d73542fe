//! `badbank grade`: grades a recorded run.

use super::{
    arguments::{Expect, Format, GradeArguments},
    exit::{CliError, Exit},
    input, output,
};
use crate::{
    grade::{Grade, Verdict},
    history::History,
};

/// Grades a recorded run.
pub(super) fn grade(arguments: &GradeArguments) -> Result<Exit, CliError> {
    let path = &arguments.history;
    let read = History::parse(&input::read(path)?).map_err(|error| input::refuse(path, &error))?;
    if let Some(warning) = &read.warning {
        output::warn(&format!("{}: {warning}", input::name(path).display()));
    }
    let report = arguments.report.as_ref().map(|path| input::read(path)).transpose()?;
    let grade = Grade::of(&read.history, report.as_deref());
    output::data(&match arguments.format {
        Format::Text => grade.to_string(),
        Format::Json => grade.to_json() + "\n",
    })?;
    Ok(wanted(grade.verdict(), arguments.expect))
}

/// How a verdict ends the command, given the one that is wanted.
pub(super) fn wanted(verdict: Verdict, expect: Expect) -> Exit {
    match (verdict, expect) {
        (Verdict::Pass, Expect::Fail) => Exit::Fail,
        (Verdict::Fail, Expect::Fail) => Exit::Pass,
        (verdict, _) => verdict.into(),
    }
}
