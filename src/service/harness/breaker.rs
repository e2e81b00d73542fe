//! A circuit breaker as a layer.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tower_layer::Layer;

use super::guard::{Guard, Guarded};
use crate::harness::{
    Admission, CircuitBreaker, EvidenceError, Permit, SharedBreaker, Signal, Status, Timestamp,
};

/// Asks a breaker before each call and tells it how the call went; clones share the breaker.
///
/// It is a [`CircuitBreaker`] of this process, or a [`SharedBreaker`] with the evidence of several. `clock`
/// is read under the breaker's lock and must not call the layer. `classify` says what an answer tells about
/// the backend, and `answer` makes the service's answer of a [`BreakerError`]. Nothing has been sent then.
///
/// A call is admitted when the service is called. One whose future is dropped before its answer has come
/// says nothing: it is recorded as [`Signal::Neutral`], and if it was the probe, the next call is.
/// A service that fails to get ready has not been called, and does not count.
///
/// Where the evidence log of a shared breaker cannot be used, the layer **fails closed**: nobody can say
/// whether the circuit is open, so nothing is sent, and the caller is told why. The answer to a call that
/// was sent is never held back for the log's sake, for the money may have moved; an outcome that could not
/// be recorded is counted in [`unrecorded`](Self::unrecorded). The file is read and written where the
/// service is called and where its future answers or is dropped, which blocks the thread meanwhile: for about
/// two seconds at the most if another process keeps the log locked.
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
///     |_not_sent| Err(CallError::Unavailable),
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
    answer: Arc<E>,
}

/// Why a [`BreakerLayer`] has not sent a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BreakerError {
    /// The circuit is open, or another call is its probe.
    #[error("the circuit is open")]
    Open {
        /// The time before which it lets no call through.
        until: Timestamp,
    },
    /// Nobody can say whether it is open.
    #[error("whether the circuit is open cannot be known")]
    Evidence(#[from] EvidenceError),
}

impl<C, E> BreakerLayer<C, E> {
    /// The layer of a breaker of this process, which may know of failures already.
    pub fn new<A>(
        breaker: CircuitBreaker,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        classify: C,
        answer: E,
    ) -> Self
    where
        C: Fn(&A) -> Signal,
        E: Fn(BreakerError) -> A,
    {
        Self::of(Breaker::Alone(Mutex::new(breaker)), clock, classify, answer)
    }

    /// The layer of a breaker whose evidence several processes share.
    pub fn shared<A>(
        breaker: SharedBreaker,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        classify: C,
        answer: E,
    ) -> Self
    where
        C: Fn(&A) -> Signal,
        E: Fn(BreakerError) -> A,
    {
        Self::of(Breaker::Shared(breaker), clock, classify, answer)
    }

    fn of(
        breaker: Breaker,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        classify: C,
        answer: E,
    ) -> Self {
        let circuit = Circuit { breaker, clock: Box::new(clock), unrecorded: AtomicU64::new(0) };
        Self { circuit: Arc::new(circuit), classify: Arc::new(classify), answer: Arc::new(answer) }
    }

    /// What the breaker knows now.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`] if the evidence log of a shared breaker cannot be read.
    pub fn status(&self) -> Result<Status, EvidenceError> {
        self.circuit.status()
    }

    /// Outcomes that the evidence log did not take; the breaker knows nothing of them.
    pub fn unrecorded(&self) -> u64 {
        self.circuit.unrecorded.load(Ordering::Relaxed)
    }
}

/// A breaker and the one clock that it knows.
struct Circuit {
    breaker: Breaker,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    unrecorded: AtomicU64,
}

#[derive(Debug)]
enum Breaker {
    Alone(Mutex<CircuitBreaker>),
    Shared(SharedBreaker),
}

impl Circuit {
    fn admit(&self) -> Result<Permit, BreakerError> {
        let admission = match &self.breaker {
            Breaker::Alone(breaker) => {
                let (mut breaker, now) = self.lock(breaker);
                breaker.admit(now)
            }
            Breaker::Shared(breaker) => breaker.admit(&self.clock)?,
        };
        match admission {
            Admission::Allowed(permit) | Admission::Probe(permit) => Ok(permit),
            Admission::Refused { until } => Err(BreakerError::Open { until }),
        }
    }

    fn record(&self, permit: Permit, signal: Signal) {
        match &self.breaker {
            Breaker::Alone(breaker) => {
                let (mut breaker, now) = self.lock(breaker);
                breaker.record(permit, signal, now);
            }
            Breaker::Shared(breaker) => {
                if breaker.record(permit, signal, &self.clock).is_err() {
                    self.unrecorded.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn status(&self) -> Result<Status, EvidenceError> {
        match &self.breaker {
            Breaker::Alone(breaker) => {
                let (breaker, now) = self.lock(breaker);
                Ok(breaker.status(now))
            }
            Breaker::Shared(breaker) => breaker.read(&self.clock).map(|reading| reading.status),
        }
    }

    /// The time is read under the lock, so that no failure lies in the future of whoever waited for it.
    fn lock<'a>(
        &self,
        breaker: &'a Mutex<CircuitBreaker>,
    ) -> (MutexGuard<'a, CircuitBreaker>, Timestamp) {
        let breaker = breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        (breaker, now)
    }
}

impl<A, R, C, E> Guard<R, A> for BreakerLayer<C, E>
where
    C: Fn(&A) -> Signal,
    E: Fn(BreakerError) -> A,
{
    type Pass = Held;

    fn admit(&self, _: &R) -> Result<Option<Held>, A> {
        match self.circuit.admit() {
            Ok(permit) => {
                Ok(Some(Held { circuit: Arc::clone(&self.circuit), permit: Some(permit) }))
            }
            Err(error) => Err((self.answer)(error)),
        }
    }

    fn hear(&self, mut held: Held, answer: &A) {
        held.hand_back((self.classify)(answer));
    }
}

/// A permit that is handed back in any case.
pub struct Held {
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

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("permit", &self.permit).finish_non_exhaustive()
    }
}

impl<C, E> Clone for BreakerLayer<C, E> {
    fn clone(&self) -> Self {
        Self {
            circuit: Arc::clone(&self.circuit),
            classify: Arc::clone(&self.classify),
            answer: Arc::clone(&self.answer),
        }
    }
}

impl<C, E> fmt::Debug for BreakerLayer<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer")
            .field("breaker", &self.circuit.breaker)
            .field("unrecorded", &self.circuit.unrecorded)
            .finish_non_exhaustive()
    }
}

/// A service that is left alone while the breaker of a [`BreakerLayer`] is open.
pub type BreakerService<S, C, E> = Guarded<S, BreakerLayer<C, E>>;

impl<S, C, E> Layer<S> for BreakerLayer<C, E> {
    type Service = BreakerService<S, C, E>;

    fn layer(&self, inner: S) -> Self::Service {
        Guarded::new(inner, self.clone())
    }
}
