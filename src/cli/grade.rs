//! `badbank grade`: grades a recorded run.

use std::path::Path;

use anyhow::anyhow;

use super::{
    arguments::{Expect, Format, GradeArguments},
    exit::{CliError, Exit},
    input, junit, output,
    run::Complaint,
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
    let exit = wanted(grade.verdict(), arguments.expect);
    let header = history.header();
    let head = format!("seed {}, ticket {}\n", header.seed, header.ticket.id());
    let complaints = expectation(grade.verdict(), arguments.expect);
    output::data(&match arguments.format {
        Format::Text if grade.verdict() == Verdict::Pass => format!("{head}\n{grade}"),
        Format::Text => format!("{head}\n{grade}{}", hint(path)),
        Format::Json => grade.to_json() + "\n",
        Format::Junit => {
            let name = input::name(path).display().to_string();
            let suite = junit::suite(&name, &grade, arguments.expect, &(head + &hint(path)));
            junit::write([suite], complaints.as_slice())
        }
    })?;
    Ok(exit)
}

/// How to let another program meet the same faults, if the record is in a file.
fn hint(path: &Path) -> String {
    let quoted = path.to_str().and_then(|path| shlex::try_quote(path).ok());
    match quoted.filter(|_| path.as_os_str() != "-") {
        Some(path) => format!("\nreplay its faults with\n  badbank replay {path} -- CMD\n"),
        None => String::new(),
    }
}

/// What there is to complain of if a program passes that is known to be wrong.
pub(super) fn expectation(verdict: Verdict, expect: Expect) -> Option<Complaint> {
    let is_missed = (verdict, expect) == (Verdict::Pass, Expect::Fail);
    is_missed.then(|| {
        let message = "the verdict is pass, and fail was expected".to_owned();
        output::say(&message);
        Complaint { kind: "verdict", message }
    })
}

/// How a verdict ends the command, given the one that is wanted.
pub(super) fn wanted(verdict: Verdict, expect: Expect) -> Exit {
    match (verdict, expect) {
        (Verdict::Pass, Expect::Fail) => Exit::Fail,
        (Verdict::Fail, Expect::Fail) => Exit::Pass,
        (verdict, _) => verdict.into(),
    }
}
