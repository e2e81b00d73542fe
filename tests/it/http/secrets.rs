//! What a caller can see names no fault, no plan and no seed, and tells no two faults apart that are one to it.

use std::collections::BTreeMap;

use badbank::{
    Ticket,
    fault::{Fault, LostReply, NAMED_PLANS, Plan, PlanSettings},
};
use tokio::time::{Duration, Instant};

use crate::support::{End, TestServer, refunds, request, scripted, ticket, undated, wait_until};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];

fn set(plan: Plan, change: impl FnOnce(&mut PlanSettings)) -> Plan {
    let mut settings = *plan.settings();
    change(&mut settings);
    plan.with_settings(settings)
}

/// What the caller of a refund that meets `fault` has in its hands, and what the ledger has by then.
fn refund(fault: &str, change: impl FnOnce(&mut PlanSettings)) -> ((String, End), usize) {
    let server = TestServer::start();
    let run = server.open(&ticket(), set(scripted(&[("A-1 refund #1", fault)]), change));
    let mut connection = server.connect();
    connection.send(&request("POST", PATH, &KEY, BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    if run.with_bank(|bank| bank.plan().settings().lost_reply) == LostReply::Hang {
        connection.wait_at_most(Duration::from_millis(60));
    }
    let (text, end) = connection.read_raw();
    ((undated(&text), end), refunds(&run))
}

#[test]
fn timeout_lost_and_late_are_the_same_bytes_however_a_lost_reply_looks() {
    for (lost_reply, end) in [
        (LostReply::Status, End::Complete),
        (LostReply::Hang, End::Silent),
        (LostReply::Close, End::Closed),
        (LostReply::Reset, End::Reset),
    ] {
        let set = |settings: &mut PlanSettings| settings.lost_reply = lost_reply;
        let (timeout, paid) = refund("timeout", set);
        assert_eq!((timeout.1, paid), (end, 1));
        assert_eq!(timeout.0.is_empty(), lost_reply != LostReply::Status, "{timeout:?}");
        for (fault, paid) in
            [("lost", 0), ("late", 0), ("late(2)", 0), ("twice+timeout", 1), ("late(1)", 0)]
        {
            assert_eq!(refund(fault, set), (timeout.clone(), paid), "{fault} {lost_reply:?}");
        }
    }
}

#[test]
fn a_server_error_is_the_same_bytes_whatever_became_of_the_money() {
    let (told, paid) = refund("server_error", |_| {});
    assert_eq!(paid, 1);
    for (fault, paid) in [
        ("never+server_error", 0),
        ("late+server_error", 0),
        ("stored_error", 0),
        ("twice+server_error", 1),
        ("twice_overlapping+server_error", 1),
    ] {
        assert_eq!(refund(fault, |_| {}), (told.clone(), paid), "{fault}");
    }
}

#[test]
fn what_has_not_happened_takes_as_long_as_what_has() {
    let latency = Duration::from_millis(60);
    for fault in [
        "lost",
        "late",
        "reset_before",
        "never+closed",
        "never+server_error",
        "late+server_error",
        "stored_error",
        "timeout",
        "server_error",
        "reset_after",
        "closed",
    ] {
        let server = TestServer::start();
        let plan = scripted(&[("A-1 refund #1", fault)]);
        server.open(&ticket(), set(plan, |settings| settings.latency_ms = 60));
        let mut connection = server.connect();
        let start = Instant::now();
        connection.send(&request("POST", PATH, &KEY, BODY));
        connection.read_raw();
        assert!(start.elapsed() >= latency, "{fault} is told by its haste");
    }
}

/// Words of ours that mean nothing to a caller. What a problem's code or title says is no secret.
const SECRETS: [&str; 22] = [
    "accepted",
    "article",
    "badbank",
    "burst",
    "chaos",
    "closed",
    "duplicate",
    "fault",
    "hang",
    "inject",
    "late",
    "lost",
    "plan",
    "reset",
    "seed",
    "slow",
    "stale",
    "stored",
    "transient",
    "truncated",
    "twice",
    "overlapping",
];

/// Names of faults that are words of HTTP's problems as well.
const CODES: [&str; 3] = ["rate_limited", "server_error", "timeout"];

/// The words of a text: what lies between anything that is no letter, digit or underscore.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// The first word of a text that is a secret, or the name of a fault or a plan.
fn secret(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let is_name = |word: &str| word.parse::<Fault>().is_ok() && !CODES.contains(&word);
    let found = words(&text).find(|word| {
        let parts = || word.split('_').filter(|_| !CODES.contains(word));
        is_name(word) || SECRETS.contains(word) || parts().any(|part| SECRETS.contains(&part))
    });
    let plan = NAMED_PLANS.iter().map(|plan| plan.name).find(|name| text.contains(name));
    found.or(plan).map(str::to_owned)
}

#[test]
fn a_secret_would_be_found() {
    for text in ["x-fault: 1", "\"late(2)\"", "reset_before", "Brown-Out", "a stale read", "SEED=7"]
    {
        assert!(secret(text).is_some(), "{text}");
    }
    for text in ["made no changes", "rate_limited", "server_error", "translate", "timeout"] {
        assert_eq!(secret(text), None, "{text}");
    }
}

#[test]
fn no_answer_under_any_fault_names_a_fault_a_plan_or_a_seed() {
    const SEED: u64 = 987_654_321;
    let server = TestServer::start();
    let ticket = Ticket::generate(SEED);
    let everything = Plan::find("everything").unwrap().seed(SEED);
    let run = server.open(&ticket, set(everything, |settings| settings.slow_ms = 2));
    let mut connection = server.connect();
    let mut ends = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    let mut headers = BTreeMap::new();
    let mut exchange = |bytes: &[u8]| {
        connection.send(bytes);
        let (text, end) = connection.read_raw();
        *ends.entry(end).or_insert(0) += 1;
        if end != End::Complete {
            connection = server.connect();
        }
        assert_eq!(secret(&text), None, "{text}");
        let hexadecimal = format!("{SEED:x}");
        for number in [&SEED.to_string(), &hexadecimal] {
            assert!(!text.contains(number), "the seed is in {text}");
        }
        for line in text.split("\r\n\r\n").next().unwrap().lines() {
            match line.split_once(':') {
                Some((name, _)) => *headers.entry(name.to_owned()).or_insert(0) += 1,
                None => *statuses.entry(line[..12].to_owned()).or_insert(0) += 1,
            }
        }
    };
    exchange(&request("GET", "/runs/1/ticket", &[], ""));
    for attempt in 0..60 {
        for order in ticket.orders() {
            let order_path = format!("/runs/1/orders/{}", order.id());
            let body = format!(r#"{{"amount":"{}"}}"#, order.amount().display(order.currency()));
            let key = format!("{}-{}", order.id(), attempt / 3);
            let key = [("Idempotency-Key", key.as_str())];
            let key = if attempt % 2 == 0 { &key[..] } else { &[] };
            exchange(&request("GET", &order_path, &[], ""));
            exchange(&request("POST", &format!("{order_path}/refunds"), key, &body));
        }
    }
    // All of them were met, so there was something to give away.
    let log = run.with_bank(|bank| bank.fault_log());
    let met: std::collections::BTreeSet<String> =
        log.calls().iter().map(|(_, fault)| fault.to_string()).collect();
    assert_eq!(met.len(), 18, "{met:?}");
    let ends: Vec<End> = ends.into_keys().collect();
    assert_eq!(ends, [End::Complete, End::Closed, End::Reset]);
    let statuses: Vec<&str> = statuses.keys().map(|line| &line[9..]).collect();
    assert_eq!(statuses, ["200", "201", "429", "500", "503", "504"]);
    let headers: Vec<&str> = headers.keys().map(String::as_str).collect();
    assert_eq!(
        headers,
        ["content-length", "content-type", "date", "idempotent-replayed", "retry-after"]
    );
}
