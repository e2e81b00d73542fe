//! Reads the headers that mean something here: type, idempotency key, and the form of the answer.

use std::{borrow::Cow, cmp::Reverse};

use hyper::{HeaderMap, header};

use super::wire::IDEMPOTENCY_KEY;
use crate::{
    call::{Refusal, RefusalCode},
    ledger::KeyError,
    money::shorten,
};

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
    let ranges: Vec<&str> = ranges.collect();
    let is_json_liked =
        liking(&ranges, ["application", "json"]) > liking(&ranges, ["text", "plain"]);
    if is_json_liked { Form::Json } else { Form::Text }
}

/// How well a type is liked, if it is accepted: by its weight, then if it is more than one of all, then by its
/// place among the ranges. It goes by the range that fits it best (RFC 9110, 12.5.1).
fn liking(ranges: &[&str], [kind, subtype]: [&str; 2]) -> Option<(u32, bool, Reverse<usize>)> {
    let fitting = ranges.iter().enumerate().filter_map(|(place, range)| {
        let mut parts = range.split(';').map(str::trim);
        let (of, sub) = parts.next()?.split_once('/')?;
        let fit = match (of.eq_ignore_ascii_case(kind), sub.eq_ignore_ascii_case(subtype)) {
            (true, true) => 2,
            (true, false) if sub == "*" => 1,
            (false, _) if (of, sub) == ("*", "*") => 0,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
        Some((fit, weight, Reverse(place)))
    });
    let (fit, weight, place) = fitting.max_by_key(|(fit, ..)| *fit)?;
    (weight > 0).then_some((weight, fit > 0, place))
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
            "text/*, application/json",
            "application/*;q=0.5, text/*",
            "application/json;q=0, application/*, text/plain;q=0.1",
            "application/xml",
            "*/json",
        ] {
            assert_eq!(accept(value), Form::Text, "{value}");
        }
        for value in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json, text/plain, */*",
            "text/plain;q=0.9, application/json",
            "application/*",
            "APPLICATION/*",
            "*/*, application/json",
            "application/*, */*",
            "text/*;q=0.5, application/*;q=0.6",
            "text/plain;q=0, */*",
        ] {
            assert_eq!(accept(value), Form::Json, "{value}");
        }
    }
}
