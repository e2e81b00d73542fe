//! The four arms of who retries: measured beside exact, the same on any number of threads, and red
//! without what it measures.
#![allow(clippy::float_arithmetic, reason = "this is where measured rates meet exact ones")]

use std::num::NonZero;

use badbank::{
    fault::Plan,
    lab::{
        Settings, Sheet as _,
        retries::{self, ArmResult, Retries},
    },
    ledger::Dedupe,
};

/// Tickets an arm; without optimisation so many take too long.
const TICKETS: u32 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

fn run(tickets: u32, jobs: usize, plan: &Plan) -> Retries {
    let jobs = NonZero::new(jobs).unwrap();
    retries::run(&Settings { jobs, ..Settings::new(u64::from(tickets), 1) }, plan)
}

fn arm<'a>(table: &'a Retries, name: &str) -> &'a ArmResult {
    table.arms().iter().find(|arm| arm.name == name).unwrap()
}

/// Within four standard errors of a proportion of tickets.
#[track_caller]
fn agrees(name: &str, hits: u64, exact: f64) {
    let tickets = f64::from(TICKETS);
    let measured = f64::from(u32::try_from(hits).unwrap()) / tickets;
    let error = (exact * (1.0 - exact) / tickets).sqrt();
    // What never happens, or always, has no standard error; nor has the sixth digit that is printed.
    assert!((measured - exact).abs() <= 4.0 * error + 1e-6, "{name}: {measured} is not {exact}");
}

#[test]
fn measured_values_lie_within_four_standard_errors_of_the_exact_ones() {
    let table = run(TICKETS, 2, &Plan::article());
    for arm in table.arms() {
        agrees(arm.name, arm.double_tickets, arm.exact.double_ticket);
        agrees(arm.name, arm.clean_tickets, arm.exact.clean_ticket);
        let tickets = f64::from(TICKETS);
        let extra = f64::from(u32::try_from(arm.extra_refunds).unwrap()) / tickets;
        let error = arm.exact.extra_refunds_deviation / tickets.sqrt();
        let exact = arm.exact.extra_refunds_per_ticket;
        assert!(
            (extra - exact).abs() <= 4.0 * error + 1e-6,
            "{}: {extra} is not {exact}",
            arm.name
        );
    }
    assert_eq!(
        (arm(&table, "keyed").extra_refunds, arm(&table, "model_key").extra_refunds),
        (0, 0)
    );
    assert!(arm(&table, "retries").double_tickets > arm(&table, "model_only").double_tickets);
}

#[test]
fn the_table_is_the_same_whatever_the_number_of_jobs() {
    let one = run(500, 1, &Plan::article());
    for jobs in [2, 3, 8] {
        let more = run(500, jobs, &Plan::article());
        assert_eq!((more.text(), more.json()), (one.text(), one.json()), "{jobs} jobs");
    }
}

#[test]
fn where_the_ledger_ignores_keys_the_keyed_arm_pays_twice_as_the_one_without() {
    let off = run(200, 2, &Plan::article().dedupe(Dedupe::Off));
    let (keyed, retries) = (arm(&off, "keyed"), arm(&off, "retries"));
    assert!(keyed.double_tickets > 150, "{keyed:?}");
    assert_eq!(keyed.extra_refunds, retries.extra_refunds);
    assert!(keyed.exact.double_ticket > 0.9);
}

#[test]
fn without_faults_every_ticket_of_every_arm_is_clean() {
    let calm = run(50, 1, &Plan::calm());
    for arm in calm.arms() {
        assert_eq!(
            (arm.clean_tickets, arm.extra_refunds, arm.missed_orders),
            (50, 0, 0),
            "{}",
            arm.name
        );
        assert_eq!(
            (arm.exact.clean_ticket.to_string(), arm.calls_per_ticket.to_string()),
            ("1".into(), "3".into())
        );
    }
}

#[test]
fn the_json_has_the_fields_that_others_read() {
    let table: serde_json::Value =
        serde_json::from_str(&run(30, 1, &Plan::article()).json()).unwrap();
    let names: Vec<&str> =
        table["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["model_only", "retries", "keyed", "model_key"]);
    for arm in table["arms"].as_array().unwrap() {
        for field in [
            "tickets",
            "double_tickets",
            "extra_refunds",
            "clean_tickets",
            "missed_orders",
            "calls_per_ticket",
            "wait_s_per_ticket",
        ] {
            assert!(arm[field].is_number(), "{field}: {arm}");
        }
        for field in ["double_ticket", "clean_ticket", "extra_refunds_per_ticket"] {
            assert!(arm["exact"][field].is_number(), "{field}: {arm}");
        }
    }
}
