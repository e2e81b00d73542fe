//! What a bank's answers say, read back.

use hyper::{
    HeaderMap, StatusCode,
    header::{self, HeaderName},
};
use serde::{Deserialize, Serialize};

use super::Answered;
use crate::{
    call::{CallError, OrderState, Refunded, Refusal, RefusalCode},
    money::{Amount, Currency, Decimal, Total, shorten},
    ticket::OrderId,
};

/// What a refund asks for.
#[derive(Serialize)]
pub(super) struct Asked {
    pub(super) amount: Decimal,
}

/// An order, as the bank shows it.
#[derive(Deserialize)]
pub(super) struct OrderAnswer {
    id: OrderId,
    currency: Currency,
    amount: String,
    refunds: Vec<RefundLine>,
}

#[derive(Deserialize)]
struct RefundLine {
    number: u32,
    amount: String,
    status: Option<String>,
}

impl OrderAnswer {
    pub(super) fn into_state(self) -> Option<OrderState> {
        let currency = self.currency;
        let parse = |text: &str| Amount::read_back(text, currency).ok();
        let lines = self.refunds.iter().map(|line| parse(&line.amount));
        let refunds: Vec<Amount> = lines.collect::<Option<_>>()?;
        let unsettled = self
            .refunds
            .iter()
            .filter_map(|line| Some((line.number, line.status.as_ref()?.parse().ok()?)));
        let mut state = OrderState {
            id: self.id,
            currency,
            amount: parse(&self.amount)?,
            refunded: Total::ZERO,
            unsettled: unsettled.collect(),
            refunds,
        };
        state.refunded = state.held().into_iter().sum();
        Some(state)
    }
}

/// A refund, as the bank confirms it.
#[derive(Deserialize)]
pub(super) struct RefundAnswer {
    order: OrderId,
    refund: u32,
    amount: String,
    currency: Currency,
    status: Option<String>,
}

impl RefundAnswer {
    pub(super) fn into_refunded(self, is_replay: bool) -> Option<Refunded> {
        Some(Refunded {
            order: self.order,
            number: self.refund,
            amount: Amount::read_back(&self.amount, self.currency).ok()?,
            currency: self.currency,
            status: self.status.and_then(|word| word.parse().ok()).unwrap_or_default(),
            is_replay,
        })
    }
}

#[derive(Deserialize)]
struct ProblemAnswer {
    code: String,
    #[serde(default)]
    detail: String,
}

/// The body of an answer of that status; for another, what it means.
pub(super) fn expect(status: StatusCode, answer: &Answered) -> Result<&[u8], CallError> {
    if answer.status == status {
        return Ok(&answer.body);
    }
    let Ok(ProblemAnswer { code, detail }) = serde_json::from_slice(&answer.body) else {
        return Err(unreadable(answer));
    };
    Err(match code.as_str() {
        "unavailable" => CallError::Unavailable,
        "timeout" => CallError::Timeout,
        "server_error" => CallError::ServerError,
        "rate_limited" => CallError::RateLimited { retry_after_s: retry_after(&answer.headers) },
        word => match word.parse::<RefusalCode>() {
            Ok(code) => CallError::Refused(Refusal { code, detail }),
            Err(()) => unreadable(answer),
        },
    })
}

/// The seconds that a `Retry-After` asks for, in either of its forms; one if it makes no sense.
fn retry_after(headers: &HeaderMap) -> u64 {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // The server's clock against itself: ours may be another.
    let date = |name: HeaderName| text(name).and_then(|date| httpdate::parse_http_date(date).ok());
    let until_date = || {
        let wait = date(header::RETRY_AFTER)?.duration_since(date(header::DATE)?).ok()?;
        Some(wait.as_secs())
    };
    let seconds = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    seconds.or_else(until_date).unwrap_or(1)
}

/// An answer that says nothing of what has happened.
pub(super) fn unreadable(answer: &Answered) -> CallError {
    let start = shorten(&String::from_utf8_lossy(&answer.body));
    CallError::Broken { detail: format!("status {} with `{start}`", answer.status.as_u16()) }
}

/// A broken exchange, with the innermost cause, which says most.
pub(super) fn broken(error: impl std::error::Error) -> CallError {
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        detail = cause.to_string();
        source = cause.source();
    }
    CallError::Broken { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_again_is_read_in_either_form() {
        let date = "Mon, 30 Nov 2026 21:00:00 GMT";
        for (retry_after_header, seconds) in [
            (Some("7"), 7),
            (Some("Mon, 30 Nov 2026 21:02:05 GMT"), 125),
            (Some("Mon, 30 Nov 2026 20:00:00 GMT"), 1),
            (Some("soon"), 1),
            (None, 1),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::DATE, date.parse().unwrap());
            if let Some(value) = retry_after_header {
                headers.insert(header::RETRY_AFTER, value.parse().unwrap());
            }
            assert_eq!(retry_after(&headers), seconds, "{retry_after_header:?}");
        }
    }
}
