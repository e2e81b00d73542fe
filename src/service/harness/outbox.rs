//! An outbox as a layer.

use std::{
    convert::Infallible,
    fmt,
    future::{Ready, poll_fn, ready},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use crate::{
    call::CallError,
    harness::{DeadLetter, Letter, Outbox},
};

/// Writes requests down under their intents and answers that it has; a worker sends them later.
///
/// The service's answer is a [`Posted`], at once and whatever becomes of the service behind it. It says nothing
/// of the act: an error of today's attempt would be a lie once tomorrow's has paid. What moves no money,
/// such as a read, has no place in an outbox and goes past it.
///
/// `intent` names a request, and `put` puts the intent into it as its idempotency key. The worker,
/// [`OutboxService::drain`], acts on the intents, oldest first, until each is done or set aside in the
/// [`DeadLetter`] for a person to look at; `classify` says which [`CallError`] an answer to an act is.
///
/// An intent stays in the box until its act is known to have happened, so neither a writer that leaves nor a
/// worker that dies in the middle of an act loses one: the act happens **at least once**, and only the
/// intent as its key makes that once. Clones share the box, and of their workers one acts at a time. The box
/// lies in memory: who wants it to outlive the process saves [`outbox`](Self::outbox).
///
/// # Examples
///
/// ```
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::Answer,
///     fault::{Fault, Plan},
///     harness::{DeadLetter, Outbox},
///     service::{BankRequest, BankService, OutboxLayer, Posted},
/// };
/// use tower::{Service, ServiceBuilder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm().script(call, Fault::TIMEOUT)?));
///
/// let outbox = OutboxLayer::new(
///     Outbox::default(),
///     DeadLetter::after(3),
///     |request: &BankRequest| format!("refund:{}", request.order()),
///     BankRequest::put_key,
///     |answer: &Answer| answer.clone().err(),
/// );
/// let mut service = ServiceBuilder::new().layer(outbox).service(BankService::new(bank.clone()));
/// let refund = BankRequest::refund(order.id(), order.amount(), None);
/// assert_eq!(service.call(refund.clone()).await?, Posted::Written);
/// assert_eq!(service.call(refund).await?, Posted::Known);
/// assert!(bank.lock().get_order(order.id())?.refunds.is_empty());
///
/// assert_eq!(service.drain().await, 1);
/// // It was sent twice, because the first reply was lost, and paid once.
/// assert_eq!(bank.lock().get_order(order.id())?.refunds, [order.amount()]);
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
///
/// Everything follows from the order in which requests are written and from the answers to the acts.
pub struct OutboxLayer<R, N, P, C> {
    shared: Arc<Shared<R, N, P, C>>,
}

struct Shared<R, N, P, C> {
    desk: Mutex<Desk<R>>,
    /// Whoever holds it is the worker, also while an act is under way.
    turn: tokio::sync::Mutex<()>,
    intent: N,
    put: P,
    classify: C,
}

/// The box, and what is known of the work in it that has failed.
#[derive(Debug)]
struct Desk<R> {
    outbox: Outbox<R>,
    dead: DeadLetter,
}

/// What became of a request for an [`OutboxLayer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is written down.
    Written,
    /// Its intent is in the box already, with the request that was written first.
    Known,
    /// It is in the box, but no worker acts on it: its intent is set aside, with this as its worst error.
    SetAside(CallError),
}

impl<R, N, P, C> OutboxLayer<R, N, P, C> {
    /// The layer of a box, which may hold intents that another process has left.
    pub fn new<A>(outbox: Outbox<R>, dead: DeadLetter, intent: N, put: P, classify: C) -> Self
    where
        N: Fn(&R) -> String,
        P: Fn(&mut R, String),
        C: Fn(&A) -> Option<CallError>,
    {
        let (desk, turn) = (Mutex::new(Desk { outbox, dead }), tokio::sync::Mutex::default());
        Self { shared: Arc::new(Shared { desk, turn, intent, put, classify }) }
    }

    /// The box as it stands.
    pub fn outbox(&self) -> Outbox<R>
    where
        R: Clone,
    {
        self.desk().outbox.clone()
    }

    /// The work that is set aside, by intent, for a person to look at; it is still in the box.
    pub fn letters(&self) -> Vec<Letter> {
        self.desk().dead.letters().cloned().collect()
    }

    /// Takes work back that a person has looked at: the next worker acts on it.
    pub fn release(&self, intent: &str) -> Option<Letter> {
        self.desk().dead.release(intent)
    }

    /// Strikes an intent out that a person has looked after, or found to be done.
    pub fn done(&self, intent: &str) -> Option<R> {
        let mut desk = self.desk();
        desk.dead.succeeded(intent);
        desk.outbox.done(intent)
    }

    fn desk(&self) -> MutexGuard<'_, Desk<R>> {
        self.shared.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Desk<R> {
    fn write(&mut self, intent: &str, request: R) -> Posted {
        let is_new = self.outbox.write(intent, request);
        match self.dead.letter(intent) {
            Some(letter) => Posted::SetAside(letter.error.clone()),
            None if is_new => Posted::Written,
            None => Posted::Known,
        }
    }
}

impl<R, N, P, C> Clone for OutboxLayer<R, N, P, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R: fmt::Debug, N, P, C> fmt::Debug for OutboxLayer<R, N, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxLayer").field("desk", &self.shared.desk).finish_non_exhaustive()
    }
}

impl<S, R, N, P, C> Layer<S> for OutboxLayer<R, N, P, C> {
    type Service = OutboxService<S, R, N, P, C>;

    fn layer(&self, inner: S) -> Self::Service {
        OutboxService { inner, layer: self.clone() }
    }
}

/// A service whose requests an [`OutboxLayer`] writes down; its workers send them.
#[derive(Debug)]
pub struct OutboxService<S, R, N, P, C> {
    inner: S,
    layer: OutboxLayer<R, N, P, C>,
}

impl<S, R, N, P, C> OutboxService<S, R, N, P, C>
where
    S: Service<R> + Clone,
    R: Clone,
    C: Fn(&Result<S::Response, S::Error>) -> Option<CallError>,
{
    /// Acts on every intent in the box until all are done or set aside; gives how many it has done.
    ///
    /// What fails comes round again behind the others, without a wait: a [`RetryLayer`](super::RetryLayer)
    /// behind the outbox waits. Each act has an instance of the service of its own; one that fails to get
    /// ready was an attempt, with that error. Intents that are written meanwhile are acted on, too. Dropping
    /// the future leaves what is under way in the box.
    pub async fn drain(&mut self) -> usize {
        let Shared { turn, classify, .. } = &*self.layer.shared;
        let _turn = turn.lock().await;
        let mut done = 0;
        while let Some((intent, request)) = self.next() {
            let mut inner = self.inner.clone();
            let answer = match poll_fn(|context| inner.poll_ready(context)).await {
                Ok(()) => inner.call(request).await,
                Err(error) => Err(error),
            };
            let outcome = classify(&answer).map_or(Ok(()), Err);
            let Desk { outbox, dead } = &mut *self.layer.desk();
            done += usize::from(outbox.conclude(&intent, &outcome, dead));
        }
        done
    }

    fn next(&self) -> Option<(String, R)> {
        let desk = self.layer.desk();
        let (intent, request) = desk.outbox.next_open(&desk.dead)?;
        Some((intent.to_owned(), request.clone()))
    }
}

impl<S: Clone, R, N, P, C> Clone for OutboxService<S, R, N, P, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, N, P, C> Service<R> for OutboxService<S, R, N, P, C>
where
    N: Fn(&R) -> String,
    P: Fn(&mut R, String),
{
    type Response = Posted;
    type Error = Infallible;
    type Future = Ready<Result<Posted, Infallible>>;

    /// Writing down takes nothing of the service behind, which may be down.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let Shared { intent, put, .. } = &*self.layer.shared;
        let intent = intent(&request);
        put(&mut request, intent.clone());
        ready(Ok(self.layer.desk().write(&intent, request)))
    }
}
