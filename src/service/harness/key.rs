//! Idempotency keys as a layer.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use crate::harness::Sending;

/// Gives requests an idempotency key; clones number them together.
///
/// `key` makes the key of a request, or none for one that needs none, which passes as it is. Where it takes
/// one of the kinds of [`Key`](crate::harness::Key), it says with [`Keyed`](crate::harness::Keyed) what the
/// request is. The [`Sending`] counts the requests of the layer that bore no key, from 1, whatever they are for.
///
/// `borne` and `put` read and write the key of a request. A key that a request bears already stays: whoever
/// chose it knew what is one refund to them, and so of two such layers the upper one counts.
///
/// Above a [`RetryLayer`](super::RetryLayer) a key is made once for a call, and all attempts bear it. Below
/// it, one is made for each attempt, which gives the same key again, unless it is [`Key::Fresh`].
///
/// [`Key::Fresh`]: crate::harness::Key::Fresh
///
/// # Examples
///
/// ```
/// use badbank::{
///     Bank, Seed, SharedBank, Ticket,
///     call::Answer,
///     fault::{Fault, Plan},
///     harness::Retry,
///     service::{BankRequest, BankService, KeyLayer, RetryLayer},
/// };
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm().script(call, Fault::TIMEOUT)?));
///
/// let service = ServiceBuilder::new()
///     .layer(KeyLayer::new(
///         |request: &BankRequest, _| Some(format!("refund:{}", request.order())),
///         BankRequest::key,
///         BankRequest::put_key,
///     ))
///     .layer(RetryLayer::new(Retry::default(), Seed::new(7), |answer: &Answer| answer.clone().err()))
///     .service(BankService::new(bank.clone()));
/// service.oneshot(BankRequest::refund(order.id(), order.amount(), None)).await?;
/// // The caller knows of no key, and yet what was sent twice was paid once.
/// let state = bank.lock().get_order(order.id())?;
/// assert_eq!(state.refunds, [order.amount()]);
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
///
/// A key follows from the request and, where `key` makes use of it, from its number in the order in which
/// the service and its clones are called.
pub struct KeyLayer<K, B, P> {
    shared: Arc<Shared<K, B, P>>,
    life: u32,
}

struct Shared<K, B, P> {
    requests: AtomicU32,
    key: K,
    borne: B,
    put: P,
}

impl<K, B, P> KeyLayer<K, B, P> {
    /// The layer of these keys, in the first life of its process.
    pub fn new<R>(key: K, borne: B, put: P) -> Self
    where
        K: Fn(&R, Sending) -> Option<String>,
        B: Fn(&R) -> Option<&str>,
        P: Fn(&mut R, String),
    {
        let requests = AtomicU32::new(0);
        Self { shared: Arc::new(Shared { requests, key, borne, put }), life: 1 }
    }

    /// The same in another life of its process, from 1: no fresh key is made that another life has made.
    #[must_use]
    pub fn in_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    fn sending(&self) -> Sending {
        let attempt = self.shared.requests.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Sending { attempt, life: self.life }
    }
}

impl<K, B, P> Clone for KeyLayer<K, B, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), life: self.life }
    }
}

impl<K, B, P> fmt::Debug for KeyLayer<K, B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLayer")
            .field("requests", &self.shared.requests)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl<S, K, B, P> Layer<S> for KeyLayer<K, B, P> {
    type Service = KeyService<S, K, B, P>;

    fn layer(&self, inner: S) -> KeyService<S, K, B, P> {
        KeyService { inner, layer: self.clone() }
    }
}

/// A service whose requests a [`KeyLayer`] gives a key.
#[derive(Debug)]
pub struct KeyService<S, K, B, P> {
    inner: S,
    layer: KeyLayer<K, B, P>,
}

impl<S: Clone, K, B, P> Clone for KeyService<S, K, B, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, K, B, P> Service<R> for KeyService<S, K, B, P>
where
    S: Service<R>,
    K: Fn(&R, Sending) -> Option<String>,
    B: Fn(&R) -> Option<&str>,
    P: Fn(&mut R, String),
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: R) -> S::Future {
        let Shared { key, borne, put, .. } = &*self.layer.shared;
        if borne(&request).is_none()
            && let Some(key) = key(&request, self.layer.sending())
        {
            put(&mut request, key);
        }
        self.inner.call(request)
    }
}
