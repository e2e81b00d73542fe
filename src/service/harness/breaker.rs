//! A circuit breaker as a layer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::harness::{Admission, Change, CircuitBreaker, Permit, Signal, Status, Timestamp};

/// Asks a [`CircuitBreaker`] before each call and tells it how the call went; clones share the breaker.
///
/// `clock` is read under the breaker's lock and must not call the layer. `classify` says what an answer
/// tells about the backend, and `refused` makes the service's error of the time before which the breaker
/// lets no call through. Nothing has been sent then.
///
/// A call is admitted when the service is called. One whose future is dropped before its answer has come
/// says nothing: it is recorded as [`Signal::Neutral`], and if it was the probe, the next call is.
/// A service that fails to get ready has not been called, and does not count.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::{Answer, CallError},
///     fault::{Fault, Plan},
///     harness::{CircuitBreaker, Policy, Signal, Timestamp},
///     service::{BankRequest, BankService, BreakerLayer},
/// };
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm().script(call, Fault::TRANSIENT)?));
///
/// let minute = Duration::from_secs(60);
/// let breaker = CircuitBreaker::new(Policy::Window { failures: 1, within: minute }, minute);
/// let noon = Timestamp::from_unix_ms(1_700_000_000_000);
/// let layer = BreakerLayer::new(
///     breaker,
///     move || noon,
///     |answer: &Answer| Signal::of(answer),
///     |_until| CallError::Unavailable,
/// );
/// let mut service = ServiceBuilder::new().layer(layer).service(BankService::new(bank.clone()));
/// let refund = BankRequest::refund(order.id(), order.amount(), None);
/// assert!(service.ready().await?.call(refund.clone()).await.is_err());
/// // The bank would pay now, but is left alone for a minute.
/// assert_eq!(service.ready().await?.call(refund).await, Err(CallError::Unavailable));
/// assert!(bank.lock().get_order(order.id())?.refunds.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
///
/// As [`CircuitBreaker`]: everything follows from the order of calls and answers, and the clock.
pub struct BreakerLayer<C, E> {
    circuit: Arc<Circuit>,
    classify: Arc<C>,
    refused: Arc<E>,
}

/// The breaker and the one clock that it knows.
struct Circuit {
    breaker: Mutex<CircuitBreaker>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Circuit {
    /// The time is read under the lock, so that no failure lies in the future of whoever waited for it.
    fn lock(&self) -> (MutexGuard<'_, CircuitBreaker>, Timestamp) {
        let breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        (breaker, now)
    }

    fn admit(&self) -> Admission {
        let (mut breaker, now) = self.lock();
        breaker.admit(now)
    }

    fn record(&self, permit: Permit, signal: Signal) -> Option<Change> {
        let (mut breaker, now) = self.lock();
        breaker.record(permit, signal, now)
    }
}

impl<C, E> BreakerLayer<C, E> {
    /// The layer of a breaker, which may know of failures already.
    pub fn new<A, X>(
        breaker: CircuitBreaker,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        classify: C,
        refused: E,
    ) -> Self
    where
        C: Fn(&Result<A, X>) -> Signal,
        E: Fn(Timestamp) -> X,
    {
        let circuit = Circuit { breaker: Mutex::new(breaker), clock: Box::new(clock) };
        Self {
            circuit: Arc::new(circuit),
            classify: Arc::new(classify),
            refused: Arc::new(refused),
        }
    }

    /// What the breaker knows now.
    pub fn status(&self) -> Status {
        let (breaker, now) = self.circuit.lock();
        breaker.status(now)
    }
}

impl<C, E> Clone for BreakerLayer<C, E> {
    fn clone(&self) -> Self {
        Self {
            circuit: Arc::clone(&self.circuit),
            classify: Arc::clone(&self.classify),
            refused: Arc::clone(&self.refused),
        }
    }
}

impl<C, E> fmt::Debug for BreakerLayer<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer")
            .field("breaker", &self.circuit.breaker)
            .finish_non_exhaustive()
    }
}

impl<S, C, E> Layer<S> for BreakerLayer<C, E> {
    type Service = BreakerService<S, C, E>;

    fn layer(&self, inner: S) -> BreakerService<S, C, E> {
        BreakerService { inner, layer: self.clone() }
    }
}

/// A service that is left alone while the breaker of a [`BreakerLayer`] is open.
#[derive(Debug)]
pub struct BreakerService<S, C, E> {
    inner: S,
    layer: BreakerLayer<C, E>,
}

impl<S: Clone, C, E> Clone for BreakerService<S, C, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, C, E> Service<R> for BreakerService<S, C, E>
where
    S: Service<R>,
    C: Fn(&Result<S::Response, S::Error>) -> Signal,
    E: Fn(Timestamp) -> S::Error,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BreakerFuture<S::Future, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let BreakerLayer { circuit, classify, refused } = &self.layer;
        let course = match circuit.admit() {
            Admission::Allowed(permit) | Admission::Probe(permit) => {
                // Before the call: if that panics, the permit is handed back.
                let held = Held { circuit: Arc::clone(circuit), permit: Some(permit) };
                Course::Admitted { inner: self.inner.call(request), held }
            }
            Admission::Refused { until } => Course::Refused { answer: Some(Err(refused(until))) },
        };
        BreakerFuture { course, classify: Arc::clone(classify) }
    }
}

/// A permit that is handed back in any case.
struct Held {
    circuit: Arc<Circuit>,
    permit: Option<Permit>,
}

impl Held {
    fn hand_back(&mut self, signal: Signal) {
        if let Some(permit) = self.permit.take() {
            self.circuit.record(permit, signal);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hand_back(Signal::Neutral);
    }
}

pin_project! {
    /// The answer to a call of a [`BreakerService`], or that it was refused.
    ///
    /// Dropped before it has answered, it tells the breaker nothing about the backend.
    #[must_use = "an answer that nobody awaits is not heard, though the call may have been executed"]
    pub struct BreakerFuture<F: Future, C> {
        #[pin]
        course: Course<F>,
        classify: Arc<C>,
    }
}

pin_project! {
    #[project = CourseProjection]
    enum Course<F: Future> {
        Admitted { #[pin] inner: F, held: Held },
        Refused { answer: Option<F::Output> },
    }
}

impl<F, C> Future for BreakerFuture<F, C>
where
    F: Future,
    C: Fn(&F::Output) -> Signal,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        Poll::Ready(match this.course.project() {
            CourseProjection::Admitted { inner, held } => {
                let answer = ready!(inner.poll(context));
                held.hand_back((this.classify)(&answer));
                answer
            }
            CourseProjection::Refused { answer } => {
                answer.take().expect("a future that has answered is not polled again")
            }
        })
    }
}

impl<F: Future, C> fmt::Debug for BreakerFuture<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerFuture").finish_non_exhaustive()
    }
}
