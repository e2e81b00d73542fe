//! The four arms of who retries: measured beside exact, the same on any number of threads, and red
//! without what it measures.
#![allow(clippy::float_arithmetic, reason = "this is where measured rates meet exact ones")]

use std::{collections::BTreeSet, num::NonZero};

use badbank::{
    fault::Plan,
    lab::{
        Figure, Settings, Sheet, Value,
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

/// A number of an arm.
#[track_caller]
fn figure<'a>(arm: &'a ArmResult, measure: &str) -> &'a Figure {
    arm.figures().iter().find(|figure| figure.measure == measure).unwrap()
}

fn number(value: Option<&Value>) -> f64 {
    value.and_then(Value::number).unwrap()
}

/// Within four standard errors, by the interval for means and by the exact value for shares.
#[track_caller]
fn agrees(arm: &str, figure: &Figure) {
    let (measured, exact) = (number(figure.measured.as_ref()), number(figure.exact.as_ref()));
    let of = f64::from(u32::try_from(figure.of.unwrap()).unwrap());
    let error = if figure.count.is_some() {
        (exact * (1.0 - exact) / of).sqrt()
    } else {
        (figure.high.unwrap() - figure.low.unwrap()) / 2.0 / 1.959_964
    };
    // What is never met in so many tickets has no standard error.
    let is_close = (measured - exact).abs() <= 4.0 * error + 1e-6;
    assert!(is_close, "{arm}, {}: {measured} is not {exact}", figure.measure);
}

#[test]
fn measured_values_lie_within_four_standard_errors_of_the_exact_ones() {
    let table = run(TICKETS, 2, &Plan::article());
    for arm in table.arms() {
        let (known, unknown): (Vec<&Figure>, Vec<&Figure>) =
            arm.figures().iter().partition(|figure| figure.exact.is_some());
        for figure in &known {
            agrees(arm.name, figure);
        }
        let doubles = arm.double_tickets > 0;
        // Where no ticket is doubled, no report of one is false.
        assert_eq!(unknown.len(), usize::from(!doubles), "{unknown:?}");
        assert!(unknown.iter().all(|figure| figure.measured.is_none()), "{unknown:?}");
        assert!(known.len() >= 9, "{}: {known:?}", arm.name);
    }
    assert_eq!(
        (arm(&table, "keyed").extra_refunds, arm(&table, "model_key").extra_refunds),
        (0, 0)
    );
    assert!(arm(&table, "retries").double_tickets > arm(&table, "model_only").double_tickets);
}

/// The mean over eight orders of the most that one of them takes, if it takes more than n with a chance of
/// `first` x 0.15^n.
fn most_of_eight(first: f64) -> f64 {
    (0..25).map(|more| any_of_eight(first * 0.15_f64.powi(more))).sum()
}

fn any_of_eight(chance: f64) -> f64 {
    1.0 - (1.0 - chance).powi(8)
}

#[test]
fn exact_values_agree_with_those_worked_out_by_hand() {
    let table = run(1, 1, &Plan::article());
    let exact = |name: &str, measure| number(figure(arm(&table, name), measure).exact.as_ref());
    let is_close = |name, measure, expected: f64| {
        let exact = exact(name, measure);
        assert!(
            (exact / expected - 1.0).abs() < 1e-4,
            "{name}, {measure}: {exact} is not {expected}"
        );
    };
    let unpaid = 0.15_f64.powi(3);
    is_close("model_only", "missed orders a ticket", 8.0 * unpaid);
    is_close("keyed", "missed orders a ticket", 8.0 * unpaid.powi(3));
    is_close("model_key", "refunds sent again a ticket", 8.0 * (0.15 + 0.0225));
    is_close("model_only", "timeouts a ticket", 8.0 * 0.15 * 1.1725);
    is_close("model_only", "duplicates a ticket", 8.0 * 0.1 * 1.1725);
    // Reads until all have answered, one batch of refunds; what failed is read, what met a transient sent again.
    let rounds: f64 = (1..3)
        .map(|round| 0.15_f64.powi(round))
        .map(|again| most_of_eight(2.0 * again) + any_of_eight(again))
        .sum();
    let calls = 1.0 + most_of_eight(1.0) + 1.0 + rounds + most_of_eight(2.0 * unpaid);
    is_close("model_only", "agent calls a ticket", calls);
    let is =
        |name, measure, expected: f64| assert!((exact(name, measure) - expected).abs() < 1e-12);
    is("model_only", "timeouts after which it reads", 1.0);
    is("model_only", "false reports, of doubled tickets", 1.0);
    is("model_only", "waiting a ticket, s", 0.0);
    is("model_key", "- under the same key", 1.0);
}

#[test]
fn nothing_is_rounded_to_a_certainty() {
    // Of these faults an order of the keyed arm is never paid, for which the odds are three in ten million.
    let seed = 9_000_000_000_000_071_644_u64;
    let table = retries::run(&Settings::new(1, seed), &Plan::article());
    let json: serde_json::Value = serde_json::from_str(&table.json()).unwrap();
    let keyed = &json["arms"][2];
    assert_eq!((&keyed["clean_tickets"], &keyed["missed_orders"]), (&0.into(), &1.into()));
    let clean = keyed["exact"]["clean_ticket"].as_f64().unwrap();
    assert!((1.0 - clean - 3.075e-7).abs() < 1e-10, "{clean}");
    // Zero where it is zero.
    assert_eq!(keyed["exact"]["double_ticket"].to_string(), "0.0");
    let text = table.text();
    let line = |start: &str| text.lines().find(|line| line.trim().starts_with(start)).unwrap();
    assert!(line("keyed       clean tickets").ends_with("> 99.9 %"), "{text}");
    assert!(line("keyed       missed orders").ends_with("< 0.001"), "{text}");
    assert!(line("keyed       tickets with a double").ends_with("  0.0 %"), "{text}");
    let nothing = line("keyed       false reports").split_once("tickets ").unwrap().1;
    assert_eq!(nothing.split_whitespace().collect::<Vec<_>>(), ["-"; 4]);
}

#[test]
fn the_table_is_the_same_whatever_the_number_of_jobs() {
    let one = run(500, 1, &Plan::article());
    for jobs in [2, 8] {
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
fn the_json_and_the_csv_have_the_fields_that_others_read() {
    let table = run(30, 1, &Plan::article());
    let json: serde_json::Value = serde_json::from_str(&table.json()).unwrap();
    let arms = json["arms"].as_array().unwrap();
    let names: Vec<&str> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["model_only", "retries", "keyed", "model_key"]);
    for arm in arms {
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
    let first = &json["figures"][0];
    assert_eq!((&first["arm"], &first["of"]), (&"model_only".into(), &30.into()));
    assert_eq!((&first["article_count"], &first["article_of"]), (&19.into(), &30.into()));
    for field in ["article", "measured", "low", "high", "exact"] {
        assert!(first[field].is_number(), "{field}: {first}");
    }
    for pair in json["pairs"].as_array().unwrap() {
        assert!(pair["p"].as_f64() > Some(0.0), "{pair}");
        assert!(pair["log10_p"].as_f64() <= Some(0.0), "{pair}");
    }
    is_rectangular(&table);
    let width = table.text().lines().map(|line| line.chars().count()).max();
    assert!(width <= Some(120), "{width:?}");
}

/// The records have one width, and no two columns have one name.
#[track_caller]
pub(crate) fn is_rectangular(sheet: &impl Sheet) {
    let records = sheet.records();
    let names: BTreeSet<&String> = records[0].iter().collect();
    assert_eq!(names.len(), records[0].len(), "{:?}", records[0]);
    assert!(records.len() > 1 && records.iter().all(|record| record.len() == names.len()));
}
