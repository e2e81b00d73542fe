//! Work on many tickets, on several threads, with the same outcome as on one.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::Settings;

/// Tickets that a thread takes at a time.
const CHUNK: u64 = 64;

/// What several threads have counted, put together.
pub(super) trait Merge: Default + Send {
    /// Adds what another thread has counted; the order must not matter.
    fn merge(&mut self, other: Self);
}

/// Counts over all tickets: `count` is given a ticket's place, from 0.
pub(super) fn tally<T: Merge>(settings: &Settings<'_>, count: impl Fn(u64, &mut T) + Sync) -> T {
    let next = AtomicU64::new(0);
    let take = || -> Option<Range<u64>> {
        let from = next.fetch_add(CHUNK, Ordering::Relaxed);
        (from < settings.tickets).then(|| from..settings.tickets.min(from.saturating_add(CHUNK)))
    };
    let work = || {
        let mut tally = T::default();
        while let Some(places) = take() {
            let done = places.end - places.start;
            places.for_each(|place| count(place, &mut tally));
            (settings.progress)(done);
        }
        tally
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (1..settings.jobs.get()).map(|_| scope.spawn(work)).collect();
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
