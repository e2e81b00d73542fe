//! Ctrl-C ends everything, and says so.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use badbank::history::History;
use rustix::process::{Pid, Signal, kill_process};

use super::{Folder, Told, fifo, last_words, within_patience};

/// Sends a signal to a process that this test started.
pub(super) fn signal(child: &Child, signal: Signal) {
    let number = i32::try_from(child.id()).unwrap();
    kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
}

/// Interrupts a run once its program is up; the program has started another, and neither ends by itself.
fn interrupted(options: &str, by: Signal) {
    let folder = Folder::new();
    let pipe = fifo(&folder);
    let script = "exec 3>fifo; sleep 600 & echo up >&3; wait";
    let mut command = folder.command(&format!("run --seed 7 {options} -- sh -c '{script}'"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = within_patience(|| {
        let mut reader = BufReader::new(File::open(pipe).unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        reader
    });
    signal(&child, by);
    let told = Told::from(within_patience(|| child.wait_with_output().unwrap())).ends_with(130);
    assert_eq!(told.stdout, "", "a run that was interrupted has no result");
    assert!(
        told.stderr.contains("interrupted\n\nreplay it with\n  badbank run --seed 7 "),
        "{told:?}"
    );
    assert_eq!(last_words(reader), "");
}

#[test]
fn an_interrupt_ends_the_program_with_all_that_it_started() {
    interrupted("", Signal::INT);
}

#[test]
fn a_termination_is_an_interrupt_too() {
    interrupted("", Signal::TERM);
}

#[test]
fn so_is_a_terminal_that_is_closed() {
    interrupted("", Signal::HUP);
}

/// The design reads until it is answered, which it never is.
#[test]
fn a_design_does_not_outlive_a_bank_that_was_killed() {
    let rules = r#"[{"on": "get_order", "fault": "transient", "rate": 1}]"#;
    let folder = Folder::with("down.json", format!(r#"{{"version": 1, "rules": {rules}}}"#));
    let history = fifo(&folder);
    let arguments = "run --plan down.json --harness retries --history fifo";
    let mut command = folder.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let reader = within_patience(|| {
        let mut reader = BufReader::new(File::open(history).unwrap());
        let mut line = String::new();
        while !line.contains("invoke") {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
        }
        reader
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(reader);
    assert!(last_words(stderr).contains("the bank is gone"));
}

#[test]
fn an_interrupt_beats_what_was_expected() {
    interrupted("--expect fail", Signal::INT);
}

#[test]
fn an_interrupt_before_the_first_call_leaves_a_history_without_one() {
    let folder = Folder::new();
    let history = folder.path("run.jsonl");
    interrupted(&format!("--history '{}'", history.display()), Signal::INT);
    let read = History::parse(&std::fs::read_to_string(history).unwrap()).unwrap().history;
    assert!(read.events().is_empty() && !read.has_ended());
}
