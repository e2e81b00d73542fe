//! What the data plane refuses, with which words, and that it changes nothing.

use badbank::{Bank, fault::Plan, http::RunHandle};

use crate::support::{Answer, TestServer, refunds, request, scripted, ticket, wait_until};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const GOOD: &str = r#"{"amount":"42.50"}"#;

struct Refusals {
    server: TestServer,
    run: RunHandle,
}

impl Refusals {
    fn start() -> Self {
        let server = TestServer::start();
        let run = server.open(&ticket(), Plan::calm());
        Self { server, run }
    }

    /// Checks an answer, and that the bank only wrote the refusal down.
    #[track_caller]
    fn expect(&self, ask: impl FnOnce(&TestServer) -> Answer, status: u16, code: &str, hint: &str) {
        let before = self.run.with_bank(|bank| bank.history().events().len());
        let answer = ask(&self.server);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
        assert!(answer.detail().contains(hint), "{hint:?} in {:?}", answer.detail());
        self.run.with_bank(|bank| {
            assert_eq!(bank.history().events().len(), before + 1);
            let text = bank.history().to_string();
            let last = text.lines().next_back().unwrap();
            assert!(last.contains(&format!(r#""code":"{code}""#)), "{last}");
            assert_untouched(bank);
        });
    }

    #[track_caller]
    fn expect_body(&self, body: &str, status: u16, code: &str, hint: &str) {
        self.expect(|server| server.ask("POST", PATH, &[], body), status, code, hint);
    }

    #[track_caller]
    fn expect_key(&self, values: &[&str], hint: &str) {
        let headers: Vec<_> = values.iter().map(|value| ("Idempotency-Key", *value)).collect();
        let ask = |server: &TestServer| server.ask("POST", PATH, &headers, GOOD);
        self.expect(ask, 400, "invalid_key", hint);
    }
}

#[track_caller]
fn assert_untouched(bank: &Bank) {
    assert_eq!(bank.history().call_count(), 0);
    assert!(bank.ledger().accounts().iter().all(|account| account.refunds().is_empty()));
}

#[test]
fn amounts_that_are_none() {
    let refusals = Refusals::start();
    let long = "9".repeat(30);
    for (amount, hint) in [
        ("", "missing"),
        ("0", "above zero"),
        ("0.00", "above zero"),
        ("-1", "digits"),
        ("1e2", "digits"),
        ("1.234", "more decimals than EUR"),
        ("NaN", "digits"),
        (" 1", "digits"),
        (long.as_str(), "15 digits"),
    ] {
        let body = format!(r#"{{"amount":"{amount}"}}"#);
        refusals.expect_body(&body, 400, "invalid_amount", hint);
    }
    for (amount, hint) in [
        ("0", "above zero"),
        ("-1", "digits"),
        ("1e2", "digits"),
        ("42.500", "more decimals than EUR"),
        ("42.50000000000000000001", "15 digits"),
        ("null", "missing"),
        ("true", "`true`"),
        ("[42.50]", "`[42.50]`"),
        (r#"{"value":1}"#, "digits"),
    ] {
        let body = format!(r#"{{"amount":{amount}}}"#);
        refusals.expect_body(&body, 400, "invalid_amount", hint);
    }
    refusals.expect_body("{}", 400, "invalid_amount", "missing");
    let yen = |server: &TestServer| {
        server.ask("POST", "/runs/1/orders/J-1/refunds", &[], r#"{"amount":"10.5"}"#)
    };
    refusals.expect(yen, 400, "invalid_amount", "more decimals than JPY");
}

#[test]
fn bodies_that_are_none() {
    let refusals = Refusals::start();
    let deep = format!(r#"{{"amount":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
    let deep_field = format!(r#"{{"x":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
    for (body, hint) in [
        ("", "empty"),
        (" \r\n", "empty"),
        (r#"{"amount":"42.5"#, "EOF"),
        (r#"{"amount":"42.50"} {}"#, "trailing"),
        ("amount=42.50", "not a JSON object"),
        (r#"["42.50","EUR"]"#, "not a JSON object"),
        (r#""42.50""#, "not a JSON object"),
        ("null", "not a JSON object"),
        (r#"{"amount":"1","amount":"2"}"#, "duplicate field `amount`"),
        (r#"{"amount":"1","currency":"EUR","currency":"EUR"}"#, "duplicate field `currency`"),
        (r#"{"amount":"1","note":"x"}"#, "unknown field `note`"),
        (r#"{"amount":"1","currency":7}"#, "expected"),
        (r#"{"amount":042}"#, "invalid number"),
        (deep.as_str(), "recursion limit"),
        (deep_field.as_str(), "unknown field"),
    ] {
        refusals.expect_body(body, 400, "invalid_body", hint);
        refusals.expect_body(body, 400, "invalid_body", "{\"amount\": \"42.50\"");
    }
}

#[test]
fn a_body_that_is_not_text() {
    let refusals = Refusals::start();
    let ask = |server: &TestServer| {
        let mut connection = server.connect();
        connection.send(b"POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: b\r\nContent-Length: 12\r\n\r\n{\"amount\":\"\xff");
        connection.read().unwrap()
    };
    refusals.expect(ask, 400, "invalid_body", "UTF-8");
}

#[test]
fn a_body_that_breaks_off_is_no_call() {
    let refusals = Refusals::start();
    let mut connection = refusals.server.connect();
    connection.send(b"POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: b\r\nContent-Length: 99\r\n\r\n{\"amount\":\"42.50\"}");
    connection.finish_sending();
    let _answer = connection.read_to_end();
    refusals.run.with_bank(|bank| assert_untouched(bank));
}

#[test]
fn bodies_of_another_type() {
    let refusals = Refusals::start();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]
    {
        let ask =
            |server: &TestServer| server.ask("POST", PATH, &[("Content-Type", content_type)], GOOD);
        refusals.expect(ask, 415, "unsupported_type", "application/json");
    }
}

#[test]
fn json_with_parameters_is_json() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for content_type in
        ["application/json; charset=utf-8", "Application/JSON;x", "application/json"]
    {
        let answer = server.ask("POST", PATH, &[("Content-Type", content_type)], GOOD);
        assert_eq!(answer.status, 201, "{content_type}");
    }
}

#[test]
fn bodies_that_are_too_large() {
    let refusals = Refusals::start();
    let fits = format!("{GOOD}{}", " ".repeat((64 << 10) - GOOD.len()));
    let large = format!("{fits} ");
    refusals.expect_body(&large, 413, "too_large", "65536 bytes");
    refusals.expect_body(&" ".repeat(1 << 20), 413, "too_large", "65536 bytes");
    let asks_first = |server: &TestServer| {
        let mut connection = server.connect();
        connection.send(b"POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: b\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n");
        connection.read().unwrap()
    };
    refusals.expect(asks_first, 413, "too_large", "65536 bytes");
    let chunked = |server: &TestServer| {
        let mut connection = server.connect();
        connection.send(b"POST /runs/1/orders/A-1/refunds HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(format!("11000\r\n{}\r\n0\r\n\r\n", " ".repeat(0x11000)).as_bytes());
        connection.read().unwrap()
    };
    refusals.expect(chunked, 413, "too_large", "65536 bytes");
    assert_eq!(refusals.server.ask("POST", PATH, &[], &fits).status, 201);
}

#[test]
fn keys_that_are_none() {
    let refusals = Refusals::start();
    let long = "k".repeat(256);
    let quoted_long = format!("\"{long}\"");
    refusals.expect_key(&[""], "blank");
    refusals.expect_key(&[r#""""#], "blank");
    refusals.expect_key(&[r#""  ""#], "blank");
    refusals.expect_key(&[&long], "256 characters");
    refusals.expect_key(&[&quoted_long], "256 characters");
    refusals.expect_key(&["ключ"], "printable ASCII");
    refusals.expect_key(&["a\tb"], "printable ASCII");
    refusals.expect_key(&["a", "b"], "sent twice");
    refusals.expect_key(&["a", "a"], "sent twice");
    refusals.expect_key(&[r#""a"#], "half-quoted");
    refusals.expect_key(&[r#"a""#], "half-quoted");
    let longest = "k".repeat(255);
    let headers = [("Idempotency-Key", longest.as_str())];
    assert_eq!(refusals.server.ask("POST", PATH, &headers, GOOD).status, 201);
}

#[test]
fn orders_and_resources_that_are_none() {
    let refusals = Refusals::start();
    let get = |path: &'static str| move |server: &TestServer| server.ask("GET", path, &[], "");
    refusals.expect(get("/runs/1/orders/A-9"), 404, "unknown_order", "`A-9`");
    refusals.expect(get("/runs/1/orders/%zz-1"), 404, "unknown_order", "%zz-1");
    refusals.expect(get("/runs/1/orders"), 404, "not_found", "/runs/1/orders");
    refusals.expect(get("/runs/1/orders/A-1/refunds/1"), 404, "not_found", "nothing at");
    let refund = |server: &TestServer| server.ask("POST", "/runs/1/orders/A-9/refunds", &[], GOOD);
    refusals.expect(refund, 404, "unknown_order", "`A-9`");
}

#[test]
fn runs_that_are_none() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for run in ["2", "0", "01", "+1", "x", "18446744073709551616"] {
        for (method, resource) in [("GET", "ticket"), ("POST", "orders/A-1/refunds")] {
            let answer = server.ask(method, &format!("/runs/{run}/{resource}"), &[], "");
            assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_run"), "{run}");
            assert_eq!(answer.detail(), format!("there is no run `{run}`"));
        }
    }
    for path in ["/", "/runs", "/runs/1", "/orders/A-1", "/healthz", "/runs/1/faults"] {
        let answer = server.ask("GET", path, &[], "");
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
}

#[test]
fn methods_that_a_resource_does_not_take() {
    let refusals = Refusals::start();
    for (method, path, allowed) in [
        ("POST", "/runs/1/ticket", "GET"),
        ("DELETE", "/runs/1/orders/A-1", "GET"),
        ("GET", PATH, "POST"),
        ("PUT", "/runs/1/report", "POST"),
    ] {
        let ask = |server: &TestServer| {
            let answer = server.ask(method, path, &[], "");
            assert_eq!(answer.header("allow"), Some(allowed), "{path}");
            answer
        };
        refusals.expect(ask, 405, "method_not_allowed", allowed);
    }
}

#[test]
fn another_currency() {
    let refusals = Refusals::start();
    for currency in ["USD", "eur", ""] {
        let body = format!(r#"{{"amount":"42.50","currency":"{currency}"}}"#);
        refusals.expect_body(&body, 422, "currency_mismatch", "in EUR");
    }
}

#[test]
fn what_is_checked_first_is_refused_first() {
    const TYPE: &[(&str, &str)] = &[("Content-Type", "text/plain"), ("Idempotency-Key", "")];
    const KEY: &[(&str, &str)] = &[("Idempotency-Key", "")];
    let refusals = Refusals::start();
    let large = " ".repeat(70_000);
    let nowhere = "/runs/1/orders/A-9/refunds";
    let ask = |headers: &'static [(&str, &str)], path: &'static str, body: String| {
        move |server: &TestServer| server.ask("POST", path, headers, &body)
    };
    // size, type, body, key, order, amount, currency
    let broken = || "{".to_owned();
    let amount = || r#"{"amount":"x","currency":"USD"}"#.to_owned();
    refusals.expect(ask(TYPE, nowhere, large), 413, "too_large", "");
    refusals.expect(ask(TYPE, nowhere, broken()), 415, "unsupported_type", "");
    refusals.expect(ask(KEY, nowhere, broken()), 400, "invalid_body", "");
    refusals.expect(ask(KEY, nowhere, amount()), 400, "invalid_key", "");
    refusals.expect(ask(&[], nowhere, amount()), 404, "unknown_order", "");
    refusals.expect(ask(&[], PATH, amount()), 400, "invalid_amount", "");
}

#[test]
fn a_run_that_has_ended_takes_no_calls() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    run.with_bank(Bank::settle);
    let before = run.with_bank(|bank| bank.history().to_string());
    for (method, path, body, hint) in [
        ("GET", "/runs/1/orders/A-1", "", "the run has ended; it takes no further calls"),
        ("POST", PATH, GOOD, "the run has ended; it takes no further calls"),
        (
            "POST",
            "/runs/1/report",
            "REFUNDED: A-1",
            "the run has ended; it takes no further reports",
        ),
    ] {
        let answer = server.ask(method, path, &[], body);
        assert_eq!((answer.status, answer.code().as_str()), (410, "run_ended"));
        assert_eq!(answer.detail(), hint);
    }
    run.with_bank(|bank| assert_untouched(bank));
    assert_eq!(run.with_bank(|bank| bank.history().to_string()), before);
}

#[test]
fn what_the_ledger_refuses_has_its_own_code_and_sentence_and_moves_nothing() {
    let server = TestServer::start();
    let plan = r#"{"version":1,"dedupe":"strict","over_refund":"reject"}"#;
    let run = server.open(&ticket(), Plan::parse(plan).unwrap());
    let refund = |path: &str, key: &str, amount: &str| {
        let body = format!(r#"{{"amount":"{amount}"}}"#);
        server.ask("POST", path, &[("Idempotency-Key", key)], &body)
    };
    let mut held = 0;
    for (path, key, amount, code, sentence) in [
        (PATH, "a", "40.00", None, ""),
        (
            PATH,
            "a",
            "2.50",
            Some("key_mismatch"),
            "the idempotency key was used before for 40.00 EUR on order A-1; send a new key for a new refund",
        ),
        (
            "/runs/1/orders/J-1/refunds",
            "a",
            "40",
            Some("key_mismatch"),
            "the idempotency key was used before for 40.00 EUR on order A-1; send a new key for a new refund",
        ),
        (
            PATH,
            "b",
            "2.51",
            Some("over_refund"),
            "2.51 EUR is more than the 2.50 EUR left on the order",
        ),
        // A refused request binds no key.
        (PATH, "b", "2.50", None, ""),
        (
            PATH,
            "d",
            "0.01",
            Some("already_refunded"),
            "the order is already refunded: refund #2 of 2.50 EUR is its last",
        ),
    ] {
        let answer = refund(path, key, amount);
        if let Some(code) = code {
            assert_eq!((answer.status, answer.code().as_str()), (422, code), "{answer:?}");
            assert_eq!(answer.detail(), sentence);
        } else {
            assert_eq!(answer.status, 201, "{answer:?}");
            held += 1;
        }
        let refunds = |bank: &mut Bank| {
            bank.ledger().accounts().iter().map(|account| account.refunds().len()).sum::<usize>()
        };
        assert_eq!(run.with_bank(refunds), held, "{answer:?}");
    }
}

#[test]
fn a_repeat_in_flight_is_refused_and_moves_nothing() {
    let server = TestServer::start();
    let plan = r#"{"version":1,"dedupe":"strict","latency_ms":3600000}"#;
    let run = server.open(&ticket(), Plan::parse(plan).unwrap());
    let key = [("Idempotency-Key", "k")];
    let mut first = server.connect();
    first.send(&request("POST", PATH, &key, GOOD));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    for (body, status, code, hint) in [
        (GOOD, 409, "in_flight", "send it again later with the same key"),
        (r#"{"amount":"1.00"}"#, 422, "key_mismatch", "send a new key for a new refund"),
    ] {
        let answer = server.ask("POST", PATH, &key, body);
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        assert!(answer.detail().contains(hint), "{answer:?}");
        assert_eq!(refunds(&run), 0);
    }
    run.with_bank(Bank::settle);
    assert_eq!(first.read().unwrap().status, 201);
    assert_eq!(refunds(&run), 1);
}

#[test]
fn a_report_that_is_too_large_is_refused_and_not_written_down() {
    let refusals = Refusals::start();
    let large = "x".repeat((1 << 20) + 1);
    let ask = |server: &TestServer| server.ask("POST", "/runs/1/report", &[], &large);
    refusals.expect(ask, 413, "too_large", "1048576 bytes");
    let fits = refusals.server.ask("POST", "/runs/1/report", &[], &large[1..]);
    assert_eq!(fits.status, 204);
}

#[test]
fn what_a_fault_refuses_says_what_has_happened() {
    let server = TestServer::start();
    let plan = scripted(&[
        ("A-1 refund #1", "transient"),
        ("A-1 refund #2", "rate_limited"),
        ("A-1 refund #3", "stored+server_error"),
    ]);
    let run = server.open(&ticket(), plan);
    for (key, status, code, hint) in [
        ("a", 503, "unavailable", "This attempt made no changes."),
        ("a", 429, "rate_limited", "This attempt made no changes."),
        ("a", 500, "server_error", "An internal error occurred."),
        // The failure is what is stored under the key.
        ("a", 500, "server_error", "An internal error occurred."),
    ] {
        let answer = server.ask("POST", PATH, &[("Idempotency-Key", key)], GOOD);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
        assert!(answer.detail().contains(hint), "{answer:?}");
        assert_eq!(answer.header("retry-after").is_some(), status == 429);
        assert_eq!(refunds(&run), 0);
    }
}

#[test]
fn too_many_or_too_large_headers_are_refused() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    let many: Vec<_> = (0..65).map(|_| ("X-Many", "1")).collect();
    let large = "x".repeat(17 << 10);
    for headers in [many.as_slice(), &[("X-Large", large.as_str())]] {
        let answer = server.ask("GET", "/runs/1/ticket", headers, "");
        assert_eq!(answer.status, 431);
    }
}
