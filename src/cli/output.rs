//! What is written where: stdout carries data, stderr talk.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where the command prints")]

use std::{fmt::Display, fs, io::Write as _, path::Path};

use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, anyhow};

use super::exit::CliError;

const RED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();
const YELLOW: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow))).bold();

/// Writes data.
///
/// # Errors
///
/// [`CliError`] if stdout is closed or full: the data did not arrive, so nobody may take this for a pass.
pub(super) fn data(text: &str) -> Result<(), CliError> {
    let mut stdout = anstream::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.context("stdout cannot be written").map_err(CliError::could_not_run)
}

/// Makes sure that a file can be written where the command line wants it, before any work is done for it.
///
/// # Errors
///
/// [`CliError`] if the path is a folder, or is in one that does not exist.
pub(super) fn check_target(path: &Path) -> Result<(), CliError> {
    let folder = folder_of(path);
    let reason = if path.is_dir() {
        "it is a folder".to_owned()
    } else if !folder.exists() {
        format!("the folder {} does not exist", folder.display())
    } else if !folder.is_dir() {
        format!("{} is not a folder", folder.display())
    } else {
        return Ok(());
    };
    Err(CliError::could_not_run(anyhow!("{} cannot be written: {reason}", path.display())))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file, whole or not at all: what was there before stays until the new text is complete.
pub(super) fn file(path: &Path, text: &str) -> Result<(), CliError> {
    let write = || -> std::io::Result<()> {
        // Devices and pipes cannot be replaced, only written to.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return fs::write(path, text);
        }
        let mut file =
            tempfile::Builder::new().permissions(permissions(path)).tempfile_in(folder_of(path))?;
        file.write_all(text.as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write()
        .with_context(|| format!("{} cannot be written", path.display()))
        .map_err(CliError::could_not_run)
}

/// The permissions of a file that is to be replaced, or those that a new file usually has.
fn permissions(path: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;

    fs::metadata(path).map_or_else(|_| fs::Permissions::from_mode(0o644), |meta| meta.permissions())
}

/// Says something that is no result.
pub(super) fn say(text: &str) {
    anstream::eprintln!("{text}");
}

/// Says what may be wrong.
pub(super) fn warn(text: &str) {
    anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {text}");
}

/// Says what is wrong.
pub(super) fn complain(error: &impl Display) {
    anstream::eprintln!("{RED}error:{RED:#} {error}");
}
