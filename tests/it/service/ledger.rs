//! A payments service that is not ours: an HTTP server with a plain ledger and no idempotency.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use badbank::call::Operation;
use badbank::ticket::OrderId;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::Semaphore};

pub(super) type HttpRequest = Request<Full<Bytes>>;

/// Refunds per order, in the order in which they were made, behind a server on a free port.
#[derive(Clone)]
pub(super) struct PlainLedger {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    refunds: Mutex<BTreeMap<String, Vec<String>>>,
    /// How many refunds have arrived.
    arrived: Semaphore,
    /// How many may be executed.
    admitted: Semaphore,
}

impl PlainLedger {
    /// A server on the runtime of the test.
    pub(super) async fn start() -> Self {
        let ledger = Self::start_closed().await;
        ledger.admit(1_000_000);
        ledger
    }

    /// One that executes no refund until it is told to.
    pub(super) async fn start_closed() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let ledger = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared {
                refunds: Mutex::default(),
                arrived: Semaphore::new(0),
                admitted: Semaphore::new(0),
            }),
        };
        tokio::spawn(ledger.clone().serve(listener));
        ledger
    }

    /// Lets so many further refunds be executed.
    pub(super) fn admit(&self, refunds: usize) {
        self.shared.admitted.add_permits(refunds);
    }

    /// Waits until a further refund has arrived.
    pub(super) async fn arrival(&self) {
        self.shared.arrived.acquire().await.unwrap().forget();
    }

    /// The refunds that an order holds.
    pub(super) fn held(&self, order: &str) -> Vec<String> {
        self.shared.refunds.lock().unwrap().get(order).cloned().unwrap_or_default()
    }

    pub(super) fn refund(&self, order: &str, amount: &str) -> HttpRequest {
        self.request(Method::POST, &format!("/orders/{order}/refunds"), amount)
    }

    pub(super) fn read(&self, order: &str) -> HttpRequest {
        self.request(Method::GET, &format!("/orders/{order}"), "")
    }

    pub(super) fn request(&self, method: Method, path: &str, body: &str) -> HttpRequest {
        let url = format!("http://{}{path}", self.address);
        Request::builder().method(method).uri(url).body(Full::from(body.to_owned())).unwrap()
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let ledger = self.clone();
            let service = service_fn(move |request| ledger.clone().answer(request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let Some((_, order)) = named(&parts.method, parts.uri.path()) else {
            return Ok(respond(StatusCode::NOT_FOUND, "no such thing"));
        };
        if parts.method == Method::GET {
            return Ok(respond(StatusCode::OK, &self.held(&order).join(" + ")));
        }
        let amount = body.collect().await.unwrap().to_bytes();
        if amount.is_empty() {
            return Ok(respond(StatusCode::BAD_REQUEST, "no amount"));
        }
        self.shared.arrived.add_permits(1);
        self.shared.admitted.acquire().await.unwrap().forget();
        let mut refunds = self.shared.refunds.lock().unwrap();
        let of_order = refunds.entry(order.to_string()).or_default();
        of_order.push(String::from_utf8(amount.to_vec()).unwrap());
        Ok(respond(StatusCode::CREATED, &format!("refund #{}", of_order.len())))
    }
}

fn respond(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::from(body.to_owned())).unwrap()
}

/// What a request asks, and about which order.
pub(super) fn name(request: &HttpRequest) -> Option<(Operation, OrderId)> {
    named(request.method(), request.uri().path())
}

fn named(method: &Method, path: &str) -> Option<(Operation, OrderId)> {
    let path = path.strip_prefix("/orders/")?;
    match (method.as_str(), path.strip_suffix("/refunds")) {
        ("GET", None) => Some((Operation::GetOrder, path.parse().ok()?)),
        ("POST", Some(order)) => Some((Operation::Refund, order.parse().ok()?)),
        _ => None,
    }
}

/// The text of an answer, whatever its status.
pub(super) async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}
