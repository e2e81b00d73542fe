//! A history that is written to a file while its run goes on.

use std::mem;

use super::{CallRecord, Event, History, Memory};

/// The lines that nobody has taken yet.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    text: String,
    /// Events that were streamed.
    events: usize,
    /// Whether everything is streamed, kept in memory or not.
    is_whole: bool,
}

impl History {
    /// The lines that were not taken yet.
    pub(crate) fn drain(&mut self) -> String {
        if let Some(stream) = &mut self.stream {
            return mem::take(&mut stream.text);
        }
        let (events, is_whole) = (self.events.len(), !self.is_cut);
        self.stream = Some(Stream { text: String::new(), events, is_whole });
        self.lines().collect()
    }

    pub(super) fn stream_on(&mut self, event: &Event, call: Option<&CallRecord>, memory: Memory) {
        let Some(stream) = &mut self.stream else { return };
        if memory == Memory::Forgets && !stream.is_whole {
            return;
        }
        // Of what is whole, nothing is missing that totals could tell.
        let totals = self.totals.as_deref().filter(|_| !stream.is_whole);
        stream.text += &self.header.event_line(stream.events, event, call, totals);
        stream.events += 1;
    }
}
