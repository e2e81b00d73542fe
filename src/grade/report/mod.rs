//! Reads what the program under test says it did.
//!
//! Free text cannot be judged without guessing, so a report has a fixed form: lines such as
//! `REFUNDED: A-1, A-2`, or JSON. Whatever else a program prints is passed over, and a text without that form
//! is unreadable rather than guessed at. Reading never fails, and takes time in proportion to the text.
//!
//! **Lines.** A label (`REFUNDED`, `FAILED`, `DUPLICATED` or `UNKNOWN`, in any case), a colon, and ids or `none`.
//! Bullets, numbers, quote marks, cells and emphasis of Markdown may stand around the label, nothing else: neither
//! a label in the middle of a sentence nor `NOT REFUNDED:` is one. Every id on the line is claimed, whatever the words
//! beside it say; nothing is when the list is empty or begins with `none`. Claim lines that follow each other
//! are a block, also across blank lines; the last block counts.
//!
//! **JSON.** One object, perhaps in a code fence, whose `refunded`, `failed`, `duplicated` and `unknown` are lists
//! of strings. One that has none of the four, or whose list is anything else, is unreadable.

mod json;
mod lines;

use std::{collections::BTreeMap, fmt};

use crate::ticket::OrderId;

/// What a report can say of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// Every expected refund was made, once.
    Refunded,
    /// An expected refund was not made.
    Failed,
    /// More was refunded than was expected.
    Duplicated,
    /// The program cannot tell.
    Unknown,
}

impl Claim {
    /// The four claims, in the order in which reports list them.
    pub const ALL: [Self; 4] = [Self::Refunded, Self::Failed, Self::Duplicated, Self::Unknown];

    /// The label in reports and notes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refunded => "REFUNDED",
            Self::Failed => "FAILED",
            Self::Duplicated => "DUPLICATED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The claim with that label, in any case.
    fn from_label(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|claim| claim.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the program under test says it did, order by order.
///
/// # Examples
///
/// ```
/// use badbank::grade::{Claim, Report};
///
/// let report = Report::read("Done.\n\nREFUNDED: A-1, A-10\nFAILED: none\nUNKNOWN: a-2 (no answer)");
/// assert!(report.claims("A-10").eq([Claim::Refunded]));
/// assert!(report.claims("A-2").eq([Claim::Unknown]));
/// assert!(!Report::read("I refunded 42.50 EUR on A-1.").is_readable());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    text: String,
    is_readable: bool,
    claimed: Vec<Claimed>,
    /// Places in `claimed` by id in lower case.
    places: BTreeMap<String, usize>,
}

/// An id and what is claimed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimed {
    id: OrderId,
    claims: Vec<Claim>,
}

impl Report {
    /// Reads a text or JSON; what is in neither form makes a report that is not readable.
    pub fn read(text: &str) -> Self {
        let shown = text.strip_prefix('\u{feff}').unwrap_or(text);
        let found = json::read(shown).or_else(|| lines::read(shown));
        let mut report =
            Self { text: text.to_owned(), is_readable: found.is_some(), ..Self::default() };
        for (claim, id) in found.into_iter().flatten() {
            report.add(claim, id);
        }
        report
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text had the form of a report, be it one that claims nothing.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// What is claimed of an order, each claim once, in the order in which they are first made. Ids compare whole,
    /// the case of ASCII letters aside.
    pub fn claims(&self, order: &str) -> impl Iterator<Item = Claim> {
        self.places
            .get(&order.to_ascii_lowercase())
            .into_iter()
            .flat_map(|place| self.claimed[*place].claims.iter().copied())
    }

    /// Every id that is claimed, once, as it is first written and in that order.
    ///
    /// In a text, other words beside the ids (`already`, `42.50`) are among them where they have the form of an id:
    /// only a ticket can tell them apart.
    pub fn ids(&self) -> impl Iterator<Item = &OrderId> {
        self.claimed.iter().map(|claimed| &claimed.id)
    }

    fn add(&mut self, claim: Claim, id: OrderId) {
        let next = self.claimed.len();
        let place = *self.places.entry(id.to_ascii_lowercase()).or_insert(next);
        if place == next {
            let claims = Vec::new();
            self.claimed.push(Claimed { id, claims });
        }
        let claims = &mut self.claimed[place].claims;
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
}

#[cfg(test)]
mod tests;
