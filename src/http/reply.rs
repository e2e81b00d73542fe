//! The body of an answer: whole, cut short, or in pieces.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{connection::Lost, outgoing::Witness};

/// Pieces that a slow body comes in.
const PIECES: usize = 4;

/// The body of every answer.
#[derive(Debug, Default)]
pub(super) struct Body {
    pieces: VecDeque<Bytes>,
    /// What is said of the length beforehand; nothing makes the transfer chunked.
    length: Option<u64>,
    end: End,
    pause: Option<Pause>,
    /// Told before the last piece leaves.
    witness: Option<Witness>,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// As it should.
    #[default]
    Complete,
    /// With an error, once what came before has been sent.
    Cut { is_flushed: bool },
}

/// A wait between two pieces.
#[derive(Debug)]
struct Pause {
    sleep: Pin<Box<Sleep>>,
    length: Duration,
}

impl Body {
    /// A body that arrives.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = Some(bytes.len() as u64);
        Self { pieces: VecDeque::from([bytes]), length, ..Self::default() }
    }

    /// The first half of this body; the rest is announced, or is to be chunked, and never comes.
    pub(super) fn cut(mut self, is_chunked: bool) -> Self {
        let bytes = self.pieces.pop_front().unwrap_or_default();
        let half = bytes.slice(..bytes.len() / 2);
        let length = self.length.filter(|_| !is_chunked);
        Self {
            pieces: VecDeque::from([half]),
            length,
            end: End::Cut { is_flushed: false },
            ..Self::default()
        }
    }

    /// This body in pieces, with a wait before each but the first; the waits come to `time`, and before the last piece
    /// the witness is told.
    pub(super) fn dribble(mut self, time: Duration, witness: Option<Witness>) -> Self {
        let bytes = self.pieces.pop_front().unwrap_or_default();
        let size = bytes.len().div_ceil(PIECES).max(1);
        self.pieces = (0..bytes.len())
            .step_by(size)
            .map(|at| bytes.slice(at..bytes.len().min(at + size)))
            .collect();
        let pauses = u32::try_from(self.pieces.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        self.pause = Some(Pause { sleep, length: time / pauses });
        self.witness = witness;
        self
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.sleep.as_mut().poll(context));
            let next = Instant::now() + pause.length;
            pause.sleep.as_mut().reset(next);
        }
        if let Some(piece) = self.pieces.pop_front() {
            if self.pieces.is_empty()
                && let Some(witness) = self.witness.take()
            {
                witness.delivered();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match self.end {
            End::Complete => Poll::Ready(None),
            End::Cut { is_flushed: true } => Poll::Ready(Some(Err(Lost))),
            End::Cut { is_flushed: false } => {
                // The connection writes out what it has before it asks again.
                self.end = End::Cut { is_flushed: true };
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Complete && self.pieces.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
