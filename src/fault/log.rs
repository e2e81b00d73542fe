//! The faulted calls of a run, in one canonical text.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::Fault;
use crate::{
    call::CallId,
    document::{DocumentError, unmarked},
    money::shorten,
    seed::Seed,
};

const HEADER: &str = "badbank faults v1 seed=";

/// Which calls of a run met which fault.
///
/// [`Display`](fmt::Display) writes the canonical text, sorted by order id, `get_order` before `refund`,
/// and attempt: the same for the same plan, seed and program whatever the threads and the transport.
///
/// # Examples
///
/// ```
/// use badbank::fault::FaultLog;
///
/// let log: FaultLog = "badbank faults v1 seed=7\nA-2186 refund #1 duplicate\n".parse()?;
/// assert_eq!(log.to_string(), "badbank faults v1 seed=7\nA-2186 refund #1 duplicate\n");
/// # Ok::<(), badbank::DocumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultLog {
    seed: Seed,
    calls: Vec<(CallId, Fault)>,
}

impl FaultLog {
    /// The log of a run, its calls in the order in which they came.
    pub fn new(seed: Seed, calls: Vec<(CallId, Fault)>) -> Self {
        Self { seed, calls }
    }

    /// The seed of the run.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The faulted calls, in the order in which they came, or were read.
    pub fn calls(&self) -> &[(CallId, Fault)] {
        &self.calls
    }

    /// The faulted calls as the canonical text sorts them, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut sorted: Vec<_> = self.calls.iter().collect();
        sorted.sort();
        sorted.into_iter().map(line).collect()
    }

    /// The same lines in the order in which the calls came.
    pub fn by_arrival(&self) -> String {
        let lines = self.calls.iter().map(line);
        std::iter::once(format!("{HEADER}{}", self.seed))
            .chain(lines)
            .fold(String::new(), |text, line| text + &line + "\n")
    }

    /// Whether a text begins as a fault log does.
    pub fn is_one(text: &str) -> bool {
        unmarked(text).starts_with("badbank faults ")
    }
}

fn line((call, fault): &(CallId, Fault)) -> String {
    format!("{call} {fault}")
}

impl fmt::Display for FaultLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}{}", self.seed)?;
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A seed as logs write it: digits alone.
fn seed_of(text: &str) -> Option<Seed> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

impl FromStr for FaultLog {
    type Err = DocumentError;

    fn from_str(text: &str) -> Result<Self, DocumentError> {
        let lines = unmarked(text).lines();
        let mut lines = lines.enumerate().map(|(index, line)| (index + 1, line.trim_end()));
        let (_, first) = lines.next().unwrap_or((1, ""));
        let seed = first.strip_prefix(HEADER).and_then(seed_of).ok_or_else(|| {
            let first = shorten(first);
            DocumentError::new(
                1,
                format!("`{first}` does not begin a fault log; its first line is like `{HEADER}7`"),
            )
        })?;
        let mut calls: Vec<(CallId, Fault)> = Vec::new();
        let mut listed = BTreeSet::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let malformed = || {
                let line = shorten(line);
                DocumentError::new(
                    number,
                    format!(
                        "`{line}` is no faulted call; write it like `A-2186 refund #1 duplicate`"
                    ),
                )
            };
            let (call, fault) = line.rsplit_once(' ').ok_or_else(malformed)?;
            let call: CallId = call.parse().map_err(|_| malformed())?;
            let fault: Fault = fault.parse().map_err(|error| DocumentError::new(number, error))?;
            fault.check_on(call.operation).map_err(|error| DocumentError::new(number, error))?;
            if !listed.insert(call.clone()) {
                return Err(DocumentError::new(
                    number,
                    format!("`{call}` is listed twice; a call meets one fault at the most"),
                ));
            }
            calls.push((call, fault));
        }
        Ok(Self { seed, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_text_is_sorted_by_bytes_then_operation_then_number() {
        let text = "badbank faults v1 seed=7\nB refund #10 timeout\nB refund #2 lost\nB get_order #1 transient\na refund #1 duplicate\nA-10 refund #1 duplicate\n";
        let log: FaultLog = text.parse().unwrap();
        assert_eq!(log.by_arrival(), text);
        assert_eq!(
            log.to_string(),
            "badbank faults v1 seed=7\nA-10 refund #1 duplicate\nB get_order #1 transient\nB refund #2 lost\nB refund #10 timeout\na refund #1 duplicate\n"
        );
    }

    #[test]
    fn a_damaged_log_is_refused_at_its_line() {
        for (text, line) in [
            ("", 1),
            ("badbank faults v2 seed=7\n", 1),
            ("badbank faults v1 seed=x\n", 1),
            ("badbank faults v1 seed=7\nA-1 refund 1 timeout\n", 2),
            ("badbank faults v1 seed=7\nA-1 refund #0 timeout\n", 2),
            ("badbank faults v1 seed=7\n\nA-1 refund #1 tim\n", 3),
            ("badbank faults v1 seed=7\nA-1 get_order #1 timeout\n", 2),
            ("badbank faults v1 seed=7\nA-1 refund #1 timeout\nA-1 refund #1 lost\n", 3),
        ] {
            assert_eq!(text.parse::<FaultLog>().unwrap_err().line, line, "{text:?}");
        }
    }
}
