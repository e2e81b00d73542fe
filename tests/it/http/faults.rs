//! Every fault as it looks at the socket, beside what the ledger made of it.
//!
//! Of time only lower bounds and order are asserted: a machine may be as slow as it likes.

use badbank::{fault::PlanSettings, fault::RetryAfter, fault::Truncation, http::RunHandle};
use tokio::time::{Duration, Instant};

use crate::support::{
    Connection, End, TestServer, refunds, request, scripted, ticket, undated, wait_until,
};

const ORDER: &str = "/runs/1/orders/A-1";
const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;
const KEY: [(&str, &str); 1] = [("Idempotency-Key", "k")];

/// What a calm bank answers to `BODY`.
const PAID: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 117\r\n\r\n{\"order\":\"A-1\",\"refund\":1,\"amount\":\"42.50\",\"currency\":\"EUR\",\"message\":\"Refunded 42.50 EUR on order A-1 (refund #1).\"}";
/// What it answers to a read of the untouched order.
const READ: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 77\r\n\r\n{\"id\":\"A-1\",\"currency\":\"EUR\",\"amount\":\"42.50\",\"refunded\":\"0.00\",\"refunds\":[]}";

/// A server on which a call meets a fault, and its run.
struct Bank {
    server: TestServer,
    run: RunHandle,
}

impl Bank {
    /// The first refund on A-1 meets `fault`.
    fn refunding(fault: &str) -> Self {
        Self::with(&[("A-1 refund #1", fault)], |_| {})
    }

    /// The first read of A-1 meets `fault`.
    fn reading(fault: &str) -> Self {
        Self::with(&[("A-1 get_order #1", fault)], |_| {})
    }

    fn with(calls: &[(&str, &str)], set: impl FnOnce(&mut PlanSettings)) -> Self {
        let plan = scripted(calls);
        let mut settings = *plan.settings();
        settings.slow_ms = 40;
        set(&mut settings);
        let server = TestServer::start();
        let run = server.open(&ticket(), plan.with_settings(settings));
        Self { server, run }
    }

    fn connect(&self) -> Connection {
        self.server.connect()
    }

    /// Refunds on a connection of its own: the bytes that come back, but for the date's.
    fn refund(&self, headers: &[(&str, &str)]) -> (String, End) {
        exchange(&mut self.connect(), &request("POST", PATH, headers, BODY))
    }

    fn read(&self) -> (String, End) {
        exchange(&mut self.connect(), &request("GET", ORDER, &[], ""))
    }

    fn refunds(&self) -> usize {
        refunds(&self.run)
    }
}

fn exchange(connection: &mut Connection, bytes: &[u8]) -> (String, End) {
    connection.send(bytes);
    let (text, end) = connection.read_raw();
    (undated(&text), end)
}

fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").unwrap().1
}

/// An answer up to the middle of its body.
fn half(text: &str) -> String {
    text[..text.len() - body(text).len().div_ceil(2)].to_owned()
}

/// A problem as it is sent, with another field before its length if there is one.
fn problem(status: &str, field: &str, code: &str, detail: &str) -> String {
    let (number, title) = status.split_once(' ').unwrap();
    let body = format!(
        r#"{{"type":"about:blank","title":"{title}","status":{number},"detail":"{detail}","code":"{code}"}}"#
    );
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\n{field}content-length: {length}\r\n\r\n{body}"
    )
}

fn server_error() -> String {
    problem("500 Internal Server Error", "", "server_error", "An internal error occurred.")
}

fn rate_limited(retry_after: &str) -> String {
    let field = format!("retry-after: {retry_after}\r\n");
    let detail = "Too many requests. This attempt made no changes.";
    problem("429 Too Many Requests", &field, "rate_limited", detail)
}

#[test]
fn the_answers_of_a_calm_bank_are_what_these_tests_compare_with() {
    let bank = Bank::with(&[], |_| {});
    assert_eq!(bank.read(), (READ.to_owned(), End::Complete));
    assert_eq!(bank.refund(&[]), (PAID.to_owned(), End::Complete));
}

#[test]
fn a_rate_limited_call_is_told_to_come_again_in_so_many_seconds() {
    for seconds in [0, 1, 7, 3600] {
        let bank = Bank::with(&[("A-1 refund #1", "rate_limited")], |settings| {
            settings.retry_after_s = seconds;
        });
        assert_eq!(bank.refund(&[]), (rate_limited(&seconds.to_string()), End::Complete));
        assert_eq!(bank.refunds(), 0);
    }
}

#[test]
fn a_rate_limited_call_is_told_to_come_again_at_a_date() {
    let bank = Bank::with(&[("A-1 refund #1", "rate_limited")], |settings| {
        settings.retry_after_s = 3600;
        settings.retry_after = RetryAfter::Date;
    });
    let answer = bank.connect().ask("POST", PATH, &[], BODY);
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
    let [sent, again] = ["date", "retry-after"]
        .map(|name| httpdate::parse_http_date(answer.header(name).unwrap()).unwrap());
    let wait = again.duration_since(sent).unwrap().as_secs();
    // The two are written one after the other, and a date knows no less than a second.
    assert!((3590..=3610).contains(&wait), "{wait} s: {}", answer.head);
    assert_eq!(bank.refunds(), 0);
}

#[test]
fn a_server_error_comes_after_the_money_has_moved() {
    let bank = Bank::refunding("server_error");
    assert_eq!(bank.refund(&KEY), (server_error(), End::Complete));
    assert_eq!(bank.refunds(), 1);
    let (text, _) = bank.refund(&KEY);
    assert!(text.contains("idempotent-replayed: true\r\n") && text.ends_with(body(PAID)), "{text}");
}

#[test]
fn a_stored_error_is_answered_for_ever_to_its_key_and_to_no_other() {
    let bank = Bank::refunding("stored_error");
    for attempt in 1..=20 {
        // Not even a mark tells that it is a replay: the ledger has nothing to replay.
        assert_eq!(bank.refund(&KEY), (server_error(), End::Complete), "attempt {attempt}");
        assert_eq!(bank.refunds(), 0);
    }
    assert_eq!(bank.refund(&[("Idempotency-Key", "k2")]), (PAID.to_owned(), End::Complete));
    assert_eq!((bank.refund(&KEY).0, bank.refunds()), (server_error(), 1));
}

#[test]
fn a_stored_error_without_a_key_is_bound_to_nothing() {
    let bank = Bank::refunding("stored_error");
    assert_eq!((bank.refund(&[]).0, bank.refunds()), (server_error(), 0));
    assert_eq!((bank.refund(&[]).0, bank.refunds()), (PAID.to_owned(), 1));
}

#[test]
fn an_accepted_refund_is_pending_until_it_has_failed_and_reads_show_it() {
    let bank = Bank::refunding("accepted_then_failed(2)");
    let (head, body) = PAID.split_once("\r\n\r\n").unwrap();
    let pending = body.replace(r#""EUR","#, r#""EUR","status":"pending","#).replace(
        "Refunded 42.50 EUR on order A-1 (refund #1).",
        "Refunding 42.50 EUR on order A-1 is pending (refund #1).",
    );
    let head = head.replace("117", &pending.len().to_string());
    assert_eq!(bank.refund(&KEY), (format!("{head}\r\n\r\n{pending}"), End::Complete));
    let shown = |refunded: &str, status: &str| {
        let line = format!(r#"[{{"number":1,"amount":"42.50","status":"{status}"}}]"#);
        format!(
            r#"{{"id":"A-1","currency":"EUR","amount":"42.50","refunded":"{refunded}","refunds":{line}}}"#
        )
    };
    for (refunded, status) in [("42.50", "pending"), ("42.50", "pending"), ("0.00", "failed")] {
        let (read, _) = bank.read();
        assert_eq!(read.split_once("\r\n\r\n").unwrap().1, shown(refunded, status));
    }
}

#[test]
fn a_reset_comes_before_or_after_the_money_has_moved() {
    for (fault, paid) in
        [("reset_before", 0), ("reset_after", 1), ("twice+reset", 2), ("late+reset", 0)]
    {
        let bank = Bank::refunding(fault);
        assert_eq!(bank.refund(&[]), (String::new(), End::Reset), "{fault}");
        assert_eq!(bank.refunds(), paid, "{fault}");
    }
}

#[test]
fn a_closed_connection_ends_cleanly_and_without_a_byte() {
    for (fault, paid) in [("closed", 1), ("never+closed", 0), ("twice+closed", 2)] {
        let bank = Bank::refunding(fault);
        assert_eq!(bank.refund(&[]), (String::new(), End::Closed), "{fault}");
        assert_eq!(bank.refunds(), paid, "{fault}");
    }
}

#[test]
fn a_hanging_call_is_silent_and_the_money_has_moved() {
    for (fault, paid) in [("hang", 1), ("never+hang", 0), ("twice+hang", 2)] {
        let bank = Bank::refunding(fault);
        let mut connection = bank.connect();
        connection.send(&request("POST", PATH, &KEY, BODY));
        wait_until(&bank.run, |bank| bank.history().call_count() == 1);
        connection.wait_at_most(Duration::from_millis(60));
        assert_eq!(connection.read_raw(), (String::new(), End::Silent), "{fault}");
        // The client is still waiting when the ledger has it, and so has everybody else.
        let held = bank.refunds();
        assert_eq!(held, if fault == "twice+hang" { 1 } else { paid }, "{fault}");
        assert_eq!(bank.connect().ask("POST", PATH, &KEY, BODY).status, 201);
        assert_eq!(bank.refunds(), 1, "{fault}");
    }
}

#[test]
fn a_truncated_answer_announces_all_of_itself_and_ends_half_way() {
    for (fault, paid) in [("truncated", 1), ("twice+truncated", 2)] {
        let bank = Bank::refunding(fault);
        assert_eq!(bank.refund(&[]), (half(PAID), End::Closed), "{fault}");
        assert_eq!(bank.refunds(), paid, "{fault}");
    }
}

#[test]
fn a_truncated_answer_in_chunks_has_no_last_one() {
    let bank = Bank::with(&[("A-1 refund #1", "truncated")], |settings| {
        settings.truncation = Truncation::Chunked;
    });
    let half = &body(PAID)[..body(PAID).len() / 2];
    let chunk = format!("{:X}\r\n{half}\r\n", half.len());
    let head =
        "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n";
    assert_eq!(bank.refund(&[]), (format!("{head}\r\n{chunk}"), End::Closed));
    assert_eq!(bank.refunds(), 1);
}

#[test]
fn what_the_ledger_refused_is_truncated_too() {
    let bank = Bank::with(&[("A-1 refund #2", "truncated")], |settings| {
        settings.over_refund = badbank::ledger::OverRefund::Reject;
    });
    assert_eq!(bank.refund(&[]).1, End::Complete);
    let (text, end) = bank.refund(&[]);
    assert!(text.starts_with("HTTP/1.1 422 "), "{text}");
    assert_eq!((end, bank.refunds()), (End::Closed, 1));
}

/// What came with each read, and when, counted from the sending of the request.
fn pieces(connection: &mut Connection, bytes: &[u8], length: usize) -> Vec<(Duration, String)> {
    let start = Instant::now();
    connection.send(bytes);
    let mut pieces = Vec::new();
    let mut seen = 0;
    while seen < length {
        let piece = String::from_utf8(connection.read_piece().unwrap()).unwrap();
        assert!(!piece.is_empty(), "cut short: {pieces:?}");
        seen += undated(&piece).len();
        pieces.push((start.elapsed(), piece));
    }
    pieces
}

/// Whether the answer to a slow call, which must be `answer`, came in several pieces.
fn comes_in_pieces(bank: &Bank, bytes: &[u8], answer: &str, slow: Duration) -> bool {
    let pieces = pieces(&mut bank.connect(), bytes, answer.len());
    let text: String = pieces.iter().map(|(_, piece)| piece.as_str()).collect();
    assert_eq!(undated(&text), answer);
    assert!(pieces[0].0 >= slow / 2, "the first byte came early: {pieces:?}");
    assert!(pieces.last().unwrap().0 >= slow, "the last byte came early: {pieces:?}");
    pieces.len() > 2
}

#[test]
fn a_slow_answer_comes_late_in_pieces_and_in_full() {
    let slow = Duration::from_millis(160);
    // A reader that is kept from the processor finds the pieces put together; not every time.
    let came_in_pieces = (0..20).any(|_| {
        let bank = Bank::with(&[("A-1 refund #1", "slow")], |settings| settings.slow_ms = 160);
        let is_in_pieces = comes_in_pieces(&bank, &request("POST", PATH, &[], BODY), PAID, slow);
        assert_eq!(bank.refunds(), 1);
        is_in_pieces
    });
    assert!(came_in_pieces, "a slow answer always came at once");
}

#[test]
fn a_slow_answer_keeps_nobody_else_waiting() {
    let bank = Bank::with(&[("A-1 refund #1", "slow")], |settings| settings.slow_ms = 3_600_000);
    let mut slow = bank.connect();
    slow.send(&request("POST", PATH, &[], BODY));
    wait_until(&bank.run, |bank| bank.history().call_count() == 1);
    assert_eq!(bank.refunds(), 1);
    assert_eq!(bank.connect().ask("POST", PATH, &[], BODY).json()["refund"], 2);
}

#[test]
fn two_deliveries_of_one_call_show_only_in_the_ledger() {
    for fault in ["duplicate", "twice_overlapping+reply"] {
        let bank = Bank::refunding(fault);
        assert_eq!(bank.refund(&[]), (PAID.to_owned(), End::Complete), "{fault}");
        assert_eq!(bank.refunds(), 2, "{fault}");
        let bank = Bank::refunding(fault);
        assert_eq!(bank.refund(&KEY), (PAID.to_owned(), End::Complete), "{fault}");
        assert_eq!(bank.refunds(), 1, "{fault}");
    }
}

#[test]
fn two_deliveries_of_one_call_may_end_in_silence() {
    for fault in ["twice+timeout", "twice_overlapping+timeout"] {
        for (key, paid) in [(&[][..], 2), (&KEY[..], 1)] {
            let bank = Bank::refunding(fault);
            let answer = bank.connect().ask("POST", PATH, key, BODY);
            assert_eq!((answer.status, bank.refunds()), (504, paid), "{fault} {key:?}");
        }
    }
}

#[test]
fn the_next_request_on_a_connection_is_none_the_worse() {
    for (fault, status, paid) in [
        ("transient", 503, 0),
        ("rate_limited", 429, 0),
        ("server_error", 500, 1),
        ("stored_error", 500, 0),
        ("timeout", 504, 1),
        ("lost", 504, 0),
        ("late", 504, 0),
        ("duplicate", 201, 2),
        ("slow", 201, 1),
    ] {
        let bank = Bank::refunding(fault);
        let mut connection = bank.connect();
        assert_eq!(connection.ask("POST", PATH, &[], BODY).status, status, "{fault}");
        assert_eq!(bank.refunds(), paid, "{fault}");
        let next = connection.ask("POST", PATH, &[], BODY);
        assert_eq!((next.status, &next.json()["refund"]), (201, &(paid + 1).into()), "{fault}");
        assert_eq!(connection.ask("GET", ORDER, &[], "").status, 200, "{fault}");
    }
}

#[test]
fn a_fault_breaks_one_connection_and_no_other() {
    for fault in ["reset_before", "reset_after", "closed", "truncated", "hang"] {
        let bank = Bank::refunding(fault);
        let mut warm = bank.connect();
        assert_eq!(warm.ask("GET", ORDER, &[], "").status, 200);
        let mut struck = bank.connect();
        assert_eq!(struck.ask("GET", ORDER, &[], "").status, 200);
        struck.send(&request("POST", PATH, &[], BODY));
        wait_until(&bank.run, |bank| bank.history().call_count() == 3);
        for connection in [&mut warm, &mut bank.connect()] {
            assert_eq!(connection.ask("POST", PATH, &[], BODY).status, 201, "{fault}");
        }
    }
}

#[test]
fn a_read_is_answered_with_an_error() {
    let unavailable = problem(
        "503 Service Unavailable",
        "",
        "unavailable",
        "Service Unavailable. This attempt made no changes.",
    );
    let timeout = problem(
        "504 Gateway Timeout",
        "",
        "timeout",
        "The request may or may not have been processed.",
    );
    for (fault, answer) in [
        ("transient", unavailable),
        ("rate_limited", rate_limited("1")),
        ("server_error", server_error()),
        ("never+server_error", server_error()),
        ("lost", timeout),
    ] {
        let bank = Bank::reading(fault);
        let mut connection = bank.connect();
        let bytes = request("GET", ORDER, &[], "");
        assert_eq!(exchange(&mut connection, &bytes), (answer, End::Complete), "{fault}");
        let again = exchange(&mut connection, &bytes);
        assert_eq!(again, (READ.to_owned(), End::Complete), "{fault}");
    }
}

#[test]
fn a_read_breaks_off() {
    for (fault, text, end) in [
        ("reset_before", String::new(), End::Reset),
        ("reset_after", String::new(), End::Reset),
        ("closed", String::new(), End::Closed),
        ("truncated", half(READ), End::Closed),
    ] {
        let bank = Bank::reading(fault);
        assert_eq!(bank.read(), (text, end), "{fault}");
        assert_eq!(bank.read(), (READ.to_owned(), End::Complete), "{fault}");
    }
}

#[test]
fn a_read_hangs() {
    let bank = Bank::reading("hang");
    let mut connection = bank.connect();
    connection.send(&request("GET", ORDER, &[], ""));
    connection.wait_at_most(Duration::from_millis(60));
    assert_eq!(connection.read_raw(), (String::new(), End::Silent));
    assert_eq!(bank.read(), (READ.to_owned(), End::Complete));
}

#[test]
fn a_read_is_slow() {
    let bank = Bank::reading("slow");
    let bytes = request("GET", ORDER, &[], "");
    comes_in_pieces(&bank, &bytes, READ, Duration::from_millis(40));
}

#[test]
fn a_stale_read_looks_like_any_other() {
    let bank = Bank::reading("stale");
    assert_eq!(bank.refund(&[]).1, End::Complete);
    assert_eq!(bank.read(), (READ.to_owned(), End::Complete));
    assert!(bank.read().0.contains(r#""refunded":"42.50""#));
}

#[test]
fn a_late_refund_lands_between_two_answers() {
    let bank = Bank::refunding("late(2)");
    let counts = [(504, 0), (200, 0), (200, 1), (200, 1)].map(|(status, held)| {
        let mut connection = bank.connect();
        let answer = match status {
            504 => connection.ask("POST", PATH, &[], BODY),
            _ => connection.ask("GET", ORDER, &[], ""),
        };
        assert_eq!((answer.status, bank.refunds()), (status, held));
        answer.body.matches("number").count()
    });
    // It lands after the second read has had its effect, and before that read is answered.
    assert_eq!(counts, [0, 0, 0, 1]);
}
