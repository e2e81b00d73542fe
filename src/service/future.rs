//! The answer of a service behind the injector.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::task::JoinHandle;

use crate::call::CallError;

pin_project! {
    /// The answer to a call of an [`Inject`](super::Inject), made where a fault has it by the closure `E`.
    ///
    /// Dropping it cancels nothing but a call that the injector let pass untouched.
    #[must_use = "an answer that nobody awaits is not heard, though the call may have been executed"]
    pub struct InjectFuture<F: Future, E> {
        #[pin]
        course: Course<F>,
        answer: Arc<E>,
    }
}

pin_project! {
    #[project = CourseProjection]
    enum Course<F: Future> {
        Untouched { #[pin] inner: F },
        UnderWay { task: JoinHandle<Result<F::Output, CallError>> },
        Missed { error: Option<CallError> },
    }
}

impl<F: Future, E> InjectFuture<F, E> {
    /// The service's own future.
    pub(super) fn untouched(inner: F, answer: &Arc<E>) -> Self {
        Self { course: Course::Untouched { inner }, answer: Arc::clone(answer) }
    }

    /// The answer of a task, or the error that the caller is told instead.
    pub(super) fn under_way(
        task: JoinHandle<Result<F::Output, CallError>>,
        answer: &Arc<E>,
    ) -> Self {
        Self { course: Course::UnderWay { task }, answer: Arc::clone(answer) }
    }

    /// An error at once.
    pub(super) fn missed(error: CallError, answer: &Arc<E>) -> Self {
        Self { course: Course::Missed { error: Some(error) }, answer: Arc::clone(answer) }
    }
}

impl<F, E> Future for InjectFuture<F, E>
where
    F: Future,
    E: Fn(CallError) -> F::Output,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = match this.course.project() {
            CourseProjection::Untouched { inner } => return inner.poll(context),
            CourseProjection::Missed { error } => {
                Err(error.take().expect("a future that has answered is not polled again"))
            }
            CourseProjection::UnderWay { task } => match ready!(Pin::new(task).poll(context)) {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The task is dropped unfinished only with its whole runtime; then nobody can know.
                    Err(_) => Err(CallError::Timeout),
                },
            },
        };
        Poll::Ready(outcome.unwrap_or_else(|error| (this.answer)(error)))
    }
}

impl<F: Future, E> fmt::Debug for InjectFuture<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InjectFuture").finish_non_exhaustive()
    }
}
