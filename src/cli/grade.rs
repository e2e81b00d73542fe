//! `badbank grade`: grades a recorded run.

use anyhow::anyhow;

use super::{
    arguments::{Expect, Format, GradeArguments},
    exit::{CliError, Exit},
    input, junit, output,
};
use crate::{
    fault::FaultLog,
    grade::{Grade, Verdict},
};

/// Grades a recorded run.
pub(super) fn grade(arguments: &GradeArguments) -> Result<Exit, CliError> {
    let path = &arguments.history;
    let text = input::read(path)?;
    if FaultLog::is_one(&text) {
        return Err(CliError::usage(anyhow!(
            "{} is a fault log, which tells nothing of money; grade what `badbank run --history FILE` writes",
            input::name(path).display()
        )));
    }
    let history = input::history(path, &text)?;
    let report = arguments.report.as_ref().map(|path| input::read(path)).transpose()?;
    let grade = Grade::of(&history, report.as_deref());
    output::data(&match arguments.format {
        Format::Text => grade.to_string(),
        Format::Json => grade.to_json() + "\n",
        Format::Junit => junit::write([junit::suite(&path.display().to_string(), &grade, "")]),
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
