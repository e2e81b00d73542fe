//! What the layers have in common that stand before a service and answer some calls by themselves.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

/// Lets the calls to a service through and hears how they went, or answers them by itself.
///
/// `R` is what the service is asked, `A` what it answers, as a whole `Result`. Clones are the same guard.
pub trait Guard<R, A>: Clone {
    /// What a call takes along that the guard wants to hear of; it is dropped where the caller leaves.
    type Pass;

    /// Lets a call through, with a pass if the guard is to hear of it.
    ///
    /// # Errors
    ///
    /// The answer to a call that is not to be sent.
    fn admit(&self, request: &R) -> Result<Option<Self::Pass>, A>;

    /// Hears the answer to a call that had a pass.
    fn hear(&self, pass: Self::Pass, answer: &A);
}

/// A service with a [`Guard`] before it.
///
/// A call is let through, or answered, when the service is called; the guard does not hear of a service
/// that fails to get ready, for it has not been called.
#[derive(Clone, Debug)]
pub struct Guarded<S, G> {
    inner: S,
    guard: G,
}

impl<S, G> Guarded<S, G> {
    pub(super) const fn new(inner: S, guard: G) -> Self {
        Self { inner, guard }
    }
}

impl<S, R, G> Service<R> for Guarded<S, G>
where
    S: Service<R> + Clone,
    G: Guard<R, Result<S::Response, S::Error>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = GuardedFuture<S::Future, R, G>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let course = match self.guard.admit(&request) {
            // The pass is made before the call: if that panics, it is dropped like that of a caller who left.
            Ok(pass) => Course::Admitted { inner: self.inner.call(request), pass },
            Err(answer) => {
                // Nor is the instance that was readied kept from others; its successor readies itself anew.
                self.inner = self.inner.clone();
                Course::Answered { answer: Some(answer) }
            }
        };
        GuardedFuture { course, guard: self.guard.clone() }
    }
}

pin_project! {
    /// The answer to a call of a [`Guarded`] service, the guard's own or the service's.
    ///
    /// Dropped before the service has answered, it drops the guard's pass.
    #[must_use = "an answer that nobody awaits is not heard, though the call may have been executed"]
    pub struct GuardedFuture<F, R, G>
    where
        F: Future,
        G: Guard<R, F::Output>,
    {
        #[pin]
        course: Course<F, G::Pass>,
        guard: G,
    }
}

pin_project! {
    #[project = CourseProjection]
    enum Course<F: Future, P> {
        Admitted { #[pin] inner: F, pass: Option<P> },
        Answered { answer: Option<F::Output> },
    }
}

impl<F, R, G> Future for GuardedFuture<F, R, G>
where
    F: Future,
    G: Guard<R, F::Output>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        Poll::Ready(match this.course.project() {
            CourseProjection::Admitted { inner, pass } => {
                let answer = ready!(inner.poll(context));
                if let Some(pass) = pass.take() {
                    this.guard.hear(pass, &answer);
                }
                answer
            }
            CourseProjection::Answered { answer } => {
                answer.take().expect("a future that has answered is not polled again")
            }
        })
    }
}

impl<F, R, G> fmt::Debug for GuardedFuture<F, R, G>
where
    F: Future,
    G: Guard<R, F::Output>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFuture").finish_non_exhaustive()
    }
}
