//! What keeps a tally of calls by their names, as a layer.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tower_layer::Layer;

use super::guard::{Guard, Guarded};
use crate::{
    call::CallError,
    harness::{DeadLetter, StoppingRule},
};

/// Hears how the calls of each name went, and answers those that it has stopped.
pub trait Tally {
    /// The error with which a call is to be answered, if it is not to be sent.
    fn answer(&mut self, name: &str) -> Option<CallError>;

    /// Takes the outcome of a call that was sent.
    fn note(&mut self, name: &str, outcome: &Result<(), CallError>);
}

impl Tally for StoppingRule {
    fn answer(&mut self, name: &str) -> Option<CallError> {
        Self::answer(self, name)
    }

    fn note(&mut self, name: &str, outcome: &Result<(), CallError>) {
        Self::note(self, name, outcome);
    }
}

impl Tally for DeadLetter {
    fn answer(&mut self, intent: &str) -> Option<CallError> {
        self.letter(intent).map(|letter| letter.error.clone())
    }

    fn note(&mut self, intent: &str, outcome: &Result<(), CallError>) {
        Self::note(self, intent, outcome);
    }
}

/// Asks a [`Tally`] before each call and tells it how the call went; clones share the tally.
///
/// [`StoppingLayer`](super::StoppingLayer) and [`DeadLetterLayer`](super::DeadLetterLayer) are such layers.
///
/// A call is let through when the service is called and counted when it is answered: of several that are
/// under way at once all are sent, and one whose future is dropped counts nothing. Above a
/// [`RetryLayer`](super::RetryLayer) calls are counted, below it attempts; there the retries of a stopped
/// call go on, but none of them is sent.
///
/// # Determinism
///
/// Everything follows from the order of calls and answers.
pub struct TallyLayer<T, N, C, E> {
    shared: Arc<Shared<T, N, C, E>>,
}

struct Shared<T, N, C, E> {
    tally: Mutex<T>,
    name: N,
    classify: C,
    answer: E,
}

impl<T, N, C, E> TallyLayer<T, N, C, E> {
    /// The layer of a tally, which may have counted already.
    ///
    /// `name` says under which name a request is counted; one without a name passes uncounted. `classify`
    /// says which [`CallError`] an answer is, and `answer` makes the answer to a call that is not sent.
    pub fn new<R, A>(tally: T, name: N, classify: C, answer: E) -> Self
    where
        N: Fn(&R) -> Option<String>,
        C: Fn(&A) -> Option<CallError>,
        E: Fn(CallError) -> A,
    {
        Self { shared: Arc::new(Shared { tally: Mutex::new(tally), name, classify, answer }) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, A, T, N, C, E> Guard<R, A> for TallyLayer<T, N, C, E>
where
    T: Tally,
    N: Fn(&R) -> Option<String>,
    C: Fn(&A) -> Option<CallError>,
    E: Fn(CallError) -> A,
{
    type Pass = String;

    fn admit(&self, request: &R) -> Result<Option<String>, A> {
        let Some(name) = (self.shared.name)(request) else {
            return Ok(None);
        };
        let stopped = self.lock().answer(&name);
        stopped.map_or(Ok(Some(name)), |error| Err((self.shared.answer)(error)))
    }

    fn hear(&self, name: String, answer: &A) {
        let outcome = (self.shared.classify)(answer).map_or(Ok(()), Err);
        self.lock().note(&name, &outcome);
    }
}

impl<T, N, C, E> Clone for TallyLayer<T, N, C, E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: fmt::Debug, N, C, E> fmt::Debug for TallyLayer<T, N, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TallyLayer").field("tally", &self.shared.tally).finish_non_exhaustive()
    }
}

impl<S, T, N, C, E> Layer<S> for TallyLayer<T, N, C, E> {
    type Service = Guarded<S, Self>;

    fn layer(&self, inner: S) -> Guarded<S, Self> {
        Guarded::new(inner, self.clone())
    }
}
