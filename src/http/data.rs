//! The data plane: what the program under test may reach.
//!
//! A request is checked in the order of the design: route and run, size, type, body, key's form; the bank
//! checks the rest. What is refused before the bank sees it stands in the run's history all the same.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response,
    body::Incoming,
    header::{self, HeaderValue},
};

use super::{
    body::{Failure, RefundRequest, read_body},
    connection::{Link, Lost},
    headers::{check_type, idempotency_key},
    run::{Run, Runs},
    wire::{self, Body, JSON, Problem},
};
use crate::{
    call::{self, AmountInput, CallError, Operation, Passage, Refusal, RefusalCode, Sent},
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

/// A resource under a run's base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Ticket,
    Order(&'a str),
    Refunds(&'a str),
    Report,
}

impl<'a> Route<'a> {
    /// The run's name and the resource in it, if there is one, that a path names.
    fn find(path: &'a str) -> Option<(&'a str, Option<Self>)> {
        let (run, resource) = path.strip_prefix("/runs/")?.split_once('/')?;
        let route = match resource {
            "ticket" => Some(Self::Ticket),
            "report" => Some(Self::Report),
            _ => resource.strip_prefix("orders/").and_then(Self::of_order),
        };
        Some((run, route))
    }

    fn of_order(path: &'a str) -> Option<Self> {
        match path.split_once('/') {
            None if path.is_empty() => None,
            None => Some(Self::Order(path)),
            Some((order, "refunds")) => Some(Self::Refunds(order)),
            Some(_) => None,
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Ticket | Self::Order(_) => Method::GET,
            Self::Refunds(_) | Self::Report => Method::POST,
        }
    }

    fn order(self) -> Option<&'a str> {
        match self {
            Self::Order(order) | Self::Refunds(order) => Some(order),
            Self::Ticket | Self::Report => None,
        }
    }
}

/// Answers a request on the data plane.
pub(super) async fn handle(
    runs: Arc<Runs>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Lost> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let Some((name, route)) = Route::find(path) else {
        return Ok(refuse(not_found(path)));
    };
    let Some(run) = runs.find(name) else {
        let detail = format!("there is no run `{}`", shorten(name));
        return Ok(refuse(Refusal::new(RefusalCode::UnknownRun, detail)));
    };
    let Some(route) = route else {
        turn_away(&run, None, None, RefusalCode::NotFound);
        return Ok(refuse(not_found(path)));
    };
    if head.method != route.method() {
        turn_away(&run, None, route.order(), RefusalCode::MethodNotAllowed);
        return Ok(method_not_allowed(&head.method, &route.method()));
    }
    match route {
        Route::Ticket => Ok(ticket(&run)),
        Route::Order(order) => {
            let mut request = call::Request::get_order(order);
            request.caller = caller(&head.headers);
            let (sent, settings) = run.call(&request).await;
            deliver(sent, &settings, &link).await
        }
        Route::Refunds(order) => match read_body(&head.headers, body, &link, BODY_MAX).await {
            Ok(body) => refund(&run, order, &head.headers, &body, &link).await,
            Err(failure) => fail(&run, Some(Operation::Refund), Some(order), failure),
        },
        Route::Report => match read_body(&head.headers, body, &link, REPORT_MAX).await {
            Ok(body) => Ok(report(&run, &body)),
            Err(failure) => fail(&run, None, None, failure),
        },
    }
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
    let (sent, settings) = run.call(&request).await;
    deliver(sent, &settings, link).await
}

/// Sends an answer, or loses it on its way.
async fn deliver(sent: Sent, settings: &PlanSettings, link: &Link) -> Result<Response<Body>, Lost> {
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
            return Ok(wire::answer(sent.answer, settings).map(|body| body.dribble(slow / 2)));
        }
        Passage::Hang => tokio::time::sleep(HANG_MAX).await,
        Passage::Closed => {}
        Passage::Reset => link.reset(),
    }
    Err(Lost)
}

fn ticket(run: &Run) -> Response<Body> {
    let ticket = run.with_bank(|bank| bank.ticket().to_json());
    wire::response(hyper::StatusCode::OK, JSON, ticket)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_run_and_a_resource() {
        for (path, found) in [
            ("/runs/1/ticket", Some(("1", Some(Route::Ticket)))),
            ("/runs/1/report", Some(("1", Some(Route::Report)))),
            ("/runs/1/orders/A-1", Some(("1", Some(Route::Order("A-1"))))),
            ("/runs/1/orders/A-1/refunds", Some(("1", Some(Route::Refunds("A-1"))))),
            ("/runs/1/orders", Some(("1", None))),
            ("/runs/1/orders/", Some(("1", None))),
            ("/runs/1/orders/A-1/refunds/", Some(("1", None))),
            ("/runs/1/", Some(("1", None))),
            ("/runs/1", None),
            ("/", None),
            ("*", None),
        ] {
            assert_eq!(Route::find(path), found, "{path}");
        }
    }
}
