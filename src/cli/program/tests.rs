//! Programs under test are shell scripts here. `$FIFO` is a pipe that tells whether a process lives: whoever holds
//! it, all have ended once its reader sees the end.

use std::{future::pending, path::PathBuf, process::Command as Blocking};

use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::{OpenOptions, Receiver},
    time::timeout,
};

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { timeout(PATIENCE, future).await.expect("it hangs") })
}

fn sh(script: &str) -> Program {
    Program { command: ["sh", "-c", script].map(OsString::from).into(), env: Vec::new() }
}

fn run_alone(program: &Program) -> Result<Ended, ProgramError> {
    block_on(run(program, None, Noise::Capture, pending()))
}

fn stdout(ended: &Ended) -> &str {
    std::str::from_utf8(&ended.stdout).unwrap()
}

/// A named pipe and its reading end.
struct Fifo {
    reader: Receiver,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Fifo {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(Blocking::new("mkfifo").arg(&path).status().unwrap().success());
        Self {
            reader: OpenOptions::new().open_receiver(&path).unwrap(),
            path,
            _directory: directory,
        }
    }

    /// A script that begins with the pipe open as descriptor 3 and `up` written to it.
    fn sh(&self, script: &str) -> Program {
        let mut program = sh(&format!("exec 3>\"$FIFO\"; {script}"));
        program.env.push(("FIFO".to_owned(), self.path.clone().into()));
        program
    }

    /// Resolves when somebody has written to the pipe.
    async fn is_up(&mut self) {
        // Before there is a writer the pipe is at its end, of which no event tells when it ceases to be.
        let mut up = [0; 3];
        while self.reader.try_read(&mut up).ok() != Some(3) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What was written to the pipe by processes that have all ended; hangs as long as one lives.
    async fn last_words(mut self) -> String {
        let mut words = String::new();
        self.reader.read_to_string(&mut words).await.unwrap();
        words
    }
}

async fn run(
    program: &Program,
    limit: Option<Duration>,
    noise: Noise,
    interrupted: impl Future<Output = ()>,
) -> Result<Ended, ProgramError> {
    start(program, noise)?.end(limit, interrupted).await
}

#[test]
fn an_exit_code_and_both_outputs_are_told() {
    let ended = run_alone(&sh("echo out; echo err >&2; exit 7")).unwrap();
    assert_eq!((ended.exit, ended.signal), (Some(7), None));
    assert_eq!(stdout(&ended), "out\n");
    assert_eq!(ended.stderr_tail, b"err\n");
    assert!(!ended.timed_out && !ended.left_processes && !ended.is_stdout_cut);
}

#[test]
fn a_signal_is_told() {
    let ended = run_alone(&sh("kill -TERM $$")).unwrap();
    assert_eq!((ended.exit, ended.signal), (None, Some(15)));
    assert!(!ended.timed_out);
}

#[test]
fn stdin_is_empty() {
    let ended = run_alone(&sh("cat; echo end")).unwrap();
    assert_eq!(stdout(&ended), "end\n");
}

#[test]
fn an_inherited_stderr_is_not_kept() {
    let ended = block_on(run(&sh("exit 0"), None, Noise::Inherit, pending())).unwrap();
    assert!(ended.stderr_tail.is_empty());
}

#[test]
fn the_time_limit_ends_grandchildren_too() {
    // A busy machine may need longer to get the program up.
    for limit_ms in [200, 1_000, 5_000, 20_000] {
        let words = block_on(async {
            let fifo = Fifo::new();
            let program = fifo.sh("sh -c 'sleep 600 & echo up >&3; wait' & echo said; wait");
            let limit = Some(Duration::from_millis(limit_ms));
            let ended = run(&program, limit, Noise::Capture, pending()).await.unwrap();
            assert!(ended.timed_out && !ended.left_processes);
            assert_eq!((ended.exit, ended.signal), (None, Some(9)));
            (stdout(&ended).to_owned(), fifo.last_words().await)
        });
        if words == ("said\n".to_owned(), "up\n".to_owned()) {
            return;
        }
    }
    panic!("the program never came up");
}

#[test]
fn a_grandchild_left_behind_is_ended() {
    block_on(async {
        let fifo = Fifo::new();
        let program = fifo.sh("sleep 600 & echo up >&3; echo REFUNDED: A-1");
        let ended = run(&program, None, Noise::Capture, pending()).await.unwrap();
        assert_eq!(ended.exit, Some(0));
        assert!(ended.left_processes && !ended.timed_out);
        assert_eq!(stdout(&ended), "REFUNDED: A-1\n");
        assert_eq!(fifo.last_words().await, "up\n");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_grandchild_in_a_session_of_its_own_does_not_hang_the_run() {
    block_on(async {
        let fifo = Fifo::new();
        // It holds stdout and is out of reach; the program does not end before that is so.
        let script = r#"mkfifo "$FIFO.2"
            setsid sh -c 'echo $$ > "$FIFO.2"; exec sleep 600' &
            read -r escaped < "$FIFO.2"
            echo "$escaped""#;
        let program = fifo.sh(script);
        let ended = run(&program, None, Noise::Capture, pending()).await.unwrap();
        assert_eq!(ended.exit, Some(0));
        assert!(ended.left_processes && !ended.timed_out);
        let escaped = stdout(&ended).trim().parse().unwrap();
        let escaped = rustix::process::Pid::from_raw(escaped).unwrap();
        rustix::process::kill_process(escaped, rustix::process::Signal::KILL).unwrap();
        fifo.last_words().await;
    });
}

#[test]
fn a_chatty_program_is_read_to_its_end() {
    let script =
        "yes REFUNDED: A-1 | head -c 20000000 | tee /dev/stderr; printf '\\nREFUNDED: A-2\\n'";
    let ended = run_alone(&sh(script)).unwrap();
    assert_eq!(ended.exit, Some(0));
    assert!(ended.is_stdout_cut && !ended.left_processes);
    assert!((STDOUT_KEPT - 100..=STDOUT_KEPT).contains(&ended.stdout.len()));
    assert!(stdout(&ended).starts_with("REFUNDED: A-1\nREFUNDED: A-1\n"));
    assert!(stdout(&ended).ends_with("\nREFUNDED: A-2\n"));
    assert!((STDERR_KEPT - 100..=STDERR_KEPT).contains(&ended.stderr_tail.len()));
}

#[test]
fn a_program_that_closes_its_output_is_waited_for() {
    let ended = run_alone(&sh("echo out; exec >&- 2>&-; cat /dev/null; exit 3")).unwrap();
    assert_eq!(ended.exit, Some(3));
    assert_eq!(stdout(&ended), "out\n");
}

#[test]
fn variables_of_ours_do_not_leak() {
    const NAME: &str = "cli::program::tests::variables_of_ours_do_not_leak";
    if std::env::var_os("BADBANK_SEED").is_none() {
        let outer = Blocking::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .envs([("BADBANK_SEED", "7"), ("BADBANK_URL", "old"), ("OTHER", "kept")])
            .output()
            .unwrap();
        assert!(outer.status.success(), "{outer:?}");
        let told = String::from_utf8_lossy(&outer.stdout).into_owned();
        assert!(told.contains("1 passed"), "{told}");
        return;
    }
    let mut program =
        sh(r#"echo "${BADBANK_SEED-unset} $BADBANK_URL $OTHER"; env | grep -c ^BADBANK_"#);
    program.env.push(("BADBANK_URL".to_owned(), "new".into()));
    assert_eq!(stdout(&run_alone(&program).unwrap()), "unset new kept\n1\n");
}

#[test]
fn an_interrupted_run_ends_all_of_it() {
    block_on(async {
        let mut fifo = Fifo::new();
        let program = fifo.sh("sleep 600 & echo up >&3; wait");
        let ended = run(&program, None, Noise::Capture, fifo.is_up()).await;
        assert!(matches!(ended, Err(ProgramError::Interrupted)));
        assert_eq!(fifo.last_words().await, "");
    });
}

#[test]
fn a_dropped_run_ends_all_of_it() {
    block_on(async {
        let mut fifo = Fifo::new();
        let program = fifo.sh("sleep 600 & echo up >&3; wait");
        tokio::select! {
            _ = run(&program, None, Noise::Capture, pending()) => panic!("it ended"),
            () = fifo.is_up() => (),
        }
        assert_eq!(fifo.last_words().await, "");
    });
}

/// The words of the error that starting `file` gives.
fn refusal(file: impl Into<OsString>) -> String {
    let program = Program { command: vec![file.into()], env: Vec::new() };
    run_alone(&program).unwrap_err().to_string()
}

#[test]
fn a_program_that_cannot_start_is_refused_with_advice() {
    assert_eq!(
        refusal("badbank-no-such-program"),
        "`badbank-no-such-program` was not found; give the path of a program, or a name that is on the PATH"
    );
    assert!(refusal("./no/such/program").contains("was not found"));

    let directory = tempfile::tempdir().unwrap();
    assert!(refusal(directory.path()).contains("is not executable"));
    // Another process writes the scripts: what some thread of ours still holds open for writing cannot start.
    let write = r#"cd "$0"
        echo exit > plain; echo exit > bare; echo '#!/no/such/interpreter' > lost; chmod +x bare lost"#;
    let writer = Blocking::new("sh").args(["-c", write]).arg(directory.path()).status();
    assert!(writer.unwrap().success());
    for (file, advice) in [
        ("plain", "is not executable; run `chmod +x` on it"),
        ("bare", "if it is a script, begin it with its interpreter"),
        ("lost", "the interpreter in its first line was not found"),
    ] {
        let refusal = refusal(directory.path().join(file));
        assert!(refusal.contains(advice), "{refusal}");
    }
}

#[test]
fn no_command_is_refused() {
    let nothing = Program { command: Vec::new(), env: Vec::new() };
    assert!(matches!(run_alone(&nothing), Err(ProgramError::NoCommand)));
}
