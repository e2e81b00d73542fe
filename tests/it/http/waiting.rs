//! Repeats in flight: what waits for the first refund under its key is answered as soon as that has finished.
//!
//! A call takes a second; the repeat comes after eight tenths of it.

use badbank::{
    fault::{Plan, PlanSettings},
    http::{RunHandle, Server},
    ledger::OverRefund,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Duration, Instant, sleep},
};

use super::patience::{connect, on_paused_clock, status, until_called};
use crate::{
    support::{TestServer, request, scripted, ticket, wait_until},
    trial::happened,
};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];
const LATER: Duration = Duration::from_millis(800);
/// What a clock that stands still while anyone is busy may be off.
const TICK: Duration = Duration::from_millis(50);

fn plan(calls: &[(&str, &str)], latency_ms: u64) -> Plan {
    let plan = scripted(calls);
    let mut settings = *plan.settings();
    settings.latency_ms = latency_ms;
    settings.over_refund = OverRefund::Reject;
    plan.with_settings(settings)
}

fn refund(amount: &str) -> Vec<u8> {
    request("POST", PATH, &KEY, &format!(r#"{{"amount":"{amount}"}}"#))
}

/// A first refund and its repeat, what they are answered, and what has happened then.
struct Row {
    first: &'static str,
    repeat_meets: &'static str,
    told: [u16; 2],
    then: &'static str,
}

/// Sends a refund of so much and, later, another under the same key.
async fn both(server: &Server, run: &RunHandle, first: &str) -> [TcpStream; 2] {
    let mut streams = [connect(server).await, connect(server).await];
    streams[0].write_all(&refund(first)).await.unwrap();
    until_called(run, 1).await;
    sleep(LATER).await;
    streams[1].write_all(&refund("42.50")).await.unwrap();
    until_called(run, 2).await;
    streams
}

#[test]
fn a_repeat_is_answered_when_the_first_is_whatever_its_own_latency() {
    let rows = [
        Row {
            first: "42.50",
            repeat_meets: "slow",
            told: [201, 201],
            then: "arrive arrive commit ok replay ok",
        },
        Row {
            first: "42.50",
            repeat_meets: "server_error",
            told: [201, 500],
            then: "arrive arrive commit ok replay info(server_error)",
        },
        Row {
            first: "42.50",
            repeat_meets: "duplicate",
            told: [201, 201],
            then: "arrive arrive commit ok replay arrive replay ok",
        },
        Row {
            first: "42.50",
            repeat_meets: "twice_overlapping+reply",
            told: [201, 201],
            then: "arrive arrive arrive commit ok replay replay ok",
        },
        // The key is free again, and who waited for it learns why.
        Row {
            first: "99.00",
            repeat_meets: "slow",
            told: [422, 422],
            then: "arrive arrive refuse(over_refund) fail(over_refund) refuse(over_refund) fail(over_refund)",
        },
        Row {
            first: "99.00",
            repeat_meets: "twice_overlapping+reply",
            told: [422, 422],
            then: "arrive arrive arrive refuse(over_refund) fail(over_refund) refuse(over_refund) refuse(over_refund) fail(over_refund)",
        },
    ];
    for Row { first, repeat_meets, told, then } in rows {
        on_paused_clock(|server| async move {
            let plan = plan(&[("A-1 refund #2", repeat_meets)], 1000);
            let settings = PlanSettings { slow_ms: 0, ..*plan.settings() };
            let run = server.open_run(&ticket(), plan.with_settings(settings));
            let start = Instant::now();
            let mut streams = both(&server, &run, first).await;
            assert!(start.elapsed() < LATER + TICK);
            for (stream, told) in streams.iter_mut().zip(told) {
                assert_eq!(status(stream).await, told, "{repeat_meets}");
                let spent = start.elapsed();
                let second = Duration::from_secs(1);
                assert!(spent >= second && spent < second + TICK, "{repeat_meets}: {spent:?}");
            }
            // A slow answer is there in full only when its last piece is.
            sleep(TICK).await;
            assert_eq!(run.with_bank(|bank| happened(bank.history())), then, "{repeat_meets}");
        });
    }
}

#[test]
fn what_has_to_execute_after_all_has_its_latency_from_its_arrival_on() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan(&[("A-1 refund #2", "duplicate")], 1000));
        let words = || run.with_bank(|bank| happened(bank.history()));
        let start = Instant::now();
        let [mut first, mut second] = both(&server, &run, "99.00").await;
        assert_eq!(status(&mut first).await, 422);
        sleep(Duration::from_millis(700)).await;
        // Its first delivery will be refused as what it waited for; its second finds the key free, and pays.
        let so_far = "arrive arrive refuse(over_refund) fail(over_refund)";
        assert_eq!(words(), so_far);
        assert_eq!(status(&mut second).await, 422);
        assert!(start.elapsed() >= Duration::from_millis(1800));
        assert!(start.elapsed() < Duration::from_millis(1800) + TICK);
        let then = "refuse(over_refund) arrive commit fail(over_refund)";
        assert_eq!(words(), format!("{so_far} {then}"));
    });
}

#[test]
fn a_repeat_that_is_left_alone_is_carried_out_when_the_first_has_finished() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan(&[], 1000));
        let [mut first, second] = both(&server, &run, "42.50").await;
        drop(second);
        assert_eq!(status(&mut first).await, 201);
        sleep(TICK).await;
        let words = run.with_bank(|bank| happened(bank.history()));
        assert_eq!(words, "arrive arrive commit ok replay info(left)");
    });
}

#[test]
fn on_the_runs_clock_too_a_repeat_is_answered_with_the_first() {
    for fault in ["duplicate", "twice_overlapping+reply", "timeout"] {
        let server = TestServer::start();
        let run = server.open(&ticket(), plan(&[("A-1 refund #2", fault)], 3_600_000));
        let mut calls = [server.connect(), server.connect()];
        let half_an_hour =
            || server.control("POST", "/runs/1/clock", r#"{"advance_ms":1800000}"#).status;
        for (call, count) in calls.iter_mut().zip(1..) {
            call.send(&refund("42.50"));
            wait_until(&run, |bank| bank.history().call_count() == count);
            assert_eq!(half_an_hour(), 200);
        }
        let told = calls.map(|mut call| call.read().unwrap().status);
        assert_eq!(told, [201, if fault == "timeout" { 504 } else { 201 }], "{fault}");
    }
}
