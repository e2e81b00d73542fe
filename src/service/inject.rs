//! The injector as a layer, for a service that is not the bank.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    future::InjectFuture,
    landing::{Deliveries, Gate, deliver},
};
use crate::{
    call::{CallError, Operation},
    fault::{Commit, Fault, FaultLog, Plan, Told},
    ticket::OrderId,
};

/// Puts a plan's faults before a service; clones share their counts and their fault log.
///
/// `name` says which operation on which order a request is; a request that it does not name passes
/// untouched and uncounted. `answer` makes the service's answer of what a caller is to be told: `Err` for a
/// service whose error is [`CallError`], `|error| Err(error.into())` for one with boxed errors, a response
/// with status 503 where that is how the service says it. It is never given [`CallError::Refused`].
///
/// What happens to the money is what becomes of the request:
///
/// | commit | the inner service |
/// |---|---|
/// | never | is not called |
/// | once | is called; what it answers is dropped if the caller is told something else, refusals included |
/// | twice | is called, then again through an instance that is readied for it; the first answer counts |
/// | twice, overlapping | the same, both in flight at once; so is a `duplicate` under a plan for the `racy` store |
/// | late(n) | is called right after the n-th further call on the order, before that is answered |
///
/// Deliveries that are due together land by attempt, those that are left when the run ends at
/// [`settle`](Self::settle). A slow answer takes the plan's `slow_ms` on tokio's clock; one that would hang is a
/// timeout at once. The plan's other settings are the bank's and mean nothing here.
///
/// A call that has a name is carried out by a task, which goes on when its caller leaves. So the inner
/// service, its futures and answers, and requests, have to be `Send + 'static`, and requests and the
/// service `Clone`.
///
/// # Examples
///
/// Around a service that keeps a plain balance and knows no keys:
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// use badbank::{call::Operation, fault::{Fault, Plan}, service::InjectLayer};
/// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let plan = Plan::calm()
///     .script("A-1 refund #1".parse()?, Fault::TIMEOUT)?
///     .script("A-1 refund #2".parse()?, Fault::DUPLICATE)?;
/// let faults = InjectLayer::new(
///     &plan,
///     |(order, _cents): &(&str, u64)| Some((Operation::Refund, order.parse().ok()?)),
///     |error| Err(error.into()),
/// )?;
///
/// let paid = Arc::new(AtomicU64::new(0));
/// let ledger = Arc::clone(&paid);
/// let refunds = ServiceBuilder::new().layer(faults.clone()).service(service_fn(
///     move |(_order, cents): (&str, u64)| {
///         let paid = ledger.fetch_add(cents, Ordering::Relaxed) + cents;
///         async move { Ok::<u64, BoxError>(paid) }
///     },
/// ));
/// assert!(refunds.clone().oneshot(("A-1", 4250)).await.is_err());
/// assert_eq!(refunds.oneshot(("A-1", 4250)).await?, 8500);
/// assert_eq!(paid.load(Ordering::Relaxed), 3 * 4250);
/// assert_eq!(
///     faults.log().to_string(),
///     "badbank faults v1 seed=1\nA-1 refund #1 timeout\nA-1 refund #2 duplicate\n"
/// );
/// # Ok(())
/// # }
/// ```
///
/// # Determinism
///
/// Which call meets which fault follows from plan, seed and the call's identity, exactly as in the
/// [`Bank`](crate::Bank), and the log is the same text. A call gets its attempt when the service is called.
pub struct InjectLayer<N, E> {
    gate: Arc<Gate>,
    name: Arc<N>,
    answer: Arc<E>,
}

/// Why no layer can be made of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// The fault happens inside a ledger, where a layer does not reach.
    #[error(
        "`{fault}` happens inside a ledger, and a layer only stands before one; leave it out of the plan, or use the bank"
    )]
    InsideLedger {
        /// The fault.
        fault: Fault,
    },
}

impl<N, E> InjectLayer<N, E> {
    /// The layer of a plan, with its seed; orders are taken in as they come.
    ///
    /// # Errors
    ///
    /// [`InjectError::InsideLedger`] if the plan arms `stale` reads, `stored_error` or
    /// `accepted_then_failed`.
    pub fn new<R, A>(plan: &Plan, name: N, answer: E) -> Result<Self, InjectError>
    where
        N: Fn(&R) -> Option<(Operation, OrderId)>,
        E: Fn(CallError) -> A,
    {
        let is_inside = |fault: &Fault| {
            matches!(fault.told(), Told::Stale(_))
                || matches!(fault.commit(), Commit::Stored | Commit::Accepted(_))
        };
        let mut armed = plan.rules().iter().filter(|rule| rule.is_armed()).map(|rule| rule.fault);
        if let Some(fault) = armed.find(is_inside) {
            return Err(InjectError::InsideLedger { fault });
        }
        Ok(Self { gate: Arc::new(Gate::new(plan)), name: Arc::new(name), answer: Arc::new(answer) })
    }

    /// The faulted calls so far.
    pub fn log(&self) -> FaultLog {
        self.gate.desk().log()
    }

    /// Waits until no call is under way, also of callers that have left, and delivers what is still late,
    /// by order and attempt. Afterwards the inner service holds all that it will ever hold of those calls.
    ///
    /// # Panics
    ///
    /// If the inner service does, or outside a tokio runtime.
    pub async fn settle(&self) {
        self.gate.settle().await;
    }
}

impl<N, E> Clone for InjectLayer<N, E> {
    fn clone(&self) -> Self {
        Self {
            gate: Arc::clone(&self.gate),
            name: Arc::clone(&self.name),
            answer: Arc::clone(&self.answer),
        }
    }
}

impl<N, E> fmt::Debug for InjectLayer<N, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InjectLayer").field("log", &self.log()).finish_non_exhaustive()
    }
}

impl<S, N, E> Layer<S> for InjectLayer<N, E> {
    type Service = Inject<S, N, E>;

    fn layer(&self, inner: S) -> Inject<S, N, E> {
        Inject { inner, layer: self.clone() }
    }
}

/// A service with the faults of an [`InjectLayer`] before it.
#[derive(Debug)]
pub struct Inject<S, N, E> {
    inner: S,
    layer: InjectLayer<N, E>,
}

impl<S: Clone, N, E> Clone for Inject<S, N, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, N, E> Service<R> for Inject<S, N, E>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    R: Clone + Send + 'static,
    N: Fn(&R) -> Option<(Operation, OrderId)>,
    E: Fn(CallError) -> Result<S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = InjectFuture<S::Future, E>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    /// # Panics
    ///
    /// Outside a tokio runtime.
    fn call(&mut self, request: R) -> Self::Future {
        let InjectLayer { gate, name, answer } = &self.layer;
        let Some((operation, order)) = name(&request) else {
            return InjectFuture::untouched(self.inner.call(request), answer);
        };
        // The instance that `poll_ready` readied is used, or given up; its successor readies itself anew.
        let fresh = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, fresh);
        let again = || deliver(self.inner.clone(), request.clone());
        let (call, due) = gate.desk().take(operation, order, || Box::pin(again()));

        let deliveries = match call.commit {
            // Before the commit point: the service never hears of the call, or not yet.
            Commit::Never | Commit::Late(_) => match gate.passage(call.fault) {
                Err(error) if due.is_empty() => return InjectFuture::missed(error, answer),
                _ => Deliveries::None,
            },
            // After it: the work is done, whatever the caller hears of it.
            Commit::Once => Deliveries::One(inner.call(request)),
            // The network delivers twice; only the first answer has a reader.
            Commit::TwiceOverlapping => {
                let second = again();
                Deliveries::Overlapping(inner.call(request), second)
            }
            Commit::Twice => {
                let second = again();
                Deliveries::Twice(inner.call(request), second)
            }
            Commit::Stored | Commit::Accepted(_) => {
                unreachable!("no layer is made of a plan with faults inside the ledger")
            }
        };
        InjectFuture::under_way(tokio::spawn(gate.carry_out(call, deliveries, due)), answer)
    }
}
