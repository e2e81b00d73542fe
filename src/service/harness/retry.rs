//! Retries as a layer.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Seed,
    call::CallError,
    harness::{Budget, Retry, Retrying, Step},
};

/// Sends a request again as [`Retry`] has it; clones number their calls together.
///
/// `classify` says which [`CallError`] an answer is, a response with status 503 as well as an error. `None`
/// ends the call with that answer, whatever came before. An error that is not worth another attempt ends it
/// too, but by the rule of [`Retrying::conclude`]: of a call that is given up the caller hears the answer with
/// the worst error, not the last, for a refusal says nothing about an earlier attempt that may have paid.
///
/// The instance that was readied makes the first attempt; further ones are made by clones that are readied
/// after the wait. An instance that fails to get ready was an attempt, with that error. Waits are tokio's.
/// Without an idempotency key in the request, such as a [`KeyLayer`](super::KeyLayer) puts there, a refund
/// whose answer was lost is paid again.
///
/// # Examples
///
/// ```
/// use badbank::{
///     Bank, Seed, SharedBank, Ticket,
///     call::Answer,
///     fault::{Fault, Plan},
///     harness::Retry,
///     service::{BankRequest, BankService, RetryLayer},
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
/// let retries =
///     RetryLayer::new(Retry::default(), Seed::new(7), |answer: &Answer| answer.clone().err());
/// let service = ServiceBuilder::new().layer(retries).service(BankService::new(bank.clone()));
/// service.oneshot(BankRequest::refund(order.id(), order.amount(), Some("r-1"))).await?;
/// // Sent twice, because the first reply was lost; paid once, because of the key.
/// let state = bank.lock().get_order(order.id())?;
/// assert_eq!(state.refunds, [order.amount()]);
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
///
/// The waits of a call follow from the seed, its number, from 1 in the order in which the service and its
/// clones are called, and from what the answers ask for.
pub struct RetryLayer<C> {
    retry: Retry,
    seed: Seed,
    calls: Arc<AtomicU32>,
    budget: Option<Arc<Mutex<Budget>>>,
    classify: Arc<C>,
}

impl<C> RetryLayer<C> {
    /// The layer of these retries, without a budget.
    pub fn new<A, E>(retry: Retry, seed: Seed, classify: C) -> Self
    where
        C: Fn(&Result<A, E>) -> Option<CallError>,
    {
        let (calls, classify) = (Arc::new(AtomicU32::new(0)), Arc::new(classify));
        Self { retry, seed, calls, budget: None, classify }
    }

    /// The same, paying for its retries from a budget, which others may pay from as well.
    #[must_use]
    pub fn with_budget(self, budget: Arc<Mutex<Budget>>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    fn begin(&self) -> Retrying {
        let number = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.retry.begin(self.seed, number)
    }

    /// What is to be done after an attempt.
    fn decide(&self, retrying: &mut Retrying, outcome: &Result<(), CallError>) -> Step {
        match &self.budget {
            Some(budget) => {
                let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
                retrying.next_within(outcome, &mut budget)
            }
            None => retrying.next(outcome),
        }
    }
}

impl<C> Clone for RetryLayer<C> {
    fn clone(&self) -> Self {
        Self {
            retry: self.retry,
            seed: self.seed,
            calls: Arc::clone(&self.calls),
            budget: self.budget.clone(),
            classify: Arc::clone(&self.classify),
        }
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("retry", &self.retry)
            .field("seed", &self.seed)
            .field("calls", &self.calls)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for RetryLayer<C> {
    type Service = RetryService<S, C>;

    fn layer(&self, inner: S) -> RetryService<S, C> {
        RetryService { inner, layer: self.clone() }
    }
}

/// A service whose requests a [`RetryLayer`] sends again.
#[derive(Debug)]
pub struct RetryService<S, C> {
    inner: S,
    layer: RetryLayer<C>,
}

impl<S: Clone, C> Clone for RetryService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, C> Service<R> for RetryService<S, C>
where
    S: Service<R> + Clone,
    R: Clone,
    C: Fn(&Result<S::Response, S::Error>) -> Option<CallError>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, R, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The instance that `poll_ready` readied is used; its successor readies itself anew.
        let fresh = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, fresh);
        RetryFuture {
            course: Course::Attempt { inner: inner.call(request.clone()) },
            service: self.inner.clone(),
            request,
            retrying: self.layer.begin(),
            worst: None,
            layer: self.layer.clone(),
        }
    }
}

pin_project! {
    /// The answer to a call of a [`RetryService`], after as many attempts as it takes.
    ///
    /// Dropping it ends the trying; an attempt that is under way may be executed all the same. It panics
    /// where it has to wait outside a tokio runtime with a clock.
    #[must_use = "an answer that nobody awaits is not heard, though the call may have been executed"]
    pub struct RetryFuture<S, R, C>
    where
        S: Service<R>,
    {
        #[pin]
        course: Course<S, S::Future>,
        service: S,
        request: R,
        retrying: Retrying,
        // The answer with the worst error so far.
        worst: Option<Result<S::Response, S::Error>>,
        layer: RetryLayer<C>,
    }
}

pin_project! {
    #[project = CourseProjection]
    enum Course<S, F> {
        Attempt { #[pin] inner: F },
        Waiting { #[pin] sleep: Sleep },
        Readying { next: S },
    }
}

impl<S, R, C> Future for RetryFuture<S, R, C>
where
    S: Service<R> + Clone,
    R: Clone,
    C: Fn(&Result<S::Response, S::Error>) -> Option<CallError>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let answer = match this.course.as_mut().project() {
                CourseProjection::Attempt { inner } => ready!(inner.poll(context)),
                CourseProjection::Waiting { sleep } => {
                    ready!(sleep.poll(context));
                    this.course.set(Course::Readying { next: this.service.clone() });
                    continue;
                }
                CourseProjection::Readying { next } => match ready!(next.poll_ready(context)) {
                    Ok(()) => {
                        let inner = next.call(this.request.clone());
                        this.course.set(Course::Attempt { inner });
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let outcome = (this.layer.classify)(&answer).map_or(Ok(()), Err);
            let step = this.layer.decide(this.retrying, &outcome);
            let Err(error) = outcome else {
                return Poll::Ready(answer);
            };
            if this.retrying.worst() == Some(&error) {
                *this.worst = Some(answer);
            }
            let Step::Wait(delay) = step else {
                return Poll::Ready(this.worst.take().expect("an error has been kept"));
            };
            this.course.set(Course::Waiting { sleep: tokio::time::sleep(delay) });
        }
    }
}

impl<S: Service<R>, R, C> fmt::Debug for RetryFuture<S, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").field("retrying", &self.retrying).finish_non_exhaustive()
    }
}
