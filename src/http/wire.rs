//! What goes over the wire: answers, refusals and their status codes.

use std::{
    io::Write as _,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{self, HeaderName, HeaderValue},
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::openapi::{AmountText, CurrencyCode, IdText};
pub(super) use super::reply::Body;
use crate::{
    call::{Answer, CallError, OrderState, RefundStatus, Refunded, Refusal, RefusalCode, Reply},
    fault::{PlanSettings, RetryAfter},
    money::Decimal,
};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_TYPE);
pub(super) const PROBLEM_TYPE: &str = "application/problem+json";

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Why a request gets no answer of the kind that it asked for (RFC 9457).
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) detail: String,
}

/// Why a request gets no answer of the kind that it asked for (RFC 9457).
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'a str,
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What was wrong, and what is allowed; for people.
    detail: &'a str,
    /// The same for programs.
    #[schemars(schema_with = "super::openapi::codes")]
    code: &'a str,
}

impl Problem {
    pub(super) fn response(&self) -> Response<Body> {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
        };
        response(self.status, PROBLEM, encode(&body))
    }
}

impl From<Refusal> for Problem {
    fn from(Refusal { code, detail }: Refusal) -> Self {
        Self { status: status_of(code), code: code.as_str(), detail }
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let (status, code) = match error {
            CallError::Refused(refusal) => return refusal.into(),
            CallError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            CallError::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            CallError::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            CallError::ServerError | CallError::Broken { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "server_error")
            }
        };
        let detail = error.to_string();
        Self { status, code, detail }
    }
}

/// How a call may fail on its way.
pub(super) fn call_problems() -> [Problem; 4] {
    [
        CallError::RateLimited { retry_after_s: 0 },
        CallError::ServerError,
        CallError::Unavailable,
        CallError::Timeout,
    ]
    .map(Problem::from)
}

/// Every code that a problem of the data plane may have.
pub(super) fn problem_codes() -> Vec<&'static str> {
    let mut codes: Vec<&str> = RefusalCode::ALL.iter().map(|code| code.as_str()).collect();
    let failures = call_problems().map(|problem| problem.code);
    codes.extend(failures.into_iter().filter(|code| *code != RefusalCode::ServerError.as_str()));
    codes
}

/// The status of a refusal.
const fn status_of(code: RefusalCode) -> StatusCode {
    match code {
        RefusalCode::InvalidAmount | RefusalCode::InvalidKey | RefusalCode::InvalidBody => {
            StatusCode::BAD_REQUEST
        }
        RefusalCode::UnknownOrder | RefusalCode::UnknownRun | RefusalCode::NotFound => {
            StatusCode::NOT_FOUND
        }
        RefusalCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        RefusalCode::InFlight => StatusCode::CONFLICT,
        RefusalCode::RunEnded => StatusCode::GONE,
        RefusalCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalCode::UnsupportedType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RefusalCode::KeyMismatch
        | RefusalCode::OverRefund
        | RefusalCode::AlreadyRefunded
        | RefusalCode::CurrencyMismatch => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What the data plane answers a call.
pub(super) fn answer(answer: Answer, settings: &PlanSettings) -> Response<Body> {
    match answer {
        Ok(Reply::Order(state)) => json(StatusCode::OK, &OrderBody::from(&state)),
        Ok(Reply::Refunded(refunded)) => {
            let body = refunded_body(&refunded);
            let mut response = response(StatusCode::CREATED, JSON, body);
            if refunded.is_replay {
                let replayed = HeaderValue::from_static("true");
                response.headers_mut().insert(REPLAYED, replayed);
            }
            response
        }
        Err(CallError::RateLimited { retry_after_s }) => {
            let mut response = Problem::from(CallError::RateLimited { retry_after_s }).response();
            let value = retry_after(retry_after_s, settings.retry_after);
            response.headers_mut().insert(header::RETRY_AFTER, value);
            response
        }
        Err(error) => Problem::from(error).response(),
    }
}

/// The last second of the year 9999, from 1970 on: no HTTP date is later.
const LAST_DATE_S: u64 = 253_402_300_799;

/// When to come again, in one of the two forms that RFC 9110, 10.2.3 allows.
fn retry_after(seconds: u64, form: RetryAfter) -> HeaderValue {
    let text = match form {
        RetryAfter::Seconds => seconds.to_string(),
        RetryAfter::Date => {
            let last = SystemTime::UNIX_EPOCH + Duration::from_secs(LAST_DATE_S);
            #[allow(
                clippy::disallowed_methods,
                reason = "a date on the wire is the time of day, as in Date"
            )]
            let now = SystemTime::now();
            let then = now.checked_add(Duration::from_secs(seconds)).unwrap_or(last);
            httpdate::fmt_http_date(then.min(last))
        }
    };
    HeaderValue::try_from(text).expect("digits and dates are header values")
}

/// An order, and the refunds that it holds.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Order")]
pub(super) struct OrderBody<'a> {
    #[schemars(with = "IdText")]
    id: &'a str,
    #[schemars(with = "CurrencyCode")]
    currency: &'static str,
    /// What the buyer paid.
    #[schemars(with = "AmountText")]
    amount: Decimal,
    /// The sum of the refunds.
    #[schemars(with = "AmountText")]
    refunded: Decimal,
    #[schemars(with = "Vec<RefundLine>")]
    refunds: Refunds<'a>,
}

impl<'a> From<&'a OrderState> for OrderBody<'a> {
    fn from(state: &'a OrderState) -> Self {
        let currency = state.currency;
        Self {
            id: &state.id,
            currency: currency.code(),
            amount: state.amount.display(currency),
            refunded: state.refunded.display(currency),
            refunds: Refunds(state),
        }
    }
}

/// The refunds of an order, numbered from 1.
struct Refunds<'a>(&'a OrderState);

/// A refund of an order.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Refund")]
struct RefundLine {
    /// Number of the refund on its order, from 1.
    #[schemars(range(min = 1))]
    number: u32,
    #[schemars(with = "AmountText")]
    amount: Decimal,
    /// Left out where the refund has simply succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::openapi::open_status")]
    status: Option<&'static str>,
}

impl Serialize for Refunds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.0;
        let lines = (1_u32..).zip(&state.refunds).map(|(number, amount)| RefundLine {
            number,
            amount: amount.display(state.currency),
            status: word(state.status(number)),
        });
        serializer.collect_seq(lines)
    }
}

/// The word for a status that is worth one.
fn word(status: RefundStatus) -> Option<&'static str> {
    (status != RefundStatus::Succeeded).then(|| status.as_str())
}

/// The body of the most frequent answer, written in one go: ids, amounts and codes need no escapes.
pub(super) fn refunded_body(refunded: &Refunded) -> Vec<u8> {
    let Refunded { order, number, amount, currency, .. } = refunded;
    let amount = amount.display(*currency);
    let status =
        word(refunded.status).map_or_else(String::new, |word| format!(r#","status":"{word}""#));
    let mut bytes = Vec::with_capacity(256);
    write!(
        bytes,
        r#"{{"order":"{order}","refund":{number},"amount":"{amount}","currency":"{currency}"{status},"message":"{refunded}"}}"#
    )
    .expect("memory takes every byte");
    bytes
}

pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    response(status, JSON, encode(body))
}

pub(super) fn text(body: String) -> Response<Body> {
    response(StatusCode::OK, TEXT, body)
}

pub(super) fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn response(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    serde_json::to_writer(&mut bytes, body)
        .expect("a body has no map whose keys are not strings, and memory takes every byte");
    bytes
}
