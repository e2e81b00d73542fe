//! Where checkpoints are kept.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::CheckpointError;

/// Keeps the newest checkpoint.
///
/// Whatever happens during a save, a later load gives one that was saved in full: the new one or the one before.
pub trait Store {
    /// Keeps `checkpoint` in place of the one before.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Store`] where it could not be kept; the one before is.
    fn save(&mut self, checkpoint: &str) -> Result<(), CheckpointError>;

    /// The newest checkpoint, if there is one.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Store`] where it cannot be read.
    fn load(&self) -> Result<Option<String>, CheckpointError>;
}

/// A checkpoint in memory: it outlives a program that dies in an experiment.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Option<String>);

impl Store for MemoryStore {
    fn save(&mut self, checkpoint: &str) -> Result<(), CheckpointError> {
        checkpoint.clone_into(self.0.get_or_insert_default());
        Ok(())
    }

    fn load(&self) -> Result<Option<String>, CheckpointError> {
        Ok(self.0.clone())
    }
}

/// A checkpoint in a file: written beside it, flushed to the disk, and moved into its place.
///
/// # Examples
///
/// ```
/// use badbank::{Bank, Seed, Ticket, agent::Manner, fault::Plan};
/// use badbank::harness::{Key, Retry, VirtualTime};
/// use badbank::harness::checkpoint::{Ending, FileStore, Program, Recovery, Runner};
///
/// let folder = tempfile::tempdir()?;
/// let store = FileStore::new(folder.path().join("refunds.checkpoint"));
/// let ticket = Ticket::generate(7);
/// let program = Program {
///     manner: Manner::Careful,
///     retry: Retry::default(),
///     key: Key::CallId,
///     recovery: Recovery::WriteAhead,
/// };
/// let mut bank = Bank::open(&ticket, Plan::article().seed(7));
/// let mut runner = Runner::new(program, &ticket, store, Seed::new(7));
/// let Ending::Reported(outcome) = runner.run(&mut bank, &mut VirtualTime, None)? else { unreachable!() };
/// assert_eq!(bank.grade(&outcome.report).extra_refunds(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// The checkpoint at `path`, which need not exist; its folder must.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the next checkpoint is written before it takes its place.
    fn beside(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".tmp");
        name.into()
    }

    fn write(&self, checkpoint: &str) -> io::Result<()> {
        let beside = self.beside();
        let mut file = File::create(&beside)?;
        file.write_all(checkpoint.as_bytes())?;
        // Without it the new name may reach the disk before what it names.
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        sync_folder(&self.path)
    }

    fn error(&self, source: io::Error) -> CheckpointError {
        CheckpointError::Store { path: self.path.display().to_string(), source }
    }
}

/// Sees to it that a renamed file keeps its name if the machine dies.
fn sync_folder(path: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened as a file.
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

impl Store for FileStore {
    fn save(&mut self, checkpoint: &str) -> Result<(), CheckpointError> {
        self.write(checkpoint).map_err(|error| self.error(error))
    }

    fn load(&self) -> Result<Option<String>, CheckpointError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }
}
