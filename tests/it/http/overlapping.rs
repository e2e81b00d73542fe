//! A call that is delivered twice at once: two deliveries under way, and each a task of its own.

use badbank::{
    Bank,
    call::Request,
    fault::Plan,
    grade::Cause,
    history::History,
    http::{RunHandle, Server},
    ledger::Dedupe,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    runtime::Handle,
    time::{Duration, sleep},
};

use super::patience::{connect, on_paused_clock, status, until_called};
use crate::{
    support::{TestServer, refunds, request, scripted, ticket, wait_until},
    trial::happened,
};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];
const HOUR: Duration = Duration::from_secs(3600);

/// What comes of two deliveries under one key.
struct Row {
    dedupe: Dedupe,
    /// What has happened while they are under way, and what happens then.
    under_way: &'static str,
    then: &'static str,
    causes: &'static [Cause],
}

const ROWS: [Row; 4] = [
    Row {
        dedupe: Dedupe::Off,
        under_way: "arrive arrive",
        then: "commit commit ok",
        causes: &[Cause::DuplicateDelivery],
    },
    Row {
        dedupe: Dedupe::FirstReply,
        under_way: "arrive arrive",
        then: "commit replay ok",
        causes: &[],
    },
    Row {
        dedupe: Dedupe::Strict,
        under_way: "arrive arrive refuse(in_flight)",
        then: "commit ok",
        causes: &[],
    },
    Row {
        dedupe: Dedupe::Racy,
        under_way: "arrive arrive",
        then: "commit commit ok",
        causes: &[Cause::RacyDedupe],
    },
];

/// The first refund on A-1 meets a fault, and every call takes an hour.
fn plan(fault: &str, dedupe: Dedupe) -> Plan {
    let plan = scripted(&[("A-1 refund #1", fault)]).dedupe(dedupe);
    let mut settings = *plan.settings();
    settings.latency_ms = 3_600_000;
    plan.with_settings(settings)
}

async fn send(stream: &mut TcpStream, headers: &[(&str, &str)]) {
    stream.write_all(&request("POST", PATH, headers, BODY)).await.unwrap();
}

/// Sends a refund on a connection of its own, and waits until it has arrived.
async fn refund(server: &Server, run: &RunHandle, key: &[(&str, &str)]) -> TcpStream {
    let mut stream = connect(server).await;
    let calls = run.with_bank(|bank| bank.history().call_count());
    send(&mut stream, key).await;
    until_called(run, calls + 1).await;
    stream
}

fn words(run: &RunHandle) -> String {
    run.with_bank(|bank| happened(bank.history()))
}

#[test]
fn both_are_under_way_for_all_to_see_until_the_run_ends_and_then_both_finish() {
    for Row { dedupe, under_way, then, causes } in ROWS {
        let server = TestServer::start();
        let run = server.open(&ticket(), plan("twice_overlapping+reply", dedupe));
        let mut connection = server.connect();
        connection.send(&request("POST", PATH, &KEY, BODY));
        wait_until(&run, |bank| bank.history().call_count() == 1);
        let history = server.control("GET", "/runs/1/history", "").body;
        assert_eq!(happened(&History::parse(&history).unwrap().history), under_way, "{dedupe:?}");
        assert_eq!(refunds(&run), 0, "{dedupe:?}");

        assert_eq!(server.control("POST", "/runs/1/grade", "").status, 200);
        let answer = connection.read().unwrap();
        assert_eq!((answer.status, &answer.json()["refund"]), (201, &1.into()), "{dedupe:?}");
        assert_eq!(words(&run), format!("{under_way} {then} settle"), "{dedupe:?}");
        let grade = run.with_bank(|bank| bank.grade(""));
        let found = grade.order("A-1").unwrap().causes.iter().map(|finding| finding.cause);
        assert_eq!(found.collect::<Vec<_>>(), causes, "{dedupe:?}");
    }
}

#[test]
fn whoever_is_answered_finds_both_finished_and_the_history_is_that_in_process() {
    on_paused_clock(|server| async move {
        for (fault, told) in [
            ("twice_overlapping+reply", 201),
            ("twice_overlapping+timeout", 504),
            ("twice_overlapping+server_error", 500),
            ("duplicate", 201),
        ] {
            for Row { dedupe, .. } in ROWS {
                let plan = plan(fault, dedupe);
                let run = server.open_run(&ticket(), plan.clone());
                let path = format!("/runs/{}/orders/A-1", run.id());
                let mut stream = connect(&server).await;
                for (bytes, told) in [
                    (request("POST", &format!("{path}/refunds"), &KEY, BODY), told),
                    (request("GET", &path, &[], ""), 200),
                ] {
                    stream.write_all(&bytes).await.unwrap();
                    assert_eq!(status(&mut stream).await, told, "{fault} {dedupe:?}");
                }
                let mut bank = Bank::open(&ticket(), plan);
                let _told = bank.call(&Request::refund("A-1", "42.50".into(), Some("k")));
                bank.get_order("A-1").unwrap();
                let over_http = run.with_bank(|bank| bank.history().to_string());
                assert_eq!(over_http, bank.history().to_string(), "{fault} {dedupe:?}");
            }
        }
    });
}

#[test]
fn a_client_that_hangs_up_in_between_cancels_neither() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan("twice_overlapping+reply", Dedupe::Off));
        drop(refund(&server, &run, &[]).await);
        assert_eq!(words(&run), "arrive arrive");
        sleep(2 * HOUR).await;
        assert_eq!(words(&run), "arrive arrive commit commit info(left)");
    });
}

#[test]
fn both_wait_for_the_first_refund_under_their_key() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan("reset_after", Dedupe::FirstReply));
        let _first = refund(&server, &run, &KEY).await;
        let at_once = scripted(&[("A-1 refund #2", "twice_overlapping+reply")]);
        run.with_bank(|bank| bank.set_plan(at_once)).unwrap();
        let mut second = refund(&server, &run, &KEY).await;
        assert_eq!(words(&run), "arrive plan arrive arrive");
        assert_eq!(status(&mut second).await, 201);
        let then = "commit info(broken) replay replay ok";
        assert_eq!(words(&run), format!("arrive plan arrive arrive {then}"));
    });
}

/// Tasks of the runtime, once each has gone as far as it can while time stands still.
async fn tasks() -> usize {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    Handle::current().metrics().num_alive_tasks()
}

#[test]
fn each_delivery_under_way_is_a_task_of_its_own() {
    for (fault, dedupe, count) in [
        ("timeout", Dedupe::Off, 1),
        ("twice+timeout", Dedupe::Off, 1),
        ("twice_overlapping+timeout", Dedupe::Off, 2),
        ("twice_overlapping+timeout", Dedupe::FirstReply, 2),
        // The second has been refused on its arrival.
        ("twice_overlapping+timeout", Dedupe::Strict, 1),
        ("duplicate", Dedupe::Racy, 2),
    ] {
        on_paused_clock(|server| async move {
            let run = server.open_run(&ticket(), plan(fault, dedupe));
            let mut stream = connect(&server).await;
            stream.write_all(&request("GET", "/runs/1/ticket", &[], "")).await.unwrap();
            assert_eq!(status(&mut stream).await, 200);
            let idle = tasks().await;
            send(&mut stream, &KEY).await;
            until_called(&run, 1).await;
            assert_eq!(tasks().await - idle, count, "{fault} {dedupe:?}");
            run.with_bank(Bank::settle);
            assert_eq!(tasks().await, idle, "{fault} {dedupe:?}");
        });
    }
}
