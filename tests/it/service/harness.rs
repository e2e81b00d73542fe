//! Retries, deadlines and breakers as layers, on a clock that stands still.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use badbank::{
    Bank, Seed, SharedBank, Ticket,
    call::{Answer, CallError, Reply},
    fault::{Plan, PlanSettings},
    harness::{Backoff, Budget, CircuitBreaker, Deadline, Policy, Retry, Signal, State, Timestamp},
    service::{BankRequest, BankService, BreakerLayer, DeadlineLayer, RetryLayer},
};
use tokio::{task::JoinSet, time::Instant};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::many_orders;
use crate::{support::scripted, trial::held};

const SEED: Seed = Seed::new(7);

/// A response of a service that says with a status how a call went: the status, and which attempt it was.
type Response = Result<(u16, u32), CallError>;

/// Answers one status after the other, then 200; remembers when it was asked, in milliseconds.
#[derive(Default)]
struct Scripted {
    statuses: Arc<Vec<u16>>,
    asked: Arc<Mutex<Vec<u64>>>,
    is_ready: bool,
    /// Fails to get ready, as the second instance that tries.
    breaks: Arc<AtomicU32>,
}

impl Scripted {
    fn new(statuses: &[u16]) -> Self {
        let breaks = Arc::new(AtomicU32::new(u32::MAX));
        Self { statuses: Arc::new(statuses.to_vec()), breaks, ..Self::default() }
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Clone for Scripted {
    /// No clone is ready, whatever it is a clone of.
    fn clone(&self) -> Self {
        Self {
            statuses: Arc::clone(&self.statuses),
            asked: Arc::clone(&self.asked),
            is_ready: false,
            breaks: Arc::clone(&self.breaks),
        }
    }
}

impl Service<Instant> for Scripted {
    type Response = (u16, u32);
    type Error = CallError;
    type Future = std::future::Ready<Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.breaks.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Poll::Ready(Err(CallError::Unavailable));
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, start: Instant) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it was called without having been readied");
        let mut asked = self.asked.lock().unwrap();
        asked.push(millis(start.elapsed()));
        let status = self.statuses.get(asked.len() - 1).copied().unwrap_or(200);
        std::future::ready(Ok((status, u32::try_from(asked.len()).unwrap())))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

fn by_status(response: &Response) -> Option<CallError> {
    match response {
        Ok((503, _)) => Some(CallError::Unavailable),
        Ok((504, _)) => Some(CallError::Timeout),
        Ok(_) => None,
        Err(error) => Some(error.clone()),
    }
}

fn by_error(answer: &Answer) -> Option<CallError> {
    answer.clone().err()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_again_after_exactly_the_waits_of_the_plain_state_machine() {
    let retries = RetryLayer::new(Retry::default(), SEED, by_status);
    for call in 1..=20 {
        let inner = Scripted::new(&[503, 503]);
        let service = ServiceBuilder::new().layer(retries.clone()).service(inner.clone());
        assert_eq!(service.oneshot(Instant::now()).await, Ok((200, 3)));

        let mut waits = Backoff::default().waits(SEED, call);
        let first = millis(waits.after(&CallError::Unavailable));
        let second = millis(waits.after(&CallError::Unavailable));
        assert_eq!(inner.asked(), [0, first, first + second], "call {call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_says_when_to_come_again_is_not_asked_earlier() {
    let times = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&times);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Retry::default(), SEED, |answer: &Result<(), CallError>| {
            answer.clone().err()
        }))
        .service(service_fn(move |()| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let error = CallError::RateLimited { retry_after_s: 20 };
            async move { if is_first { Err(error) } else { Ok(()) } }
        }));
    let start = Instant::now();
    service.oneshot(()).await.unwrap();
    let wait =
        Backoff::default().waits(SEED, 1).after(&CallError::RateLimited { retry_after_s: 20 });
    assert_eq!(start.elapsed(), wait);
    assert!(wait >= Duration::from_secs(20));
    assert_eq!(times.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_is_given_up_the_answer_with_the_worst_error_is_heard() {
    for (statuses, heard) in [
        ([503, 503, 503], (503, 3)),
        ([504, 503, 503], (504, 1)),
        ([503, 504, 503], (504, 2)),
        ([504, 504, 503], (504, 2)),
        // What is none of the errors ends the call as it stands.
        ([504, 409, 200], (409, 2)),
        ([504, 503, 200], (200, 3)),
    ] {
        let retries = RetryLayer::new(Retry::default(), SEED, by_status);
        let service = ServiceBuilder::new().layer(retries).service(Scripted::new(&statuses));
        assert_eq!(service.oneshot(Instant::now()).await, Ok(heard), "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_does_not_get_ready_hides_no_earlier_answer() {
    for (statuses, attempts_max, heard) in [
        // The second attempt fails to get ready, the third is made by another instance.
        ([504, 200], 3, Ok((200, 2))),
        ([504, 200], 2, Ok((504, 1))),
        ([503, 200], 2, Err(CallError::Unavailable)),
    ] {
        let inner = Scripted::new(&statuses);
        inner.breaks.store(1, Ordering::Relaxed);
        let retry = Retry { attempts_max, ..Retry::default() };
        let service =
            ServiceBuilder::new().layer(RetryLayer::new(retry, SEED, by_status)).service(inner);
        assert_eq!(service.oneshot(Instant::now()).await, heard, "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_share_a_budget_share_its_retries() {
    let budget = Arc::new(Mutex::new(Budget::of_percent(0).with_burst(3)));
    let asked = [(), (), ()].map(|()| Scripted::new(&[503, 503, 503]));
    for inner in &asked {
        let retries = RetryLayer::new(Retry::default(), SEED, by_status);
        let service = ServiceBuilder::new()
            .layer(retries.with_budget(Arc::clone(&budget)))
            .service(inner.clone());
        assert_eq!(service.oneshot(Instant::now()).await.unwrap().0, 503);
    }
    assert_eq!(asked.map(|inner| inner.asked().len()), [3, 2, 1]);
    assert_eq!(budget.lock().unwrap().left(), 0);
}

fn open(plan: Plan) -> (Ticket, SharedBank) {
    let ticket = many_orders();
    let bank = SharedBank::new(Bank::open(&ticket, plan));
    (ticket, bank)
}

#[tokio::test(start_paused = true)]
async fn a_refund_whose_reply_is_lost_is_paid_once_with_a_key_and_twice_without() {
    for (key, refunds) in [(None, 2), (Some("refund:A-1"), 1)] {
        let plan = scripted(&[("A-1 refund #1", "timeout"), ("A-1 refund #2", "transient")]);
        let (ticket, bank) = open(plan);
        let order = &ticket.orders()[0];
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(Retry::default(), SEED, by_error))
            .service(BankService::new(bank.clone()));
        let refund = BankRequest::refund(order.id(), order.amount(), key);
        let answer = service.oneshot(refund).await;
        assert!(
            matches!(answer, Ok(Reply::Refunded(refunded)) if refunded.is_replay == key.is_some())
        );
        assert_eq!(held(&bank.lock(), "A-1").len(), refunds, "key {key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_that_give_up_say_that_the_refund_may_have_been_paid() {
    let plan = scripted(&[
        ("A-1 refund #1", "timeout"),
        ("A-1 refund #2", "transient"),
        ("A-1 refund #3", "transient"),
    ]);
    let (ticket, bank) = open(plan);
    let order = &ticket.orders()[0];
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Retry::default(), SEED, by_error))
        .service(BankService::new(bank.clone()));
    let answer = service.oneshot(BankRequest::refund(order.id(), order.amount(), None)).await;
    assert_eq!(answer, Err(CallError::Timeout));
    assert_eq!(held(&bank.lock(), "A-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_deadline_is_paid_unheard() {
    for (limit_ms, is_in_time) in [(101, true), (99, false)] {
        let settings = PlanSettings { latency_ms: 100, ..PlanSettings::default() };
        let (ticket, bank) = open(Plan::calm().with_settings(settings));
        let order = &ticket.orders()[0];
        let limit = Duration::from_millis(limit_ms);
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Deadline::after(limit), || CallError::Timeout))
            .service(BankService::new(bank.clone()));
        let start = Instant::now();
        let answer = service.oneshot(BankRequest::refund(order.id(), order.amount(), None)).await;
        assert_eq!(start.elapsed(), limit.min(Duration::from_millis(100)));
        assert_eq!(answer.is_ok(), is_in_time, "{limit:?}");
        assert!(is_in_time || answer == Err(CallError::Timeout));
        // The bank finishes what its caller no longer waits for.
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(held(&bank.lock(), "A-1").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_at_the_deadline_is_in_time() {
    for (limit, told) in [
        (ANSWER, Ok(())),
        (ANSWER.saturating_sub(Duration::from_millis(1)), Err(Told::Failed)),
        (Duration::ZERO, Err(Told::Failed)),
    ] {
        let mut service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Deadline::after(limit), || Told::Failed))
            .service(backend(&Arc::default()));
        assert_eq!(send(&mut service, Ask::Succeed).await, told, "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_inner_future_is_dropped() {
    let alive = Arc::new(());
    let work = Arc::clone(&alive);
    let mut service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Deadline::after(Duration::from_secs(1)), || CallError::Timeout))
        .service(service_fn(move |()| {
            let work = Arc::clone(&work);
            async move {
                std::future::pending::<()>().await;
                drop(work);
                Ok::<(), CallError>(())
            }
        }));
    let answer = service.ready().await.unwrap().call(()).await;
    assert_eq!(answer, Err(CallError::Timeout));
    // This one, and the one of the service.
    assert_eq!(Arc::strong_count(&alive), 2);
}

#[tokio::test(start_paused = true)]
async fn retries_above_a_deadline_pay_once_for_each_late_answer_unless_there_is_a_key() {
    for (key, refunds) in [(None, 2), (Some("refund:A-1"), 1)] {
        let (ticket, bank) = open(scripted(&[("A-1 refund #1", "slow")]));
        let order = &ticket.orders()[0];
        let deadline = Deadline::after(Duration::from_millis(500));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(Retry::default(), SEED, by_error))
            .layer(DeadlineLayer::new(deadline, || CallError::Timeout))
            .service(BankService::new(bank.clone()));
        let refund = BankRequest::refund(order.id(), order.amount(), key);
        service.oneshot(refund).await.unwrap();
        assert_eq!(held(&bank.lock(), "A-1").len(), refunds, "key {key:?}");
    }
}

/// What a caller behind a breaker hears: the backend's own failure, or before when not to come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Failed,
    Refused(Timestamp),
}

const NOON: Timestamp = Timestamp::from_unix_ms(1_700_000_000_000);
const PAUSE: Duration = Duration::from_secs(30);
const POLICY: Policy = Policy::Window { failures: 3, within: Duration::from_secs(60) };

/// How long an answer takes.
const ANSWER: Duration = Duration::from_millis(10);

/// A layer on tokio's clock, which stands at noon now.
fn breaker()
-> BreakerLayer<impl Fn(&Result<(), Told>) -> Signal + Copy, impl Fn(Timestamp) -> Told + Copy> {
    let start = Instant::now();
    BreakerLayer::new(
        CircuitBreaker::new(POLICY, PAUSE),
        move || NOON.plus(start.elapsed()),
        |answer| if answer.is_ok() { Signal::Success } else { Signal::Failure },
        Told::Refused,
    )
}

/// What is asked of the backend.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Succeed,
    Fail,
    Panic,
}

/// A backend that does what it is asked to, and counts how often it was asked.
fn backend(
    asked: &Arc<AtomicU64>,
) -> impl Service<Ask, Response = (), Error = Told, Future: Send> + Clone + Send + use<> {
    let asked = Arc::clone(asked);
    service_fn(move |ask| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(ANSWER).await;
            match ask {
                Ask::Succeed => Ok(()),
                Ask::Fail => Err(Told::Failed),
                Ask::Panic => panic!("the backend panics"),
            }
        }
    })
}

async fn send<S: Service<Ask, Response = (), Error = Told>>(
    service: &mut S,
    ask: Ask,
) -> Result<(), Told> {
    service.ready().await?.call(ask).await
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_after_three_failures_within_the_window_and_refuses_until_the_pause_ends() {
    let (layer, asked) = (breaker(), Arc::new(AtomicU64::new(0)));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(backend(&asked));
    // The first failure has left the window when the fourth comes; successes clear nothing.
    for (ask, rest_s) in [
        (Ask::Fail, 50),
        (Ask::Fail, 5),
        (Ask::Succeed, 6),
        (Ask::Fail, 1),
        (Ask::Succeed, 1),
        (Ask::Fail, 0),
    ] {
        assert_eq!(layer.status().state, State::Closed);
        let told = send(&mut service.clone(), ask).await;
        assert_ne!(matches!(ask, Ask::Fail), told.is_ok());
        tokio::time::sleep(Duration::from_secs(rest_s)).await;
    }
    let until = NOON.plus(Duration::from_secs(63) + 6 * ANSWER + PAUSE);
    assert_eq!(layer.status().state, State::Open { until });

    for rest in [PAUSE.saturating_sub(Duration::from_millis(1)), Duration::ZERO] {
        assert_eq!(send(&mut service, Ask::Succeed).await, Err(Told::Refused(until)));
        tokio::time::sleep(rest).await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 6);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(send(&mut service, Ask::Succeed).await, Ok(()));
    assert_eq!(layer.status().state, State::Closed);
}

/// Eight callers at once; says how many were answered by the backend.
async fn eight_at_once<S>(service: &S) -> usize
where
    S: Service<Ask, Response = (), Error = Told, Future: Send> + Clone + Send + 'static,
{
    let mut callers = JoinSet::new();
    for _caller in 0..8 {
        let mut service = service.clone();
        callers.spawn(async move { send(&mut service, Ask::Succeed).await });
    }
    callers.join_all().await.into_iter().filter(|told| *told == Ok(())).count()
}

#[tokio::test(start_paused = true)]
async fn after_the_pause_exactly_one_of_eight_callers_is_the_probe_and_its_success_closes() {
    let (layer, asked) = (breaker(), Arc::new(AtomicU64::new(0)));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(backend(&asked));
    for _failure in 0..3 {
        assert_eq!(send(&mut service, Ask::Fail).await, Err(Told::Failed));
    }
    assert_eq!(eight_at_once(&service).await, 0);
    tokio::time::sleep(PAUSE).await;
    assert_eq!(layer.status().state, State::HalfOpen);
    assert_eq!(eight_at_once(&service).await, 1);
    assert_eq!(layer.status().state, State::Closed);
    assert_eq!(eight_at_once(&service).await, 8);
    assert_eq!(asked.load(Ordering::Relaxed), 3 + 1 + 8);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_opens_for_another_pause() {
    let (layer, asked) = (breaker(), Arc::new(AtomicU64::new(0)));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(backend(&asked));
    for _failure in 0..3 {
        send(&mut service, Ask::Fail).await.unwrap_err();
    }
    tokio::time::sleep(PAUSE).await;
    assert_eq!(send(&mut service, Ask::Fail).await, Err(Told::Failed));
    let until = NOON.plus(3 * ANSWER + PAUSE + ANSWER + PAUSE);
    assert_eq!(send(&mut service, Ask::Succeed).await, Err(Told::Refused(until)));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_or_panics_leaves_the_next_call_to_be_the_probe() {
    let (layer, asked) = (breaker(), Arc::new(AtomicU64::new(0)));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(backend(&asked));
    for _failure in 0..3 {
        send(&mut service, Ask::Fail).await.unwrap_err();
    }
    tokio::time::sleep(PAUSE).await;
    let mut caller = service.clone();
    {
        let mut probe = pin!(send(&mut caller, Ask::Succeed));
        let is_under_way =
            poll_fn(|context| Poll::Ready(probe.as_mut().poll(context).is_pending()));
        assert!(is_under_way.await);
        assert_eq!(eight_at_once(&service).await, 0);
    }
    tokio::spawn(async move { send(&mut caller, Ask::Panic).await }).await.unwrap_err();
    assert_eq!(layer.status().state, State::HalfOpen);
    assert_eq!(send(&mut service, Ask::Succeed).await, Ok(()));
    assert_eq!(layer.status().state, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_are_no_failures() {
    let (layer, asked) = (breaker(), Arc::new(AtomicU64::new(0)));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(backend(&asked));
    for _caller in 0..5 {
        let hasty = tokio::time::timeout(ANSWER / 2, send(&mut service, Ask::Fail));
        hasty.await.unwrap_err();
    }
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    assert_eq!(layer.status().count, 0);
    assert_eq!(layer.status().state, State::Closed);
}
