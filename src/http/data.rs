//! The data plane: what the program under test may reach.
//!
//! A request is checked in the order of the design: route and run, size, type, body, key's form; the bank
//! checks the rest. What is refused before the bank sees it stands in the run's history all the same.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    http::request::Parts,
};

use super::{
    body::{Failure, RefundRequest, read_body, readable},
    connection::{Link, Lost},
    headers::{check_type, idempotency_key},
    openapi,
    outgoing::Outgoing,
    routes::{self, Resource, Target},
    run::{Run, Runs},
    wire::{self, Body, JSON, Problem},
};
use crate::{
    call::{self, AmountInput, CallError, Operation, Passage, Refusal, RefusalCode},
    fault::{LostReply, PlanSettings, Truncation},
    ledger::Caller,
    money::shorten,
};

/// Bytes of a refund's body at the most.
const BODY_MAX: u64 = 64 << 10;
/// Bytes of a report at the most: a ticket of many orders has a long one.
const REPORT_MAX: u64 = 1 << 20;
/// How long an answer that is to hang keeps its client.
const HANG_MAX: Duration = Duration::from_secs(30);

/// Answers a request on the data plane.
pub(super) async fn handle(
    runs: Arc<Runs>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Lost> {
    let (head, mut body) = request.into_parts();
    let response = answer(&runs, &link, &head, &mut body).await?;
    Ok(readable(response, &head.headers, body, &link).await)
}

async fn answer(
    runs: &Runs,
    link: &Link,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Response<Body>, Lost> {
    let path = &*routes::normal(head.uri.path());
    if path == openapi::PATH {
        return Ok(document(&head.method));
    }
    let Some((name, target)) = routes::find(path) else {
        return Ok(refuse(not_found(head.uri.path())));
    };
    let Some(run) = runs.find(name) else {
        let detail = format!("there is no run `{}`", shorten(name));
        return Ok(refuse(Refusal::new(RefusalCode::UnknownRun, detail)));
    };
    let Some(Target { route, order }) = target else {
        turn_away(&run, None, None, RefusalCode::NotFound);
        return Ok(refuse(not_found(head.uri.path())));
    };
    if head.method != route.method {
        turn_away(&run, None, order, RefusalCode::MethodNotAllowed);
        return Ok(method_not_allowed(&head.method, &route.method));
    }
    let order = order.unwrap_or_default();
    match route.resource {
        Resource::Ticket => Ok(ticket(&run)),
        Resource::Order => {
            let mut request = call::Request::get_order(order);
            request.caller = caller(&head.headers);
            let (outgoing, settings) = run.call(&request).await;
            deliver(outgoing, &settings, link).await
        }
        Resource::Refunds => match read_body(body, link, BODY_MAX).await {
            Ok(body) => refund(&run, order, &head.headers, &body, link).await,
            Err(failure) => fail(&run, Some(Operation::Refund), Some(order), failure),
        },
        Resource::Report => match read_body(body, link, REPORT_MAX).await {
            Ok(body) => Ok(report(&run, &body)),
            Err(failure) => fail(&run, None, None, failure),
        },
    }
}

/// What the other resources take and answer; it belongs to no run, and is never faulted.
fn document(method: &Method) -> Response<Body> {
    if method != Method::GET {
        return method_not_allowed(method, &Method::GET);
    }
    wire::response(StatusCode::OK, JSON, openapi::text())
}

async fn refund(
    run: &Arc<Run>,
    order: &str,
    headers: &HeaderMap,
    body: &Bytes,
    link: &Link,
) -> Result<Response<Body>, Lost> {
    let checked = check_type(headers)
        .and_then(|()| RefundRequest::read(body))
        .and_then(|asked| Ok((asked, idempotency_key(headers)?)));
    let (asked, key) = match checked {
        Ok(checked) => checked,
        Err(refusal) => return fail(run, Some(Operation::Refund), Some(order), refusal.into()),
    };
    let request = call::Request {
        operation: Operation::Refund,
        order,
        amount: asked.amount.as_deref().map(AmountInput::Text),
        currency: asked.currency.as_deref(),
        key: key.as_deref(),
        caller: caller(headers),
    };
    let (outgoing, settings) = run.call(&request).await;
    deliver(outgoing, &settings, link).await
}

/// Sends an answer, or loses it on its way.
async fn deliver(
    Outgoing { sent, witness }: Outgoing,
    settings: &PlanSettings,
    link: &Link,
) -> Result<Response<Body>, Lost> {
    let is_lost = sent.answer == Err(CallError::Timeout);
    match sent.passage {
        Passage::Whole if is_lost => match settings.lost_reply {
            LostReply::Hang => tokio::time::sleep(HANG_MAX).await,
            LostReply::Close => {}
            LostReply::Reset => link.reset(),
            _ => return Ok(wire::answer(sent.answer, settings)),
        },
        Passage::Whole => return Ok(wire::answer(sent.answer, settings)),
        Passage::Truncated => {
            let is_chunked = settings.truncation == Truncation::Chunked;
            return Ok(wire::answer(sent.answer, settings).map(|body| body.cut(is_chunked)));
        }
        Passage::Slow => {
            let slow = Duration::from_millis(settings.slow_ms);
            tokio::time::sleep(slow / 2).await;
            return Ok(
                wire::answer(sent.answer, settings).map(|body| body.dribble(slow / 2, witness))
            );
        }
        Passage::Hang => tokio::time::sleep(HANG_MAX).await,
        Passage::Closed => {}
        Passage::Reset => link.reset(),
    }
    Err(Lost)
}

fn ticket(run: &Run) -> Response<Body> {
    let ticket = run.with_bank(|bank| bank.ticket().to_json());
    wire::response(StatusCode::OK, JSON, ticket)
}

fn report(run: &Run, body: &Bytes) -> Response<Body> {
    let text = String::from_utf8_lossy(body);
    let is_late = run.with_bank(|bank| {
        bank.report(&text);
        bank.has_ended()
    });
    if is_late {
        let detail = "the run has ended; it takes no further reports";
        return refuse(Refusal::new(RefusalCode::RunEnded, detail));
    }
    wire::no_content()
}

/// Whose keys a request bears: a credential names its caller, and grants nothing.
fn caller(headers: &HeaderMap) -> Option<Caller> {
    let credential = headers.get(header::AUTHORIZATION)?;
    Some(Caller::from_credential(credential.as_bytes()))
}

/// Ends a request that never became a call.
fn fail(
    run: &Run,
    operation: Option<Operation>,
    order: Option<&str>,
    failure: Failure,
) -> Result<Response<Body>, Lost> {
    match failure {
        Failure::Refused(refusal) => {
            turn_away(run, operation, order, refusal.code);
            Ok(refuse(refusal))
        }
        Failure::Late => {
            turn_away(run, operation, order, RefusalCode::InvalidBody);
            Err(Lost)
        }
    }
}

fn turn_away(run: &Run, operation: Option<Operation>, order: Option<&str>, code: RefusalCode) {
    run.with_bank(|bank| bank.turn_away(operation, order, code));
}

fn refuse(refusal: Refusal) -> Response<Body> {
    Problem::from(refusal).response()
}

pub(super) fn not_found(path: &str) -> Refusal {
    let detail = format!("there is nothing at `{}`", shorten(path));
    Refusal::new(RefusalCode::NotFound, detail)
}

pub(super) fn method_not_allowed(method: &Method, allowed: &impl ToString) -> Response<Body> {
    let allowed = allowed.to_string();
    let method: Cow<'_, str> = shorten(method.as_str()).into();
    let detail = format!("{method} is not possible here; use {allowed}");
    let mut response = refuse(Refusal::new(RefusalCode::MethodNotAllowed, detail));
    let allowed = HeaderValue::try_from(allowed).expect("method names are header values");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}
