//! The command from outside: its exit codes, what it writes where, and what it never does.

mod help;
mod interrupt;
mod lab;
mod plan;
mod program;
mod python;
mod readme;
mod record;
mod refusals;
mod run;
mod serve;
mod several;
mod snapshot;

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the command said, and how it ended.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Told {
    /// The result, written with `--format json`.
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The fault log in a result for people.
    fn fault_log(&self) -> String {
        let lines = self.stdout.lines().skip_while(|line| !line.starts_with("badbank faults v1 "));
        lines.take_while(|line| !line.is_empty()).map(|line| line.to_owned() + "\n").collect()
    }

    #[track_caller]
    fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// A folder to work in, which goes when the test ends.
#[derive(Debug)]
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with one file.
    fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        Self::new().and(name, content)
    }

    fn and(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The command, to be run here, with nothing of badbank's in its environment.
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_badbank"));
        command.args(shlex::split(arguments).unwrap()).current_dir(self.0.path());
        for name in ["BADBANK_URL", "BADBANK_TICKET", "BADBANK_TOKEN", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the command here, its arguments written as for a shell.
    fn run(&self, arguments: &str) -> Told {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null());
        within_patience(move || command.output().unwrap()).into()
    }

    /// Names and contents of what lies here.
    fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).ok()))
            .collect()
    }
}

/// Runs the command in an empty folder.
fn badbank(arguments: &str) -> Told {
    Folder::new().run(arguments)
}

/// Does what may hang if badbank is wrong.
fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).expect("it hangs, or broke")
}

/// A named pipe: whoever holds it, all have ended once its reader sees the end.
fn fifo(folder: &Folder) -> PathBuf {
    let path = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// What is written to a pipe until all who hold it have ended.
fn last_words(mut reader: impl Read + Send + 'static) -> String {
    within_patience(move || {
        let mut words = String::new();
        reader.read_to_string(&mut words).unwrap();
        words
    })
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the test goes on without something that it needs. It says so, and on CI it does not put up with it.
#[allow(clippy::print_stderr, reason = "a test that did not run must not look as if it had")]
fn is_skipped_for_want_of(what: &str, is_there: bool) -> bool {
    assert!(is_there || std::env::var_os("CI").is_none(), "{what} is missing");
    if !is_there {
        eprintln!("skipped: {what} is missing");
    }
    !is_there
}

fn is_without_python() -> bool {
    let version = Command::new("python3").arg("--version").output();
    is_skipped_for_want_of("python3", version.is_ok_and(|output| output.status.success()))
}

/// Compares a text with its snapshot, `snapshots/cli/<name>.snap` under the root.
fn assert_text(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root().join("snapshots/cli"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
