//! Reads requests: bodies within bounds, JSON, and the headers that mean something here.

use std::{borrow::Cow, pin::Pin};

use bytes::{Bytes, BytesMut};
use hyper::{
    HeaderMap,
    body::{Body as _, Incoming},
    header,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{connection::Link, wire::IDEMPOTENCY_KEY};
use crate::{
    call::{Refusal, RefusalCode},
    ledger::KeyError,
    money::shorten,
};

/// Bytes past its limit that a body may bring and still be read to its end, so that a client that is busy
/// sending hears why it is refused.
const EXCESS_MAX: u64 = 1 << 20;

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

/// Reads a body of at most `limit` bytes.
pub(super) async fn read_body(
    headers: &HeaderMap,
    mut body: Incoming,
    link: &Link,
    limit: u64,
) -> Result<Bytes, Failure> {
    let too_large = || Failure::Refused(too_large(limit));
    let announced = body.size_hint().lower();
    let is_asking = headers.contains_key(header::EXPECT);
    if announced > limit && (is_asking || announced > limit + EXCESS_MAX) {
        return Err(too_large());
    }
    let mut read = Read::Nothing;
    let mut length: u64 = 0;
    while let Some(data) = next_data(&mut body, link).await? {
        length = length.saturating_add(data.len() as u64);
        if length <= limit {
            read.push(data);
        } else if length > limit + EXCESS_MAX {
            break;
        }
    }
    if length > limit {
        return Err(too_large());
    }
    Ok(read.into_bytes())
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

/// The next piece of a body; late if the link ticks twice before the body is complete.
async fn next_data(body: &mut Incoming, link: &Link) -> Result<Option<Bytes>, Failure> {
    let mut ticks = 0;
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
            ticks += 1;
            if ticks > 1 {
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

/// Accepts JSON, with any parameters, and bodies whose type is not named.
pub(super) fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    for value in headers.get_all(header::CONTENT_TYPE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let essence = value.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let detail = format!("the body is `{}`; send it as application/json", shorten(&value));
            return Err(Refusal::new(RefusalCode::UnsupportedType, detail));
        }
    }
    Ok(())
}

/// What a refund asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefundRequest<'a> {
    pub(super) amount: Option<Cow<'a, str>>,
    pub(super) currency: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundDocument<'a> {
    #[serde(borrow)]
    amount: Option<&'a RawValue>,
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
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
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

/// The idempotency key: bare, or a quoted string as the IETF draft has it (RFC 8941, 3.3.3).
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Refusal> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        let detail = "the header Idempotency-Key was sent twice; send one key with a refund";
        return Err(Refusal::new(RefusalCode::InvalidKey, detail));
    }
    let Ok(text) = value.to_str() else {
        let text = shorten(&String::from_utf8_lossy(value.as_bytes()));
        return Err(KeyError::NotPrintable { text }.into());
    };
    unquote(text).map(Some).ok_or_else(|| {
        let detail = format!(
            "the idempotency key `{}` is half-quoted; send it bare, or between two quotation marks with \\\" and \\\\ inside",
            shorten(text)
        );
        Refusal::new(RefusalCode::InvalidKey, detail)
    })
}

fn unquote(text: &str) -> Option<Cow<'_, str>> {
    let Some(opened) = text.strip_prefix('"') else {
        return (!text.ends_with('"')).then_some(Cow::Borrowed(text));
    };
    let inner = opened.strip_suffix('"')?;
    if !inner.contains(['"', '\\']) {
        return Some(Cow::Borrowed(inner));
    }
    let mut key = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return None,
            '\\' => key.push(letters.next().filter(|next| matches!(next, '"' | '\\'))?),
            _ => key.push(letter),
        }
    }
    Some(Cow::Owned(key))
}

/// A form in which an answer may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As text, or whatever the resource has by default.
    Text,
    /// As JSON.
    Json,
}

/// The form that the `Accept` header likes best; text if it has no preference.
pub(super) fn preferred_form(headers: &HeaderMap) -> Form {
    let values = headers.get_all(header::ACCEPT).iter();
    let ranges = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut best = (0, Form::Text);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let form = match parts.next().unwrap_or_default() {
            json if json.eq_ignore_ascii_case("application/json") => Form::Json,
            text if text.eq_ignore_ascii_case("text/plain") => Form::Text,
            text if text.eq_ignore_ascii_case("text/*") => Form::Text,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(1000, thousandths);
        if weight > best.0 {
            best = (weight, form);
        }
    }
    best.1
}

/// A weight of at most three decimals (RFC 9110, 12.4.2), in thousandths.
fn thousandths(weight: &str) -> u32 {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = format!("{whole}{decimals:0<3}");
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn accept(value: &'static str) -> Form {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(value));
        preferred_form(&headers)
    }

    #[test]
    fn a_quoted_key_is_the_bare_one() {
        for (sent, key) in [
            ("k1", "k1"),
            (r#""k1""#, "k1"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#""""#, ""),
            (r#"a"b"#, r#"a"b"#),
            (r"a\b", r"a\b"),
        ] {
            assert_eq!(unquote(sent).as_deref(), Some(key), "{sent}");
        }
    }

    #[test]
    fn a_half_quoted_key_is_none() {
        for sent in [r#"""#, r#""k"#, r#"k""#, r#""k\""#, r#""a"b""#, r#""a\nb""#, r#""k"; p=1"#] {
            assert_eq!(unquote(sent), None, "{sent}");
        }
    }

    #[test]
    fn json_is_for_those_who_ask_for_it() {
        assert_eq!(preferred_form(&HeaderMap::new()), Form::Text);
        for value in [
            "*/*",
            "text/plain",
            "text/html, */*;q=0.1",
            "application/json;q=0.5, text/plain",
            "application/json;q=0",
            "text/plain, application/json",
        ] {
            assert_eq!(accept(value), Form::Text, "{value}");
        }
        for value in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json, text/plain, */*",
            "text/plain;q=0.9, application/json",
        ] {
            assert_eq!(accept(value), Form::Json, "{value}");
        }
    }

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
