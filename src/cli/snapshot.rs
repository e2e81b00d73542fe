//! Compares a run with the one that a file holds.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use similar::TextDiff;

use super::{exit::CliError, output};

/// What came of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The file holds the same, or was just written.
    Same,
    /// It holds something else, or is missing.
    Different,
}

/// Compares `text` with the file, or writes the file.
pub(super) fn compare(path: &Path, text: &str, is_update: bool) -> Result<Comparison, CliError> {
    if is_update {
        output::file(path, text)?;
        return Ok(Comparison::Same);
    }
    let held = match fs::read_to_string(path) {
        // Line ends are up to whoever checked the file out.
        Ok(held) => held.replace("\r\n", "\n"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            output::say(&format!(
                "{} does not exist; --update writes it with this:\n{text}",
                path.display()
            ));
            return Ok(Comparison::Different);
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("{} cannot be read", path.display()))
                .map_err(CliError::could_not_run);
        }
    };
    if held == text {
        return Ok(Comparison::Same);
    }
    let name = path.display().to_string();
    let diff = TextDiff::from_lines(held.as_str(), text);
    let diff = diff.unified_diff().header(&name, "this run").to_string();
    output::say(&format!("the run differs from {name}; --update accepts it:\n{diff}"));
    Ok(Comparison::Different)
}
