//! What `--history` writes is graded and replayed.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read as _},
    process::{Command, Stdio},
};

use badbank::history::History;
use rustix::process::Signal;
use serde_json::Value;

use super::{Folder, Told, fifo, interrupt::signal, within_patience};

/// A folder with the history of a run that failed, and what was said of it.
fn recorded() -> (Folder, Told) {
    let folder = Folder::new();
    let told = folder.run("run --harness retries --seed 4 --history run.jsonl --format json");
    (folder, told.ends_with(1))
}

/// The same faults, and the same grade.
fn assert_same(result: &Value, original: &Value) {
    assert_eq!(result["seed"], original["seed"]);
    assert_eq!(result["faults"], original["faults"]);
    assert_eq!(result["grade"], original["grade"]);
}

#[test]
fn a_history_is_graded_as_its_run_was() {
    let (folder, run) = recorded();
    let grade = folder.run("grade run.jsonl --format json").ends_with(1);
    assert!(run.stdout.contains(&format!("\"grade\":{}", grade.stdout.trim_end())));
    let text = folder.run("grade run.jsonl").ends_with(1).stdout;
    let hint = "\nreplay its faults with\n  badbank replay run.jsonl -- CMD\n";
    let text = text.strip_suffix(hint).unwrap();
    let (head, text) = text.split_once("\n\n").unwrap();
    assert!(head.starts_with("seed 4, ticket T-"), "{head}");
    let run = folder.run("run --harness retries --seed 4").stdout;
    assert!(run.contains(text), "{text}");
    folder.run("grade run.jsonl --expect fail").ends_with(0);
}

#[test]
fn a_run_that_passes_wants_no_replay_and_one_from_stdin_has_none() {
    let folder = Folder::new();
    folder.run("run --harness keyed --seed 21 --history run.jsonl").ends_with(0);
    assert!(!folder.run("grade run.jsonl").ends_with(0).stdout.contains("replay"));
    let (folder, _) = recorded();
    let mut command = folder.command("grade -");
    command.stdin(File::open(folder.path("run.jsonl")).unwrap());
    let piped = Told::from(command.output().unwrap()).ends_with(1);
    assert!(!piped.stdout.contains("replay its faults"), "{}", piped.stdout);
}

#[test]
fn a_replay_of_a_run_whose_plan_was_changed_says_what_it_keeps() {
    let ticket = badbank::Ticket::generate(7);
    let mut bank = badbank::Bank::open(&ticket, badbank::fault::Plan::calm());
    bank.set_plan(badbank::fault::Plan::calm().dedupe(badbank::ledger::Dedupe::Off)).unwrap();
    bank.settle();
    let folder = Folder::with("run.jsonl", bank.history().to_string());
    let told = folder.run("replay run.jsonl --harness keyed").ends_with(0);
    assert!(told.stderr.contains("the plan was changed in mid-run"), "{}", told.stderr);
}

#[test]
fn a_history_may_come_through_stdin() {
    let (folder, _) = recorded();
    let mut command = folder.command("grade - --format json");
    command.stdin(std::fs::File::open(folder.path("run.jsonl")).unwrap());
    let piped = Told::from(command.output().unwrap()).ends_with(1);
    assert_eq!(piped.stdout, folder.run("grade run.jsonl --format json").stdout);
}

#[test]
fn another_report_may_be_judged() {
    let (folder, run) = recorded();
    let order = run.json()["grade"]["orders"][0]["order"].as_str().unwrap().to_owned();
    let folder = folder.and("report.txt", format!("REFUNDED: none\nFAILED: {order}\n"));
    let grade = folder.run("grade run.jsonl --report report.txt --format json").ends_with(1).json();
    assert_eq!(grade["report_true"], false);
    assert!(grade["report_note"].as_str().unwrap().contains(&order), "{grade}");
}

#[test]
fn a_history_is_replayed_fault_by_fault() {
    let (folder, run) = recorded();
    let replay = folder.run("replay run.jsonl --harness retries --format json").ends_with(1).json();
    assert_same(&replay, &run.json());
    assert_eq!(replay["replay"], "badbank replay run.jsonl --harness retries");
    let keyed = folder.run("replay run.jsonl --harness keyed").ends_with(0);
    assert!(keyed.stdout.contains("\nverdict   pass: 8 ok\n"), "{}", keyed.stdout);
}

#[test]
fn a_replay_of_a_replay_is_the_same_again() {
    let (folder, run) = recorded();
    folder.run("replay run.jsonl --harness retries --history second.jsonl").ends_with(1);
    let third = folder.run("replay second.jsonl --harness retries --format json").ends_with(1);
    assert_same(&third.json(), &run.json());
}

#[test]
fn a_fault_log_cut_out_of_the_output_is_replayed() {
    let folder = Folder::new();
    let shown = folder.run("run --harness retries --seed 4").ends_with(1);
    let folder = folder.and("faults.txt", shown.fault_log());
    let original = folder.run("run --harness retries --seed 4 --format json").json();
    let replay = folder.run("replay faults.txt --harness retries --format json").ends_with(1);
    assert_same(&replay.json(), &original);
}

#[test]
fn a_history_that_is_cut_off_is_read_up_to_there() {
    let (folder, run) = recorded();
    let text = folder.read("run.jsonl");
    // The cut goes through the last line, after all faults and before the end.
    let cut = text.trim_end().rfind('\n').unwrap() + 10;
    let folder = folder.and("cut.jsonl", &text[..cut]);
    let grade = folder.run("grade cut.jsonl --format json");
    assert!(grade.stderr.contains("warning: cut.jsonl: line "), "{}", grade.stderr);
    assert!(grade.stderr.contains("is cut off"), "{}", grade.stderr);
    assert_eq!(grade.json()["verdict"], "fail");
    let replay = folder.run("replay cut.jsonl --harness retries --format json").ends_with(1);
    assert!(replay.stderr.contains("is cut off"), "{}", replay.stderr);
    assert_same(&replay.json(), &run.json());
}

#[test]
fn a_history_that_is_cut_off_in_the_middle_of_a_letter_is_read_up_to_there_too() {
    let folder = Folder::new();
    folder
        .run("run --seed 4 --history run.jsonl -- sh -c 'echo REFUNDED: none, déjà'")
        .ends_with(1);
    let text = fs::read(folder.path("run.jsonl")).unwrap();
    let cut = text.iter().rposition(|byte| *byte == 0xc3).unwrap() + 1;
    let folder = folder.and("cut.jsonl", &text[..cut]);
    let told = folder.run("grade cut.jsonl").ends_with(1);
    assert!(told.stderr.contains("is cut off; the history was read up to there"), "{told:?}");
}

#[test]
fn a_history_may_be_written_with_other_blanks() {
    let (folder, _) = recorded();
    let spaced = folder.read("run.jsonl").replace("\":", "\": ").replace(",\"", ", \"");
    let folder = folder.and("spaced.jsonl", spaced);
    let told = folder.run("grade spaced.jsonl --format json").ends_with(1);
    assert_eq!(told.stdout, folder.run("grade run.jsonl --format json").stdout);
}

#[test]
fn a_run_that_ends_before_its_first_call_does_not_leave_another_runs_history() {
    let (folder, _) = recorded();
    let before = folder.read("run.jsonl");
    let pipe = fifo(&folder);
    let mut command =
        folder.command("run --seed 5 --history run.jsonl -- sh -c 'echo up > fifo; sleep 600'");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(within_patience(|| fs::read_to_string(pipe).unwrap()), "up\n");
    signal(&child, Signal::TERM);
    Told::from(within_patience(|| child.wait_with_output().unwrap())).ends_with(130);
    assert_ne!(folder.read("run.jsonl"), before);
    folder.run("grade run.jsonl").ends_with(1);
}

#[test]
fn a_damaged_record_is_refused_by_line() {
    let (folder, run) = recorded();
    let text = folder.read("run.jsonl");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "garbage";
    let folder = folder
        .and("damaged.jsonl", lines.join("\n") + "\n")
        .and("later.jsonl", text.replacen("\"version\":1", "\"version\":2", 1))
        .and("empty.jsonl", "")
        .and("result.json", run.stdout)
        .and("later.txt", "badbank faults v2 seed=7\n")
        .and("damaged.txt", "badbank faults v1 seed=7\nA-1 refund #0 timeout\n")
        .and("binary.jsonl", [0xff, 0xfe, b'\n']);
    let before = folder.contents();
    for (file, place) in [
        ("damaged.jsonl", "damaged.jsonl:3: "),
        ("later.jsonl", "later.jsonl:1: history version 2 is not known"),
        ("empty.jsonl", "empty.jsonl:1: this is not a recorded run"),
        ("result.json", "result.json:1: this is not a recorded run"),
        ("binary.jsonl", "binary.jsonl:1: this is not UTF-8 text"),
        ("missing.jsonl", "missing.jsonl cannot be read"),
    ] {
        for arguments in [format!("grade {file}"), format!("replay {file} --harness keyed")] {
            let told = folder.run(&arguments).ends_with(2);
            assert!(told.stderr.contains(place), "{arguments}: {}", told.stderr);
            assert_eq!(told.stdout, "", "{arguments}");
        }
    }
    for (file, place) in [("later.txt", "later.txt:1: "), ("damaged.txt", "damaged.txt:2: ")] {
        let told = folder.run(&format!("replay {file} --harness keyed")).ends_with(2);
        assert!(told.stderr.contains(place), "{}", told.stderr);
        assert_eq!(told.stdout, "");
    }
    assert_eq!(folder.contents(), before);
}

#[test]
fn a_fault_log_alone_cannot_be_graded() {
    let folder = Folder::with("faults.txt", "badbank faults v1 seed=7\n");
    let told = folder.run("grade faults.txt").ends_with(2);
    assert!(told.stderr.contains("faults.txt is a fault log"), "{}", told.stderr);
    assert_eq!(told.stdout, "");
}

/// A program that refunds everything under keys, and then does not end before the pipe `fifo` is read.
fn then_waits() -> String {
    let badbank = shlex::try_quote(env!("CARGO_BIN_EXE_badbank")).unwrap();
    format!("-- sh -c '{badbank} program keyed && echo up > fifo'")
}

#[test]
fn a_history_is_written_while_its_run_goes_on() {
    let folder = Folder::new();
    let waits = fifo(&folder);
    let history = folder.path("history");
    assert!(Command::new("mkfifo").arg(&history).status().unwrap().success());
    let arguments = format!("run --seed 21 --history history --format json {}", then_waits());
    let mut command = folder.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = within_patience(move || {
        let mut reader = BufReader::new(File::open(history).unwrap());
        let mut text = String::new();
        // All eight orders are paid, and the program still runs.
        while text.matches(r#""event":"commit""#).count() < 8 {
            assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
        }
        assert_eq!(fs::read_to_string(waits).unwrap(), "up\n");
        reader.read_to_string(&mut text).unwrap();
        text
    });
    let told = Told::from(within_patience(|| child.wait_with_output().unwrap())).ends_with(0);
    let read = History::parse(&text).unwrap();
    assert_eq!(read.warning, None);
    assert!(read.history.has_ended());
    let grade = Folder::with("run.jsonl", text).run("grade run.jsonl --format json").ends_with(0);
    assert_eq!(grade.stderr, "");
    assert_eq!(grade.json(), told.json()["grade"]);
}

/// Runs a program that waits when it has refunded everything, and interrupts it there.
fn interrupt_while_it_waits(folder: &Folder, history: &str) -> Told {
    let pipe = fifo(folder);
    let program = then_waits().replace("> fifo", "> fifo && sleep 600");
    let mut command = folder.command(&format!("run --seed 21 --history {history} {program}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(within_patience(|| fs::read_to_string(pipe).unwrap()), "up\n");
    signal(&child, Signal::INT);
    within_patience(|| child.wait_with_output().unwrap()).into()
}

#[test]
fn a_run_that_is_interrupted_leaves_the_history_so_far() {
    let folder = Folder::with("run.jsonl", "an older history\n");
    let told = interrupt_while_it_waits(&folder, "run.jsonl").ends_with(130);
    assert_eq!(told.stdout, "");
    let read = History::parse(&folder.read("run.jsonl")).unwrap();
    assert_eq!(read.warning, None);
    assert!(!read.history.has_ended());
    let grade = folder.run("grade run.jsonl").ends_with(0);
    let warning = "warning: run.jsonl: the run had not ended when its history was written";
    assert!(grade.stderr.contains(warning), "{}", grade.stderr);
    assert!(grade.stdout.contains("pass: 8 ok"), "{}", grade.stdout);
}

#[test]
fn a_pipe_that_nobody_reads_does_not_hold_up_an_interrupt() {
    let folder = Folder::new();
    let unread = folder.path("unread");
    assert!(Command::new("mkfifo").arg(&unread).status().unwrap().success());
    interrupt_while_it_waits(&folder, "unread").ends_with(130);
}

#[test]
fn a_run_that_cannot_start_leaves_an_older_history_alone() {
    let (folder, _) = recorded();
    let before = folder.contents();
    folder.run("run --seed 4 --history run.jsonl -- ./missing").ends_with(3);
    folder.run("replay run.jsonl --history run.jsonl -- ./missing").ends_with(3);
    assert_eq!(folder.contents(), before);
}

#[test]
fn a_history_may_be_replayed_onto_itself() {
    let (folder, run) = recorded();
    let before = folder.read("run.jsonl");
    let arguments = "replay run.jsonl --harness retries --history run.jsonl --format json";
    assert_same(&folder.run(arguments).ends_with(1).json(), &run.json());
    let events = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(events(&folder.read("run.jsonl")), events(&before));
}

#[test]
fn a_program_that_does_nothing_has_a_history_too() {
    let folder = Folder::new();
    folder.run("run --seed 4 --history run.jsonl -- true").ends_with(1);
    let words: Vec<String> = folder.read("run.jsonl").lines().skip(1).map(str::to_owned).collect();
    assert_eq!(words, [r#"{"seq":1,"event":"settle"}"#]);
}
