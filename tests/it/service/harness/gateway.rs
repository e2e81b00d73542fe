//! A payments service that is not ours: its requests are structs, its responses have a status.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use badbank::{
    call::{CallError, Refusal, RefusalCode},
    harness::Keyed,
};
use tower::{Service, ServiceExt};

/// How long an answer takes.
pub(super) const ANSWER: Duration = Duration::from_millis(10);

/// A request, as its clients write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refund {
    pub(super) tool_call: &'static str,
    pub(super) order: &'static str,
    pub(super) body: &'static str,
    pub(super) key: Option<String>,
}

impl Refund {
    pub(super) const fn of(order: &'static str) -> Self {
        Self { tool_call: "toolu_1", order, body: r#"{"cents":4250}"#, key: None }
    }

    pub(super) fn under(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(super) fn put_key(&mut self, key: String) {
        self.key = Some(key);
    }
}

impl Keyed for Refund {
    fn id(&self) -> String {
        self.tool_call.to_owned()
    }

    fn order(&self) -> String {
        self.order.to_owned()
    }

    fn intent(&self) -> String {
        format!("pay back {}", self.order)
    }

    fn arguments(&self) -> String {
        self.body.to_owned()
    }
}

/// A status, and the number of the request that was answered, from 1; an answer of a layer's has number 0.
pub(super) type Response = Result<(u16, usize), Infallible>;

/// Answers one status after the other, then 201.
#[derive(Clone, Debug, Default)]
pub(super) struct Gateway {
    statuses: Arc<Vec<u16>>,
    asked: Arc<Mutex<Vec<Refund>>>,
}

impl Gateway {
    pub(super) fn answering(statuses: &[u16]) -> Self {
        Self { statuses: Arc::new(statuses.to_vec()), ..Self::default() }
    }

    /// The requests that have come.
    pub(super) fn asked(&self) -> Vec<Refund> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn keys(&self) -> Vec<Option<String>> {
        self.asked().into_iter().map(|refund| refund.key).collect()
    }

    /// Refunds that it has paid: also one whose reply was lost, and one for each key.
    pub(super) fn paid(&self) -> usize {
        let (mut paid, mut keys) = (0, BTreeSet::new());
        for (number, refund) in self.asked().into_iter().enumerate() {
            let is_paid = matches!(self.status(number + 1), 201 | 504);
            let is_new = refund.key.is_none_or(|key| !is_paid || keys.insert(key));
            paid += usize::from(is_paid && is_new);
        }
        paid
    }

    fn status(&self, number: usize) -> u16 {
        self.statuses.get(number - 1).copied().unwrap_or(201)
    }
}

impl Service<Refund> for Gateway {
    type Response = (u16, usize);
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, refund: Refund) -> Self::Future {
        let mut asked = self.asked.lock().unwrap();
        asked.push(refund);
        let (number, status) = (asked.len(), self.status(asked.len()));
        Box::pin(async move {
            tokio::time::sleep(ANSWER).await;
            Ok((status, number))
        })
    }
}

/// Which error a status is.
pub(super) fn by_status(response: &Response) -> Option<CallError> {
    match response.unwrap().0 {
        503 => Some(CallError::Unavailable),
        504 => Some(CallError::Timeout),
        422 => Some(Refusal::new(RefusalCode::OverRefund, "too much").into()),
        _ => None,
    }
}

/// The response with which a layer tells an error.
#[expect(clippy::needless_pass_by_value, reason = "as layers hand an error on")]
#[expect(clippy::unnecessary_wraps, reason = "an answer is a whole result")]
pub(super) fn respond(error: CallError) -> Response {
    Ok(match error {
        CallError::Unavailable => (503, 0),
        CallError::Timeout => (504, 0),
        _ => (422, 0),
    })
}

/// What a call through clones of `service` is answered.
pub(super) async fn send<S>(service: &S, refund: Refund) -> (u16, usize)
where
    S: Service<Refund, Response = (u16, usize), Error = Infallible> + Clone,
{
    let Ok(response) = service.clone().oneshot(refund).await;
    response
}

/// A caller that leaves after half the time that an answer takes.
pub(super) async fn send_and_leave<S>(service: &S, refund: Refund)
where
    S: Service<Refund, Response = (u16, usize), Error = Infallible> + Clone,
{
    tokio::time::timeout(ANSWER / 2, send(service, refund)).await.unwrap_err();
}

/// The statuses that eight callers are answered who call at once, with these refunds.
pub(super) async fn eight_at_once<S>(service: &S, refund: impl Fn(usize) -> Refund) -> Vec<u16>
where
    S: Service<Refund, Response = (u16, usize), Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let call = |caller| tokio::spawn(service.clone().oneshot(refund(caller)));
    let callers: Vec<_> = (0..8).map(call).collect();
    let mut statuses = vec![];
    for caller in callers {
        let Ok((status, _)) = caller.await.unwrap();
        statuses.push(status);
    }
    statuses
}

/// Eight orders.
pub(super) const ORDERS: [&str; 8] = ["A-1", "A-2", "A-3", "A-4", "A-5", "A-6", "A-7", "A-8"];
