//! A deadline as a layer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::time::Timeout;
use tower_layer::Layer;
use tower_service::Service;

use crate::harness::Deadline;

/// Stops waiting for an answer at a [`Deadline`], which runs on tokio's clock from when the service is called.
///
/// `answer` makes the service's answer at a deadline that has passed. An answer that is there at the deadline
/// is in time. Below a [`RetryLayer`](super::RetryLayer) the deadline is that of one attempt; above it, that of
/// the whole call with its waits.
///
/// At the deadline the inner future is dropped. That ends the waiting, not the work: whether a request that
/// has left goes on is up to whoever received it, so the answer has to be one that says that nobody can know.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::CallError,
///     fault::{Fault, Plan},
///     harness::Deadline,
///     service::{BankRequest, BankService, DeadlineLayer},
/// };
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm().script(call, Fault::SLOW)?));
///
/// let deadline = Deadline::after(Duration::from_millis(20));
/// let service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(deadline, || Err(CallError::Timeout)))
///     .service(BankService::new(bank.clone()));
/// let refund = BankRequest::refund(order.id(), order.amount(), None);
/// assert_eq!(service.oneshot(refund).await, Err(CallError::Timeout));
/// // The caller has left; the money has moved.
/// let state = bank.lock().get_order(order.id())?;
/// assert_eq!(state.refunds, [order.amount()]);
/// # Ok(())
/// # }
/// ```
pub struct DeadlineLayer<E> {
    deadline: Deadline,
    answer: Arc<E>,
}

impl<E> DeadlineLayer<E> {
    /// The layer of a deadline.
    pub fn new<A>(deadline: Deadline, answer: E) -> Self
    where
        E: Fn() -> A,
    {
        Self { deadline, answer: Arc::new(answer) }
    }
}

impl<E> Clone for DeadlineLayer<E> {
    fn clone(&self) -> Self {
        Self { deadline: self.deadline, answer: Arc::clone(&self.answer) }
    }
}

impl<E> fmt::Debug for DeadlineLayer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineLayer").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl<S, E> Layer<S> for DeadlineLayer<E> {
    type Service = DeadlineService<S, E>;

    fn layer(&self, inner: S) -> DeadlineService<S, E> {
        DeadlineService { inner, layer: self.clone() }
    }
}

/// A service whose answers a [`DeadlineLayer`] awaits no longer than its deadline.
#[derive(Debug)]
pub struct DeadlineService<S, E> {
    inner: S,
    layer: DeadlineLayer<E>,
}

impl<S: Clone, E> Clone for DeadlineService<S, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, E> Service<R> for DeadlineService<S, E>
where
    S: Service<R>,
    E: Fn() -> Result<S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future, E>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    /// # Panics
    ///
    /// Outside a tokio runtime with a clock.
    fn call(&mut self, request: R) -> Self::Future {
        let inner = tokio::time::timeout(self.layer.deadline.limit, self.inner.call(request));
        DeadlineFuture { inner, answer: Arc::clone(&self.layer.answer) }
    }
}

pin_project! {
    /// The answer to a call of a [`DeadlineService`], or at the deadline the one that `E` makes.
    #[must_use = "an answer that nobody awaits is not heard, though the call may have been executed"]
    pub struct DeadlineFuture<F, E> {
        #[pin]
        inner: Timeout<F>,
        answer: Arc<E>,
    }
}

impl<F, E> Future for DeadlineFuture<F, E>
where
    F: Future,
    E: Fn() -> F::Output,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.inner.poll(context).map(|answer| answer.unwrap_or_else(|_elapsed| (this.answer)()))
    }
}

impl<F, E> fmt::Debug for DeadlineFuture<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").finish_non_exhaustive()
    }
}
