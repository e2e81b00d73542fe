//! Judges a run from evidence alone.
//!
//! The grader reads ticket, ledger, history and report, never the plan, so it can judge a run read from
//! disk as well as one that has just ended. Refunds are matched against the expected ones, one to one
//! and exactly; every wrong order comes with its cause and the calls that prove it.

mod cause;
mod exposure;
mod facts;
mod judge;
mod render;
mod report;
mod truth;

use std::{collections::BTreeMap, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap};

pub(crate) use self::judge::Evidence;
pub use self::{
    cause::Cause,
    report::{Claim, Report},
};
use crate::{call::CallId, history::History, money::Decimal, ticket::OrderId};

/// What comes out of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every order is right, no claim is wrong, and the faults were met.
    Pass,
    /// An order is wrong, or the report is false.
    Fail,
    /// Nothing is wrong, but the faults that matter were not met: the run shows nothing.
    NotExposed,
}

impl Verdict {
    /// The word in grades.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotExposed => "not_exposed",
        }
    }

    /// The verdict over several runs: fail if one failed, not exposed if none was, else pass.
    pub fn over(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let mut over = Self::NotExposed;
        for verdict in verdicts {
            match verdict {
                Self::Fail => return Self::Fail,
                Self::Pass => over = Self::Pass,
                Self::NotExposed => {}
            }
        }
        over
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderVerdict {
    /// It holds exactly what was expected.
    Ok,
    /// It holds more.
    Duplicated,
    /// It was to be left alone, and holds a refund.
    Stray,
    /// It holds less.
    Missed,
    /// It holds another refund than was expected.
    WrongAmount,
}

impl OrderVerdict {
    /// The word in grades.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Duplicated => "duplicated",
            Self::Stray => "stray",
            Self::Missed => "missed",
            Self::WrongAmount => "wrong_amount",
        }
    }
}

impl fmt::Display for OrderVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a refund is too many, or is missing.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Number of the refund that is too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<u32>,
    /// The expected refund that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Decimal>,
    /// Why.
    pub cause: Cause,
    /// The calls that prove it.
    #[serde(serialize_with = "by_name")]
    pub calls: Vec<CallId>,
}

/// Calls of each operation on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Reads.
    pub get_order: u32,
    /// Refunds asked for.
    pub refund: u32,
}

/// The verdict on one order.
#[derive(Clone, Debug, Serialize)]
pub struct OrderGrade {
    /// The order.
    pub order: OrderId,
    /// What came of it.
    pub verdict: OrderVerdict,
    /// The refunds that were asked for.
    pub expected: Vec<Decimal>,
    /// The refunds that it holds.
    pub refunds: Vec<Decimal>,
    /// Its calls.
    pub attempts: CallCounts,
    /// Why it is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Finding>,
    #[serde(skip)]
    steps: Vec<render::Step>,
    #[serde(skip)]
    currency: crate::money::Currency,
}

/// Sums of money by the code of their currency.
type ByCurrency = BTreeMap<&'static str, Decimal>;

/// Whether all events of the run were there to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceState {
    /// They were.
    Full,
    /// The history was full: verdicts are exact, causes may be missing.
    Partial,
}

/// The verdict per order, with cause and evidence, and whether the report is true.
///
/// [`Display`](fmt::Display) writes it for people; serde, for programs. Calls are named, not numbered
/// by arrival, so the grades of one seed are byte-identical.
#[derive(Clone, Debug, Serialize)]
pub struct Grade {
    verdict: Verdict,
    ok: usize,
    missed: usize,
    dup_orders: usize,
    extra_refunds: u64,
    wrong: usize,
    stray: usize,
    all_ok: bool,
    report_true: Option<bool>,
    report_note: Option<String>,
    over_refunded: ByCurrency,
    under_refunded: ByCurrency,
    orders: Vec<OrderGrade>,
    #[serde(serialize_with = "as_map")]
    exposure: Vec<(String, u64)>,
    unfired: Vec<String>,
    overlapped: Vec<OrderId>,
    evidence: EvidenceState,
    calls: u64,
}

impl Grade {
    /// Grades a recorded run, with `report` in place of the recorded one if it is given.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::{Bank, Ticket, fault::Plan, grade::Grade, history::History};
    ///
    /// let ticket = Ticket::generate(7);
    /// let mut bank = Bank::open(&ticket, Plan::calm());
    /// for order in ticket.orders() {
    ///     bank.refund(order.id(), order.amount(), None)?;
    /// }
    /// bank.settle();
    ///
    /// let recorded = History::parse(&bank.history().to_string())?.history;
    /// assert!(Grade::of(&recorded, None).all_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(history: &History, report: Option<&str>) -> Self {
        Evidence::recorded(history).grade(report)
    }

    /// What comes out of the run.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether every order is right.
    pub fn all_ok(&self) -> bool {
        self.all_ok
    }

    /// Refunds too many, over all orders.
    pub fn extra_refunds(&self) -> u64 {
        self.extra_refunds
    }

    /// Whether the report is true; none if that cannot be said.
    pub fn report_true(&self) -> Option<bool> {
        self.report_true
    }

    /// Why the report is not true, or cannot be judged.
    pub fn report_note(&self) -> Option<&str> {
        self.report_note.as_deref()
    }

    /// The orders, in the ticket's order.
    pub fn orders(&self) -> &[OrderGrade] {
        &self.orders
    }

    /// The verdict on an order.
    pub fn order(&self, id: &str) -> Option<&OrderGrade> {
        self.orders.iter().find(|order| order.order.as_str() == id)
    }

    /// How many calls met each fault, by the fault's name.
    pub fn exposure(&self) -> &[(String, u64)] {
        &self.exposure
    }

    /// Scripted faults that no call met.
    pub fn unfired(&self) -> &[String] {
        &self.unfired
    }

    /// Orders on which a call came while another was unanswered: which of their calls is which attempt
    /// depends on arrival.
    pub fn overlapped(&self) -> &[OrderId] {
        &self.overlapped
    }

    /// Whether all events of the run were there to be read.
    pub fn evidence(&self) -> EvidenceState {
        self.evidence
    }

    /// Calls of the run.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The grade as one JSON object.
    ///
    /// # Panics
    ///
    /// Never: a grade has no map whose keys are not strings.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a grade has no map whose keys are not strings")
    }
}

fn by_name<S: Serializer>(calls: &[CallId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(calls.iter().map(ToString::to_string))
}

fn as_map<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, count) in pairs {
        map.serialize_entry(name, count)?;
    }
    map.end()
}
