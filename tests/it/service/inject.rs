//! The injector as a layer decides, delivers and answers as the bank does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use badbank::{
    Bank, SharedBank, Ticket,
    call::{Answer, CallError, Operation, Reply},
    fault::{Plan, PlanSettings},
    ledger::Dedupe,
    service::{BankRequest, BankService, InjectError, InjectLayer},
    ticket::{Order, OrderId},
};
use tokio::sync::Barrier;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::{everything_outside_the_ledger, many_orders, work};
use crate::{support::scripted, trial::held};

type Naming = fn(&BankRequest) -> Option<(Operation, OrderId)>;
type Answering = fn(CallError) -> Answer;

fn layer(plan: &Plan) -> InjectLayer<Naming, Answering> {
    let name: Naming = |request| Some((request.operation(), request.order().clone()));
    InjectLayer::new(plan, name, Err as Answering).unwrap()
}

fn calm(ticket: &Ticket) -> SharedBank {
    SharedBank::new(Bank::open(ticket, Plan::calm()))
}

fn all_held(bank: &Bank) -> Vec<Vec<String>> {
    bank.ticket().orders().iter().map(|order| held(bank, order.id())).collect()
}

#[tokio::test(start_paused = true)]
async fn faults_answers_and_money_are_those_of_the_bank_with_that_plan() {
    let mut met = String::new();
    for seed in 0..200 {
        let ticket = Ticket::generate(seed);
        let plan = everything_outside_the_ledger().seed(seed);
        let mut bank = Bank::open(&ticket, plan.clone());
        let by_the_bank = work(&ticket, async |request| bank.call(&request.as_request())).await;
        bank.settle();

        let (faults, behind) = (layer(&plan), calm(&ticket));
        let mut service =
            ServiceBuilder::new().layer(faults.clone()).service(BankService::new(behind.clone()));
        let by_the_layer =
            work(&ticket, async |request| service.ready().await?.call(request).await).await;
        faults.settle().await;

        assert_eq!(faults.log(), bank.fault_log(), "seed {seed}");
        assert_eq!(faults.log().to_string(), bank.fault_log().to_string(), "seed {seed}");
        assert_eq!(by_the_layer, by_the_bank, "seed {seed}");
        assert_eq!(all_held(&behind.lock()), all_held(&bank), "seed {seed}");
        met += &faults.log().to_string();
    }
    for fault in everything_outside_the_ledger().rules().iter().map(|rule| rule.fault) {
        assert!(met.contains(&format!(" {fault}\n")), "{fault} was never met");
    }
}

/// One order: as many tasks share the orders as are asked for.
async fn concurrently(tasks: usize) -> (String, String) {
    let ticket = many_orders();
    let settings = PlanSettings { slow_ms: 0, ..PlanSettings::default() };
    let plan = everything_outside_the_ledger().seed(7).with_settings(settings);
    let (faults, bank) = (layer(&plan), calm(&ticket));
    let service =
        ServiceBuilder::new().layer(faults.clone()).service(BankService::new(bank.clone()));
    let share = |orders: &[Order]| {
        let (orders, mut service) = (orders.to_vec(), service.clone());
        tokio::spawn(async move {
            for order in &orders {
                service.ready().await?.call(BankRequest::get_order(order.id())).await.ok();
                for _attempt in 1..=3 {
                    let refund = BankRequest::refund(order.id(), order.amount(), None);
                    service.ready().await?.call(refund).await.ok();
                }
            }
            Ok::<(), CallError>(())
        })
    };
    let shares: Vec<_> = ticket.orders().chunks(64 / tasks).map(share).collect();
    for task in shares {
        task.await.unwrap().unwrap();
    }
    faults.settle().await;
    (faults.log().to_string(), bank.lock().grade("").to_json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_on_different_orders_change_nothing() {
    let alone = concurrently(1).await;
    assert!(alone.0.lines().count() > 40, "too few faults to tell:\n{}", alone.0);
    for tasks in [4, 64] {
        assert_eq!(concurrently(tasks).await, alone, "{tasks} tasks");
    }
}

#[test]
fn a_plan_whose_faults_happen_inside_a_ledger_is_refused() {
    for (fault, operation) in [
        ("stale(2)", "get_order"),
        ("stored_error", "refund"),
        ("accepted_then_failed(2)", "refund"),
    ] {
        let plan = scripted(&[(&format!("A-1 {operation} #1"), fault)]);
        let name: Naming = |_| None;
        let error = InjectLayer::new(&plan, name, Err as Answering).unwrap_err();
        assert_eq!(error, InjectError::InsideLedger { fault: fault.parse().unwrap() });
        assert!(error.to_string().starts_with(&format!("`{fault}` happens inside a ledger")));
    }
}

type NamingByOrder = fn(&String) -> Option<(Operation, OrderId)>;
type AnsweringNothing = fn(CallError) -> Result<(), CallError>;

/// The layer before a service of requests that are orders' names.
fn by_name(plan: &Plan) -> InjectLayer<NamingByOrder, AnsweringNothing> {
    let name: NamingByOrder = |order| Some((Operation::Refund, order.parse().ok()?));
    InjectLayer::new(plan, name, Err as AnsweringNothing).unwrap()
}

#[tokio::test]
async fn overlapping_deliveries_are_in_flight_at_once_and_others_are_not() {
    let both = Arc::new(Barrier::new(2));
    let at_the_barrier = {
        let both = Arc::clone(&both);
        service_fn(move |_: String| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok::<(), CallError>(())
            }
        })
    };
    let overlapping = scripted(&[("A-1 refund #1", "twice_overlapping+reply")]);
    let racy = scripted(&[("A-1 refund #1", "duplicate")]).dedupe(Dedupe::Racy);
    for plan in [overlapping, racy] {
        let service = ServiceBuilder::new().layer(by_name(&plan)).service(at_the_barrier.clone());
        assert_eq!(service.oneshot("A-1".to_owned()).await, Ok(()));
    }

    let (now, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let alone = {
        let (now, calls) = (Arc::clone(&now), Arc::clone(&calls));
        service_fn(move |_: String| {
            let (now, calls) = (Arc::clone(&now), Arc::clone(&calls));
            async move {
                assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                calls.fetch_add(1, Ordering::SeqCst);
                Ok::<(), CallError>(())
            }
        })
    };
    let plan = scripted(&[("A-1 refund #1", "duplicate")]);
    let service = ServiceBuilder::new().layer(by_name(&plan)).service(alone);
    assert_eq!(service.oneshot("A-1".to_owned()).await, Ok(()));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_service_that_takes_one_call_at_a_time_is_neither_starved_nor_overrun() {
    let ticket = many_orders();
    let order = &ticket.orders()[0];
    let plan = scripted(&[
        ("A-1 refund #1", "transient"),
        ("A-1 refund #2", "duplicate"),
        ("A-1 refund #3", "late(1)"),
        ("A-1 refund #4", "twice_overlapping+timeout"),
        ("A-1 refund #5", "lost"),
    ]);
    let (faults, bank) = (layer(&plan), calm(&ticket));
    let mut service = ServiceBuilder::new()
        .layer(faults)
        .concurrency_limit(1)
        .service(BankService::new(bank.clone()));
    let mut numbers = vec![];
    for _attempt in 1..=6 {
        let refund = BankRequest::refund(order.id(), order.amount(), None);
        let answer = service.ready().await.unwrap().call(refund).await;
        numbers.push(answer.ok().map(|reply| match reply {
            Reply::Refunded(refunded) => refunded.number,
            Reply::Order(state) => panic!("an order: {state:?}"),
        }));
    }
    assert_eq!(numbers, [None, Some(1), None, None, None, Some(6)]);
    assert_eq!(held(&bank.lock(), "A-1").len(), 6);
}

#[tokio::test]
async fn a_panic_of_the_service_reaches_its_caller_and_stops_nobody_else() {
    let plan = Plan::calm();
    let service =
        ServiceBuilder::new().layer(by_name(&plan)).service(service_fn(async |order: String| {
            assert_ne!(order, "A-1", "no such order");
            Ok::<(), CallError>(())
        }));
    let caller = tokio::spawn(service.clone().oneshot("A-1".to_owned()));
    let panic = caller.await.unwrap_err().into_panic();
    assert!(panic.downcast_ref::<String>().unwrap().contains("no such order"));
    assert_eq!(service.oneshot("A-2".to_owned()).await, Ok(()));
}
