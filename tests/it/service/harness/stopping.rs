//! A stopping rule as a layer.

use badbank::{
    call::{CallError, Operation},
    fault::{Fault, Plan, Rule},
    harness::{Keyed, Retry, StoppingRule},
    service::{BankRequest, BankService, RetryLayer, StoppingLayer},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::{
    SEED, by_error,
    gateway::{
        ANSWER, Gateway, ORDERS, Refund, Response, by_status, eight_at_once, respond, send,
        send_and_leave,
    },
    open,
};
use crate::trial::held;

type Layered = StoppingLayer<
    fn(&Refund) -> Option<String>,
    fn(&Response) -> Option<CallError>,
    fn(CallError) -> Response,
>;

/// A rule before a service that is not ours; it does not know the requests on no order.
fn stopping_after(failures: u32) -> Layered {
    let name: fn(&Refund) -> Option<String> =
        |refund| (!refund.order.is_empty()).then(|| refund.intent());
    StoppingLayer::new(
        StoppingRule::after(failures),
        name,
        by_status as fn(&_) -> _,
        respond as fn(_) -> _,
    )
}

#[tokio::test(start_paused = true)]
async fn after_so_many_identical_failures_the_layer_answers_without_the_service() {
    let (layer, gateway) = (stopping_after(3), Gateway::answering(&[503; 3]));
    let service = layer.layer(gateway.clone());
    for number in [1, 2, 3, 0, 0] {
        // Written anew, it is the same call to the rule.
        let written = Refund { tool_call: ORDERS[number], ..Refund::of("A-1") };
        assert_eq!(send(&service, written).await, (503, number));
    }
    assert_eq!(send(&service, Refund::of("A-2")).await, (201, 4));
    assert_eq!(layer.rule().answered(), 2);
    assert_eq!(gateway.paid(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_success_or_another_error_starts_the_count_anew() {
    let gateway = Gateway::answering(&[503, 504, 503, 201, 503, 422, 503]);
    let service = stopping_after(2).layer(gateway.clone());
    for _call in 0..8 {
        send(&service, Refund::of("A-1")).await;
    }
    assert_eq!(gateway.asked().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_call_is_answered_with_the_worst_error_it_met() {
    let gateway = Gateway::answering(&[504, 503, 503]);
    let service = stopping_after(2).layer(gateway.clone());
    let mut heard = vec![];
    for _call in 0..4 {
        heard.push(send(&service, Refund::of("A-1")).await);
    }
    assert_eq!(heard, [(504, 1), (503, 2), (503, 3), (504, 0)]);
    // It was right to say so.
    assert_eq!(gateway.paid(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_name_passes_and_counts_nothing() {
    let gateway = Gateway::answering(&[503; 4]);
    let (layer, unnamed) = (stopping_after(1), Refund::of(""));
    let service = layer.layer(gateway.clone());
    for number in 1..=4 {
        assert_eq!(send(&service, unnamed.clone()).await, (503, number));
    }
    assert_eq!(layer.rule(), StoppingRule::after(1));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_leaves_counts_nothing() {
    let gateway = Gateway::answering(&[503; 9]);
    let (layer, refund) = (stopping_after(1), Refund::of("A-1"));
    let service = layer.layer(gateway.clone());
    for _caller in 0..3 {
        send_and_leave(&service, refund.clone()).await;
    }
    assert_eq!(layer.rule(), StoppingRule::after(1));
    assert_eq!(send(&service, refund.clone()).await, (503, 4));
    assert_eq!(send(&service, refund).await, (503, 0));
}

#[tokio::test(start_paused = true)]
async fn eight_tasks_share_the_count_and_what_is_under_way_already_is_sent() {
    let gateway = Gateway::answering(&[503; 99]);
    let service = stopping_after(3).layer(gateway.clone());
    assert_eq!(eight_at_once(&service, |_| Refund::of("A-1")).await, [503; 8]);
    assert_eq!(gateway.asked().len(), 8);
    eight_at_once(&service, |_| Refund::of("A-1")).await;
    assert_eq!(gateway.asked().len(), 8);
    eight_at_once(&service, |caller| Refund::of(ORDERS[caller])).await;
    assert_eq!(gateway.asked().len(), 8 + 7);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_answered_by_the_layer_keeps_no_place_at_the_service() {
    let gateway = Gateway::answering(&[503]);
    let limited = ServiceBuilder::new().layer(stopping_after(1)).concurrency_limit(1);
    let service = limited.service(gateway.clone());
    let mut callers = vec![];
    for order in ["A-1", "A-1", "A-1", "A-2"] {
        // Each keeps its clone of the service.
        callers.push(service.clone());
        let caller = callers.last_mut().unwrap();
        let ready = tokio::time::timeout(ANSWER, caller.ready()).await.expect("there is a place");
        ready.unwrap().call(Refund::of(order)).await.unwrap();
    }
    assert_eq!((gateway.asked().len(), gateway.paid()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn below_retries_it_counts_attempts_and_above_them_calls() {
    let retries = || RetryLayer::new(Retry::default(), SEED, by_status);
    let below = Gateway::answering(&[503; 99]);
    let service = ServiceBuilder::new().layer(retries()).layer(stopping_after(4));
    let service = service.service(below.clone());
    let above = Gateway::answering(&[503; 99]);
    let upper = ServiceBuilder::new().layer(stopping_after(4)).layer(retries());
    let upper = upper.service(above.clone());
    for _call in 0..9 {
        assert_eq!(send(&service, Refund::of("A-1")).await.0, 503);
        assert_eq!(send(&upper, Refund::of("A-1")).await.0, 503);
    }
    assert_eq!((below.asked().len(), above.asked().len()), (4, 12));
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_the_bank_pays_unheard_each_time_is_paid_no_oftener_than_the_rule_allows() {
    let order = "A-1".parse().unwrap();
    let lost = Rule::scripted(Operation::Refund, order, "1-".parse().unwrap(), Fault::TIMEOUT);
    let (ticket, bank) = open(Plan::calm().rule(lost).unwrap());
    let order = &ticket.orders()[0];
    let layer = StoppingLayer::new(
        StoppingRule::after(2),
        |request: &BankRequest| Some(format!("{} {}", request.operation(), request.order())),
        by_error,
        Err,
    );
    let mut service = ServiceBuilder::new().layer(layer).service(BankService::new(bank.clone()));
    for _call in 0..5 {
        let refund = BankRequest::refund(order.id(), order.amount(), None);
        service.ready().await.unwrap().call(refund).await.unwrap_err();
        // A read is another call.
        service.ready().await.unwrap().call(BankRequest::get_order(order.id())).await.unwrap();
    }
    assert_eq!(held(&bank.lock(), "A-1").len(), 2);
}
