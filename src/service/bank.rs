//! The bank as a service.
//!
//! A call arrives when the service is called, not when its future is first polled; without latency it
//! finishes under the same hold of the lock, and its future is ready. Where it has to wait, its work is a
//! task of its own, which outlives its caller. What waits for another call has no latency of its own.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;
use tower_service::Service;

use crate::{
    bank::{Arrival, Bank, Pending, SharedBank},
    call::{Answer, CallError, Operation, Passage, Reply, Request, Sent},
    fault::PlanSettings,
    money::Amount,
    ticket::OrderId,
};

/// A request to the bank that owns its parts, as middleware keeps it and repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BankRequest {
    /// Read an order and its refunds.
    GetOrder {
        /// The order's name.
        order: OrderId,
    },
    /// Move money back to the buyer.
    Refund {
        /// The order's name.
        order: OrderId,
        /// What to refund, in the order's currency.
        amount: Amount,
        /// The idempotency key.
        key: Option<String>,
    },
}

impl BankRequest {
    /// A read of an order.
    pub fn get_order(order: &OrderId) -> Self {
        Self::GetOrder { order: order.clone() }
    }

    /// A refund on an order.
    pub fn refund(order: &OrderId, amount: Amount, key: Option<&str>) -> Self {
        Self::Refund { order: order.clone(), amount, key: key.map(str::to_owned) }
    }

    /// What is asked.
    pub fn operation(&self) -> Operation {
        match self {
            Self::GetOrder { .. } => Operation::GetOrder,
            Self::Refund { .. } => Operation::Refund,
        }
    }

    /// About which order.
    pub fn order(&self) -> &OrderId {
        match self {
            Self::GetOrder { order } | Self::Refund { order, .. } => order,
        }
    }

    /// The idempotency key that it bears.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::GetOrder { .. } => None,
            Self::Refund { key, .. } => key.as_deref(),
        }
    }

    /// Gives it a key, in place of the one that it bore; a read bears none.
    pub fn put_key(&mut self, new: String) {
        if let Self::Refund { key, .. } = self {
            *key = Some(new);
        }
    }

    /// The same as the bank takes it.
    pub fn as_request(&self) -> Request<'_> {
        match self {
            Self::GetOrder { order } => Request::get_order(order),
            Self::Refund { order, amount, key } => {
                Request::refund(order, (*amount).into(), key.as_deref())
            }
        }
    }
}

/// A [`SharedBank`] as a service; clones are the same bank.
///
/// A call takes the plan's `latency_ms`, and a slow answer its `slow_ms`, on tokio's clock; where neither
/// applies and no refund under the same key is in flight, the future is ready and no runtime is needed.
/// Of whoever does not stay for a slow answer the history says, when it would have been there, that the caller left.
/// The run's own clock stands still, as in process: [`Bank::advance`] moves it.
///
/// # Examples
///
/// ```
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::CallError,
///     fault::{Fault, Plan},
///     service::{BankRequest, BankService},
/// };
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = format!("{} refund #1", order.id()).parse()?;
/// let bank = SharedBank::new(Bank::open(&ticket, Plan::calm().script(call, Fault::TIMEOUT)?));
///
/// let service = BankService::new(bank.clone());
/// let refund = BankRequest::refund(order.id(), order.amount(), None);
/// assert_eq!(service.clone().oneshot(refund.clone()).await, Err(CallError::Timeout));
/// service.oneshot(refund).await?;
/// // The reply was lost, not the refund: the repeat has paid again.
/// assert_eq!(bank.lock().grade("").extra_refunds(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// [`call`](Service::call) panics outside a tokio runtime where an answer takes time.
///
/// # Determinism
///
/// As [`SharedBank`]: the order in which calls on one order are made decides, not that of their polls.
#[derive(Clone, Debug)]
pub struct BankService {
    bank: SharedBank,
}

impl BankService {
    /// The service of a bank, which stays in the hands of whoever grades it.
    pub const fn new(bank: SharedBank) -> Self {
        Self { bank }
    }

    fn take_in(&self, request: &BankRequest) -> (Taken, PlanSettings) {
        let mut bank = self.bank.lock();
        let settings = *bank.plan().settings();
        (Taken::of(&mut bank, &request.as_request(), settings.latency_ms == 0), settings)
    }
}

impl Service<BankRequest> for BankService {
    type Response = Reply;
    type Error = CallError;
    type Future = BankFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: BankRequest) -> BankFuture {
        let (taken, settings) = self.take_in(&request);
        match taken {
            Taken::Answered(sent) if sent.passage != Passage::Slow => {
                BankFuture(State::Ready(Some(sent.received())))
            }
            taken => {
                let (sender, receiver) = oneshot::channel();
                tokio::spawn(carry_out(self.bank.clone(), taken, settings, sender));
                BankFuture(State::UnderWay(receiver))
            }
        }
    }
}

/// How a call was taken in.
enum Taken {
    Answered(Sent),
    /// To the caller as if it were under way, though nothing is.
    Withheld(Sent),
    UnderWay(Pending),
}

impl Taken {
    fn of(bank: &mut Bank, request: &Request<'_>, is_instant: bool) -> Self {
        match bank.arrive(request) {
            // What has not happened must not be told from what may have, not by time either.
            Arrival::Answered(sent)
                if !is_instant && sent.answer.as_ref().is_err_and(CallError::is_indeterminate) =>
            {
                Self::Withheld(sent)
            }
            Arrival::Answered(sent) => Self::Answered(sent),
            Arrival::Pending(pending) if is_instant => {
                bank.finish(pending).map_or_else(Self::UnderWay, Self::Answered)
            }
            Arrival::Pending(pending) => Self::UnderWay(pending),
        }
    }
}

/// Finishes a call after its latency, whether its caller is still there or not.
async fn carry_out(
    bank: SharedBank,
    taken: Taken,
    settings: PlanSettings,
    caller: oneshot::Sender<Answer>,
) {
    let sent = match taken {
        Taken::Answered(sent) => sent,
        Taken::Withheld(sent) => {
            pass(settings.latency_ms).await;
            sent
        }
        Taken::UnderWay(pending) => {
            until_due(&bank, &pending, settings.latency_ms).await;
            finish(&bank, pending, &caller).await
        }
    };
    if sent.passage == Passage::Slow {
        pass(settings.slow_ms).await;
    }
    if sent.is_on_its_way() {
        // Before it is there, so that whatever the caller sends next comes after it.
        let mut bank = bank.lock();
        if caller.is_closed() {
            bank.abandoned(&sent);
        } else {
            bank.delivered(&sent);
        }
    }
    let _left = caller.send(sent.received());
}

/// Waits until the latency of a call is over; what waits for another call has none.
async fn until_due(bank: &SharedBank, pending: &Pending, latency_ms: u64) {
    if !pending.is_waiting() {
        return pass(latency_ms).await;
    }
    tokio::select! {
        () = pass(latency_ms) => {}
        () = poll_fn(|context| bank.poll_decided(pending, context)) => {}
    }
}

async fn finish(bank: &SharedBank, pending: Pending, caller: &oneshot::Sender<Answer>) -> Sent {
    let (mut pending, mut has_left) = (Some(pending), false);
    poll_fn(|context| {
        // Once: giving the bank back wakes all who wait, and two that have left would wake each other for ever.
        if let Some(pending) = pending.as_ref().filter(|_| !has_left && caller.is_closed()) {
            bank.lock().leave(pending);
            has_left = true;
        }
        bank.poll_finish(&mut pending, context)
    })
    .await
}

async fn pass(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// The answer to a call of a [`BankService`].
#[derive(Debug)]
#[must_use = "an answer that nobody awaits is not heard, though the money may have moved"]
pub struct BankFuture(State);

#[derive(Debug)]
enum State {
    Ready(Option<Answer>),
    UnderWay(oneshot::Receiver<Answer>),
}

impl Future for BankFuture {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        match &mut self.0 {
            State::Ready(answer) => {
                Poll::Ready(answer.take().expect("a future that has answered is not polled again"))
            }
            State::UnderWay(receiver) => {
                // The task is dropped unfinished only with its whole runtime; then nobody can know.
                Pin::new(receiver)
                    .poll(context)
                    .map(|answer| answer.unwrap_or(Err(CallError::Timeout)))
            }
        }
    }
}
