//! Programs that misbehave are ended, read and graded all the same.

use std::{fs::File, process::Stdio};

use badbank::Ticket;
use serde_json::Value;

use super::{Folder, Told, badbank, fifo, last_words, within_patience};

#[test]
fn a_program_that_hangs_is_killed_and_graded() {
    let arguments = "run --seed 7 --time-limit 300ms --format json -- sh -c 'sleep 600'";
    let told = badbank(arguments).ends_with(1);
    assert!(told.stderr.contains("killed at its time limit of 300ms"), "{}", told.stderr);
    let result = told.json();
    assert_eq!(result["program"]["timed_out"], true);
    assert_eq!(result["grade"]["missed"], 8);
    assert_eq!(result["replay"], "badbank run --seed 7 --time-limit 300ms -- sh -c 'sleep 600'");
}

#[test]
fn a_program_that_dies_by_a_signal_is_graded() {
    let told = badbank("run --plan calm --format json -- sh -c 'kill -9 $$'").ends_with(1);
    let program = &told.json()["program"];
    assert_eq!((&program["exit_code"], &program["signal"]), (&Value::Null, &Value::from(9)));
    let text = badbank("run --plan calm -- sh -c 'kill -9 $$'").stdout;
    assert!(text.contains("program   ended by signal 9\n"), "{text}");
}

#[test]
fn the_programs_own_exit_code_is_shown_and_changes_nothing() {
    let badbank_itself = env!("CARGO_BIN_EXE_badbank");
    let script = format!("\"{badbank_itself}\" program keyed; exit 77");
    let told = badbank(&format!("run --seed 7 --format json -- sh -c '{script}'")).ends_with(0);
    assert_eq!(told.json()["program"]["exit_code"], 77);
}

#[test]
fn what_a_program_leaves_behind_is_ended() {
    let folder = Folder::new();
    let pipe = fifo(&folder);
    let script = "exec 3>fifo; sleep 600 & echo done >&3";
    let mut command = folder.command(&format!("run --plan calm -- sh -c '{script}'"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pipe = within_patience(|| File::open(pipe).unwrap());
    assert_eq!(last_words(pipe), "done\n");
    let told = Told::from(within_patience(|| child.wait_with_output().unwrap())).ends_with(1);
    assert!(told.stderr.contains("left processes behind; they were ended"), "{}", told.stderr);
}

#[test]
fn a_flood_of_output_is_read_to_its_report() {
    let badbank_itself = env!("CARGO_BIN_EXE_badbank");
    let flood = "yes REFUNDED: A-1 | head -c 20000000; echo; echo";
    let script = format!("{flood}; \"{badbank_itself}\" program keyed");
    let told = badbank(&format!("run --seed 7 --format json -- sh -c '{script}'")).ends_with(0);
    assert!(told.stderr.contains("printed too much"), "{}", told.stderr);
    assert_eq!(told.json()["grade"]["all_ok"], true);
}

#[test]
fn of_ours_a_program_sees_its_bank_and_its_ticket_alone() {
    let folder = Folder::new();
    let script = r#"env > env.txt; cat "$BADBANK_TICKET" > ticket.json"#;
    let mut command = folder.command(&format!("run --seed 7 -- sh -c '{script}'"));
    command.envs([("BADBANK_TOKEN", "secret"), ("BADBANK_SEED", "7"), ("BADBANK_URL", "old")]);
    Told::from(command.env("OTHER", "kept").output().unwrap()).ends_with(1);
    let env = folder.read("env.txt");
    let mut ours: Vec<&str> = env.lines().filter(|line| line.starts_with("BADBANK_")).collect();
    ours.sort_unstable();
    let [ticket, url] = ours[..] else { panic!("{ours:?}") };
    assert!(url.starts_with("BADBANK_URL=http://127.0.0.1:") && url.ends_with("/runs/1"), "{url}");
    let ticket = ticket.strip_prefix("BADBANK_TICKET=").unwrap();
    assert!(!std::path::Path::new(ticket).exists(), "{ticket} was left behind");
    assert!(env.lines().any(|line| line == "OTHER=kept"));
    let ticket = Ticket::parse(&folder.read("ticket.json")).unwrap();
    assert_eq!(ticket.orders().len(), 8);
    assert!(!env.contains("secret"));
}

#[test]
fn a_program_has_no_input_and_its_noise_is_heard() {
    let told = badbank("run --plan calm -- sh -c 'cat; echo noise >&2; echo data'").ends_with(1);
    assert!(told.stderr.contains("noise\n"), "{}", told.stderr);
    assert!(!told.stdout.contains("\ndata\n"), "stdout is badbank's own: {}", told.stdout);
}
