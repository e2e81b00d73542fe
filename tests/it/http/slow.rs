//! Slow answers at the socket: who stays for one has it, and who does not is written down as having left.
//!
//! A slow answer takes five seconds: half of them before its first byte, the rest in three pauses.

use badbank::{
    Bank, Ticket,
    call::Request,
    fault::Plan,
    grade::{Cause, Grade},
    http::{RunHandle, Server},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, sleep, timeout},
};

use super::patience::{connect, on_paused_clock, status, until_called};
use crate::{
    support::{End, TestServer, refunds, request, scripted, wait_until},
    trial::{causes, happened},
};

const BODY: &str = r#"{"amount":"42.50"}"#;
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];
const SECOND: Duration = Duration::from_secs(1);
const BRIEF: Duration = Duration::from_millis(200);

fn ticket() -> Ticket {
    Ticket::parse(
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#,
    )
    .unwrap()
}

/// Slow answers take five seconds, and calls have this latency.
fn plan(calls: &[(&str, &str)], latency_ms: u64) -> Plan {
    let plan = scripted(calls);
    let mut settings = *plan.settings();
    settings.slow_ms = 5000;
    settings.latency_ms = latency_ms;
    plan.with_settings(settings)
}

fn slow_first() -> Plan {
    plan(&[("A-1 refund #1", "slow")], 0)
}

fn refund(run: &RunHandle, headers: &[(&str, &str)]) -> Vec<u8> {
    request("POST", &format!("/runs/{}/orders/A-1/refunds", run.id()), headers, BODY)
}

fn read(run: &RunHandle) -> Vec<u8> {
    request("GET", &format!("/runs/{}/orders/A-1", run.id()), &[], "")
}

/// Sends a request on a connection of its own, and waits until it has come.
async fn send(server: &Server, run: &RunHandle, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(server).await;
    let calls = run.with_bank(|bank| bank.history().call_count());
    stream.write_all(bytes).await.unwrap();
    until_called(run, calls + 1).await;
    stream
}

/// A refund, and its status.
async fn pay(server: &Server, run: &RunHandle) -> u16 {
    status(&mut send(server, run, &refund(run, &[])).await).await
}

/// Reads an answer to the end of its body, and says what the history held before the last piece came, and then.
async fn listen(stream: &mut TcpStream, run: &RunHandle) -> (String, String) {
    let (mut text, mut before) = (String::new(), words(run));
    while !text.ends_with('}') {
        let mut bytes = vec![0; 4096];
        let length = stream.read(&mut bytes).await.unwrap();
        assert_ne!(length, 0, "cut short: {text}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        if !text.ends_with('}') {
            before = words(run);
        }
    }
    (before, words(run))
}

fn words(run: &RunHandle) -> String {
    run.with_bank(|bank| happened(bank.history()))
}

fn grade(run: &RunHandle) -> Grade {
    run.with_bank(|bank| bank.grade(""))
}

fn slow_run(server: &Server) -> RunHandle {
    server.open_run(&ticket(), slow_first())
}

#[test]
fn a_client_whose_limit_is_shorter_pays_again_while_the_first_is_unanswered() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        let mut first = send(&server, &run, &refund(&run, &[])).await;
        assert!(timeout(BRIEF, first.read_u8()).await.is_err());
        drop(first);
        assert_eq!(pay(&server, &run).await, 201);
        sleep(Duration::from_millis(4700)).await;
        // The answer would not be there yet, and so nothing is written down that depends on when he left.
        assert_eq!(words(&run), "arrive commit arrive commit ok");
        sleep(BRIEF).await;
        assert_eq!(words(&run), "arrive commit arrive commit ok info(left)");
        let grade = grade(&run);
        assert_eq!(causes(&grade), [Cause::RepeatInFlight]);
        assert_eq!(grade.overlapped(), []);
    });
}

#[test]
fn a_client_that_comes_again_after_the_answer_would_have_been_there_repeats_after_a_timeout() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        drop(send(&server, &run, &refund(&run, &[])).await);
        sleep(6 * SECOND).await;
        assert_eq!(pay(&server, &run).await, 201);
        assert_eq!(words(&run), "arrive commit info(left) arrive commit ok");
        assert_eq!(causes(&grade(&run)), [Cause::RepeatAfterTimeout]);
    });
}

#[test]
fn neither_does_a_client_stay_that_only_says_what_it_wants() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        let mut stream = connect(&server).await;
        stream.write_all(&refund(&run, &[])).await.unwrap();
        // Request and goodbye are read in one go.
        drop(stream);
        until_called(&run, 1).await;
        assert_eq!(words(&run), "arrive commit");
        sleep(6 * SECOND).await;
        assert_eq!(words(&run), "arrive commit info(left)");
    });
}

#[test]
fn the_same_at_a_real_socket_and_on_the_runs_clock() {
    let server = TestServer::start();
    // However late this test gets to look, nothing has come of the answer.
    let mut settings = *slow_first().settings();
    settings.slow_ms = 3_600_000;
    let run = server.open(&ticket(), slow_first().with_settings(settings));
    let path = "/runs/1/orders/A-1/refunds";
    let mut first = server.connect();
    first.send(&refund(&run, &[]));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    first.wait_at_most(BRIEF);
    assert_eq!(first.read_raw(), (String::new(), End::Silent));
    drop(first);
    assert_eq!(server.ask("POST", path, &[], BODY).status, 201);
    assert_eq!(server.control("POST", "/runs/1/clock", r#"{"advance_ms":3600000}"#).status, 200);
    let all = "arrive commit arrive commit ok info(left)";
    wait_until(&run, |bank| happened(bank.history()) == all);
    let answer = server.control_as("application/json", "POST", "/runs/1/grade", "");
    assert!(answer.body.contains(r#""cause":"repeat_in_flight""#), "{}", answer.body);
    assert!(answer.body.contains(r#""overlapped":[]"#), "{}", answer.body);
    assert_eq!(refunds(&run), 2);
}

#[test]
fn a_client_that_leaves_in_mid_dribble_has_not_got_it() {
    on_paused_clock(|server| async move {
        // After the first byte, and when all but the last of four pieces is there.
        for (stays, pieces) in [(2600, 1), (4500, 3)] {
            let run = slow_run(&server);
            let mut first = send(&server, &run, &refund(&run, &[])).await;
            sleep(Duration::from_millis(stays)).await;
            let mut bytes = vec![0; 4096];
            let length = first.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let body = text.split_once("\r\n\r\n").unwrap().1;
            assert_eq!(body.len(), 117_usize.div_ceil(4) * pieces, "{text}");
            drop(first);
            assert_eq!(pay(&server, &run).await, 201);
            assert_eq!(words(&run), "arrive commit arrive commit ok");
            sleep(6 * SECOND).await;
            assert_eq!(words(&run), "arrive commit arrive commit ok info(left)");
            assert_eq!(causes(&grade(&run)), [Cause::RepeatInFlight]);
        }
    });
}

#[test]
fn a_client_that_stays_has_it_before_the_last_bytes_and_repeats_after_success() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        let mut stream = send(&server, &run, &refund(&run, &[])).await;
        let (before, then) = listen(&mut stream, &run).await;
        assert_eq!((before.as_str(), then.as_str()), ("arrive commit", "arrive commit ok"));
        stream.write_all(&refund(&run, &[])).await.unwrap();
        assert_eq!(status(&mut stream).await, 201);
        sleep(10 * SECOND).await;

        let mut bank = Bank::open(&ticket(), slow_first());
        for _ in 0..2 {
            bank.call(&Request::refund("A-1", "42.50".into(), None)).unwrap();
        }
        let in_process = bank.grade("");
        assert_eq!(causes(&in_process), [Cause::RepeatAfterSuccess]);
        assert_eq!(grade(&run).to_json(), in_process.to_json());
        assert_eq!(run.with_bank(|bank| bank.history().to_string()), bank.history().to_string());
    });
}

#[test]
fn a_client_that_repeats_in_parallel_has_nothing_of_the_first_in_its_hands() {
    on_paused_clock(|server| async move {
        for waits in [Duration::ZERO, 3 * SECOND] {
            let run = slow_run(&server);
            let mut first = send(&server, &run, &refund(&run, &[])).await;
            sleep(waits).await;
            assert_eq!(pay(&server, &run).await, 201);
            let (before, then) = listen(&mut first, &run).await;
            assert_eq!(before, "arrive commit arrive commit ok");
            assert_eq!(then, "arrive commit arrive commit ok ok");
            let grade = grade(&run);
            assert_eq!(
                (causes(&grade), grade.overlapped().len()),
                (vec![Cause::RepeatInFlight], 0)
            );
        }
    });
}

#[test]
fn two_deliveries_with_a_slow_answer_are_no_other() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan(&[("A-1 refund #1", "twice+slow")], 0));
        drop(send(&server, &run, &refund(&run, &[])).await);
        assert_eq!(pay(&server, &run).await, 201);
        sleep(6 * SECOND).await;
        assert_eq!(words(&run), "arrive commit arrive commit arrive commit ok info(left)");
        let grade = grade(&run);
        assert_eq!(causes(&grade), [Cause::DuplicateDelivery, Cause::RepeatInFlight]);
        assert_eq!(grade.overlapped(), []);
    });
}

#[test]
fn a_slow_read_that_nobody_waits_for_is_not_heard() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan(&[("A-1 get_order #1", "slow")], 0));
        drop(send(&server, &run, &read(&run)).await);
        assert_eq!(status(&mut send(&server, &run, &read(&run)).await).await, 200);
        sleep(6 * SECOND).await;
        assert_eq!(words(&run), "arrive arrive ok info(left)");
        assert_eq!(grade(&run).overlapped(), []);
    });
}

#[test]
fn the_end_of_the_run_finds_who_has_nothing_yet_in_the_order_of_the_calls() {
    on_paused_clock(|server| async move {
        let slow =
            [("A-1 refund #1", "slow"), ("A-1 refund #2", "slow"), ("A-1 refund #3", "slow")];
        let run = server.open_run(&ticket(), plan(&slow, 0));
        let gone = send(&server, &run, &refund(&run, &[])).await;
        let mut stays = send(&server, &run, &refund(&run, &[])).await;
        drop(gone);
        drop(send(&server, &run, &refund(&run, &[])).await);
        sleep(3 * SECOND).await;
        let grade = grade(&run);
        let all =
            "arrive commit arrive commit arrive commit info(left) info(left) info(left) settle";
        assert_eq!(words(&run), all);
        assert_eq!(causes(&grade), [Cause::RepeatInFlight, Cause::RepeatInFlight]);
        // The answer comes all the same, and the history stays as it is.
        listen(&mut stays, &run).await;
        sleep(6 * SECOND).await;
        assert_eq!(words(&run), all);
    });
}

#[test]
fn a_look_at_the_grade_meanwhile_changes_nothing() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        let mut stream = send(&server, &run, &refund(&run, &[])).await;
        run.with_bank(|bank| drop(bank.preview()));
        assert_eq!(listen(&mut stream, &run).await.1, "arrive commit ok");
    });
}

#[test]
fn latency_comes_before_and_whoever_leaves_in_it_is_not_heard_either() {
    on_paused_clock(|server| async move {
        for (stays, then) in [
            // He is gone when his call finishes.
            (SECOND, [(2500, "arrive commit info(left)"), (0, "arrive commit info(left)")]),
            // He is gone when his answer should have been there.
            (3 * SECOND, [(3900, "arrive commit"), (200, "arrive commit info(left)")]),
        ] {
            let run = server.open_run(&ticket(), plan(&[("A-1 refund #1", "slow")], 2000));
            let stream = send(&server, &run, &refund(&run, &[])).await;
            sleep(stays).await;
            drop(stream);
            for (later_ms, words_then) in then {
                sleep(Duration::from_millis(later_ms)).await;
                assert_eq!(words(&run), words_then, "{stays:?}");
            }
        }
    });
}

#[test]
fn a_stored_error_that_comes_slowly_takes_its_latency_first() {
    on_paused_clock(|server| async move {
        let faults = [("A-1 refund #1", "stored_error"), ("A-1 refund #2", "slow")];
        let stored = "arrive refuse(server_error) info(server_error) arrive refuse(server_error)";
        for stays in [false, true] {
            let run = server.open_run(&ticket(), plan(&faults, 2000));
            assert_eq!(status(&mut send(&server, &run, &refund(&run, &KEY)).await).await, 500);
            let stream = send(&server, &run, &refund(&run, &KEY)).await;
            let stream = stays.then_some(stream);
            sleep(Duration::from_millis(6900)).await;
            assert_eq!(words(&run), stored);
            sleep(BRIEF).await;
            let last = if stays { "info(server_error)" } else { "info(left)" };
            assert_eq!(words(&run), format!("{stored} {last}"));
            drop(stream);
        }
    });
}

#[test]
fn what_is_streamed_to_a_file_is_the_history() {
    on_paused_clock(|server| async move {
        let run = slow_run(&server);
        let mut file = run.with_bank(Bank::drain_history);
        drop(send(&server, &run, &refund(&run, &[])).await);
        file += &run.with_bank(Bank::drain_history);
        assert_eq!(pay(&server, &run).await, 201);
        sleep(6 * SECOND).await;
        file += &run.with_bank(Bank::drain_history);
        assert_eq!(file, run.with_bank(|bank| bank.history().to_string()));
        assert!(file.trim_end().ends_with(r#""attempt":1,"code":"left"}"#), "{file}");
    });
}
