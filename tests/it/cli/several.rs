//! Several runs: repeated ones, those up to the first failure, and as a report for build servers.

use badbank::{
    Bank, Seed, Ticket,
    fault::Plan,
    harness::{self, Design, VirtualTime},
};
use serde_json::Value;

use super::{Folder, badbank};

/// A program that refunds each order once, with a key, except that every third time it does nothing.
const FORGETFUL: &str = r#"
import json, os, pathlib, urllib.request
count = pathlib.Path("count")
times = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(times))
for order in json.load(open(os.environ["BADBANK_TICKET"]))["orders"]:
    if times % 3 == 0:
        continue
    body = json.dumps({"amount": order["amount"]}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": order["id"]}
    url = os.environ["BADBANK_URL"] + "/orders/" + order["id"] + "/refunds"
    urllib.request.urlopen(urllib.request.Request(url, body, headers))
"#;

#[test]
fn a_program_that_varies_is_repeated_and_its_chances_are_told() {
    if super::is_without_python() {
        return;
    }
    let folder = Folder::with("program.py", FORGETFUL);
    let told =
        folder.run("run --repeat 6 --jobs 1 --plan calm --format json -- python3 program.py");
    let json = told.ends_with(1).json();
    let verdicts: Vec<&str> = json["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["grade"]["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["pass", "pass", "fail", "pass", "pass", "fail"]);
    // C(4, k) / C(6, k).
    assert_eq!(json["totals"]["pass_hat"].to_string(), "[0.666667,0.4,0.2,0.066667,0.0,0.0]");

    let told = folder.run("run --repeat 3 --jobs 1 --plan calm -- python3 program.py").ends_with(1);
    assert!(told.stdout.contains("pass^k): 1: 66.7 %, 2: 33.3 %, 3: 0.0 %"), "{}", told.stdout);
    assert!(told.stdout.contains("failed runs: run 3\n"), "{}", told.stdout);
}

#[test]
fn runs_after_the_first_failure_do_not_count_however_many_go_on_at_once() {
    let arguments =
        "run --seeds 1..60 --plan stale-reads --harness keyed --format json --fail-fast";
    let alone = badbank(&format!("{arguments} --jobs 1")).ends_with(1);
    let together = badbank(&format!("{arguments} --jobs 8")).ends_with(1);
    assert_eq!(alone.stdout, together.stdout);
    let json = alone.json();
    let runs = json["runs"].as_array().unwrap();
    let failed: Vec<bool> = runs.iter().map(|run| run["grade"]["verdict"] == "fail").collect();
    assert!(runs.len() < 60 && failed.iter().filter(|failed| **failed).count() == 1, "{failed:?}");
    assert_eq!(failed.last(), Some(&true));
    assert_eq!(json["totals"]["runs"], runs.len());
}

#[test]
fn a_build_server_gets_a_suite_for_each_run_and_a_case_for_each_order() {
    let told = badbank("run --seed 21 --harness retries --format junit").ends_with(1);
    let count = |text: &str| told.stdout.matches(text).count();
    assert!(told.stdout.starts_with("<?xml"), "{}", told.stdout);
    assert_eq!(count("<testsuite "), 1);
    assert_eq!(count("<testcase "), 8 + 2);
    // Two doubled orders, and a report that does not say so.
    assert_eq!(count("<failure "), 3);
    assert_eq!(count(r#"message="duplicated: repeat_after_timeout""#), 1);
    assert_eq!(count(r#"type="report_false""#), 1);

    let told = badbank("run --seeds 1..3 --harness keyed --format junit").ends_with(0);
    assert_eq!(told.stdout.matches("<testsuite ").count(), 3);
    assert_eq!(told.stdout.matches("<failure ").count(), 0);
}

/// The failures in a report for build servers, by type.
fn failures(stdout: &str) -> Vec<&str> {
    let failures = stdout.split("<failure ").skip(1);
    failures.filter_map(|failure| failure.split("type=\"").nth(1)?.split('"').next()).collect()
}

#[test]
fn a_build_server_sees_a_failure_exactly_where_the_command_fails() {
    let folder = Folder::with("other.snap", "not this run\n");
    for (arguments, code, kinds) in [
        ("--harness keyed --expect fail", 1, &["verdict"][..]),
        ("--harness retries --expect fail", 0, &[]),
        ("--harness keyed --snapshot other.snap", 1, &["snapshot"]),
        ("--harness keyed --snapshot none.snap --expect fail", 1, &["verdict", "snapshot"]),
        ("--plan calm --time-limit 100ms -- sleep 600", 1, &["missed"; 8]),
    ] {
        let told = folder.run(&format!("run --seed 21 --format junit {arguments}"));
        assert_eq!(told.code, Some(code), "{arguments}: {}", told.stdout);
        let found = failures(&told.stdout);
        let (found, limits): (Vec<&str>, Vec<&str>) =
            found.iter().partition(|kind| **kind != "time_limit");
        assert_eq!(found, kinds, "{arguments}: {}", told.stdout);
        assert_eq!(limits.len(), usize::from(arguments.contains("time-limit")), "{arguments}");
    }
    let told = badbank("run --seeds 1..2 --harness business-key --expect fail --format junit");
    let told = told.ends_with(1);
    assert_eq!(failures(&told.stdout), ["verdict"]);
    folder.run("run --seed 21 --harness retries --history run.jsonl").ends_with(1);
    let told = folder.run("grade run.jsonl --format junit --expect fail").ends_with(0);
    assert_eq!(failures(&told.stdout), [""; 0]);
}

#[test]
fn a_recorded_run_is_graded_for_build_servers_too() {
    let folder = Folder::new();
    folder.run("run --seed 21 --harness retries --history run.jsonl").ends_with(1);
    let told = folder.run("grade run.jsonl --format junit").ends_with(1);
    assert_eq!(told.stdout.matches("<failure ").count(), 3, "{}", told.stdout);
}

#[test]
fn what_only_several_runs_have_is_refused_for_one() {
    for arguments in [
        "run --fail-fast --harness keyed",
        "run --repeat 0 --harness keyed",
        "run --repeat 2 --seeds 1..2 --harness keyed",
    ] {
        let told = badbank(arguments).ends_with(2);
        assert!(
            told.stdout.is_empty() && told.stderr.starts_with("error: "),
            "{arguments}: {told:#?}"
        );
    }
}

#[test]
fn the_other_agents_as_programs_get_the_grades_that_they_get_in_process() {
    for design in ["model-key", "hasty", "trusting", "forgetful", "paraphrasing"] {
        let arguments = format!("run --seeds 1..20 --harness {design} --format json");
        let told = badbank(&arguments).json();
        let design: Design = design.parse().unwrap();
        for (seed, run) in (1..=20).zip(told["runs"].as_array().unwrap()) {
            let ticket = Ticket::generate(seed);
            let mut bank = Bank::open(&ticket, Plan::article().seed(seed));
            let outcome =
                harness::run(design, &ticket, &mut bank, &mut VirtualTime, Seed::new(seed));
            let grade: Value =
                serde_json::from_str(&bank.grade(&outcome.report).to_json()).unwrap();
            assert_eq!(run["grade"], grade, "{design} under seed {seed}");
            assert_eq!(run["faults"], Value::from(bank.fault_log().lines()));
        }
    }
}
