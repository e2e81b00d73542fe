//! How long the server waits for a client, on a clock that moves by itself whenever nothing else does.

use std::{future::Future, io::ErrorKind};

use badbank::{
    Ticket,
    fault::Plan,
    grade::Verdict,
    http::{RunHandle, Server, ServerOptions},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, Instant, sleep, timeout},
};

use crate::support::{request, scripted, ticket};

/// Runs a test together with its server on one runtime whose clock stands still while anyone is busy.
pub(super) fn on_paused_clock<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        test(Server::bind(ServerOptions::default()).await.unwrap()).await;
    });
}

pub(super) async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Waits, without letting time pass, until so many calls have come.
pub(super) async fn until_called(run: &RunHandle, calls: u64) {
    while run.with_bank(|bank| bank.history().call_count()) < calls {
        tokio::task::yield_now().await;
    }
}

/// Reads to the end; returns what came, and after how long.
async fn rest(stream: &mut TcpStream) -> (String, Duration) {
    let start = Instant::now();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    (String::from_utf8(bytes).unwrap(), start.elapsed())
}

/// The status of the next answer.
pub(super) async fn status(stream: &mut TcpStream) -> u16 {
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..length])[9..12].parse().unwrap()
}

const SECOND: Duration = Duration::from_secs(1);
const HALVES: [&str; 4] = [
    "G",
    "GET /runs/1/tick",
    "POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: bank\r\nX-",
    "POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: bank\r\nContent-Length: 18\r\n\r\n{\"amount\":",
];

#[test]
fn a_half_sent_request_is_cut_off_within_twenty_seconds() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), Plan::calm());
        for half in HALVES {
            let mut stream = connect(&server).await;
            stream.write_all(half.as_bytes()).await.unwrap();
            let (_answer, waited) = rest(&mut stream).await;
            assert!(waited >= 9 * SECOND && waited <= 21 * SECOND, "{half:?}: {waited:?}");
        }
        assert_eq!(run.with_bank(|bank| bank.history().call_count()), 0);
    });
}

#[test]
fn a_request_that_trickles_in_is_cut_off_too() {
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), Plan::calm());
        for half in HALVES {
            let start = Instant::now();
            let mut stream = connect(&server).await;
            let (mut reader, mut writer) = stream.split();
            let mut bytes = [0; 1024];
            // A letter now and then buys no time.
            let trickle = async {
                for letter in half.bytes().cycle() {
                    if writer.write_all(&[letter]).await.is_err() {
                        break;
                    }
                    sleep(4 * SECOND).await;
                }
            };
            tokio::select! {
                () = trickle => {}
                _ended = async { while reader.read(&mut bytes).await.is_ok_and(|length| length > 0) {} } => {}
            }
            assert!(start.elapsed() <= 25 * SECOND, "{half:?}: {:?}", start.elapsed());
        }
        assert_eq!(run.with_bank(|bank| bank.ledger().accounts()[0].refunds().len()), 0);
    });
}

#[test]
fn an_idle_client_may_think_for_minutes_and_is_let_go_after_hours() {
    on_paused_clock(|server| async move {
        server.open_run(&ticket(), Plan::calm());
        let mut stream = connect(&server).await;
        for minutes in [0, 1, 5, 9] {
            sleep(minutes * 60 * SECOND).await;
            let look = request("GET", "/runs/1/orders/A-1", &[], "");
            stream.write_all(&look).await.unwrap();
            assert_eq!(status(&mut stream).await, 200, "after {minutes} minutes");
        }
        let (nothing, waited) = rest(&mut stream).await;
        assert_eq!(nothing, "");
        assert!(waited > 590 * SECOND && waited < 3600 * SECOND, "{waited:?}");
    });
}

#[test]
fn a_hanging_answer_ends_at_the_clients_limit_or_after_thirty_seconds() {
    let plan = scripted(&[("A-1 refund #1", "timeout"), ("A-1 refund #2", "timeout")]);
    let mut settings = *plan.settings();
    settings.lost_reply = badbank::fault::LostReply::Hang;
    let plan = plan.with_settings(settings);
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), plan);
        let refund = request("POST", "/runs/1/orders/A-1/refunds", &[], r#"{"amount":"1.00"}"#);
        let mut patient = connect(&server).await;
        patient.write_all(&refund).await.unwrap();
        until_called(&run, 1).await;
        let mut brief = connect(&server).await;
        brief.write_all(&refund).await.unwrap();
        until_called(&run, 2).await;
        assert!(timeout(2 * SECOND, rest(&mut brief)).await.is_err());
        drop(brief);
        let (nothing, waited) = rest(&mut patient).await;
        assert_eq!(nothing, "");
        assert!(waited >= 27 * SECOND && waited <= 31 * SECOND, "{waited:?}");
        assert_eq!(run.with_bank(|bank| bank.ledger().accounts()[0].refunds().len()), 2);
    });
}

/// Case delivery-03, dust-tt/dust#4272: an answer takes three seconds, and the client waits for two.
async fn impatient(server: &Server, run: &RunHandle, key: &[(&str, &str)]) -> Vec<&'static str> {
    let path = format!("/runs/{}/orders/A-1/refunds", run.id());
    let refund = request("POST", &path, key, r#"{"amount":"10.00"}"#);
    let mut seen = Vec::new();
    for attempt in 1..=3 {
        let mut stream = connect(server).await;
        stream.write_all(&refund).await.unwrap();
        until_called(run, attempt).await;
        let mut bytes = vec![0; 4096];
        let answer = timeout(2 * SECOND, stream.read(&mut bytes)).await;
        seen.push(match answer {
            Err(_) => "no_reply",
            Ok(length) => {
                let text = String::from_utf8_lossy(&bytes[..length.unwrap()]).to_lowercase();
                let is_replay = text.contains("idempotent-replayed: true");
                let words = [
                    ("201", is_replay, "replayed"),
                    ("201", true, "ok"),
                    ("409", true, "in_flight"),
                ];
                let word =
                    words.iter().find(|(status, is_it, _)| text[9..12] == **status && *is_it);
                word.unwrap().2
            }
        });
        // The client's limit is over, answered or not.
        let spent = Duration::from_millis(run.with_bank(|bank| bank.now_ms()));
        sleep((2 * SECOND * u32::try_from(attempt).unwrap()).saturating_sub(spent)).await;
    }
    sleep(5 * SECOND).await;
    seen
}

#[test]
fn a_client_whose_limit_is_shorter_than_an_answer_takes_pays_three_times() {
    const TICKET: &str = r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "100.00", "expect": ["10.00"]}]}"#;
    on_paused_clock(|server| async move {
        let ticket = Ticket::parse(TICKET).unwrap();
        let plan = r#"{"version": 1, "dedupe": "strict", "latency_ms": 3000}"#;
        let open = || server.open_run(&ticket, Plan::parse(plan).unwrap());
        let run = open();
        assert_eq!(impatient(&server, &run, &[]).await, ["no_reply", "no_reply", "no_reply"]);
        let grade = run.with_bank(|bank| bank.grade("FAILED: A-1"));
        assert_eq!((grade.extra_refunds(), grade.report_true()), (2, Some(false)));
        assert_eq!(grade.verdict(), Verdict::Fail);

        let run = open();
        let key = [("Idempotency-Key", "k1")];
        assert_eq!(impatient(&server, &run, &key).await, ["no_reply", "in_flight", "replayed"]);
        let grade = run.with_bank(|bank| bank.grade("REFUNDED: A-1"));
        assert_eq!((grade.verdict(), grade.extra_refunds()), (Verdict::Pass, 0));
    });
}
