//! `badbank run`: verdicts, exit codes and the shape of what is printed.

use std::fs::OpenOptions;

use badbank::{Seed, Ticket};
use serde_json::{Value, json};

use super::{Folder, assert_text, badbank};

/// A plan whose only fault comes too late to be met.
const UNMET: &str =
    r#"{"version": 1, "rules": [{"on": "refund", "fault": "timeout", "attempts": "90"}]}"#;

#[test]
fn a_retry_without_a_key_pays_twice_and_is_told_why() {
    let told = badbank("run --harness retries --seed 7").ends_with(1);
    assert!(told.stdout.contains("duplicated"), "{}", told.stdout);
    assert!(told.stdout.contains("duplicate_delivery"), "{}", told.stdout);
    assert!(told.stdout.ends_with("\nreplay it with\n  badbank run --seed 7 --harness retries\n"));
    assert_text("a_retry_without_a_key_pays_twice_and_is_told_why", &told.stdout);
}

#[test]
fn a_key_saves_the_same_retry_from_the_same_faults() {
    let keyed = badbank("run --harness keyed --seed 7").ends_with(0);
    let naive = badbank("run --harness retries --seed 7").ends_with(1);
    assert_eq!(keyed.fault_log(), naive.fault_log());
    assert!(keyed.stdout.contains("\nverdict   pass: 8 ok\n"), "{}", keyed.stdout);
    assert_text("a_key_saves_the_same_retry_from_the_same_faults", &keyed.stdout);
}

#[test]
fn an_agent_that_looks_first_still_meets_the_doubled_request() {
    let told = badbank("run --harness model-only --seed 7").ends_with(1);
    assert!(told.stdout.contains("duplicate_delivery"), "{}", told.stdout);
    assert_text("an_agent_that_looks_first_still_meets_the_doubled_request", &told.stdout);
}

#[test]
fn each_end_has_its_exit_code() {
    let folder = Folder::with("unmet.json", UNMET);
    for (arguments, code) in [
        ("run --seed 7 --harness keyed", 0),
        ("run --seed 7 --harness retries", 1),
        ("run --seed 7", 2),
        ("run --seed 7 -- badbank-no-such-program", 3),
        ("run --plan unmet.json --harness keyed", 4),
        ("run --seed 7 --harness retries --expect fail", 0),
        ("run --seed 7 --harness keyed --expect fail", 1),
        ("run --expect fail -- badbank-no-such-program", 3),
        ("run --plan unmet.json --harness keyed --expect fail", 4),
        ("run --time-limit 100ms --expect fail -- sleep 600", 1),
    ] {
        let told = folder.run(arguments);
        assert_eq!(told.code, Some(code), "{arguments}: {told:#?}");
    }
}

#[test]
fn of_several_exit_codes_the_gravest_wins() {
    let folder = Folder::with("unmet.json", UNMET);
    for (arguments, code) in [
        // 1 beats 0 and 4: the snapshot is missing.
        ("run --seed 7 --harness keyed --snapshot missing", 1),
        ("run --plan unmet.json --harness keyed --snapshot missing", 1),
        ("run --seed 7 --harness retries --expect fail --snapshot missing", 1),
        // 3 beats all of them: the device is full.
        ("run --seed 7 --harness keyed --history /dev/full", 3),
        ("run --seed 7 --harness retries --history /dev/full", 3),
        ("run --plan unmet.json --harness keyed --history /dev/full", 3),
        // Over several seeds: fail if one failed, not exposed if none was exposed, else pass.
        ("run --seeds 1..3 --harness keyed", 0),
        ("run --seeds 1..3 --harness retries", 1),
        ("run --seeds 1..3 --plan unmet.json --harness keyed", 4),
        ("run --seeds 1..3 --harness retries --expect fail", 0),
        ("run --seeds 1..3 --harness keyed --snapshot missing", 1),
    ] {
        let told = folder.run(arguments);
        assert_eq!(told.code, Some(code), "{arguments}: {told:#?}");
        assert!(!told.stdout.is_empty(), "{arguments}: the result was lost");
    }
}

#[test]
fn a_result_that_nobody_could_read_is_no_pass() {
    let folder = Folder::new();
    let mut command = folder.command("run --seed 7 --harness keyed");
    command.stdout(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let told = super::Told::from(command.output().unwrap()).ends_with(3);
    assert!(told.stderr.contains("stdout cannot be written"), "{}", told.stderr);
}

/// The names of an object's fields.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_json_of_one_run_has_the_shape_of_the_design() {
    let result = badbank("run --harness retries --seed 7 --format json").ends_with(1).json();
    assert_eq!(fields(&result), ["faults", "grade", "plan", "program", "replay", "seed"]);
    assert_eq!(result["seed"], 7);
    assert_eq!(result["plan"], "article");
    assert_eq!(result["replay"], "badbank run --seed 7 --harness retries");
    let program = &result["program"];
    assert_eq!(program["exit_code"], 0);
    assert_eq!(program["signal"], Value::Null);
    assert_eq!(program["restarts"], 0);
    assert_eq!(result["faults"][0], "A-1274 get_order #1 transient");
    let grade = &result["grade"];
    assert_eq!(grade["verdict"], "fail");
    assert_eq!(grade["dup_orders"], 1);
    assert_eq!(grade["over_refunded"], json!({"EUR": "161.28"}));
    assert_eq!(grade["orders"][1]["causes"][0]["cause"], "duplicate_delivery");
}

#[test]
fn totals_add_up_to_their_runs() {
    let result = badbank("run --harness retries --seeds 1..20 --format json").ends_with(1).json();
    assert_eq!(fields(&result), ["runs", "totals"]);
    let runs = result["runs"].as_array().unwrap();
    let seeds: Vec<u64> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, (1..=20).collect::<Vec<u64>>());
    let grades = || runs.iter().map(|run| &run["grade"]);
    let with = |verdict: &str| grades().filter(|grade| grade["verdict"] == verdict).count() as u64;
    let extra = |grade: &Value| grade["extra_refunds"].as_u64().unwrap();
    let totals = &result["totals"];
    assert_eq!(totals["runs"], 20);
    for verdict in ["pass", "fail", "not_exposed"] {
        assert_eq!(totals[verdict], with(verdict), "{verdict}");
    }
    assert_eq!(with("pass") + with("fail") + with("not_exposed"), 20);
    assert!(with("fail") > 0);
    assert_eq!(totals["extra_refunds"], grades().map(extra).sum::<u64>());
    assert_eq!(totals["double_runs"], grades().filter(|grade| extra(grade) > 0).count());
}

#[test]
fn a_run_among_many_is_the_run_alone() {
    let many = badbank("run --harness retries --seeds 6..8 --format json").json();
    let alone = badbank("run --harness retries --seed 7 --format json").json();
    assert_eq!(many["runs"][1], alone);
}

#[test]
fn how_many_go_on_at_once_changes_nothing() {
    for format in ["text", "json"] {
        let with = |jobs: u32| {
            let arguments =
                format!("run --harness retries --seeds 1..12 --format {format} --jobs {jobs}");
            badbank(&arguments).ends_with(1).stdout
        };
        let one = with(1);
        assert_eq!(with(2), one);
        assert_eq!(with(8), one);
    }
}

#[test]
fn many_runs_are_summed_up_for_people() {
    let told = badbank("run --harness retries --seeds 6..9").ends_with(1);
    assert!(told.stdout.contains("failed seeds: "), "{}", told.stdout);
    assert_text("many_runs_are_summed_up_for_people", &told.stdout);
}

#[test]
fn the_seed_comes_from_the_command_line_else_from_the_plan_else_it_is_one() {
    let folder = Folder::with("plan.json", r#"{"version": 1, "seed": 5}"#);
    for (arguments, seed) in [
        ("--plan plan.json --seed 7", 7),
        ("--plan plan.json", 5),
        ("--plan calm", 1),
        ("--seed 0", 0),
        ("--seed 18446744073709551615", u64::MAX),
    ] {
        let told = folder.run(&format!("run {arguments} --harness keyed"));
        let ticket = Ticket::generate(Seed::new(seed));
        let wanted = format!("seed {seed}, plan ");
        assert!(told.stdout.starts_with(&wanted), "{arguments}: {}", told.stdout);
        let head = told.stdout.lines().next().unwrap();
        assert!(head.ends_with(&format!(", ticket {}", ticket.id())), "{arguments}: {head}");
    }
}

#[test]
fn a_ticket_and_a_plan_of_ones_own_are_used_and_replayed() {
    let ticket = r#"{"version": 1, "currency": "JPY", "orders": [
        {"id": "mine", "amount": "1200"}, {"id": "not-mine", "amount": "5", "expect": []}]}"#;
    let plan = r#"{"version": 1, "rules": [{"on": "refund", "order": "mine", "attempts": "1", "fault": "timeout"}]}"#;
    let folder = Folder::with("my ticket.json", ticket).and("plan.json", plan);
    let arguments = "run --seed 3 --ticket 'my ticket.json' --plan plan.json --harness retries";
    let told = folder.run(&format!("{arguments} --format json")).ends_with(1);
    let result = told.json();
    assert_eq!(result["faults"], json!(["mine refund #1 timeout"]));
    assert_eq!(result["grade"]["over_refunded"], json!({"JPY": "1200"}));
    assert_eq!(result["grade"]["orders"][1]["verdict"], "ok");
    let replay = result["replay"].as_str().unwrap().strip_prefix("badbank ").unwrap();
    let again = folder.run(&format!("{replay} --format json")).ends_with(1);
    assert_eq!(again.stdout, told.stdout);
}

#[test]
fn a_rule_for_an_order_that_the_ticket_lacks_is_a_warning() {
    let plan = r#"{"version": 1, "rules": [{"on": "refund", "order": "A-0", "attempts": "1", "fault": "timeout"}]}"#;
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1.00"}]}"#;
    let folder = Folder::with("plan.json", plan).and("ticket.json", ticket);
    let arguments = "run --plan plan.json --ticket ticket.json --harness keyed --format json";
    let told = folder.run(arguments).ends_with(4);
    assert!(told.stderr.contains("order A-0, which the ticket lacks"), "{}", told.stderr);
    assert_eq!(told.json()["grade"]["unfired"], json!(["A-0 refund #1 timeout"]));
}

#[test]
fn a_rule_for_an_order_that_the_made_up_ticket_lacks_is_warned_of() {
    let rules = r#"[{"on": "refund", "order": "X-1", "attempts": "1", "fault": "timeout"}]"#;
    let plan = format!(r#"{{"version": 1, "rules": {rules}}}"#);
    let folder = Folder::with("plan.json", plan);
    let told = folder.run("run --plan plan.json --harness keyed").ends_with(4);
    assert!(told.stderr.contains("order X-1, which the ticket lacks"), "{}", told.stderr);
}
