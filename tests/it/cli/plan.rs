//! `badbank plan`: what there is, what a plan says, and what each call will meet.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Folder, assert_text, badbank};

#[test]
fn the_plans_are_listed() {
    let text = badbank("plan list").ends_with(0).stdout;
    assert!(text.lines().any(|line| line.starts_with("article ")), "{text}");
    assert_text("the_plans_are_listed", &text);
    let json = badbank("plan list --format json").ends_with(0).json();
    let names: Vec<&str> =
        json.as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap()).collect();
    let first_words: Vec<&str> =
        text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, first_words);
}

#[test]
fn every_plan_is_sound_and_shows_as_a_plan_that_is_the_same() {
    let listed = badbank("plan list --format json").json();
    for plan in listed.as_array().unwrap() {
        let name = plan["name"].as_str().unwrap();
        let shown = badbank(&format!("plan show {name}")).ends_with(0).stdout;
        let folder = Folder::with("copy.json", &shown);
        assert_eq!(folder.run("plan show copy.json").ends_with(0).stdout, shown, "{name}");
        let checked = folder.run("plan check copy.json").ends_with(0).stdout;
        assert!(checked.starts_with("copy.json is sound: "), "{checked}");
    }
}

#[test]
fn a_plan_says_all_that_is_left_out() {
    let folder = Folder::with("plan.json", r#"{"version": 1, "dedupe": "first-reply"}"#);
    let shown = folder.run("plan show plan.json").ends_with(0).json();
    assert_eq!(shown["dedupe"], "first_reply");
    assert_eq!(shown["over_refund"], "allow");
    assert_eq!(shown["key_ttl_s"], 86_400);
    assert_eq!(shown["lost_reply"], "status");
}

#[test]
fn a_check_against_a_ticket_names_the_orders_that_it_lacks() {
    let plan = r#"{"version": 1, "rules": [{"on": "refund", "order": "A-0", "attempts": "1", "fault": "lost"}]}"#;
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1.00"}]}"#;
    let folder = Folder::with("plan.json", plan).and("ticket.json", ticket);
    let told = folder.run("plan check plan.json --ticket ticket.json").ends_with(0);
    assert!(told.stderr.contains("order A-0, which the ticket lacks"), "{}", told.stderr);
    assert_eq!(told.stdout, "plan.json is sound: 1 rule\n");
}

#[test]
fn a_forecast_is_a_table() {
    assert_text("a_forecast_is_a_table", &badbank("plan forecast --seed 7").ends_with(0).stdout);
}

/// What each call of a forecast meets, by order, operation and attempt.
fn outlook(forecast: &Value) -> BTreeMap<String, Option<&str>> {
    let calls = forecast["calls"].as_array().unwrap().iter();
    let attempts = |call: &'_ Value| {
        let name =
            format!("{} {}", call["order"].as_str().unwrap(), call["operation"].as_str().unwrap());
        (1..).map(move |attempt| format!("{name} #{attempt}"))
    };
    calls
        .flat_map(|call| attempts(call).zip(call["attempts"].as_array().unwrap()))
        .map(|(call, fault)| (call, fault.as_str()))
        .collect()
}

/// The calls that a run made.
fn calls_made(run: &Value) -> Vec<String> {
    let orders = run["grade"]["orders"].as_array().unwrap().iter();
    orders
        .flat_map(|order| {
            let id = order["order"].as_str().unwrap();
            ["get_order", "refund"].into_iter().flat_map(move |operation| {
                let made = order["attempts"][operation].as_u64().unwrap();
                (1..=made).map(move |attempt| format!("{id} {operation} #{attempt}"))
            })
        })
        .collect()
}

#[test]
fn a_forecast_comes_true_whatever_the_program_under_every_plan() {
    let listed = badbank("plan list --format json").json();
    let plans = listed.as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap());
    for (seed, plan) in (1..).zip(plans) {
        for design in ["model-only", "retries", "keyed"] {
            let run = badbank(&format!(
                "run --seed {seed} --plan {plan} --harness {design} --format json"
            ))
            .json();
            let arguments =
                format!("plan forecast {plan} --seed {seed} --attempts 1000 --format json");
            let forecast = badbank(&arguments).ends_with(0).json();
            assert_eq!(forecast["seed"], seed);
            let outlook = outlook(&forecast);
            let made = calls_made(&run);
            assert!(made.len() >= 16, "{made:?}");
            let mut foretold: Vec<String> =
                made.iter().filter_map(|call| Some(format!("{call} {}", outlook[call]?))).collect();
            let mut met: Vec<&str> = run["faults"]
                .as_array()
                .unwrap()
                .iter()
                .map(|fault| fault.as_str().unwrap())
                .collect();
            foretold.sort_unstable();
            met.sort_unstable();
            assert_eq!(met, foretold, "{design} under {plan}, seed {seed}");
        }
    }
}
