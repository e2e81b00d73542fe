//! Both planes at once: many runs beside each other, changed and read while they are used.

use std::{collections::BTreeMap, thread};

use badbank::{
    call::{CallError, Payments as _},
    fault::Plan,
    http::{Client, ControlOptions, ServerError, ServerOptions},
    money::{Amount, Currency},
};
use tokio::time::{Duration, Instant};

use crate::support::{Answer, Connection, TestServer, refunds, request, ticket, wait_until};

const BODY: &str = r#"{"amount":"42.50"}"#;
const RUNS: usize = 2_000;
const BEARER: [(&str, &str); 1] = [("Authorization", "Bearer test-token")];

fn path(run: usize) -> String {
    format!("/runs/{run}/orders/A-1/refunds")
}

/// The verdict on the first order of a run, and its refunds, as its grade has them.
fn graded(control: &mut Connection, run: usize) -> (String, Vec<String>) {
    let headers = [BEARER[0], ("Accept", "application/json")];
    let grade = control.ask("GET", &format!("/runs/{run}/grade"), &headers, "").json();
    let order = &grade["orders"][0];
    let refunds = order["refunds"].as_array().unwrap().iter();
    let refunds = refunds.map(|refund| refund.as_str().unwrap().to_owned()).collect();
    (order["verdict"].as_str().unwrap().to_owned(), refunds)
}

#[test]
fn two_thousand_runs_at_once_keep_to_themselves() {
    let server = TestServer::start();
    let mut control = server.connect_to_control();
    let ticket = r#"{"version":1,"currency":"EUR","orders":[{"id":"A-1","amount":"99.00","expect":["42.50"]}]}"#;
    // Every third run loses its second call, every fifth its first.
    for run in 1..=RUNS {
        let rule = |attempt: u8| {
            format!(r#"{{"on":"refund","fault":"transient","attempts":"{attempt}"}}"#)
        };
        let rules: Vec<String> = [(5, 1), (3, 2)]
            .into_iter()
            .filter(|(every, _)| run.is_multiple_of(*every))
            .map(|(_, attempt)| rule(attempt))
            .collect();
        let plan = format!(r#"{{"version":1,"rules":[{}]}}"#, rules.join(","));
        let body = format!(r#"{{"ticket":{ticket},"plan":{plan},"seed":{run}}}"#);
        let answer = control.ask("POST", "/runs", &BEARER, &body);
        assert_eq!((answer.status, answer.json()["id"].clone()), (201, run.to_string().into()));
    }
    // Four clients keep a connection each and go through all runs; each has a key of its own.
    thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                let key = format!("k{}", client % 2);
                for step in 0..RUNS {
                    let run = (step * 7 + client * 500) % RUNS + 1;
                    let answer =
                        connection.ask("POST", &path(run), &[("Idempotency-Key", &key)], BODY);
                    assert!([201, 503].contains(&answer.status), "{answer:?}");
                }
            });
        }
    });
    for run in 1..=RUNS {
        // Two keys, four calls: a call that is lost costs a key's first chance, not its second.
        let lost = u64::from(run.is_multiple_of(5)) + u64::from(run.is_multiple_of(3));
        let (verdict, refunds) = graded(&mut control, run);
        let calls = server.control("GET", &format!("/runs/{run}"), "").json()["calls"].clone();
        assert_eq!(calls, 4, "run {run}");
        let is_paid_once = refunds.len() == 1;
        assert!((1..=2).contains(&refunds.len()) && (!is_paid_once || lost == 2), "run {run}");
        assert_eq!(verdict, if is_paid_once { "ok" } else { "duplicated" }, "run {run}");
        let faults = control.ask("GET", &format!("/runs/{run}/faults"), &BEARER, "").body;
        assert!(faults.starts_with(&format!("badbank faults v1 seed={run}\n")), "{faults}");
        assert_eq!(faults.lines().count() as u64, 1 + lost, "run {run}");
    }
    let list = server.control("GET", "/runs", "").json();
    assert_eq!(list["runs"].as_array().unwrap().len(), RUNS);
}

#[test]
fn a_kept_connection_sees_each_run_as_it_is() {
    let server = TestServer::start();
    let runs: Vec<_> = (0..20).map(|_| server.open(&ticket(), Plan::calm())).collect();
    let mut connections: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    let mut held = BTreeMap::<usize, u64>::new();
    for step in 0..600 {
        let run = step * step % 20 + 1;
        let connection = &mut connections[step % 3];
        if step % 2 == 0 {
            let answer = connection.ask("POST", &path(run), &[], r#"{"amount":"0.01"}"#);
            *held.entry(run).or_default() += 1;
            assert_eq!(answer.json()["refund"], held[&run], "step {step}");
        } else {
            let answer = connection.ask("GET", &format!("/runs/{run}/orders/A-1"), &[], "");
            let shown = answer.json()["refunds"].as_array().unwrap().len() as u64;
            assert_eq!(shown, held.get(&run).copied().unwrap_or(0), "step {step}");
        }
    }
    for (run, handle) in (1..).zip(&runs) {
        assert_eq!(refunds(handle) as u64, held.get(&run).copied().unwrap_or(0));
    }
}

#[test]
fn a_run_that_is_changed_reset_or_deleted_leaves_its_neighbours_alone() {
    let server = TestServer::start();
    let runs: Vec<_> = (0..3).map(|_| server.open(&ticket(), Plan::calm())).collect();
    let mut warm = server.connect();
    for run in 1..=3 {
        assert_eq!(warm.ask("POST", &path(run), &[("Idempotency-Key", "k")], BODY).status, 201);
    }
    let plan = r#"{"version":1,"rules":[{"on":"*","fault":"transient","rate":1}]}"#;
    assert_eq!(server.control("PUT", "/runs/1/plan", plan).status, 204);
    assert_eq!(server.control("POST", "/runs/2/reset", "").status, 204);
    let told = |warm: &mut Connection, run: usize| {
        let answer = warm.ask("POST", &path(run), &[("Idempotency-Key", "k")], BODY);
        (answer.status, answer.header("idempotent-replayed").is_some())
    };
    assert_eq!(told(&mut warm, 1), (503, false));
    assert_eq!(told(&mut warm, 2), (201, false));
    assert_eq!(told(&mut warm, 3), (201, true));
    assert_eq!(server.control("DELETE", "/runs/1", "").status, 204);
    assert_eq!(told(&mut warm, 1), (404, false));
    assert_eq!(told(&mut warm, 3), (201, true));
    assert_eq!(runs.iter().map(refunds).collect::<Vec<_>>(), [1, 1, 1]);
    // What was changed stands in the history, between the calls before it and those after.
    let history = runs[0].with_bank(|bank| bank.history().to_string());
    let events: Vec<&str> =
        history.lines().skip(1).map(|line| line.split('"').nth(5).unwrap()).collect();
    assert_eq!(events, ["invoke", "arrive", "commit", "ok", "plan", "invoke", "fault", "fail"]);
}

#[test]
fn strict_keys_expire_when_the_control_plane_moves_the_clock_and_in_that_run_alone() {
    let server = TestServer::start();
    let plan = Plan::parse(r#"{"version":1,"dedupe":"strict","key_ttl_s":3600}"#).unwrap();
    let runs = [(); 2].map(|()| server.open(&ticket(), plan.clone()));
    let mut warm = server.connect();
    let mut refund = |run| warm.ask("POST", &path(run), &[("Idempotency-Key", "k")], BODY);
    assert_eq!([refund(1), refund(2)].map(|answer| answer.status), [201, 201]);
    for (advance_ms, numbers) in [(3_000_000, [1, 1]), (600_000, [2, 1]), (3_000_000, [2, 1])] {
        let body = format!(r#"{{"advance_ms":{advance_ms}}}"#);
        assert_eq!(server.control("POST", "/runs/1/clock", &body).status, 200);
        let got = [refund(1), refund(2)].map(|answer| answer.json()["refund"].clone());
        assert_eq!(got, numbers.map(serde_json::Value::from), "{advance_ms}");
    }
    assert_eq!(runs.each_ref().map(refunds), [2, 1]);
}

const HANGS: &str = r#"{"version":1,"lost_reply":"hang","rules":[{"on":"refund","order":"A-1","fault":"timeout","attempts":"1-200"}]}"#;

#[test]
fn a_server_stops_within_a_second_with_two_hundred_clients_that_hang() {
    let mut server = TestServer::start();
    let run = server.open(&ticket(), Plan::parse(HANGS).unwrap());
    let address = server.address();
    let mut hanging: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = server.connect();
            connection.send(&request("POST", &path(1), &[], BODY));
            connection
        })
        .collect();
    wait_until(&run, |bank| bank.history().call_count() == 200);
    assert!(server.shutdown() < Duration::from_secs(1));
    for connection in &mut hanging {
        assert_eq!(connection.read_to_end().unwrap(), b"");
    }
    assert_eq!(refunds(&run), 200);
    let again = TestServer::bind(ServerOptions { address, control: None }).unwrap();
    assert_eq!(again.address(), address);
}

/// Case double-05, square/okhttp#3497 and wiremock/wiremock#812: stopping a mock waited for replies that it was
/// delaying, delayed replies used up all workers, and a port picked as free was taken before it was bound.
#[test]
fn stalled_replies_hold_neither_workers_nor_the_stop() {
    let (mut server, other) = (TestServer::start(), TestServer::start());
    let address = server.address();
    assert_ne!(address, other.address());
    let plan = HANGS.replace("1-200", "1-20");
    let run = server.open(&ticket(), Plan::parse(&plan).unwrap());
    let url = run.url();
    let limit = Duration::from_millis(200);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = Client::new(&url).unwrap().timeout(limit);
                let start = Instant::now();
                let amount = Amount::parse("1.00", Currency::EUR).unwrap();
                assert_eq!(client.refund("A-1", amount, None), Err(CallError::Timeout));
                assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(5));
            });
        }
    });
    let mut idle = server.connect();
    let answer = idle.ask("POST", &path(1), &[], r#"{"amount":"1.00"}"#);
    assert_eq!((answer.status, answer.json()["refund"].clone()), (201, 21.into()));
    assert!(server.shutdown() < Duration::from_secs(1));
    assert_eq!(refunds(&run), 21);
    let control = ControlOptions { address: other.address(), token: "t".to_owned() };
    let options = ServerOptions { address, control: None };
    let again = TestServer::bind(options.clone()).unwrap();
    assert_eq!(again.address(), address);
    // No other port is taken in silence, on either plane.
    for options in [options, ServerOptions { control: Some(control), ..ServerOptions::default() }] {
        assert!(matches!(TestServer::bind(options).err().unwrap(), ServerError::Bind { .. }));
    }
}

/// Case double-07, wiremock/wiremock#574 and #565: a mock listed requests only once it had answered them.
#[test]
fn a_call_that_hangs_stands_in_the_history_before_it_is_answered() {
    let server = TestServer::start();
    let ticket = r#"{"version":1,"currency":"EUR","orders":[{"id":"A-1","amount":"20.00"},{"id":"A-2","amount":"20.00"},{"id":"A-3","amount":"20.00"}]}"#;
    let plan = HANGS.replace("1-200", "1");
    let opened =
        server.control("POST", "/runs", &format!(r#"{{"ticket":{ticket},"plan":{plan}}}"#));
    assert_eq!(opened.status, 201);
    let refund = |order: &str| {
        let path = format!("/runs/1/orders/{order}/refunds");
        let mut connection = server.connect();
        connection.send(&request("POST", &path, &[], r#"{"amount":"20.00"}"#));
        connection
    };
    let history = || server.control("GET", "/runs/1/history", "").body;
    let _hangs = refund("A-1");
    let start = Instant::now();
    let first = loop {
        let history = history();
        if history.contains(r#""event":"info""#) {
            break history;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{history}");
    };
    for event in ["fault", "arrive", "commit"] {
        assert!(first.contains(&format!(r#""event":"{event}","call":1"#)), "{first}");
    }
    let both = ["A-2", "A-3"].map(refund);
    for mut connection in both {
        assert_eq!(connection.read().unwrap().status, 201);
    }
    let (once, again) = (history(), history());
    assert_eq!(once, again);
    assert!(once.starts_with(&first));
    let lines: Vec<serde_json::Value> =
        once.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((1..).zip(&lines).all(|(seq, line)| line["seq"] == seq), "{once}");
    let commits = lines.iter().filter(|line| line["event"] == "commit");
    let mut orders: Vec<&str> = commits.map(|line| line["order"].as_str().unwrap()).collect();
    assert_eq!(orders.remove(0), "A-1");
    orders.sort_unstable();
    assert_eq!(orders, ["A-2", "A-3"]);
}

#[test]
fn a_browser_learns_nothing_and_changes_nothing() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let before = run.with_bank(|bank| bank.history().to_string());
    for origin in [
        ("Origin", "https://example.org"),
        ("Origin", "http://localhost"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        let headers = [BEARER[0], origin];
        for (method, path, body) in [
            ("GET", "/runs", ""),
            ("POST", "/runs", "{}"),
            ("GET", "/runs/1/history", ""),
            ("PUT", "/runs/1/plan", r#""article""#),
            ("POST", "/runs/1/clock", r#"{"advance_ms":1}"#),
            ("POST", "/runs/1/reset", ""),
            ("POST", "/runs/1/grade", ""),
            ("DELETE", "/runs/1", ""),
            ("OPTIONS", "/runs/1", ""),
        ] {
            let body = body.to_owned();
            let answer: Answer = server.connect_to_control().ask(method, path, &headers, &body);
            assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden_origin"));
            assert!(!answer.head.to_ascii_lowercase().contains("access-control"), "{answer:?}");
        }
    }
    assert_eq!(run.with_bank(|bank| bank.history().to_string()), before);
    assert!(!run.with_bank(|bank| bank.has_ended()));
    assert_eq!(server.control("GET", "/runs", "").json()["runs"].as_array().unwrap().len(), 1);
}
