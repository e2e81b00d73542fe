//! Breakers as a layer, alone and with evidence that several share.

use std::{
    future::{Future, poll_fn},
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use badbank::{
    call::CallError,
    fault::Plan,
    harness::{CircuitBreaker, EvidenceError, Policy, SharedBreaker, Signal, State, Timestamp},
    service::{BankRequest, BankService, BreakerError, BreakerLayer},
};
use tokio::{task::JoinSet, time::Instant};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{
    gateway::{self, ANSWER, Gateway, Refund, by_status, respond},
    open,
};
use crate::trial::held;

/// What a caller behind a breaker hears: the backend's own failure, before when not to come again, or that
/// nobody can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Failed,
    Refused(Timestamp),
    Unknown,
}

const NOON: Timestamp = Timestamp::from_unix_ms(1_700_000_000_000);
const PAUSE: Duration = Duration::from_secs(30);
const POLICY: Policy = Policy::Window { failures: 3, within: Duration::from_secs(60) };

type Signals = fn(&Result<(), Told>) -> Signal;
type Telling = fn(BreakerError) -> Result<(), Told>;

const SIGNALS: Signals = |answer| if answer.is_ok() { Signal::Success } else { Signal::Failure };
const TELLING: Telling = |error| match error {
    BreakerError::Open { until } => Err(Told::Refused(until)),
    _ => Err(Told::Unknown),
};

/// A layer on tokio's clock, which stands at noon now.
fn breaker() -> BreakerLayer<Signals, Telling> {
    BreakerLayer::new(CircuitBreaker::new(POLICY, PAUSE), from_noon(), SIGNALS, TELLING)
}

/// The same, with its evidence in a file.
fn shared(
    path: &Path,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> BreakerLayer<Signals, Telling> {
    BreakerLayer::shared(SharedBreaker::at(path, POLICY, PAUSE), clock, SIGNALS, TELLING)
}

fn from_noon() -> impl Fn() -> Timestamp + Copy + Send + Sync + 'static {
    let start = Instant::now();
    move || NOON.plus(start.elapsed())
}

fn state(layer: &BreakerLayer<Signals, Telling>) -> State {
    layer.status().unwrap().state
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
        assert_eq!(state(&layer), State::Closed);
        let told = send(&mut service.clone(), ask).await;
        assert_ne!(matches!(ask, Ask::Fail), told.is_ok());
        tokio::time::sleep(Duration::from_secs(rest_s)).await;
    }
    let until = NOON.plus(Duration::from_secs(63) + 6 * ANSWER + PAUSE);
    assert_eq!(state(&layer), State::Open { until });

    for rest in [PAUSE.saturating_sub(Duration::from_millis(1)), Duration::ZERO] {
        assert_eq!(send(&mut service, Ask::Succeed).await, Err(Told::Refused(until)));
        tokio::time::sleep(rest).await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 6);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(send(&mut service, Ask::Succeed).await, Ok(()));
    assert_eq!(state(&layer), State::Closed);
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
    assert_eq!(state(&layer), State::HalfOpen);
    assert_eq!(eight_at_once(&service).await, 1);
    assert_eq!(state(&layer), State::Closed);
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
    assert_eq!(state(&layer), State::HalfOpen);
    assert_eq!(send(&mut service, Ask::Succeed).await, Ok(()));
    assert_eq!(state(&layer), State::Closed);
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
    assert_eq!(layer.status().unwrap().count, 0);
    assert_eq!(state(&layer), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_a_breaker_answers_is_a_response_like_any_other() {
    let layer = BreakerLayer::new(
        CircuitBreaker::new(Policy::Streak { failures: 1 }, PAUSE),
        from_noon(),
        |answer: &gateway::Response| Signal::of(&by_status(answer).map_or(Ok(()), Err)),
        |_not_sent| respond(CallError::Unavailable),
    );
    let gateway = Gateway::answering(&[504, 201]);
    let service = layer.layer(gateway.clone());
    for heard in [(504, 1), (503, 0)] {
        assert_eq!(gateway::send(&service, Refund::of("A-1")).await, heard);
    }
    assert_eq!(gateway.paid(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shared_breaker_decides_as_one_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, shared) = (breaker(), shared(&folder.path().join("log"), from_noon()));
    let asked = Arc::new(AtomicU64::new(0));
    let [mut one, mut other] = [&alone, &shared].map(|layer| layer.layer(backend(&asked)));
    // Four failures and three successes in turn, with rests of none, half and all of the pause.
    for call in 0..90 {
        let ask = if call % 7 < 4 { Ask::Fail } else { Ask::Succeed };
        let told = tokio::join!(send(&mut one, ask), send(&mut other, ask));
        assert_eq!(told.0, told.1, "call {call}");
        assert_eq!(state(&alone), state(&shared), "call {call}");
        tokio::time::sleep(PAUSE * (call % 3) / 2).await;
    }
    assert!((50..2 * 90).contains(&asked.load(Ordering::Relaxed)));
}

#[tokio::test(start_paused = true)]
async fn layers_that_share_evidence_open_together_and_have_one_probe_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("log"), from_noon());
    let asked = Arc::new(AtomicU64::new(0));
    let workers = [(), ()].map(|()| shared(&path, clock));
    let services = workers.clone().map(|layer| layer.layer(backend(&asked)));
    for worker in [0, 1, 0] {
        let told = send(&mut services[worker].clone(), Ask::Fail).await;
        assert_eq!(told, Err(Told::Failed));
    }
    for worker in &workers {
        assert!(matches!(state(worker), State::Open { .. }));
    }
    tokio::time::sleep(PAUSE).await;
    let (one, other) = tokio::join!(eight_at_once(&services[0]), eight_at_once(&services[1]));
    assert_eq!(one + other, 1);
    assert_eq!(state(&workers[1]), State::Closed);
    assert_eq!(asked.load(Ordering::Relaxed), 3 + 1);
}

#[tokio::test(start_paused = true)]
async fn without_its_evidence_a_breaker_fails_closed_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (ticket, bank) = open(Plan::calm());
    let order = &ticket.orders()[0];
    // A folder is no log.
    let layer = BreakerLayer::shared(
        SharedBreaker::at(folder.path(), POLICY, PAUSE),
        from_noon(),
        |_: &Result<_, Arc<BreakerError>>| Signal::Neutral,
        |error| Err(Arc::new(error)),
    );
    let service = ServiceBuilder::new()
        .layer(layer.clone())
        .map_err(|error: CallError| panic!("it was sent: {error}"))
        .service(BankService::new(bank.clone()));
    let refund = BankRequest::refund(order.id(), order.amount(), None);
    let error = service.oneshot(refund).await.unwrap_err();
    assert!(matches!(&*error, BreakerError::Evidence(EvidenceError::Open { .. })));
    assert!(layer.status().is_err());
    assert_eq!(held(&bank.lock(), "A-1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_call_that_was_sent_is_handed_on_though_its_outcome_cannot_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let layer = shared(&folder.path().join("log"), from_noon());
    let asked = Arc::new(AtomicU64::new(0));
    let mut service = layer.layer(backend(&asked));
    let answer = service.call(Ask::Fail);
    drop(folder);
    assert_eq!(answer.await, Err(Told::Failed));
    assert_eq!(layer.unrecorded(), 1);
    assert_eq!(send(&mut service, Ask::Succeed).await, Err(Told::Unknown));
    assert_eq!((layer.unrecorded(), asked.load(Ordering::Relaxed)), (1, 1));
}
