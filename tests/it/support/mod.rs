//! What several tests need: a server on a thread of its own, and HTTP by hand.

mod connection;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::mpsc,
    thread::JoinHandle,
};

use badbank::{
    Bank, Ticket,
    fault::Plan,
    http::{ControlOptions, RunHandle, Server, ServerError, ServerOptions},
};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    time::{Duration, Instant},
};

pub(crate) use self::connection::{Answer, Connection, End, request, undated};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server with both planes on free ports, on a runtime and a thread of its own.
pub(crate) struct TestServer {
    server: Option<Server>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(crate) const TOKEN: &'static str = "test-token";

    pub(crate) fn start() -> Self {
        Self::bind(ServerOptions {
            control: Some(ControlOptions {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                token: Self::TOKEN.to_owned(),
            }),
            ..ServerOptions::default()
        })
        .unwrap()
    }

    pub(crate) fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let (sender, bound) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let server = runtime.block_on(Server::bind(options));
            sender.send((server, runtime.handle().clone())).unwrap();
            let _dropped = runtime.block_on(stopped);
        });
        let (server, runtime) = bound.recv().unwrap();
        Ok(Self { server: Some(server?), runtime, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn open(&self, ticket: &Ticket, plan: Plan) -> RunHandle {
        self.server().open_run(ticket, plan)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server().address()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// A request on the data plane, on a connection of its own.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.connect().ask(method, path, headers, body)
    }

    pub(crate) fn connect_to_control(&self) -> Connection {
        let url = self.server().control_url().unwrap();
        Connection::open(url.strip_prefix("http://").unwrap().parse().unwrap())
    }

    /// An authorized request on the control plane, on a connection of its own.
    pub(crate) fn control(&self, method: &str, path: &str, body: &str) -> Answer {
        self.control_as("*/*", method, path, body)
    }

    pub(crate) fn control_as(&self, accept: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", Self::TOKEN);
        let headers = [("Authorization", bearer.as_str()), ("Accept", accept)];
        self.connect_to_control().ask(method, path, &headers, body)
    }

    /// Stops the server; returns how long that took.
    pub(crate) fn shutdown(&mut self) -> Duration {
        let start = Instant::now();
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.shutdown());
        }
        start.elapsed()
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shutdown();
        let _ended = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Waits until a run's bank is as `is_so` says.
pub(crate) fn wait_until(run: &RunHandle, is_so: impl Fn(&Bank) -> bool) {
    let start = Instant::now();
    while !run.with_bank(|bank| is_so(bank)) {
        assert!(start.elapsed() < PATIENCE, "it never happened");
        std::thread::yield_now();
    }
}

/// Refunds on the first order of a run's ticket.
pub(crate) fn refunds(run: &RunHandle) -> usize {
    run.with_bank(|bank| bank.ledger().accounts()[0].refunds().len())
}

/// A ticket with an order in euros and one in yen.
pub(crate) fn ticket() -> Ticket {
    Ticket::parse(
        r#"{"version": 1, "id": "T-1", "currency": "EUR", "orders": [
            {"id": "A-1", "amount": "42.50"},
            {"id": "J-1", "amount": "5800", "currency": "JPY"}]}"#,
    )
    .unwrap()
}

/// The plan that scripts these calls, each with its fault, and has nothing else.
pub(crate) fn scripted(calls: &[(&str, &str)]) -> Plan {
    calls.iter().fold(Plan::calm(), |plan, (call, fault)| {
        plan.script(call.parse().unwrap(), fault.parse().unwrap()).unwrap()
    })
}
