//! What is delivered to a service, and when: now, twice, or late.
//!
//! The work of a call is a task of its own. It counts as under way until everything that is due by it has
//! been delivered, and only then is its caller answered.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use tower_service::Service;

use super::desk::{Desk, Taken};
use crate::{
    call::{CallError, Passage},
    fault::{Fault, Plan, Told},
};

/// A delivery that is late; nobody reads its answer.
pub(super) type Landing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The desk that a layer and its services share, and the calls that are under way.
pub(super) struct Gate {
    desk: Mutex<Desk<Landing>>,
    under_way: watch::Sender<usize>,
    slow: Duration,
    retry_after_s: u64,
}

/// The deliveries of a call to the service, with the answer to the first.
pub(super) enum Deliveries<F, G> {
    None,
    One(F),
    /// One after the other.
    Twice(F, G),
    /// Both in flight at once.
    Overlapping(F, G),
}

/// A call is under way for as long as this lives.
struct UnderWay(Arc<Gate>);

impl Gate {
    pub(super) fn new(plan: &Plan) -> Self {
        let settings = plan.settings();
        Self {
            desk: Mutex::new(Desk::new(plan)),
            under_way: watch::Sender::new(0),
            slow: Duration::from_millis(settings.slow_ms),
            retry_after_s: settings.retry_after_s,
        }
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk<Landing>> {
        // Whatever a closure of the user's does, it does not do it while the desk is being written.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an answer of the service takes to its caller, or what the caller has instead.
    pub(super) fn passage(&self, fault: Option<Fault>) -> Result<Duration, CallError> {
        let passage = match fault.map_or(Told::Reply, Fault::told) {
            Told::Reply => Passage::Whole,
            Told::Slow => return Ok(self.slow),
            Told::Unavailable => return Err(CallError::Unavailable),
            Told::Timeout => return Err(CallError::Timeout),
            Told::RateLimited => {
                return Err(CallError::RateLimited { retry_after_s: self.retry_after_s });
            }
            Told::ServerError => return Err(CallError::ServerError),
            Told::Reset => Passage::Reset,
            Told::Closed => Passage::Closed,
            Told::Hang => Passage::Hang,
            Told::Truncated => Passage::Truncated,
            Told::Stale(_) => unreachable!("no layer is made of a plan with stale reads"),
        };
        passage.error().map_or(Ok(Duration::ZERO), Err)
    }

    /// Makes the deliveries of a call, lets land what is due by it, and answers.
    pub(super) fn carry_out<F, G>(
        self: &Arc<Self>,
        call: Taken,
        deliveries: Deliveries<F, G>,
        mut due: Vec<Landing>,
    ) -> impl Future<Output = Result<F::Output, CallError>> + use<F, G>
    where
        F: Future,
        G: Future,
    {
        let under_way = UnderWay::count(self);
        async move {
            let answer = deliveries.make().await;
            let gate = &under_way.0;
            if answer.is_some() {
                due = gate.desk().due(&call);
            }
            land(due).await;
            let delay = gate.passage(call.fault)?;
            drop(under_way);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            Ok(answer.expect("what the service does not hear of is told an error"))
        }
    }

    /// Waits until no call is under way, then lets everything land that is still out.
    pub(super) async fn settle(self: &Arc<Self>) {
        let mut calls = self.under_way.subscribe();
        calls
            .wait_for(|calls| *calls == 0)
            .await
            .expect("the sender lives as long as the gate does");
        let rest = self.desk().rest();
        let under_way = UnderWay::count(self);
        let landing = tokio::spawn(async move {
            land(rest).await;
            drop(under_way);
        });
        if let Err(error) = landing.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl UnderWay {
    fn count(gate: &Arc<Gate>) -> Self {
        gate.under_way.send_modify(|calls| *calls += 1);
        Self(Arc::clone(gate))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|calls| *calls -= 1);
    }
}

impl<F: Future, G: Future> Deliveries<F, G> {
    async fn make(self) -> Option<F::Output> {
        match self {
            Self::None => None,
            Self::One(delivery) => Some(delivery.await),
            Self::Twice(first, second) => {
                let answer = first.await;
                let _unread = second.await;
                Some(answer)
            }
            Self::Overlapping(first, second) => {
                let (answer, _unread) = tokio::join!(first, second);
                Some(answer)
            }
        }
    }
}

async fn land(deliveries: Vec<Landing>) {
    for delivery in deliveries {
        delivery.await;
    }
}

/// Delivers a request through an instance that it readies itself; the answer has no reader.
pub(super) async fn deliver<S: Service<R>, R>(mut service: S, request: R) {
    if poll_fn(|context| service.poll_ready(context)).await.is_ok() {
        let _unread = service.call(request).await;
    }
}
