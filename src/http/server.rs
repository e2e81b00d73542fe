//! The two listeners.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{Request, Response, body::Incoming};
use tokio::{net::TcpListener, sync::watch};

use super::{
    connection::{self, Link, Lost},
    control::ControlPlane,
    data,
    run::{RunHandle, Runs},
    wire::Body,
};
use crate::{fault::Plan, ticket::Ticket};

/// How long a stopping server waits for its connections; each of them gives up earlier by itself.
const STOP_MAX: Duration = Duration::from_millis(900);
/// How long to wait when the system has no descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address of the data plane; port 0 takes a free one.
    pub address: SocketAddr,
    /// The control plane, if there is to be one.
    pub control: Option<ControlOptions>,
}

impl Default for ServerOptions {
    /// A data plane on a free port of the loopback interface, and no control plane.
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), control: None }
    }
}

/// Where the control plane listens, and whom it obeys.
#[derive(Clone)]
pub struct ControlOptions {
    /// Its address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The bearer token that it wants.
    pub token: String,
}

impl fmt::Debug for ControlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A server of runs. It works on the runtime in which it was bound, and stops when it is dropped.
///
/// # Examples
///
/// ```
/// use badbank::{Ticket, fault::Plan, http::{Client, Server, ServerOptions}};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let server = runtime.block_on(Server::bind(ServerOptions::default()))?;
/// let run = server.open_run(&Ticket::generate(7), Plan::calm());
/// let url = run.url();
/// let program = std::thread::spawn(move || {
///     use badbank::call::Payments as _;
///     let mut client = Client::new(&url).unwrap();
///     for order in client.ticket().unwrap().orders() {
///         client.refund(order.id(), order.amount(), None).unwrap();
///     }
/// });
/// runtime.block_on(async {
///     while !program.is_finished() {
///         tokio::task::yield_now().await;
///     }
///     server.shutdown().await;
/// });
/// assert!(run.with_bank(|bank| bank.ledger().accounts().iter().all(|account| account.refunds().len() == 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    runs: Arc<Runs>,
    address: SocketAddr,
    control: Option<ControlOptions>,
    stop: watch::Sender<()>,
}

impl Server {
    /// Listens, and serves from then on.
    ///
    /// # Errors
    ///
    /// [`ServerError::Bind`] if an address is taken or not this machine's.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let (data, address) = listen(options.address).await?;
        let mut control = None;
        if let Some(ControlOptions { address, token }) = options.control {
            let (listener, address) = listen(address).await?;
            control = Some((listener, ControlOptions { address, token }));
        }
        let runs = Arc::new(Runs::new(url(address)));
        let (stop, stopped) = watch::channel(());
        tokio::spawn(accept(data, stopped.clone(), {
            let runs = Arc::clone(&runs);
            move |request, link| data::handle(Arc::clone(&runs), link, request)
        }));
        let control = control.map(|(listener, options)| {
            let plane = Arc::new(ControlPlane::new(Arc::clone(&runs), &options.token));
            tokio::spawn(accept(listener, stopped, move |request, link| {
                Arc::clone(&plane).handle(link, request)
            }));
            options
        });
        Ok(Self { runs, address, control, stop })
    }

    /// The data plane's address, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The data plane's URL, without a slash at its end.
    pub fn url(&self) -> &str {
        self.runs.base()
    }

    /// The control plane's URL, without a slash at its end.
    pub fn control_url(&self) -> Option<String> {
        self.control.as_ref().map(|control| url(control.address))
    }

    /// The token that the control plane wants.
    pub fn token(&self) -> Option<&str> {
        self.control.as_ref().map(|control| control.token.as_str())
    }

    /// Opens a run under the next number.
    pub fn open_run(&self, ticket: &Ticket, plan: Plan) -> RunHandle {
        RunHandle::new(Arc::clone(&self.runs), self.runs.open(ticket, plan))
    }

    /// Stops within a second, however many clients wait for an answer. The ports are free afterwards; the
    /// runs can still be read and graded.
    pub async fn shutdown(self) {
        // Nobody is left to be told if every task has ended already.
        let _alone = self.stop.send(());
        let _late = tokio::time::timeout(STOP_MAX, self.stop.closed()).await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let bind_error = |source| ServerError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    Ok((listener, address))
}

/// Takes connections until `stop` is told, each into a task of its own.
async fn accept<H, F>(listener: TcpListener, mut stop: watch::Receiver<()>, handler: H)
where
    H: Fn(Request<Incoming>, Arc<Link>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<Body>, Lost>> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection::serve(stream, handler.clone(), stop.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    // In this order: whoever waits for the last receiver may count on the port.
    drop(listener);
    drop(stop);
}

/// The URL under which this machine reaches a listener.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}
