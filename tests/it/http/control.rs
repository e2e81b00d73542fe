//! The control plane.

use badbank::fault::Plan;

use crate::support::{TestServer, refunds, scripted, ticket};

const PATH: &str = "/runs/1/orders/A-1/refunds";
const BODY: &str = r#"{"amount":"42.50"}"#;

#[test]
fn it_wants_its_token() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for headers in [
        &[][..],
        &[("Authorization", "Bearer wrong")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Basic test-token")],
        &[("Authorization", "test-token")],
    ] {
        for path in ["/runs", "/runs/1/grade", "/runs/9", "/nowhere"] {
            let answer = server.connect_to_control().ask("GET", path, headers, "");
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let headers = [("Authorization", "bearer test-token")];
    assert_eq!(server.connect_to_control().ask("GET", "/runs", &headers, "").status, 200);
}

#[test]
fn it_takes_nothing_from_web_pages() {
    let server = TestServer::start();
    for header in [
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let headers = [("Authorization", "Bearer test-token"), header];
        for (method, path) in [("POST", "/runs"), ("OPTIONS", "/runs"), ("GET", "/healthz")] {
            let answer = server.connect_to_control().ask(method, path, &headers, "");
            assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden_origin"));
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(server.control("GET", "/runs", "").body, r#"{"runs":[]}"#);
}

#[test]
fn health_needs_no_token() {
    let server = TestServer::start();
    let answer = server.connect_to_control().ask("GET", "/healthz", &[], "");
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"status":"ok"}"#));
}

#[test]
fn a_run_is_opened_with_defaults() {
    let server = TestServer::start();
    let answer = server.control("POST", "/runs", "");
    assert_eq!((answer.status, answer.json()["id"].clone()), (201, "1".into()));
    let url = answer.json()["url"].as_str().unwrap().to_owned();
    assert_eq!(url, format!("http://{}/runs/1", server.address()));
    let summary = server.control("GET", "/runs/1", "").json();
    assert_eq!(summary["plan"], "article");
    assert_eq!(summary["seed"], 1);
    assert_eq!(summary["ended"], false);
    let ticket = server.ask("GET", "/runs/1/ticket", &[], "").json();
    assert_eq!(ticket["id"], badbank::Ticket::generate(1).id().as_str());
    let list = server.control("GET", "/runs", "").json();
    assert_eq!(list["runs"][0]["url"], url);
}

#[test]
fn a_run_is_opened_with_ticket_plan_and_seed() {
    let server = TestServer::start();
    let ticket = ticket().to_json();
    let plan = r#"{"version":1,"seed":3,"rules":[]}"#;
    for (body, seed) in [
        (format!(r#"{{"ticket":{ticket},"plan":{plan}}}"#), 3),
        (format!(r#"{{"plan":{plan},"seed":9}}"#), 9),
        (r#"{"plan":"calm","seed":18446744073709551615}"#.to_owned(), u64::MAX),
        ("{}".to_owned(), 1),
    ] {
        let answer = server.control("POST", "/runs", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        let path = format!("/runs/{}", answer.json()["id"].as_str().unwrap());
        assert_eq!(server.control("GET", &path, "").json()["seed"], seed);
    }
    assert_eq!(server.ask("GET", "/runs/1/ticket", &[], "").body, ticket);
}

#[test]
fn a_bad_ticket_or_plan_is_refused_with_its_line() {
    let server = TestServer::start();
    for (body, hint) in [
        (
            "{\n\"ticket\":\n{\"version\":1,\"currency\":\"EUR\",\"orders\":[]}}",
            "line 3: the ticket has no orders",
        ),
        (
            "{\"plan\":{\"version\":1,\n\"rules\":[\n{\"on\":\"refund\",\"fault\":\"lots\",\"rate\":1}]}}",
            "line 3: `lots`",
        ),
        (
            "{\"plan\":\n\"artikel\"}",
            "line 2: no plan is called `artikel`; there are article, calm",
        ),
        ("{\"seed\":-1}", "line 1:"),
        ("{\"seeds\":1}", "unknown field `seeds`"),
        ("[]", "not a JSON object"),
        ("{", "line 1:"),
    ] {
        let answer = server.control("POST", "/runs", body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_body"), "{body}");
        assert!(answer.detail().contains(hint), "{hint} in {}", answer.detail());
    }
    assert_eq!(server.control("GET", "/runs", "").body, r#"{"runs":[]}"#);
}

#[test]
fn unknown_runs_resources_and_methods_are_refused() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for (method, path, status, code) in [
        ("GET", "/runs/2", 404, "unknown_run"),
        ("GET", "/runs/x/grade", 404, "unknown_run"),
        ("GET", "/runs/1/", 404, "not_found"),
        ("GET", "/runs/1/orders/A-1", 404, "not_found"),
        ("PUT", "/runs/1", 405, "method_not_allowed"),
        ("GET", "/runs/1/plan", 405, "method_not_allowed"),
        ("GET", "/runs/1/faults?by=time", 400, "invalid_query"),
    ] {
        let answer = server.control(method, path, "");
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}");
    }
    let answer = server.control("PUT", "/runs", "");
    assert_eq!(answer.header("allow"), Some("GET, POST"));
}

#[test]
fn faults_come_sorted_or_by_arrival_as_text_or_json() {
    let server = TestServer::start();
    let plan = scripted(&[("J-1 refund #1", "timeout"), ("A-1 refund #1", "transient")]);
    server.open(&ticket(), plan.seed(7));
    server.ask("POST", "/runs/1/orders/J-1/refunds", &[], r#"{"amount":"1"}"#);
    server.ask("POST", PATH, &[], BODY);
    let text = server.control("GET", "/runs/1/faults", "");
    assert_eq!(
        text.body,
        "badbank faults v1 seed=7\nA-1 refund #1 transient\nJ-1 refund #1 timeout\n"
    );
    assert!(text.header("content-type").unwrap().starts_with("text/plain"));
    assert_eq!(
        server.control("GET", "/runs/1/faults?by=arrival", "").body,
        "badbank faults v1 seed=7\nJ-1 refund #1 timeout\nA-1 refund #1 transient\n"
    );
    let json = server.control_as("application/json", "GET", "/runs/1/faults", "");
    assert_eq!(
        json.body,
        r#"{"seed":7,"faults":["A-1 refund #1 transient","J-1 refund #1 timeout"]}"#
    );
}

#[test]
fn the_history_comes_as_lines_or_as_an_array() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    server.ask("POST", PATH, &[], BODY);
    let lines = server.control("GET", "/runs/1/history", "");
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(lines.body, run.with_bank(|bank| bank.history().to_string()));
    let array = server.control_as("application/json", "GET", "/runs/1/history", "");
    let array = array.json();
    assert_eq!(array.as_array().unwrap().len(), lines.body.lines().count());
    assert_eq!(array[0]["badbank"], "history");
}

#[test]
fn a_grade_is_a_look_until_it_is_posted() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    let preview = server.control("GET", "/runs/1/grade", "");
    assert_eq!(preview.status, 200);
    assert_eq!(preview.body, run.with_bank(|bank| bank.preview()).to_string());
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 201);
    let json = server.control_as("application/json", "POST", "/runs/1/grade", "REFUNDED: A-1");
    assert_eq!((json.status, json.header("content-type")), (200, Some("application/json")));
    assert!(json.json().is_object());
    assert_eq!(server.ask("POST", PATH, &[], BODY).code(), "run_ended");
    assert_eq!(server.control("PUT", "/runs/1/plan", r#""calm""#).code(), "run_ended");
    assert_eq!(refunds(&run), 1);
    assert_eq!(server.control("GET", "/runs/1", "").json()["ended"], true);
    assert!(run.with_bank(|bank| bank.history().to_string()).contains("REFUNDED: A-1"));
}

#[test]
fn a_reset_run_starts_again_under_its_name() {
    let server = TestServer::start();
    let run = server.open(&ticket(), scripted(&[("A-1 refund #1", "transient")]));
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 503);
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 201);
    server.control("POST", "/runs/1/grade", "");
    assert_eq!(server.control("POST", "/runs/1/reset", "").status, 204);
    assert_eq!(refunds(&run), 0);
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 503);
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 201);
}

#[test]
fn a_deleted_run_is_gone_and_its_number_with_it() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    assert_eq!(server.control("DELETE", "/runs/1", "").status, 204);
    assert_eq!(server.control("GET", "/runs/1", "").code(), "unknown_run");
    assert_eq!(server.ask("GET", "/runs/1/ticket", &[], "").code(), "unknown_run");
    assert_eq!(server.control("POST", "/runs", "").json()["id"], "2");
}

#[test]
fn the_clock_moves_on_and_keys_expire_by_it() {
    let server = TestServer::start();
    let plan = r#"{"version":1,"dedupe":"strict","key_ttl_s":60}"#;
    let run = server.open(&ticket(), Plan::parse(plan).unwrap());
    let refund = || server.ask("POST", PATH, &[("Idempotency-Key", "k")], BODY);
    assert_eq!(refund().json()["refund"], 1);
    assert_eq!(refund().json()["refund"], 1);
    let clock = server.control("POST", "/runs/1/clock", r#"{"advance_ms":60000}"#);
    assert!(clock.json()["now_ms"].as_u64().unwrap() >= 60_000);
    assert_eq!(refund().json()["refund"], 2);
    assert_eq!(refunds(&run), 2);
    for body in ["", "{}", r#"{"advance_ms":-1}"#, r#"{"advance_ms":1,"x":1}"#] {
        assert_eq!(server.control("POST", "/runs/1/clock", body).code(), "invalid_body");
    }
}

#[test]
fn a_changed_plan_stands_in_the_history() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm());
    assert_eq!(server.control("PUT", "/runs/1/plan", r#""article""#).status, 204);
    let history = run.with_bank(|bank| bank.history().to_string());
    assert!(history.contains(r#""event":"plan""#), "{history}");
    for body in ["", "{}", r#""no-such""#, r#"{"version":2}"#] {
        assert_eq!(server.control("PUT", "/runs/1/plan", body).code(), "invalid_body", "{body}");
    }
}

#[test]
fn a_plan_with_another_seed_is_refused_and_the_run_goes_on_as_it_was() {
    let server = TestServer::start();
    let run = server.open(&ticket(), Plan::calm().seed(7));
    let before = run.with_bank(|bank| bank.history().to_string());
    let plan = r#"{"version":1,"seed":8,"rules":[{"on":"*","fault":"transient","rate":1}]}"#;
    let answer = server.control("PUT", "/runs/1/plan", plan);
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_body"));
    assert_eq!(
        answer.detail(),
        "the plan names seed 8, and the run has seed 7, which it keeps; leave the seed out, or open another run"
    );
    assert_eq!(run.with_bank(|bank| bank.history().to_string()), before);
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 201);
    let same = plan.replace(r#""seed":8"#, r#""seed":7"#);
    assert_eq!(server.control("PUT", "/runs/1/plan", &same).status, 204);
    assert_eq!(server.ask("POST", PATH, &[], BODY).status, 503);
    assert_eq!(
        server.control("GET", "/runs/1/faults", "").body,
        "badbank faults v1 seed=7\nA-1 refund #2 transient\n"
    );
}

#[test]
fn rules_for_orders_that_the_ticket_lacks_are_warned_of() {
    let server = TestServer::start();
    let rule =
        |order: &&str| format!(r#"{{"on":"refund","order":"{order}","fault":"lost","rate":0.1}}"#);
    let plan = |orders: &[&str]| {
        let rules: Vec<String> = orders.iter().map(rule).collect();
        format!(r#"{{"version":1,"rules":[{}]}}"#, rules.join(","))
    };
    let warning = |order| {
        format!(
            "the plan has a rule for order {order}, which the ticket lacks: it can never strike"
        )
    };
    let open = |plan: &str| {
        let ticket = ticket().to_json();
        server.control("POST", "/runs", &format!(r#"{{"ticket":{ticket},"plan":{plan}}}"#))
    };
    let opened = open(&plan(&["X-2", "A-1", "X-1", "X-2"]));
    assert_eq!(opened.status, 201);
    assert_eq!(opened.json()["warnings"], serde_json::json!([warning("X-1"), warning("X-2")]));
    assert!(!open(&plan(&["A-1"])).body.contains("warnings"));

    let put = |plan: &str| server.control("PUT", "/runs/1/plan", plan);
    let set = put(&plan(&["A-1", "X-1"]));
    assert_eq!((set.status, set.json()), (200, serde_json::json!({"warnings": [warning("X-1")]})));
    assert_eq!(put(&plan(&["A-1"])).status, 204);
    let other_seed = plan(&["X-1"]).replace(":1,", ":1,\"seed\":5,");
    assert_eq!(put(&other_seed).code(), "invalid_body");
}

#[test]
fn whoever_takes_any_application_gets_json() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    for path in ["/runs/1/faults", "/runs/1/grade"] {
        for (accept, content_type) in [
            ("application/*", "application/json"),
            ("application/json", "application/json"),
            ("text/plain;q=0.2, application/*;q=0.3", "application/json"),
            ("*/*", "text/plain; charset=utf-8"),
            ("text/plain, application/*;q=0.3", "text/plain; charset=utf-8"),
        ] {
            let answer = server.control_as(accept, "GET", path, "");
            assert_eq!(answer.header("content-type"), Some(content_type), "{accept}");
        }
    }
}

#[test]
fn an_escaped_path_names_what_the_plain_one_does() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    let plain = server.ask("GET", "/runs/1/orders/A-1", &[], "");
    let escaped = server.ask("GET", "/run%73/%31/orders/A%2D1", &[], "");
    assert_eq!((escaped.status, escaped.body), (200, plain.body));
    assert_eq!(server.ask("POST", "/runs/1/orders/%41-1/refunds", &[], BODY).status, 201);
    assert_eq!(server.control("GET", "/%72uns/%31/gr%61de", "").status, 200);
    for path in ["A%2F1", "A%2", "A%zz", "%C3%84", "A%00"] {
        let answer = server.ask("GET", &format!("/runs/1/orders/{path}"), &[], "");
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_order"), "{path}");
        assert!(answer.detail().contains(path), "{answer:?}");
    }
    let nowhere = server.ask("GET", "/runs/1/n%6Fwhere%2F", &[], "");
    assert_eq!(nowhere.detail(), "there is nothing at `/runs/1/n%6Fwhere%2F`");
    assert_eq!(server.control("GET", "/runs/1/n%6Fwhere", "").code(), "not_found");
}

#[test]
fn a_byte_order_mark_before_a_body_is_passed_over() {
    let server = TestServer::start();
    let body = format!("\u{feff}{{\"ticket\":{}}}", ticket().to_json());
    assert_eq!(server.control("POST", "/runs", &body).status, 201);
    assert_eq!(server.control("PUT", "/runs/1/plan", "\u{feff}\"calm\"").status, 204);
    assert_eq!(server.control("POST", "/runs/1/clock", "\u{feff}{\"advance_ms\":1}").status, 200);
    assert_eq!(server.ask("POST", PATH, &[], &format!("\u{feff}{BODY}")).status, 201);
}
