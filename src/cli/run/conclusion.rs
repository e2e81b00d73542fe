//! What a command makes of its runs: how it ends, and what it has to complain of beside their grades.

use crate::{
    cli::{
        arguments::ResultArguments,
        exit::{CliError, Exit},
        grade::{expectation, wanted},
        snapshot::{Comparison, compare},
    },
    grade::Verdict,
};

/// How a command ends.
#[derive(Debug)]
pub(super) struct Conclusion {
    pub(super) exit: Exit,
    pub(super) complaints: Vec<Complaint>,
    /// What kept it from comparing, which it tells of once the result is out.
    pub(super) error: Option<CliError>,
}

/// Something wrong that no grade shows.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    /// What it is about, in a word.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl Conclusion {
    /// Holds a verdict against the one that is wanted, and a text against its snapshot.
    pub(super) fn new(
        verdict: Verdict,
        results: &ResultArguments,
        snapshot: impl FnOnce() -> String,
    ) -> Self {
        let exit = wanted(verdict, results.expect);
        let complaints = expectation(verdict, results.expect).into_iter().collect();
        let mut conclusion = Self { exit, complaints, error: None };
        if let Some(path) = &results.snapshot {
            match compare(path, &snapshot(), results.update) {
                Ok(Comparison::Same) => {}
                Ok(Comparison::Different) => {
                    conclusion.exit = conclusion.exit.max(Exit::Fail);
                    let message = format!("the run is not what {} holds", path.display());
                    conclusion.complaints.push(Complaint { kind: "snapshot", message });
                }
                Err(error) => conclusion.error = Some(error),
            }
        }
        conclusion
    }

    /// How the command ends, given how the programs under test did.
    pub(super) fn ends_with(self, programs: Exit) -> Result<Exit, CliError> {
        self.error.map_or_else(|| Ok(self.exit.max(programs)), Err)
    }
}
