//! Bodies that nobody wants: whoever sends one can read the answer, and knows whether the connection goes on.

use badbank::fault::Plan;

use super::patience::{connect, on_paused_clock, status};
use crate::support::{Connection, TestServer, request, ticket};

const PATH: &str = "/runs/1/orders/A-1/refunds";

/// A server, and requests that it refuses without a look at their bodies: plane, method, path, headers, status.
fn refused(server: &TestServer) -> Vec<(Connection, [&'static str; 2], &'static str, u16)> {
    let data = [
        (["POST", "/nowhere"], 404),
        (["POST", "/runs/9/report"], 404),
        (["POST", "/runs/1/nowhere"], 404),
        (["PUT", PATH], 405),
        (["POST", "/openapi.json"], 405),
    ]
    .map(|(line, status)| (server.connect(), line, "", status));
    let control = [
        (["POST", "/runs"], "", 401),
        (["POST", "/runs"], "Origin: null", 403),
        (["POST", "/nowhere"], "Authorization: Bearer test-token", 404),
        (["PATCH", "/runs"], "Authorization: Bearer test-token", 405),
    ]
    .map(|(line, header, status)| (server.connect_to_control(), line, header, status));
    data.into_iter().chain(control).collect()
}

fn with_body([method, path]: [&str; 2], header: &str, body: &str) -> Vec<u8> {
    let header = header.split_once(": ");
    request(method, path, header.as_slice(), body)
}

#[test]
fn a_connection_goes_on_after_a_body_that_nobody_wants() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for size in [1, 30_000, 3_000_000] {
        let body = " ".repeat(size);
        for (mut connection, line, header, status) in refused(&server) {
            for _ in 0..2 {
                connection.send(&with_body(line, header, &body));
                let answer = connection.read().unwrap();
                assert_eq!(answer.status, status, "{line:?}");
                assert_eq!(answer.header("connection"), None, "{line:?}");
            }
        }
        // A read has no body either, and is answered as if it had none.
        let mut connection = server.connect();
        for _ in 0..2 {
            connection.send(&with_body(["GET", "/runs/1/orders/A-1"], "", &body));
            assert_eq!(connection.read().unwrap().status, 200);
        }
    }
}

#[test]
fn a_body_that_is_too_large_is_read_before_it_is_refused() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let mut connection = server.connect();
    connection.send(&request("POST", PATH, &[], &" ".repeat(3_000_000)));
    assert_eq!(connection.read().unwrap().status, 413);
    connection.send(&request("POST", PATH, &[], r#"{"amount":"1.00"}"#));
    assert_eq!(connection.read().unwrap().status, 201);
    assert!(run.with_bank(|bank| bank.history().to_string()).contains("too_large"));
}

#[test]
fn an_answer_before_the_end_of_a_body_says_that_it_is_the_last() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    let head = |line: &str, rest: &str| format!("{line} HTTP/1.1\r\nHost: b\r\n{rest}\r\n\r\n");
    let too_large = format!("POST {PATH}");
    for (line, status) in [("POST /nowhere", 404), (too_large.as_str(), 413)] {
        for rest in ["Content-Length: 1000000000", "Content-Length: 99999\r\nExpect: 100-continue"]
        {
            let mut connection = server.connect();
            connection.send(head(line, rest).as_bytes());
            let answer = connection.read().unwrap();
            assert_eq!((answer.status, answer.header("connection")), (status, Some("close")));
            assert_eq!(connection.read_to_end().unwrap(), b"");
        }
    }
    // Without end, and without a length.
    let mut connection = server.connect();
    connection.send(head("POST /nowhere", "Transfer-Encoding: chunked").as_bytes());
    let megabyte = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..32 {
        connection.send(megabyte.as_bytes());
    }
    connection.send(b"1\r\n \r\n");
    let answer = connection.read().unwrap();
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
}

#[test]
fn a_body_that_stops_half_way_is_not_waited_for_for_ever() {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::{Duration, Instant},
    };
    on_paused_clock(|server| async move {
        let mut stream = connect(&server).await;
        let half = b"POST /nowhere HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
        let start = Instant::now();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(start.elapsed() <= Duration::from_secs(21), "{:?}", start.elapsed());
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(answer.to_lowercase().contains("connection: close\r\n"), "{answer}");
    });
}

#[test]
fn an_idle_client_whose_body_came_by_itself_may_think_for_minutes_too() {
    use tokio::{io::AsyncWriteExt as _, time::Duration};
    on_paused_clock(|server| async move {
        let run = server.open_run(&ticket(), Plan::calm());
        let mut stream = connect(&server).await;
        // Else the body waits for an acknowledgement, which takes real time.
        stream.set_nodelay(true).unwrap();
        let whole = request("POST", PATH, &[], r#"{"amount":"1.00"}"#);
        let (head, body) = whole.split_at(whole.len() - 9);
        for _ in 0..2 {
            stream.write_all(head).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
            stream.write_all(body).await.unwrap();
            assert_eq!(status(&mut stream).await, 201);
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        assert_eq!(run.with_bank(|bank| bank.ledger().accounts()[0].refunds().len()), 2);
    });
}
