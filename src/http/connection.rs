//! The fate of a connection: how long it may dawdle, and how it ends.
//!
//! A handler that returns [`Lost`] ends its connection without a byte; whether the peer then sees a close
//! or a reset is up to its [`Link`]. An idle connection is kept, since a program under test may think for
//! minutes between two calls; one that stops in the middle of a request is not.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::{Instant, Sleep},
};

use super::wire::Body;

/// Header fields that a request may have at the most.
const HEADERS_MAX: usize = 64;
/// Bytes that a request's line and header may have at the most.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// How long a client may keep the server waiting in the middle of a request, at the least; twice that at the most.
const TICK: Duration = Duration::from_secs(10);
/// Ticks for which a connection may lie idle.
const IDLE_TICKS_MAX: u32 = 60;
/// How long answers under way may take when the server stops.
const GRACE: Duration = Duration::from_millis(250);

/// No answer: the connection ends without a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is withheld")]
pub(super) struct Lost;

/// What a connection's socket, its timer and its handlers share.
#[derive(Debug)]
pub(super) struct Link {
    is_reset: AtomicBool,
    /// Whether anything was read since the last request was complete.
    has_read: AtomicBool,
    patience: Mutex<Patience>,
    opened: Instant,
}

/// One timer for the whole life of a connection, which is cheaper than one a request.
#[derive(Debug)]
struct Patience {
    tick: Pin<Box<Sleep>>,
    idle_ticks: u32,
    is_partial: bool,
}

impl Link {
    fn new() -> Self {
        let patience =
            Patience { tick: Box::pin(tokio::time::sleep(TICK)), idle_ticks: 0, is_partial: false };
        Self {
            is_reset: AtomicBool::new(false),
            has_read: AtomicBool::new(false),
            patience: Mutex::new(patience),
            opened: Instant::now(),
        }
    }

    /// Ends the connection, once it is dropped, with a reset instead of a close.
    pub(super) fn reset(&self) {
        self.is_reset.store(true, Relaxed);
    }

    /// Ready at every tick; wakes the task whose context came last.
    pub(super) fn poll_tick(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut patience = self.patience();
        let tick = patience.tick.as_mut();
        std::task::ready!(tick.poll(context));
        patience.tick.as_mut().reset(Instant::now() + TICK);
        Poll::Ready(())
    }

    /// A request is complete up to its body, or with it: what is read from now on is another part.
    pub(super) fn begin(&self) {
        if self.has_read.swap(false, Relaxed) {
            let mut patience = self.patience();
            patience.idle_ticks = 0;
            patience.is_partial = false;
        }
    }

    /// Whether the head of a request is overdue, asked at every tick.
    fn is_overdue(&self) -> bool {
        let mut patience = self.patience();
        if self.has_read.load(Relaxed) {
            return std::mem::replace(&mut patience.is_partial, true);
        }
        patience.idle_ticks += 1;
        patience.idle_ticks > IDLE_TICKS_MAX
    }

    fn patience(&self) -> MutexGuard<'_, Patience> {
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one connection until it ends, or `stop` is told.
pub(super) async fn serve<H, F>(stream: TcpStream, handler: H, mut stop: watch::Receiver<()>)
where
    H: Fn(Request<Incoming>, Arc<Link>) -> F,
    F: Future<Output = Result<Response<Body>, Lost>>,
{
    // Answers are small and written whole; there is nothing to wait for.
    let _without = stream.set_nodelay(true);
    let link = Arc::new(Link::new());
    let socket = Socket { stream, link: Arc::clone(&link) };
    let timer = HeadTimer(Arc::clone(&link));
    let under_way = UnderWay(Arc::default());
    let service = service_fn({
        let under_way = under_way.clone();
        move |request| {
            link.begin();
            under_way.start(handler(request, Arc::clone(&link)))
        }
    });
    let connection = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(TICK)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ended = connection.as_mut() => return under_way.take_in().await,
        _stopped = stop.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _cut = tokio::time::timeout(GRACE, connection).await;
}

/// The handler of a connection's request, if there is one.
///
/// hyper drops its handler as soon as a client is gone, unpolled if request and goodbye are read in one go. But a
/// client that leaves cancels nothing: what came whole is taken in.
struct UnderWay<F>(Arc<Mutex<Option<Pin<Box<F>>>>>);

impl<F> Clone for UnderWay<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: Future> UnderWay<F> {
    /// Starts a handler; the future is its end.
    fn start(&self, handler: F) -> impl Future<Output = F::Output> + use<F> {
        *self.handler() = Some(Box::pin(handler));
        let this = self.clone();
        std::future::poll_fn(move |context| {
            let mut slot = this.handler();
            let handler = slot.as_mut().expect("a request is under way until it is answered");
            let output = std::task::ready!(handler.as_mut().poll(context));
            *slot = None;
            Poll::Ready(output)
        })
    }

    /// Lets the handler of a client that is gone take in what has come; nobody hears its answer.
    async fn take_in(&self) {
        std::future::poll_fn(|context| {
            if let Some(mut handler) = self.handler().take() {
                let _unheard = handler.as_mut().poll(context);
            }
            Poll::Ready(())
        })
        .await;
    }

    fn handler(&self) -> MutexGuard<'_, Option<Pin<Box<F>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that can end with a reset.
struct Socket {
    stream: TcpStream,
    link: Arc<Link>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.link.is_reset.load(Relaxed) {
            // Without it the peer sees a close, which is as lost an answer.
            let _closed = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.link.has_read.store(true, Relaxed);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// hyper's limit on the head of a request, which would count idle time too.
#[derive(Clone)]
struct HeadTimer(Arc<Link>);

impl hyper::rt::Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HeadSleep(Arc::clone(&self.0)))
    }

    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HeadSleep(Arc::clone(&self.0)))
    }

    /// hyper only adds to it, and the sum is not used.
    fn now(&self) -> std::time::Instant {
        self.0.opened.into_std()
    }
}

struct HeadSleep(Arc<Link>);

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while self.0.poll_tick(context).is_ready() {
            if self.0.is_overdue() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl hyper::rt::Sleep for HeadSleep {}
