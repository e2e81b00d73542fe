//! An order that is to be refunded: what the agent knows of it, and what it does next.

use serde::{Deserialize, Serialize};

use super::{Action, Manner, Wording};
use crate::{
    call::CallError,
    money::{Amount, Currency},
    ticket::{Order, OrderId},
};

/// Reads of an order that may fail in a row before the agent gives the order up.
const READS_MAX: u32 = 25;

/// Refund calls for each expected refund.
const REFUNDS_MAX: u32 = 3;

/// An order that is to be refunded, and what the agent knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    order: OrderId,
    currency: Currency,
    /// What the ticket asks for.
    expect: Vec<Amount>,
    /// What the order holds when all is well: the expected refunds, and the others that it held before.
    wanted: Vec<Amount>,
    /// The refunds that the last read showed, and those that have succeeded since; none before the first.
    known: Option<Vec<Amount>>,
    /// Whether the order has to be read before anything else is done with it.
    needs_read: bool,
    /// Whether a refund since the last read may have happened without the agent knowing.
    is_open: bool,
    /// Whether the number of a refund gave away that the order holds more than is wanted.
    is_over: bool,
    reads_left: u32,
    refunds_left: u32,
    /// Refund calls that were written for the intent at hand.
    written: u32,
}

impl Task {
    pub(super) fn new(manner: Manner, order: &Order) -> Self {
        let looks = manner != Manner::Hasty;
        let expect = order.expect().to_vec();
        // A refund held before that equals an expected one fulfils it.
        let mut wanted = expect.clone();
        wanted.extend(without(order.refunded(), &expect));
        let expected = u32::try_from(expect.len()).unwrap_or(u32::MAX);
        Self {
            order: order.id().clone(),
            currency: order.currency(),
            expect,
            wanted,
            known: (!looks).then(|| order.refunded().to_vec()),
            needs_read: looks,
            is_open: false,
            is_over: false,
            reads_left: READS_MAX,
            refunds_left: expected.saturating_mul(REFUNDS_MAX),
            written: 0,
        }
    }

    pub(super) fn order(&self) -> &OrderId {
        &self.order
    }

    pub(super) fn currency(&self) -> Currency {
        self.currency
    }

    pub(super) fn needs_read(&self) -> bool {
        self.needs_read
    }

    /// The next refund to send, if there is one; until it is answered, it may have happened.
    pub(super) fn pay(&mut self, manner: Manner) -> Option<Action> {
        if self.needs_read || self.refunds_left == 0 {
            return None;
        }
        let amount = *self.missing().first()?;
        self.refunds_left -= 1;
        self.written += 1;
        self.needs_read = manner != Manner::Hasty;
        self.is_open = true;
        Some(Action::Refund(amount))
    }

    /// What the next refund is for: the same words until it is known to have happened.
    pub(super) fn intent(&self) -> String {
        let part = self.expect.len() - self.missing().len() + 1;
        match self.expect.len() {
            1 => format!("refund:{}", self.order),
            _ => format!("refund:{}/{part}", self.order),
        }
    }

    /// How the call that was just written is worded.
    pub(super) fn wording(&self, manner: Manner) -> Wording {
        match manner {
            Manner::Paraphrasing => Wording::after(self.written.saturating_sub(1)),
            _ => Wording::FIRST,
        }
    }

    pub(super) fn read(&mut self, refunds: &[Amount]) {
        let missing = self.missing().len();
        self.known = Some(refunds.to_vec());
        self.begin_intent(missing);
        self.needs_read = false;
        self.is_open = false;
        self.reads_left = READS_MAX;
    }

    pub(super) fn read_failed(&mut self, manner: Manner, error: &CallError) {
        self.reads_left -= 1;
        if manner == Manner::Forgetful && self.is_open && error.is_retryable() {
            // The slip: from here on the refund is believed to have met the fate of the look at it.
            self.is_open = error.is_indeterminate();
            self.needs_read = self.is_open;
        }
        if self.reads_left == 0 || !error.is_retryable() {
            self.needs_read = false;
            self.refunds_left = 0;
        }
    }

    pub(super) fn paid(&mut self, manner: Manner, amount: Amount, number: usize) {
        let missing = self.missing().len();
        let known = self.known.get_or_insert_default();
        known.push(amount);
        // A refund whose number is not the next one tells of refunds that nobody has seen.
        let adds_up = number == known.len();
        let is_settled = adds_up || self.missing().is_empty() || manner == Manner::Hasty;
        self.is_over |= number > self.wanted.len();
        self.needs_read = !is_settled;
        self.is_open = !is_settled;
        self.begin_intent(missing);
    }

    pub(super) fn refund_failed(&mut self, manner: Manner, error: &CallError) {
        let is_refusal = matches!(error, CallError::Refused(_));
        let is_in_flight = is_refusal && error.is_retryable();
        self.is_open = error.is_indeterminate() || is_in_flight;
        if is_refusal && !is_in_flight && manner != Manner::Hasty {
            self.refunds_left = 0;
        }
        if manner == Manner::Trusting {
            self.needs_read = self.is_open;
        }
    }

    /// Counts anew if fewer refunds are missing than before: the next call is for another of them.
    fn begin_intent(&mut self, missing_before: usize) {
        if self.missing().len() < missing_before {
            self.written = 0;
        }
    }

    /// The expected refunds that the order is not known to hold.
    fn missing(&self) -> Vec<Amount> {
        without(&self.expect, self.known.as_deref().unwrap_or_default())
    }

    pub(super) fn claim(&self) -> Claim {
        match &self.known {
            _ if self.is_open && self.is_over => Claim::Duplicated,
            _ if self.is_open => Claim::Unknown,
            None => Claim::Unknown,
            Some(_) if !self.missing().is_empty() => Claim::Failed,
            Some(known) if self.is_over || !without(known, &self.wanted).is_empty() => {
                Claim::Duplicated
            }
            Some(_) => Claim::Refunded,
        }
    }
}

/// What the report says of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Refunded,
    Failed,
    Duplicated,
    Unknown,
}

impl Claim {
    pub(super) const ALL: [Self; 4] =
        [Self::Refunded, Self::Failed, Self::Duplicated, Self::Unknown];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Refunded => "REFUNDED",
            Self::Failed => "FAILED",
            Self::Duplicated => "DUPLICATED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// What is left of `amounts` when each of `taken` takes away one that equals it.
fn without(amounts: &[Amount], taken: &[Amount]) -> Vec<Amount> {
    let mut left = amounts.to_vec();
    for amount in taken {
        if let Some(found) = left.iter().position(|other| other == amount) {
            left.remove(found);
        }
    }
    left
}
