//! The history of a run, written to a file while the run goes on.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::{Bank, cli::exit::CliError, http::RunHandle};

/// How long a line waits to be written.
const INTERVAL: Duration = Duration::from_millis(50);

/// Writes a run's history to a file, in the place of what was there before.
///
/// It works on a thread of its own: a file that takes its time, as a pipe may, holds up nothing else.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    /// The run goes on for as long as this is there.
    running: mpsc::Sender<()>,
    written: oneshot::Receiver<io::Result<()>>,
}

impl Recorder {
    /// Begins to write.
    pub(super) fn start(path: &Path, run: RunHandle) -> Self {
        let (running, runs) = mpsc::channel();
        let (sender, written) = oneshot::channel();
        let mut file = HistoryFile { path: path.to_owned(), file: None, run };
        thread::spawn(move || {
            let is_running = || runs.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout);
            let mut written = file.write_after(Ok(()));
            while is_running() {
                written = file.write_after(written);
            }
            // A command that is interrupted does not wait for this.
            let _unheard = sender.send(file.write_after(written));
        });
        Self { path: path.to_owned(), running, written }
    }

    /// Writes the rest.
    ///
    /// # Errors
    ///
    /// [`CliError`] if the file could not be written; what was written of it stays.
    pub(super) async fn finish(self) -> Result<(), CliError> {
        drop(self.running);
        let written = self.written.await;
        written
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes it has died")))
            .with_context(|| format!("{} cannot be written", self.path.display()))
            .map_err(CliError::could_not_run)
    }
}

/// The file, once there is something to write.
struct HistoryFile {
    path: PathBuf,
    file: Option<File>,
    run: RunHandle,
}

impl HistoryFile {
    /// Writes the lines that have come since, unless an earlier write has failed; then they are only forgotten.
    fn write_after(&mut self, earlier: io::Result<()>) -> io::Result<()> {
        let lines = self.run.with_bank(Bank::drain_history);
        if lines.is_empty() || earlier.is_err() {
            return earlier;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        file.write_all(lines.as_bytes())
    }
}
