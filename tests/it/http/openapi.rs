//! The document of the data plane: that it is sound, and says what the server does.

use std::collections::BTreeSet;

use badbank::{Bank, fault::Plan};
use serde_json::Value;

use crate::{
    support::{Answer, TestServer, request, scripted, ticket, wait_until},
    trial::assert_log,
};

const ORDER: &str = "/orders/{order}";
const REFUNDS: &str = "/orders/{order}/refunds";
const GOOD: &str = r#"{"amount":"42.50"}"#;
/// Methods that a path of the document may have.
const METHODS: [&str; 2] = ["get", "post"];

fn document() -> Value {
    TestServer::start().ask("GET", "/openapi.json", &[], "").json()
}

/// Path, method and what the document says of it, for every operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    operations.collect()
}

/// The codes that a response may have; a blank one where it is no problem.
fn codes(response: &Value) -> Vec<&str> {
    let problem = &response["content"]["application/problem+json"]["schema"]["allOf"];
    let listed = problem[1]["properties"]["code"]["enum"].as_array();
    listed.map_or(vec![""], |codes| codes.iter().map(|code| code.as_str().unwrap()).collect())
}

/// Calls `visit` for every value in a document.
fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(value);
    match value {
        Value::Object(fields) => fields.values().for_each(|value| walk(value, visit)),
        Value::Array(values) => values.iter().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

fn resolve<'a>(document: &'a Value, reference: &Value) -> &'a Value {
    let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
    document.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere"))
}

#[test]
fn the_document_is_pinned() {
    let server = TestServer::start();
    let answer = server.ask("GET", "/openapi.json", &[], "");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_log!("http", answer.body.trim_end());
}

#[test]
fn the_document_tells_nothing_of_what_goes_wrong_on_purpose() {
    let text = document().to_string().to_lowercase().replace("default", "");
    let words = "fault plan seed inject transient duplicate\" doubl lost late( stale truncat racy dedupe purpose";
    for word in words.split(' ') {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn the_document_belongs_to_no_run_and_takes_one_method() {
    let server = TestServer::start();
    let always = r#"{"version":1,"rules":[{"on":"*","fault":"transient","rate":1}]}"#;
    let run = server.open(&ticket(), Plan::parse(always).unwrap());
    assert_eq!(server.ask("GET", "/openapi.json?x=1", &[], "").status, 200);
    let refused = server.ask("POST", "/openapi.json", &[], "");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET")));
    assert_eq!(refused.code(), "method_not_allowed");
    assert_eq!(server.ask("GET", "/runs/1/openapi.json", &[], "").code(), "not_found");
    assert_eq!(run.with_bank(|bank| bank.history().call_count()), 0);
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = document();
    let mut used = BTreeSet::new();
    walk(&document, &mut |value| {
        if let Some(reference) = value.get("$ref") {
            resolve(&document, reference);
            used.insert(reference.as_str().unwrap().rsplit('/').next().unwrap());
        }
    });
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.keys().map(String::as_str).eq(used));
}

#[test]
fn the_document_is_built_as_openapi_wants_it() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    assert_eq!(document["servers"][0]["url"], "/runs/{run}");
    assert_eq!(document["servers"][0]["variables"]["run"]["default"], "1");
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        assert!(path.starts_with('/') && METHODS.contains(&method), "{method} {path}");
        assert!(names.insert(operation["operationId"].as_str().unwrap()), "{path}");
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let is_in_path = |parameter: &&Value| parameter["in"] == "path";
        let in_path: Vec<&Value> = parameters.iter().filter(is_in_path).collect();
        assert_eq!(in_path.len(), path.matches('{').count(), "{path}");
        for parameter in in_path {
            assert!(path.contains(&format!("{{{}}}", parameter["name"].as_str().unwrap())));
            assert_eq!(parameter["required"], true);
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!((200..600).contains(&status.parse().unwrap()), "{path}: {status}");
            assert!(response["description"].is_string(), "{path}: {status}");
        }
    }
    assert_eq!(names.len(), 4);
}

/// What the server has answered, held against the document.
struct Answers {
    document: Value,
    server: TestServer,
    seen: BTreeSet<(String, u16, String)>,
}

impl Answers {
    fn ask(
        &mut self,
        operation: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) {
        let answer = self.server.ask(method, path, headers, body);
        self.take(operation, &answer);
    }

    fn get(&mut self, operation: &str, path: &str) {
        self.ask(operation, "GET", path, &[], "");
    }

    fn refund(&mut self, run: u32, headers: &[(&str, &str)], body: &str) {
        self.ask(REFUNDS, "POST", &format!("/runs/{run}/orders/A-1/refunds"), headers, body);
    }

    /// Sends bytes and reads what is answered to them.
    fn send(&mut self, operation: &str, bytes: &[u8]) {
        let mut connection = self.server.connect();
        connection.send(bytes);
        let answer = connection.read().unwrap();
        self.take(operation, &answer);
    }

    #[track_caller]
    fn take(&mut self, path: &str, answer: &Answer) {
        let code = if answer.status < 400 { String::new() } else { answer.code() };
        let item = self.document["paths"][path].as_object().unwrap();
        let operation = item.values().next().unwrap();
        let response = &operation["responses"][answer.status.to_string()];
        assert!(codes(response).contains(&code.as_str()), "{path}: {answer:?}");
        self.check_headers(response, answer);
        if let Some(content) = response["content"].as_object() {
            let (media_type, content) = content.iter().next().unwrap();
            assert_eq!(answer.header("content-type"), Some(media_type.as_str()));
            self.check(&content["schema"], &answer.json());
        } else {
            assert_eq!((answer.header("content-type"), answer.body.as_str()), (None, ""));
        }
        self.seen.insert((path.to_owned(), answer.status, code));
    }

    fn check_headers(&self, response: &Value, answer: &Answer) {
        for name in ["Allow", "Idempotent-Replayed", "Retry-After"] {
            let header = &response["headers"][name];
            match answer.header(name) {
                Some("true") => self.check(&header["schema"], &Value::Bool(true)),
                Some(text) => self.check(&header["schema"], &text.into()),
                None => assert_ne!(header["required"], true, "{name}"),
            }
        }
    }

    /// Holds a value against a schema, as far as the document's schemas go; patterns are left to the bank.
    fn check(&self, schema: &Value, value: &Value) {
        for (word, rule) in schema.as_object().unwrap_or_else(|| panic!("no schema for {value}")) {
            match word.as_str() {
                "$ref" => self.check(resolve(&self.document, rule), value),
                "allOf" => rule.as_array().unwrap().iter().for_each(|all| self.check(all, value)),
                "type" => {
                    let is_so = match rule.as_str().unwrap() {
                        "object" => value.is_object(),
                        "array" => value.is_array(),
                        "string" => value.is_string(),
                        "integer" => value.is_u64(),
                        "boolean" => value.is_boolean(),
                        other => panic!("type {other}"),
                    };
                    assert!(is_so, "{value} is no {rule}");
                }
                "enum" => assert!(rule.as_array().unwrap().contains(value), "{value} of {rule}"),
                "const" => assert_eq!(rule, value),
                "required" => {
                    let fields = rule.as_array().unwrap().iter();
                    fields.for_each(|name| assert!(value.get(name.as_str().unwrap()).is_some()));
                }
                // One that only adds to another schema has no type.
                "properties" => {
                    let is_whole = schema.get("type").is_some();
                    for (name, field) in value.as_object().unwrap() {
                        match rule.get(name) {
                            Some(rule) => self.check(rule, field),
                            None => assert!(!is_whole, "{name} is not described"),
                        }
                    }
                }
                "items" => value.as_array().unwrap().iter().for_each(|item| self.check(rule, item)),
                "minItems" => {
                    let least = usize::try_from(rule.as_u64().unwrap()).unwrap();
                    assert!(value.as_array().unwrap().len() >= least);
                }
                "minimum" => assert!(value.as_u64() >= rule.as_u64()),
                "maximum" => assert!(value.as_u64() <= rule.as_u64()),
                "description" | "format" | "pattern" => {}
                other => panic!("the schemas have `{other}`, which this test does not know"),
            }
        }
    }

    /// What a ticket, an order, a refund and a report are answered when all is well, or nearly.
    fn ask_in_peace(&mut self) {
        self.server.open(&ticket(), Plan::calm());
        self.get("/ticket", "/runs/1/ticket");
        for _ in 0..2 {
            self.refund(1, &[("Idempotency-Key", "k")], r#"{"amount":10,"currency":"EUR"}"#);
            self.get(ORDER, "/runs/1/orders/A-1");
            self.get(ORDER, "/runs/1/orders/J-1");
        }
        self.ask("/report", "POST", "/runs/1/report", &[], "REFUNDED: A-1");
    }

    fn ask_for_nothing(&mut self) {
        for (operation, method, resource) in [
            ("/ticket", "GET", "ticket"),
            (ORDER, "GET", "orders/A-1"),
            (REFUNDS, "POST", "orders/A-1/refunds"),
            ("/report", "POST", "report"),
        ] {
            self.ask(operation, method, &format!("/runs/99/{resource}"), &[], "");
            self.ask(operation, "DELETE", &format!("/runs/1/{resource}"), &[], "");
        }
        self.get(ORDER, "/runs/1/orders/A-9");
        self.get(ORDER, "/runs/1/orders/");
        self.ask(REFUNDS, "POST", "/runs/1/orders/A-9/refunds", &[], GOOD);
        self.ask(REFUNDS, "POST", "/runs/1/orders//refunds", &[], GOOD);
    }

    fn ask_wrongly(&mut self) {
        self.refund(1, &[], r#"{"amount":"0"}"#);
        self.refund(1, &[], "{");
        self.refund(1, &[("Idempotency-Key", "")], GOOD);
        self.refund(1, &[("Content-Type", "text/plain")], GOOD);
        self.refund(1, &[], r#"{"amount":"1","currency":"JPY"}"#);
        self.refund(1, &[], &" ".repeat(70_000));
        self.ask("/report", "POST", "/runs/1/report", &[], &" ".repeat((1 << 20) + 1));
        let chunks = b"POST /runs/1/report HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n";
        self.send("/report", chunks);
    }

    fn ask_past_the_balance(&mut self) {
        let plan = r#"{"version":1,"dedupe":"strict","over_refund":"reject","latency_ms":3600000}"#;
        let run = self.server.open(&ticket(), Plan::parse(plan).unwrap());
        let key = [("Idempotency-Key", "k")];
        let mut waiting = self.server.connect();
        waiting.send(&request("POST", "/runs/2/orders/A-1/refunds", &key, GOOD));
        wait_until(&run, |bank| bank.history().call_count() == 1);
        self.refund(2, &key, GOOD);
        self.refund(2, &key, r#"{"amount":"1"}"#);
        let hasty = plan.replace("3600000", "0");
        run.with_bank(|bank| bank.set_plan(Plan::parse(&hasty).unwrap())).unwrap();
        self.refund(2, &[], r#"{"amount":"42.51"}"#);
        self.refund(2, &[], GOOD);
        self.refund(2, &[], GOOD);
        run.with_bank(Bank::settle);
        let answer = waiting.read().unwrap();
        self.take(REFUNDS, &answer);
        self.get(ORDER, "/runs/2/orders/A-1");
        self.refund(2, &[], GOOD);
        self.ask("/report", "POST", "/runs/2/report", &[], "");
    }

    fn ask_in_a_storm(&mut self) {
        self.server.open(
            &ticket(),
            scripted(&[
                ("A-1 get_order #1", "transient"),
                ("A-1 get_order #2", "rate_limited"),
                ("A-1 get_order #3", "server_error"),
                ("A-1 get_order #4", "lost"),
                ("A-1 refund #1", "transient"),
                ("A-1 refund #2", "rate_limited"),
                ("A-1 refund #3", "stored_error"),
                ("A-1 refund #4", "timeout"),
            ]),
        );
        for _ in 0..4 {
            self.get(ORDER, "/runs/3/orders/A-1");
            self.refund(3, &[], GOOD);
        }
    }
}

#[test]
fn whatever_is_answered_is_described_and_whatever_is_described_is_answered() {
    let mut answers =
        Answers { document: document(), server: TestServer::start(), seen: BTreeSet::new() };
    answers.ask_in_peace();
    answers.ask_for_nothing();
    answers.ask_wrongly();
    answers.ask_past_the_balance();
    answers.ask_in_a_storm();
    let mut described = BTreeSet::new();
    for (path, _, operation) in operations(&answers.document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let status: u16 = status.parse().unwrap();
            described.extend(
                codes(response).iter().map(|code| (path.to_owned(), status, (*code).to_owned())),
            );
        }
    }
    let silent: Vec<_> = described.difference(&answers.seen).collect();
    assert!(silent.is_empty(), "described and never answered: {silent:?}");
    assert_eq!(answers.seen, described);
}
