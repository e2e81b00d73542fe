//! The layers as one harness: what an agent does behind them is what it does in the plain one.

use std::sync::{Arc, Mutex};

use badbank::{
    Bank, SharedBank, Ticket,
    agent::{Action, Agent, Manner, ToolCall, Turn},
    call::{Answer, CallError, Reply},
    fault::Plan,
    grade::Verdict,
    harness::{
        self, Budget, Deadline, Harness, Key, Outcome, Retry, Sending, StoppingRule, VirtualTime,
    },
    service::{
        BankRequest, BankService, DeadlineLayer, InjectLayer, KeyLayer, RetryLayer, StoppingLayer,
    },
};
use tokio::time::{Duration, Instant};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{SEED, by_error};
use crate::service::everything_outside_the_ledger;

/// A call as an agent's tool sends it, to a client that knows of no bank.
#[derive(Clone)]
struct ToolRequest {
    call: ToolCall,
    key: Option<String>,
}

impl ToolRequest {
    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    fn put_key(&mut self, key: String) {
        self.key = Some(key);
    }

    /// What a stopping rule knows it by.
    fn name(&self) -> String {
        match self.call.action {
            Action::GetOrder => format!("get_order:{}", self.call.order),
            Action::Refund(_) => self.call.intent.clone(),
        }
    }

    fn into_bank_request(self) -> BankRequest {
        let order = &self.call.order;
        match self.call.action {
            Action::GetOrder => BankRequest::get_order(order),
            Action::Refund(amount) => BankRequest::refund(order, amount, self.key()),
        }
    }
}

type Keys<F> = KeyLayer<F, fn(&ToolRequest) -> Option<&str>, fn(&mut ToolRequest, String)>;

fn keys(key: Key) -> Keys<impl Fn(&ToolRequest, Sending) -> Option<String>> {
    KeyLayer::new(
        move |request: &ToolRequest, sending| key.of(&request.call, sending),
        ToolRequest::key as fn(&ToolRequest) -> Option<&str>,
        ToolRequest::put_key as fn(&mut ToolRequest, String),
    )
}

type Naming = fn(&ToolRequest) -> Option<String>;
type Classifying = fn(&Answer) -> Option<CallError>;
type Answering = fn(CallError) -> Answer;

fn stopping(rule: StoppingRule) -> StoppingLayer<Naming, Classifying, Answering> {
    let name: Naming = |request| Some(request.name());
    StoppingLayer::new(rule, name, by_error as Classifying, Err as Answering)
}

/// An agent's whole work through a service; what it did, as the plain harness says it.
async fn work<S>(manner: Manner, ticket: &Ticket, mut service: S) -> Outcome
where
    S: Service<ToolRequest, Response = Reply, Error = CallError>,
{
    let (mut agent, start) = (Agent::new(manner, ticket), Instant::now());
    let mut agent_calls = 0;
    loop {
        agent_calls += 1;
        match agent.turn() {
            Turn::Calls(calls) => {
                for call in calls {
                    let request = ToolRequest { call: call.clone(), key: None };
                    let answer = service.ready().await.unwrap().call(request).await;
                    agent.answered(&call, &answer);
                }
            }
            Turn::Report(report) => {
                return Outcome { report, agent_calls, waited: start.elapsed() };
            }
        }
    }
}

/// What a run leaves: its outcome, its fault log and its grade.
type Left = (Outcome, String, String);

fn left(outcome: Outcome, bank: &mut Bank) -> Left {
    let grade = bank.grade(&outcome.report).to_json();
    (outcome, bank.fault_log().to_string(), grade)
}

fn plainly(mut harness: Harness, manner: Manner, ticket: &Ticket, plan: &Plan) -> Left {
    let mut bank = Bank::open(ticket, plan.clone());
    let mut agent = Agent::new(manner, ticket);
    let outcome = harness::run_in(&mut harness, &mut agent, &mut bank, &mut VirtualTime);
    left(outcome, &mut bank)
}

async fn through<S>(
    layers: impl FnOnce(BankService) -> S,
    manner: Manner,
    ticket: &Ticket,
    plan: &Plan,
) -> Left
where
    S: Service<ToolRequest, Response = Reply, Error = CallError>,
{
    let bank = SharedBank::new(Bank::open(ticket, plan.clone()));
    let outcome = work(manner, ticket, layers(BankService::new(bank.clone()))).await;
    left(outcome, &mut bank.lock())
}

fn article(seed: u64) -> (Manner, Ticket, Plan) {
    let manner = Manner::ALL[usize::try_from(seed).unwrap() % Manner::ALL.len()];
    (manner, Ticket::generate(seed), Plan::article().seed(seed))
}

#[tokio::test(start_paused = true)]
async fn retries_above_keys_do_what_the_plain_harness_does() {
    for seed in 0..100 {
        let (manner, ticket, plan) = article(seed);
        for key in Key::ALL {
            let harness = Harness::with(Retry::default(), key, SEED);
            let retries = RetryLayer::new(Retry::default(), SEED, by_error);
            let layers = |bank| {
                ServiceBuilder::new()
                    .layer(retries)
                    .layer(keys(key))
                    .map_request(ToolRequest::into_bank_request)
                    .service(bank)
            };
            let layered = through(layers, manner, &ticket, &plan).await;
            assert_eq!(layered, plainly(harness, manner, &ticket, &plan), "{key}, seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keys_above_retries_do_so_too_and_a_fresh_one_is_then_as_good_as_that_of_the_call() {
    for seed in 0..100 {
        let (manner, ticket, plan) = article(seed);
        for key in Key::ALL {
            let as_good = if key == Key::Fresh { Key::CallId } else { key };
            let budget = Budget::of_percent(10).with_burst(3);
            let harness =
                Harness::with(Retry::default(), as_good, SEED).with_budget(budget.clone());
            let retries = RetryLayer::new(Retry::default(), SEED, by_error)
                .with_budget(Arc::new(Mutex::new(budget)));
            let layers = |bank| {
                ServiceBuilder::new()
                    .layer(keys(key))
                    .layer(retries)
                    .map_request(ToolRequest::into_bank_request)
                    .service(bank)
            };
            let layered = through(layers, manner, &ticket, &plan).await;
            assert_eq!(layered, plainly(harness, manner, &ticket, &plan), "{key}, seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_rule_stops_what_the_plain_one_stops() {
    let mut stopped = 0;
    for seed in 0..100 {
        let (manner, ticket, plan) = article(seed);
        let rule = StoppingRule::after(2);
        let harness =
            Harness::with(Retry::never(), Key::Intent, SEED).with_stopping_rule(rule.clone());
        let stopping = stopping(rule);
        let layers = |bank| {
            ServiceBuilder::new()
                .layer(stopping.clone())
                .layer(keys(Key::Intent))
                .map_request(ToolRequest::into_bank_request)
                .service(bank)
        };
        let layered = through(layers, manner, &ticket, &plan).await;
        assert_eq!(layered, plainly(harness, manner, &ticket, &plan), "seed {seed}");
        stopped += stopping.rule().answered();
    }
    assert!(stopped > 50, "only {stopped} calls were stopped");
}

/// The whole stack before the faults of a plan; what came of it, and the refunds that were too many.
async fn whole_stack(key: Key, seed: u64) -> (Verdict, u64, String) {
    let ticket = Ticket::generate(seed);
    let plan = everything_outside_the_ledger().seed(seed);
    let bank = SharedBank::new(Bank::open(&ticket, Plan::calm()));
    let named = |request: &BankRequest| Some((request.operation(), request.order().clone()));
    let faults = InjectLayer::new(&plan, named, Err::<Reply, CallError>).unwrap();
    let service = ServiceBuilder::new()
        .layer(stopping(StoppingRule::after(3)))
        .layer(keys(key))
        .layer(RetryLayer::new(Retry::default(), SEED, by_error))
        .layer(DeadlineLayer::new(Deadline::after(Duration::from_millis(500)), || {
            Err(CallError::Timeout)
        }))
        .map_request(ToolRequest::into_bank_request)
        .layer(faults.clone())
        .service(BankService::new(bank.clone()));
    let outcome = work(Manner::Careful, &ticket, service).await;
    faults.settle().await;
    let grade = bank.lock().grade(&outcome.report);
    (grade.verdict(), grade.extra_refunds(), faults.log().to_string())
}

#[tokio::test(start_paused = true)]
async fn the_whole_stack_pays_each_refund_once_under_its_intent_and_some_twice_without() {
    let (mut passed, mut extra) = (0, 0);
    for seed in 0..100 {
        let (verdict, extra_refunds, log) = whole_stack(Key::Intent, seed).await;
        assert_eq!(extra_refunds, 0, "seed {seed}:\n{log}");
        passed += u32::from(verdict == Verdict::Pass);
        extra += whole_stack(Key::None, seed).await.1;
    }
    assert!(passed >= 90, "{passed} of 100 passed");
    assert!(extra > 100, "only {extra} refunds too many");
    assert_eq!(whole_stack(Key::Intent, 7).await, whole_stack(Key::Intent, 7).await);
}
