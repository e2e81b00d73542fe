//! What a run has left behind so far: faults, history, grade.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, StatusCode, http::request::Parts};
use serde::Serialize;

use crate::{
    grade::Grade,
    http::{
        headers::{Form, preferred_form},
        run::Run,
        wire::{self, Body, JSON, JSON_LINES, Problem},
    },
    money::shorten,
    seed::Seed,
};

#[derive(Serialize)]
struct FaultsBody<'a> {
    seed: Seed,
    faults: Vec<&'a str>,
}

pub(super) fn faults(run: &Run, head: &Parts) -> Result<Response<Body>, Problem> {
    let log = run.with_bank(|bank| bank.fault_log());
    let text = match head.uri.query() {
        None | Some("" | "by=order") => log.to_string(),
        Some("by=arrival") => log.by_arrival(),
        Some(query) => {
            let query = shorten(query);
            return Err(Problem {
                status: StatusCode::BAD_REQUEST,
                code: "invalid_query",
                detail: format!("`{query}` is not known; use by=order or by=arrival"),
            });
        }
    };
    Ok(match preferred_form(&head.headers) {
        Form::Text => wire::text(text),
        Form::Json => {
            let body = FaultsBody { seed: log.seed(), faults: text.lines().skip(1).collect() };
            wire::json(StatusCode::OK, &body)
        }
    })
}

pub(super) fn history(run: &Run, headers: &HeaderMap) -> Response<Body> {
    let lines = run.with_bank(|bank| bank.history().to_string());
    match preferred_form(headers) {
        Form::Text => wire::response(StatusCode::OK, JSON_LINES, lines),
        Form::Json => {
            let array = format!("[{}]", lines.trim_end().replace('\n', ","));
            wire::response(StatusCode::OK, JSON, array)
        }
    }
}

pub(super) fn grade(run: &Run, head: &Parts, body: &Bytes) -> Response<Body> {
    let grade: Grade = if head.method == Method::POST {
        let report = String::from_utf8_lossy(body);
        run.with_bank(|bank| bank.grade(&report))
    } else {
        run.with_bank(|bank| bank.preview())
    };
    match preferred_form(&head.headers) {
        Form::Text => wire::text(grade.to_string()),
        Form::Json => wire::json(StatusCode::OK, &grade),
    }
}
