//! The bank as a program under test reaches it: [`Payments`] over HTTP, blocking.
//!
//! Every send is the caller's own: nothing is repeated behind its back, and connections are given up
//! before a server would.

mod answer;

use std::{fmt::Write as _, io, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    header::{self, HeaderValue},
};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::runtime::{self, Runtime};

use self::answer::{Asked, OrderAnswer, RefundAnswer, broken, expect, unreadable};
use super::wire::{IDEMPOTENCY_KEY, JSON, REPLAYED, TEXT};
use crate::{
    call::{CallError, OrderState, Payments, Refunded},
    document::DocumentError,
    ledger::KeyError,
    money::{Amount, Currency, shorten},
    ticket::Ticket,
};

/// How long a call may take unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long an unused connection is kept; servers keep it longer.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// A client of one run, for threads without an async runtime.
///
/// # Examples
///
/// ```no_run
/// use badbank::{call::Payments, http::Client};
///
/// let mut client = Client::new("http://127.0.0.1:8080/runs/1")?;
/// let ticket = client.ticket()?;
/// let order = &ticket.orders()[0];
/// let refunded = client.refund(order.id(), order.amount(), Some("intent-1"))?;
/// assert_eq!(refunded.number, 1);
/// client.report(&format!("REFUNDED: {}", order.id()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Its methods, where an async runtime is entered already.
#[derive(Debug)]
pub struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    runtime: Runtime,
    /// The run's base URL, without a slash at its end.
    base: String,
    limit: Duration,
    /// Read once, for the currencies of the orders.
    ticket: Option<Ticket>,
}

/// Why there is no client, ticket or report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Not the base URL of a run.
    #[error("`{url}` is not a run's URL, such as http://127.0.0.1:8080/runs/1")]
    Url {
        /// The text, shortened.
        url: String,
    },
    /// The system gives no runtime.
    #[error("no runtime for the client")]
    Runtime(#[source] io::Error),
    /// The bank, or the network before it, gives no plain answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The bank's ticket is none.
    #[error("the bank's ticket is unreadable")]
    Ticket(#[from] DocumentError),
}

/// An answer, as it came.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Client {
    /// A client of the run whose base URL this is; it does not connect yet.
    ///
    /// # Errors
    ///
    /// [`ClientError::Url`] unless it is an `http` URL without a query.
    pub fn new(base_url: &str) -> Result<Self, ClientError> {
        let base = base_url.trim_end_matches('/');
        let is_plain = |url: &Uri| {
            url.scheme_str() == Some("http") && url.authority().is_some() && url.query().is_none()
        };
        let is_run = base.parse::<Uri>().is_ok_and(|url| is_plain(&url)) && !base.contains('#');
        if !is_run {
            let url = shorten(base_url);
            return Err(ClientError::Url { url });
        }
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Runtime)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = legacy::Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Ok(Self { http, runtime, base: base.to_owned(), limit: TIMEOUT, ticket: None })
    }

    /// The same client, giving a call up after `limit`; 30 s unless told.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The task.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the bank does not answer with a ticket.
    pub fn ticket(&mut self) -> Result<Ticket, ClientError> {
        self.known_ticket().cloned()
    }

    fn known_ticket(&mut self) -> Result<&Ticket, ClientError> {
        let ticket = match self.ticket.take() {
            Some(ticket) => ticket,
            None => self.fetch_ticket()?,
        };
        Ok(self.ticket.insert(ticket))
    }

    fn fetch_ticket(&self) -> Result<Ticket, ClientError> {
        let answer = self.send(Method::GET, "/ticket", None, Bytes::new())?;
        let body = expect(StatusCode::OK, &answer)?;
        let text = std::str::from_utf8(body).map_err(|_| unreadable(&answer))?;
        Ok(Ticket::parse(text)?)
    }

    /// Sends what the program has to report; of several reports the last counts.
    ///
    /// # Errors
    ///
    /// [`CallError`] if the bank does not take it.
    pub fn report(&mut self, text: &str) -> Result<(), CallError> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let answer = self.send(Method::POST, "/report", None, body)?;
        expect(StatusCode::NO_CONTENT, &answer).map(drop)
    }

    /// The currency in which amounts on an order are written.
    fn currency(&mut self, order: &str) -> Result<Currency, CallError> {
        let ticket = self.known_ticket().map_err(|error| match error {
            ClientError::Call(error) => error,
            error => CallError::Broken { detail: error.to_string() },
        })?;
        let order = ticket.order(order);
        Ok(order.map_or(ticket.currency(), crate::ticket::Order::currency))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        key: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Answered, CallError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if !body.is_empty() {
            let content_type = if path == "/report" { TEXT } else { JSON };
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::new(body)).map_err(broken)?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(broken)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(broken)?.to_bytes();
            Ok(Answered { status: head.status, headers: head.headers, body })
        };
        self.runtime
            .block_on(async { tokio::time::timeout(self.limit, exchange).await })
            .unwrap_or(Err(CallError::Timeout))
    }
}

impl Payments for Client {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        let path = format!("/orders/{}", Segment(order).encode());
        let answer = self.send(Method::GET, &path, None, Bytes::new())?;
        let body = expect(StatusCode::OK, &answer)?;
        let read: Option<OrderState> =
            serde_json::from_slice::<OrderAnswer>(body).ok().and_then(OrderAnswer::into_state);
        read.ok_or_else(|| unreadable(&answer))
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        let currency = self.currency(order)?;
        let key = key.map(key_value).transpose()?;
        let asked = Asked { amount: amount.display(currency) };
        let body = serde_json::to_vec(&asked).expect("an amount is plain text");
        let path = format!("/orders/{}/refunds", Segment(order).encode());
        let answer = self.send(Method::POST, &path, key, body.into())?;
        let body = expect(StatusCode::CREATED, &answer)?;
        let is_replay = answer.headers.contains_key(REPLAYED);
        let read: Option<Refunded> = serde_json::from_slice::<RefundAnswer>(body)
            .ok()
            .and_then(|read| read.into_refunded(is_replay));
        read.ok_or_else(|| unreadable(&answer))
    }
}

/// A key as a header: quoted only where a bare one would not arrive as it is.
fn key_value(key: &str) -> Result<HeaderValue, CallError> {
    let is_bare = key == key.trim_ascii() && !key.starts_with('"') && !key.ends_with('"');
    let value = if is_bare {
        HeaderValue::from_str(key)
    } else {
        let escaped = key.replace('\\', r"\\").replace('"', r#"\""#);
        HeaderValue::from_str(&format!("\"{escaped}\""))
    };
    value.map_err(|_| {
        let text = shorten(key);
        CallError::Refused(KeyError::NotPrintable { text }.into())
    })
}

/// A part of a path that may hold anything.
struct Segment<'a>(&'a str);

impl Segment<'_> {
    fn encode(&self) -> String {
        let mut encoded = String::with_capacity(self.0.len());
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'~') {
                encoded.push(char::from(byte));
            } else {
                write!(encoded, "%{byte:02X}").expect("a string takes every text");
            }
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plain_url_of_a_run_is_one() {
        for url in ["http://127.0.0.1:1/runs/1", "http://[::1]:80/runs/1/"] {
            assert!(Client::new(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:1",
            "https://127.0.0.1/runs/1",
            "http://",
            "http://a/b?c",
            "http://a/b#c",
            "/runs/1",
        ] {
            assert!(matches!(Client::new(url), Err(ClientError::Url { .. })), "{url}");
        }
    }

    #[test]
    fn what_a_path_cannot_hold_is_encoded() {
        assert_eq!(Segment("A-1.b_c").encode(), "A-1.b_c");
        assert_eq!(Segment("a/b ü").encode(), "a%2Fb%20%C3%BC");
    }

    #[test]
    fn a_key_is_quoted_only_where_it_must() {
        for (key, sent) in [("k-1", "k-1"), (" k", r#"" k""#), (r#""k""#, r#""\"k\"""#), ("", "")] {
            assert_eq!(key_value(key).unwrap(), sent, "{key}");
        }
        assert!(key_value("a\nb").is_err());
    }
}
