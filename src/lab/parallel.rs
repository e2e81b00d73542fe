//! Work on many tickets, on several threads, with the same outcome as on one.

use std::{
    num::NonZero,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::Settings;

/// Tickets that a thread takes at a time.
pub(super) const CHUNK: u64 = 64;

/// What several threads have counted, put together.
pub(super) trait Merge: Default + Send {
    /// Adds what another thread has counted; the order must not matter.
    fn merge(&mut self, other: Self);
}

/// Counts over all tickets: `count` is given a ticket's place, from 0.
pub(super) fn tally<T: Merge>(settings: &Settings<'_>, count: impl Fn(u64, &mut T) + Sync) -> T {
    share(settings.jobs, chunks(settings.tickets), |chunk, tally| {
        let from = chunk * CHUNK;
        let places = from..settings.tickets.min(from.saturating_add(CHUNK));
        let done = places.end - places.start;
        places.for_each(|place| count(place, tally));
        (settings.progress)(done);
    })
}

/// How many pieces of work so many tickets are.
pub(super) fn chunks(tickets: u64) -> u64 {
    tickets.div_ceil(CHUNK)
}

/// Does pieces of work, each of which is given its number, from 0.
///
/// Threads that the system refuses are done without.
pub(super) fn share<T: Merge>(
    jobs: NonZero<usize>,
    pieces: u64,
    work: impl Fn(u64, &mut T) + Sync,
) -> T {
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = T::default();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return tally;
            }
            work(piece, &mut tally);
        }
    };
    let workers = usize::try_from(pieces).unwrap_or(usize::MAX).min(jobs.get());
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (1..workers).map_while(spawn).collect();
        let mut all = work();
        for thread in threads {
            match thread.join() {
                Ok(tally) => all.merge(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}
