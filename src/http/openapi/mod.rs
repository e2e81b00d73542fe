//! Describes the data plane to programs: an `OpenAPI` 3.1 document.
//!
//! Its operations come from the table that the router follows, its statuses from the codes of refusals, its schemas
//! from the structs that are written and read. It says what may be answered, never why.

mod schema;

use std::{collections::BTreeMap, sync::LazyLock};

use schemars::{
    JsonSchema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub(super) use self::schema::{AmountText, CurrencyCode, IdText, asked_amount, codes, open_status};
use self::schema::{RefundedBody, ReportBody, TicketBody};
use super::{
    body::RefundDocument,
    routes::{EVERYWHERE, ORDER, ROUTES, Resource, Route},
    wire::{OrderBody, PROBLEM_TYPE, Problem, ProblemBody, call_problems},
};
use crate::call::Refusal;

/// Where the document lies on the data plane, beside the runs.
pub(super) const PATH: &str = "/openapi.json";

/// An idempotency key: bare without a quotation mark or a blank at its ends, or a quoted string (RFC 8941, 3.3.3).
const KEY: &str = r#"^([!#-~]([ -~]{0,253}[!#-~])?|"([ !#-\[\]-~]|\\["\\])+")$"#;

/// The document.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let text = serde_json::to_string_pretty(&Document::new());
        text.expect("a document has no map whose keys are not strings") + "\n"
    });
    &TEXT
}

#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    servers: Value,
    paths: Map<String, Value>,
    components: Components,
}

#[derive(Serialize)]
struct Components {
    schemas: Map<String, Value>,
}

impl Document {
    fn new() -> Self {
        let mut schemas = Schemas::new();
        let paths = ROUTES.iter().map(|route| {
            let operation = schemas.operation(route);
            (route.path.to_owned(), json!({route.method.to_lowercase(): operation}))
        });
        let paths = paths.collect();
        Self {
            openapi: "3.1.0",
            info: json!({
                "title": "badbank",
                "version": "1",
                "description": "Orders, and refunds on them.",
            }),
            servers: json!([{
                "url": "/runs/{run}",
                "description": "The base URL of a run: what BADBANK_URL holds.",
                "variables": {"run": {"default": "1", "description": "Number of the run."}},
            }]),
            paths,
            components: Components { schemas: schemas.0.take_definitions(true) },
        }
    }
}

/// The schemas that have been referred to so far.
struct Schemas(SchemaGenerator);

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.contract = Contract::Deserialize;
        });
        Self(settings.into_generator())
    }

    fn operation(&mut self, route: &Route) -> Value {
        let mut operation = json!({
            "operationId": route.operation,
            "summary": route.summary,
            "responses": self.responses(route),
        });
        let parameters = self.parameters(route);
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = self.request_body(route.resource) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn parameters(&mut self, route: &Route) -> Vec<Value> {
        let mut parameters = Vec::new();
        if route.path.contains(ORDER) {
            parameters.push(json!({
                "name": ORDER.trim_matches(['{', '}']),
                "in": "path",
                "required": true,
                "schema": self.0.subschema_for::<IdText>(),
            }));
        }
        if route.resource == Resource::Refunds {
            parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Names the intent: 1 to 255 printable ASCII characters, bare or as a quoted string. It belongs to the caller that Authorization names, if that is sent.",
                "schema": {"type": "string", "pattern": KEY},
            }));
        }
        parameters
    }

    fn request_body(&mut self, resource: Resource) -> Option<Value> {
        match resource {
            Resource::Ticket | Resource::Order => None,
            Resource::Refunds => {
                let content = self.content::<RefundDocument<'_>>("application/json");
                Some(json!({"required": true, "content": content}))
            }
            Resource::Report => {
                let report = self.0.subschema_for::<ReportBody>();
                let other = "Whatever else is sent is taken too, and is read as no report.";
                let report = json!({"anyOf": [report, {"description": other}]});
                let mut content = json!({"application/json": {"schema": report}});
                content["text/plain"] = json!({
                    "schema": {"type": "string"},
                    "example": "REFUNDED: A-1, A-2\nFAILED: A-3\nDUPLICATED: none\nUNKNOWN: none\n",
                });
                Some(json!({"content": content}))
            }
        }
    }

    fn responses(&mut self, route: &Route) -> Map<String, Value> {
        let (status, response) = self.success(route.resource);
        let problems = problems(route).into_iter().map(|(status, codes)| {
            let response = self.problem(status, &codes);
            (status.to_string(), response)
        });
        problems.chain([(status.to_owned(), response)]).collect()
    }

    fn success(&mut self, resource: Resource) -> (&'static str, Value) {
        match resource {
            Resource::Ticket => {
                let content = self.content::<TicketBody>("application/json");
                ("200", json!({"description": "The ticket.", "content": content}))
            }
            Resource::Order => {
                let content = self.content::<OrderBody<'_>>("application/json");
                ("200", json!({"description": "The order.", "content": content}))
            }
            Resource::Refunds => {
                let content = self.content::<RefundedBody>("application/json");
                let replayed = json!({
                    "description": "Sent if this is the stored answer to an earlier refund with the same key.",
                    "schema": {"type": "boolean", "const": true},
                });
                let headers = json!({"Idempotent-Replayed": replayed});
                ("201", json!({"description": "Refunded.", "headers": headers, "content": content}))
            }
            Resource::Report => ("204", json!({"description": "Taken."})),
        }
    }

    fn problem(&mut self, status: u16, codes: &[&str]) -> Value {
        let problem = self.0.subschema_for::<ProblemBody<'_>>();
        let here = json!({"properties": {"code": {"enum": codes}}});
        let mut response = json!({
            "description": format!("`{}`.", codes.join("`, `")),
            "content": {PROBLEM_TYPE: {"schema": {"allOf": [problem, here]}}},
        });
        let header = match status {
            405 => Some(("Allow", "The method that is possible here.")),
            429 => Some(("Retry-After", "When to come again: seconds, or an HTTP date.")),
            _ => None,
        };
        if let Some((name, description)) = header {
            let header =
                json!({"description": description, "required": true, "schema": {"type": "string"}});
            response["headers"] = json!({name: header});
        }
        response
    }

    fn content<T: JsonSchema>(&mut self, media_type: &str) -> Value {
        json!({media_type: {"schema": self.0.subschema_for::<T>()}})
    }
}

/// The codes of the problems that a route may answer with, by status.
fn problems(route: &Route) -> BTreeMap<u16, Vec<&'static str>> {
    let refusals = EVERYWHERE.iter().chain(route.refusals);
    let refusals = refusals.map(|code| Problem::from(Refusal::new(*code, "")));
    let failures = call_problems().into_iter().filter(|_| route.is_call);
    let mut problems: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for Problem { status, code, .. } in refusals.chain(failures) {
        let codes = problems.entry(status.as_u16()).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    problems
}
