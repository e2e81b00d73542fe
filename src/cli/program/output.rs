//! Reads a program's output to its end, and keeps the last part.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The last bytes of an output.
#[derive(Debug)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    kept_max: usize,
    is_cut: bool,
}

impl Tail {
    /// One that keeps so many bytes.
    pub(super) fn new(kept_max: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            kept_max,
            is_cut: false,
        }
    }

    /// Reads to the end, if there is anything to read from. An error is an end too.
    pub(super) async fn fill(&mut self, output: Option<impl AsyncRead + Unpin>) {
        let Some(mut output) = output else {
            return;
        };
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = output.read(&mut chunk).await {
            self.push(&chunk[..length]);
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(self.kept_max);
        self.kept.drain(..excess);
        self.is_cut |= excess > 0;
    }

    /// Whether there was more than what is kept.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What is kept. Of a cut output the first line goes too, as a part of a line may say what the whole does not;
    /// but the last line stays, however long.
    pub(super) fn into_lines(self) -> Vec<u8> {
        let mut kept = Vec::from(self.kept);
        if self.is_cut {
            let last = kept.len().saturating_sub(1);
            let end = kept[..last].iter().position(|byte| *byte == b'\n');
            kept.drain(..end.map_or(0, |end| end + 1));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(pieces: &[&str]) -> (String, bool) {
        let mut tail = Tail::new(10);
        for piece in pieces {
            tail.push(piece.as_bytes());
        }
        let is_cut = tail.is_cut();
        (String::from_utf8(tail.into_lines()).unwrap(), is_cut)
    }

    #[test]
    fn a_cut_output_starts_with_a_whole_line() {
        assert_eq!(tail(&[]), (String::new(), false));
        assert_eq!(tail(&["one\n", "two\n"]), ("one\ntwo\n".into(), false));
        assert_eq!(tail(&["0123456789"]), ("0123456789".into(), false));
        assert_eq!(
            tail(&["one\n", "two\n", "three\n"]),
            ("three\n".into(), true)
        );
        assert_eq!(tail(&["not FAILED\nend\n"]), ("end\n".into(), true));
        assert_eq!(
            tail(&["a line without an end"]),
            ("out an end".into(), true)
        );
        assert_eq!(
            tail(&["a line with an end\n"]),
            ("th an end\n".into(), true)
        );
    }
}
