//! What the control plane refuses: status, code, a sentence that helps, and not a run that changes.

use badbank::{fault::Plan, http::RunHandle};

use crate::support::{Answer, TestServer, ticket};

struct Refusals {
    server: TestServer,
    run: RunHandle,
}

impl Refusals {
    /// A server with a run that has paid once.
    fn start() -> Self {
        let server = TestServer::start();
        let run = server.open(&ticket(), Plan::calm());
        let path = "/runs/1/orders/A-1/refunds";
        assert_eq!(server.ask("POST", path, &[], r#"{"amount":"1.00"}"#).status, 201);
        Self { server, run }
    }

    /// All that there is to be changed, without the clock, which goes on by itself.
    fn state(&self) -> (String, String, bool) {
        let list = self.server.control("GET", "/runs", "").json();
        let ids: Vec<_> = list["runs"].as_array().unwrap().iter().map(|run| &run["id"]).collect();
        let (history, is_early) =
            self.run.with_bank(|bank| (bank.history().to_string(), bank.now_ms() < 3_600_000));
        (format!("{ids:?}"), history, is_early)
    }

    #[track_caller]
    fn expect(&self, ask: impl FnOnce(&TestServer) -> Answer, status: u16, code: &str, hint: &str) {
        let before = self.state();
        let answer = ask(&self.server);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
        assert!(answer.detail().contains(hint), "{hint:?} in {:?}", answer.detail());
        assert_eq!(self.state(), before);
    }

    #[track_caller]
    fn expect_body(&self, method: &str, path: &str, body: &str, hint: &str) {
        let ask = |server: &TestServer| server.control(method, path, body);
        self.expect(ask, 400, "invalid_body", hint);
    }
}

/// What may be asked of a run, with a body that would be taken.
const OF_A_RUN: [(&str, &str, &str); 9] = [
    ("GET", "", ""),
    ("DELETE", "", ""),
    ("POST", "/reset", ""),
    ("PUT", "/plan", r#""article""#),
    ("POST", "/clock", r#"{"advance_ms":3600000}"#),
    ("GET", "/faults", ""),
    ("GET", "/history", ""),
    ("GET", "/grade", ""),
    ("POST", "/grade", "REFUNDED: A-1"),
];

#[test]
fn without_the_token_nothing_is_shown_or_changed() {
    let refusals = Refusals::start();
    let requests = OF_A_RUN.map(|(method, path, body)| (method, format!("/runs/1{path}"), body));
    let all = [("GET", "/runs".to_owned(), ""), ("POST", "/runs".to_owned(), "{}")];
    for (method, path, body) in requests.into_iter().chain(all) {
        for headers in [&[][..], &[("Authorization", "Bearer test-tokens")]] {
            let ask =
                |server: &TestServer| server.connect_to_control().ask(method, &path, headers, body);
            refusals.expect(
                ask,
                401,
                "unauthorized",
                "the bearer token that the server was started",
            );
        }
        let headers = [("Authorization", "Bearer test-token"), ("Origin", "https://example.org")];
        let ask =
            |server: &TestServer| server.connect_to_control().ask(method, &path, &headers, body);
        refusals.expect(ask, 403, "forbidden_origin", "takes no requests from web pages");
    }
}

#[test]
fn a_run_that_is_none_can_be_asked_nothing() {
    let refusals = Refusals::start();
    for name in ["2", "0", "01", "-1", "x", "18446744073709551616"] {
        for (method, path, body) in OF_A_RUN {
            let ask =
                |server: &TestServer| server.control(method, &format!("/runs/{name}{path}"), body);
            refusals.expect(ask, 404, "unknown_run", &format!("there is no run `{name}`"));
        }
    }
    let twice = |server: &TestServer| server.control("DELETE", "/runs/1", "");
    assert_eq!(twice(&refusals.server).status, 204);
    assert_eq!(twice(&refusals.server).code(), "unknown_run");
}

#[test]
fn a_method_that_a_resource_does_not_take_is_refused_with_those_that_it_does() {
    let refusals = Refusals::start();
    for (path, allowed) in [
        ("/healthz", "GET"),
        ("/runs", "GET, POST"),
        ("/runs/1", "GET, DELETE"),
        ("/runs/1/reset", "POST"),
        ("/runs/1/plan", "PUT"),
        ("/runs/1/clock", "POST"),
        ("/runs/1/faults", "GET"),
        ("/runs/1/history", "GET"),
        ("/runs/1/grade", "GET, POST"),
    ] {
        let ask = |server: &TestServer| {
            let answer = server.control("PATCH", path, "");
            assert_eq!(answer.header("allow"), Some(allowed), "{path}");
            answer
        };
        let hint = format!("PATCH is not possible here; use {allowed}");
        refusals.expect(ask, 405, "method_not_allowed", &hint);
    }
}

#[test]
fn a_body_that_is_too_large_or_no_text_is_refused() {
    let refusals = Refusals::start();
    let head = |length: usize| {
        format!(
            "POST /runs HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer test-token\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let large = |server: &TestServer| {
        let mut connection = server.connect_to_control();
        connection.send(head(1 << 30).as_bytes());
        connection.read().unwrap()
    };
    refusals.expect(large, 413, "too_large", "16777216 bytes");
    let no_text = |server: &TestServer| {
        let mut connection = server.connect_to_control();
        connection.send(&[head(3).as_bytes(), b"{\"\xff"].concat());
        connection.read().unwrap()
    };
    refusals.expect(no_text, 400, "invalid_body", "not UTF-8");
}

#[test]
fn a_ticket_without_sense_opens_no_run() {
    let refusals = Refusals::start();
    let one = r#"{"id":"A-1","amount":"1.00"}"#;
    for (ticket, hint) in [
        (r#"{"version":2,"currency":"EUR","orders":[ONE]}"#, "version 2"),
        (r#"{"version":1,"currency":"XXX","orders":[ONE]}"#, "XXX"),
        (r#"{"version":1,"currency":"EUR","orders":[]}"#, "at least one"),
        (r#"{"version":1,"currency":"EUR","orders":[ONE,ONE]}"#, "stands in the ticket twice"),
        (r#"{"version":1,"currency":"EUR","orders":[ONE],"note":1}"#, "unknown field `note`"),
        (r#"{"version":1,"currency":"EUR","orders":[{"id":"none","amount":"1"}]}"#, "none"),
        (r#"{"version":1,"currency":"EUR","orders":[{"id":"a b","amount":"1"}]}"#, "a b"),
        (r#"{"version":1,"currency":"EUR","orders":[{"id":"A","amount":"0"}]}"#, "above zero"),
        (r#"{"version":1,"currency":"EUR","orders":[{"id":"A","amount":1e2}]}"#, "1e2"),
        (r#"{"version":1,"currency":"JPY","orders":[{"id":"A","amount":"1.0"}]}"#, "JPY"),
        (
            r#"{"version":1,"currency":"EUR","orders":[{"id":"A","amount":"1","expect":[]}]}"#,
            "expects no refund",
        ),
        (
            r#"{"version":1,"currency":"EUR","orders":[{"id":"A","amount":"1","refunded":["-1"]}]}"#,
            "refunded",
        ),
        ("7", ""),
    ] {
        let body = format!(r#"{{"ticket":{}}}"#, ticket.replace("ONE", one));
        refusals.expect_body("POST", "/runs", &body, hint);
    }
}

#[test]
fn a_plan_without_sense_opens_no_run_and_changes_none() {
    let refusals = Refusals::start();
    for (plan, hint) in [
        (r#"{"version":2}"#, "version 2"),
        (r#"{"version":1,"sede":1}"#, "unknown field `sede`"),
        (r#"{"version":1,"dedupe":"maybe"}"#, "maybe"),
        (r#"{"version":1,"over_refund":"perhaps"}"#, "perhaps"),
        (r#"{"version":1,"lost_reply":"shrug"}"#, "shrug"),
        (r#"{"version":1,"latency_ms":-1}"#, "-1"),
        (r#"{"version":1,"seed":-1}"#, "-1"),
        (r#"{"version":1,"rules":[{"on":"refund","fault":"lost"}]}"#, "rate"),
        (
            r#"{"version":1,"rules":[{"on":"refund","fault":"lost","rate":1,"attempts":"1"}]}"#,
            "rate",
        ),
        (r#"{"version":1,"rules":[{"on":"refund","fault":"lost","rate":1.5}]}"#, "0 to 1"),
        (
            r#"{"version":1,"rules":[{"on":"refund","fault":"lost","attempts":"0"}]}"#,
            "counted from 1",
        ),
        (r#"{"version":1,"rules":[{"on":"refund","fault":"lost","attempts":"4-1"}]}"#, "4-1"),
        (
            r#"{"version":1,"rules":[{"on":"pay","fault":"lost","rate":1}]}"#,
            "`get_order`, `refund`",
        ),
        (
            r#"{"version":1,"rules":[{"on":"refund","fault":"boom","rate":1}]}"#,
            "`boom` is not a fault",
        ),
        (
            r#"{"version":1,"rules":[{"on":"get_order","fault":"timeout","rate":1}]}"#,
            "cannot happen",
        ),
        (r#"{"version":1,"rules":[{"on":"refund","fault":"late(0)","rate":1}]}"#, "late(0)"),
        (
            r#"{"version":1,"rules":[{"on":"*","fault":"lost","rate":0.6},{"on":"refund","fault":"timeout","rate":0.5}]}"#,
            "1 at the most",
        ),
        (r#""artikel""#, "no plan is called `artikel`"),
        ("7", ""),
    ] {
        refusals.expect_body("PUT", "/runs/1/plan", plan, hint);
        refusals.expect_body("POST", "/runs", &format!(r#"{{"plan":{plan}}}"#), hint);
    }
}

#[test]
fn a_seed_a_clock_or_a_query_without_sense_is_refused() {
    let refusals = Refusals::start();
    for seed in ["-1", "1.5", "18446744073709551616", r#""x""#] {
        refusals.expect_body("POST", "/runs", &format!(r#"{{"seed":{seed}}}"#), "");
    }
    for (body, hint) in [
        ("", "empty"),
        ("3600000", "not a JSON object"),
        ("{}", "advance_ms"),
        (r#"{"advance_ms":-3600000}"#, "-3600000"),
        (r#"{"advance_ms":3600000.5}"#, ""),
        (r#"{"advance_ms":3600000,"x":1}"#, "unknown field `x`"),
    ] {
        refusals.expect_body("POST", "/runs/1/clock", body, hint);
    }
    let ask = |server: &TestServer| server.control("GET", "/runs/1/faults?by=time", "");
    refusals.expect(ask, 400, "invalid_query", "use by=order or by=arrival");
}

#[test]
fn a_run_that_has_ended_takes_no_other_plan() {
    let refusals = Refusals::start();
    assert_eq!(refusals.server.control("POST", "/runs/1/grade", "").status, 200);
    let ask = |server: &TestServer| server.control("PUT", "/runs/1/plan", r#""article""#);
    refusals.expect(ask, 410, "run_ended", "the run has ended; its plan stays as it was");
}
