//! Listening, stopping, and runs beside each other.

use badbank::{
    Bank, Ticket,
    fault::Plan,
    http::{ControlOptions, ServerError, ServerOptions},
};
use tokio::time::Duration;

use crate::support::{Connection, TestServer, refunds, request, ticket, wait_until};

const BODY: &str = r#"{"amount":"42.50"}"#;

fn options(address: std::net::SocketAddr) -> ServerOptions {
    ServerOptions { address, control: None }
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let server = TestServer::start();
    let address = server.address();
    let error = TestServer::bind(options(address)).err().unwrap();
    let ServerError::Bind { address: named, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*named, address);
    assert!(error.to_string().contains(&address.to_string()));
}

#[test]
fn a_taken_control_port_is_an_error_too() {
    let server = TestServer::start();
    let control = ControlOptions { address: server.address(), token: "t".to_owned() };
    let taken = ServerOptions { control: Some(control), ..ServerOptions::default() };
    assert!(TestServer::bind(taken).is_err());
}

#[test]
fn hanging_clients_do_not_hold_the_server_up() {
    let mut server = TestServer::start();
    let plan =
        r#"{"version":1,"lost_reply":"hang","rules":[{"on":"refund","fault":"timeout","rate":1}]}"#;
    let run = server.open(&ticket(), Plan::parse(plan).unwrap());
    let address = server.address();
    let hanging = (0..20).map(|_| {
        let mut connection = server.connect();
        connection.send(&request("POST", "/runs/1/orders/A-1/refunds", &[], BODY));
        connection
    });
    let mut hanging: Vec<Connection> = hanging.collect();
    let mut half = server.connect();
    half.send(b"GET /runs/1/tick");
    let mut idle = server.connect();
    assert_eq!(idle.ask("GET", "/runs/1/ticket", &[], "").status, 200);
    wait_until(&run, |bank| bank.history().call_count() == 20);
    assert!(server.shutdown() < Duration::from_secs(1));
    for connection in &mut hanging {
        assert_eq!(connection.read_to_end().unwrap(), b"");
    }
    assert_eq!(refunds(&run), 20);
    let again = TestServer::bind(options(address)).unwrap();
    again.open(&ticket(), Plan::calm());
    assert_eq!(again.ask("GET", "/runs/1/ticket", &[], "").status, 200);
}

#[test]
fn an_answer_on_its_way_is_still_given() {
    let server = TestServer::start();
    let plan = Plan::parse(r#"{"version":1,"latency_ms":50}"#).unwrap();
    let run = server.open(&ticket(), plan);
    let mut connection = server.connect();
    connection.send(&request("POST", "/runs/1/orders/A-1/refunds", &[], BODY));
    wait_until(&run, |bank| bank.history().call_count() == 1);
    drop(server);
    assert_eq!(connection.read().unwrap().status, 201);
}

#[test]
fn runs_share_nothing() {
    let server = TestServer::start();
    let first = server.open(&ticket(), Plan::calm());
    let second = server.open(&ticket(), Plan::calm());
    assert_eq!((first.id(), second.id()), (1, 2));
    assert!(second.url().ends_with("/runs/2"));
    let key = [("Idempotency-Key", "k")];
    for (run, handle) in [(1, &first), (2, &second)] {
        let path = format!("/runs/{run}/orders/A-1/refunds");
        let answer = server.ask("POST", &path, &key, BODY);
        assert_eq!(answer.json()["refund"], 1);
        assert_eq!(answer.header("idempotent-replayed"), None);
        assert_eq!(refunds(handle), 1);
    }
    first.with_bank(Bank::settle);
    assert_eq!(server.ask("GET", "/runs/1/orders/A-1", &[], "").status, 410);
    assert_eq!(server.ask("GET", "/runs/2/orders/A-1", &[], "").status, 200);
    second.close();
    assert_eq!(server.ask("GET", "/runs/2/ticket", &[], "").status, 404);
    assert_eq!(refunds(&second), 1);
}

#[test]
fn a_warm_connection_meets_a_changed_plan() {
    let server = TestServer::start();
    server.open(&ticket(), Plan::calm());
    let mut connection = server.connect();
    let path = "/runs/1/orders/A-1/refunds";
    assert_eq!(connection.ask("POST", path, &[], BODY).status, 201);
    let plan = r#"{"version":1,"rules":[{"on":"refund","fault":"transient","attempts":"2"}]}"#;
    assert_eq!(server.control("PUT", "/runs/1/plan", plan).status, 204);
    assert_eq!(connection.ask("POST", path, &[], BODY).status, 503);
    assert_eq!(connection.ask("POST", path, &[], BODY).status, 201);
    assert_eq!(server.control("PUT", "/runs/1/plan", r#""calm""#).status, 204);
}

#[test]
fn the_same_calls_leave_the_same_history_in_process_and_over_http() {
    let server = TestServer::start();
    let ticket = Ticket::generate(7);
    let plan = Plan::article().seed(7);
    let run = server.open(&ticket, plan.clone());
    let mut bank = Bank::open(&ticket, plan);
    let mut connection = server.connect();
    for order in ticket.orders().iter().cycle().take(200) {
        let amount = order.amount().display(order.currency());
        let path = format!("/runs/1/orders/{}/refunds", order.id());
        connection.ask("POST", &path, &[], &format!(r#"{{"amount":{amount}}}"#));
        let _answer = bank.refund(order.id(), order.amount(), None);
        connection.ask("GET", &format!("/runs/1/orders/{}", order.id()), &[], "");
        let _answer = bank.get_order(order.id());
    }
    let over_http = run.with_bank(|bank| bank.history().to_string());
    assert_eq!(over_http, bank.history().to_string());
}
