//! The injector around a client of a service that is not ours.

use badbank::{
    call::{CallError, Operation},
    fault::Plan,
    service::{Inject, InjectLayer},
    ticket::OrderId,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Response, body::Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::ledger::{HttpRequest, PlainLedger, name, text};
use crate::support::scripted;

type Naming = fn(&HttpRequest) -> Option<(Operation, OrderId)>;
type Answering = fn(CallError) -> Result<Response<Incoming>, BoxError>;

fn layer(plan: &Plan) -> InjectLayer<Naming, Answering> {
    let answering: Answering = |error| Err(error.into());
    InjectLayer::new(plan, name as Naming, answering).unwrap()
}

/// A client whose errors are boxed, since nobody but it can make its own.
fn client()
-> impl Service<HttpRequest, Response = Response<Incoming>, Error = BoxError, Future: Send + 'static>
+ Clone
+ Send
+ 'static {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    ServiceBuilder::new().map_err(BoxError::from).service(client)
}

/// What the caller is told, in text.
async fn ask<S>(service: &Inject<S, Naming, Answering>, request: HttpRequest) -> String
where
    Inject<S, Naming, Answering>:
        Service<HttpRequest, Response = Response<Incoming>, Error = BoxError> + Clone,
{
    match service.clone().oneshot(request).await {
        Ok(response) => text(response).await,
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_reply_is_lost_after_the_commit_and_a_request_is_delivered_twice() {
    let ledger = PlainLedger::start().await;
    let faults = layer(&scripted(&[
        ("A-1 refund #1", "timeout"),
        ("A-1 refund #2", "transient"),
        ("A-1 refund #3", "reset_after"),
        ("A-2 refund #1", "duplicate"),
        ("A-3 refund #1", "twice_overlapping+reply"),
    ]));
    let service = ServiceBuilder::new().layer(faults.clone()).service(client());
    let refund = |order: &str| ask(&service, ledger.refund(order, "42.50"));

    assert_eq!(refund("A-1").await, "The request may or may not have been processed.");
    assert_eq!(ledger.held("A-1"), ["42.50"]);
    assert_eq!(refund("A-1").await, "Service Unavailable. This attempt made no changes.");
    assert_eq!(ledger.held("A-1"), ["42.50"]);
    assert!(refund("A-1").await.ends_with("connection reset"));
    assert_eq!(refund("A-1").await, "refund #3");
    assert_eq!(refund("A-2").await, "refund #1");
    assert_eq!(ledger.held("A-2"), ["42.50", "42.50"]);
    refund("A-3").await;
    assert_eq!(ledger.held("A-3"), ["42.50", "42.50"]);
    assert_eq!(ask(&service, ledger.read("A-1")).await, "42.50 + 42.50 + 42.50");
    assert_eq!(
        faults.log().to_string(),
        "badbank faults v1 seed=1\n\
         A-1 refund #1 timeout\n\
         A-1 refund #2 transient\n\
         A-1 refund #3 reset_after\n\
         A-2 refund #1 duplicate\n\
         A-3 refund #1 twice_overlapping+reply\n"
    );
}

#[tokio::test]
async fn a_late_refund_lands_after_the_caller_has_looked_and_paid_again() {
    let ledger = PlainLedger::start().await;
    let faults = layer(&scripted(&[
        ("A-1 refund #1", "late(2)"),
        ("A-2 refund #1", "late(9)"),
        ("A-2 refund #2", "late(9)"),
    ]));
    let service = ServiceBuilder::new().layer(faults.clone()).service(client());
    let ask = |request| ask(&service, request);

    ask(ledger.refund("A-1", "1.00")).await;
    assert_eq!(ask(ledger.read("A-1")).await, "");
    assert_eq!(ask(ledger.refund("A-1", "2.00")).await, "refund #1");
    // It was there before the repeat was answered.
    assert_eq!(ledger.held("A-1"), ["2.00", "1.00"]);

    ask(ledger.refund("A-2", "3.00")).await;
    ask(ledger.refund("A-2", "4.00")).await;
    assert_eq!(ledger.held("A-2"), [""; 0]);
    faults.settle().await;
    assert_eq!(ledger.held("A-2"), ["3.00", "4.00"]);
}

#[tokio::test]
async fn a_caller_that_leaves_in_mid_call_cancels_nothing() {
    let ledger = PlainLedger::start_closed().await;
    let faults = layer(&scripted(&[
        ("A-1 refund #1", "duplicate"),
        ("A-1 refund #2", "late(1)"),
        ("A-1 refund #3", "transient"),
    ]));
    let service = ServiceBuilder::new().layer(faults.clone()).service(client());
    let refund = || service.clone().oneshot(ledger.refund("A-1", "42.50"));

    let mut call = Box::pin(refund());
    tokio::select! {
        answer = &mut call => panic!("it was answered: {answer:?}"),
        () = ledger.arrival() => {}
    }
    drop(call);
    // A late one, and one that lets it land and whose caller does not wait for that.
    let _lost = refund().await;
    let mut call = Box::pin(refund());
    tokio::select! {
        biased;
        answer = &mut call => panic!("it was answered: {answer:?}"),
        () = ledger.arrival() => {}
    }
    drop(call);
    assert_eq!(ledger.held("A-1"), [""; 0]);
    ledger.admit(3);
    faults.settle().await;
    assert_eq!(ledger.held("A-1").len(), 3);
}

#[tokio::test]
async fn what_is_no_call_passes_untouched_and_uncounted() {
    let ledger = PlainLedger::start().await;
    let faults = layer(&scripted(&[("A-1 refund #1", "duplicate"), ("A-1 refund #2", "timeout")]));
    let service = ServiceBuilder::new().layer(faults.clone()).service(client());
    let missing = ledger.request(Method::PUT, "/orders/A-1/refunds", "42.50");
    assert_eq!(ask(&service, missing).await, "no such thing");
    assert_eq!(ask(&service, ledger.refund("A-1", "42.50")).await, "refund #1");
    assert_eq!(ledger.held("A-1").len(), 2);
    // What the service refuses is no secret, unless the caller hears nothing.
    let nothing_heard = "The request may or may not have been processed.";
    assert_eq!(ask(&service, ledger.refund("A-1", "")).await, nothing_heard);
    assert_eq!(ask(&service, ledger.refund("A-1", "")).await, "no amount");
    assert_eq!(ledger.held("A-1").len(), 2);
}
