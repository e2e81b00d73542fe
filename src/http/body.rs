//! Reads bodies: within bounds of size and time, and as JSON.

use std::{borrow::Cow, pin::Pin};

use bytes::{Bytes, BytesMut};
use hyper::{
    HeaderMap, Response,
    body::{Body as _, Incoming},
    header::{self, HeaderValue},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{connection::Link, openapi::CurrencyCode, wire::Body};
use crate::{
    call::{Refusal, RefusalCode},
    document::unmarked,
};

/// Bytes that are read of what nobody wants, so that a client that is busy sending hears its answer.
const DISCARDED_MAX: u64 = 32 << 20;

/// What a body of JSON should have looked like, for a message.
const EXAMPLE: &str = r#"send a JSON object such as {"amount": "42.50", "currency": "EUR"}"#;

/// Why there is no body to read.
#[derive(Debug)]
pub(super) enum Failure {
    /// It is refused.
    Refused(Refusal),
    /// The client stopped sending in the middle of it.
    Late,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Reads a body of at most `limit` bytes; what a larger one has more is left.
pub(super) async fn read_body(
    body: &mut Incoming,
    link: &Link,
    limit: u64,
) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > limit {
        return Err(too_large(limit).into());
    }
    let mut read = Read::Nothing;
    let mut length: u64 = 0;
    let mut ticks = 0;
    while let Some(data) = next_data(body, link, &mut ticks).await? {
        length = length.saturating_add(data.len() as u64);
        if length > limit {
            return Err(too_large(limit).into());
        }
        read.push(data);
    }
    Ok(read.into_bytes())
}

/// An answer that its client can read: what is left of the request's body is taken in before, or else the answer
/// says that it ends the connection.
pub(super) async fn readable(
    mut response: Response<Body>,
    headers: &HeaderMap,
    mut body: Incoming,
    link: &Link,
) -> Response<Body> {
    if discard(headers, &mut body, link).await {
        link.begin();
    } else {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Reads what is left of a body; says whether it came to its end.
async fn discard(headers: &HeaderMap, body: &mut Incoming, link: &Link) -> bool {
    let mut left = DISCARDED_MAX;
    if body.is_end_stream() {
        return true;
    }
    // Who asks before sending has sent nothing yet.
    if headers.contains_key(header::EXPECT) || body.size_hint().lower() > left {
        return false;
    }
    let mut ticks = 0;
    loop {
        match next_data(body, link, &mut ticks).await {
            Ok(None) => return true,
            Ok(Some(data)) if data.len() as u64 <= left => left -= data.len() as u64,
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

fn too_large(limit: u64) -> Refusal {
    let detail = format!("the body is larger than the {limit} bytes that are allowed here");
    Refusal::new(RefusalCode::TooLarge, detail)
}

/// What has been read of a body; most come in one piece, which is not copied.
enum Read {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Read {
    fn push(&mut self, data: Bytes) {
        *self = match std::mem::replace(self, Self::Nothing) {
            Self::Nothing => Self::One(data),
            Self::One(first) => {
                let mut all = BytesMut::from(&first[..]);
                all.extend_from_slice(&data);
                Self::Many(all)
            }
            Self::Many(mut all) => {
                all.extend_from_slice(&data);
                Self::Many(all)
            }
        };
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(data) => data,
            Self::Many(all) => all.freeze(),
        }
    }
}

/// The next piece of a body; late if the link has ticked twice before the body is complete.
async fn next_data(
    body: &mut Incoming,
    link: &Link,
    ticks: &mut u32,
) -> Result<Option<Bytes>, Failure> {
    std::future::poll_fn(|context| {
        use std::task::Poll::{Pending, Ready};
        loop {
            match Pin::new(&mut *body).poll_frame(context) {
                Ready(None) => return Ready(Ok(None)),
                Ready(Some(Err(_))) => return Ready(Err(cut_short().into())),
                Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Ready(Ok(Some(data))),
                    Err(_trailers) => continue,
                },
                Pending => {}
            }
            if link.poll_tick(context).is_pending() {
                return Pending;
            }
            *ticks += 1;
            if *ticks > 1 {
                return Ready(Err(Failure::Late));
            }
        }
    })
    .await
}

fn cut_short() -> Refusal {
    let detail = "the body ends before it is complete; send as many bytes as Content-Length says";
    Refusal::new(RefusalCode::InvalidBody, detail)
}

/// What a refund asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefundRequest<'a> {
    pub(super) amount: Option<Cow<'a, str>>,
    pub(super) currency: Option<Cow<'a, str>>,
}

/// What to refund.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RefundRequest")]
pub(super) struct RefundDocument<'a> {
    #[serde(borrow)]
    #[schemars(required, schema_with = "super::openapi::asked_amount")]
    amount: Option<&'a RawValue>,
    /// The order's; it may be left out.
    #[schemars(with = "Option<CurrencyCode>")]
    currency: Option<Cow<'a, str>>,
}

impl<'a> RefundRequest<'a> {
    /// Reads a refund's body; what its amount says is left to the bank.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        let invalid = |error: &dyn std::fmt::Display| {
            let error = shorten_sentence(error.to_string());
            Refusal::new(RefusalCode::InvalidBody, format!("{error}; {EXAMPLE}"))
        };
        let text = object(body).map_err(|what| invalid(&what))?;
        let document: RefundDocument<'a> =
            serde_json::from_str(text).map_err(|error| invalid(&error))?;
        let amount = document
            .amount
            .map(|raw| amount_text(raw.get()))
            .transpose()
            .map_err(|error| invalid(&error))?;
        Ok(Self { amount, currency: document.currency })
    }
}

/// The text of an amount: a number's digits, a string's content, and for other values what stands there,
/// which is no amount.
fn amount_text(raw: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    match raw.as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<&str>(raw) {
            Ok(plain) => Ok(Cow::Borrowed(plain)),
            Err(_escaped) => serde_json::from_str::<String>(raw).map(Cow::Owned),
        },
        // Read only for its depth: raw values are not limited, and this one is refused anyway.
        Some(b'[' | b'{') => {
            serde_json::from_str::<serde_json::Value>(raw).map(|_| Cow::Borrowed(raw))
        }
        _ => Ok(Cow::Borrowed(raw)),
    }
}

/// The text of a JSON object: serde would take an array for a struct too.
pub(super) fn object(body: &[u8]) -> Result<&str, &'static str> {
    let text = unmarked(std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?);
    match text.trim_ascii_start().as_bytes().first() {
        None => Err("the body is empty"),
        Some(b'{') => Ok(text),
        Some(_) => Err("the body is not a JSON object"),
    }
}

/// A message that may quote a body, kept to a line or two.
fn shorten_sentence(mut text: String) -> String {
    const KEPT: usize = 200;
    if let Some((end, _)) = text.char_indices().nth(KEPT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_kept_as_it_was_written() {
        for (body, amount) in [
            (r#"{"amount": "10.50"}"#, Some("10.50")),
            (r#"{"amount": 10.50}"#, Some("10.50")),
            (r#"{"amount": 0.1000000000000000055}"#, Some("0.1000000000000000055")),
            (r#"{"amount": 1e2}"#, Some("1e2")),
            (r#"{"amount": "1\u0030"}"#, Some("10")),
            (r#"{"amount": true}"#, Some("true")),
            (r#"{"amount": [1]}"#, Some("[1]")),
            (r#"{"amount": null}"#, None),
            ("{}", None),
        ] {
            let read = RefundRequest::read(body.as_bytes()).unwrap();
            assert_eq!(read.amount.as_deref(), amount, "{body}");
        }
    }
}
