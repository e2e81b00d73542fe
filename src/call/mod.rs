//! A call as its caller sees it: what can be asked, how it is named, and what may be answered.
//!
//! What a caller may conclude is part of the types: [`CallError::is_retryable`] and
//! [`CallError::is_indeterminate`] say what an error leaves open. Programs under test are written
//! against [`Payments`], in process and over HTTP alike.

mod refusal;
mod sent;

use std::{fmt, str::FromStr};

pub use self::{
    refusal::{Refusal, RefusalCode},
    sent::{Passage, Sent},
};

use serde::{Deserialize, Serialize};

use crate::{
    ledger::Caller,
    money::{Amount, Currency, Money, Total, shorten},
    ticket::OrderId,
};

/// What can be asked of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Read an order and its refunds.
    #[serde(alias = "get-order")]
    GetOrder,
    /// Move money back to the buyer.
    Refund,
}

impl Operation {
    /// Both operations, in the order in which fault logs list them.
    pub const ALL: [Self; 2] = [Self::GetOrder, Self::Refund];

    /// The word in plans and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GetOrder => "get_order",
            Self::Refund => "refund",
        }
    }

    /// The operation of that word, in either spelling.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let word = word.replace('-', "_");
        Self::ALL.into_iter().find(|operation| operation.as_str() == word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The name of a call within its run, such as `A-2186 refund #1`. Calls sort as fault logs list them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The order that the call is about.
    pub order: OrderId,
    /// What was asked.
    pub operation: Operation,
    /// Number of the call, from 1, among those of this operation on this order in the run.
    pub attempt: u32,
}

/// A text that names no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no call; a call is written like `A-2186 refund #1`")]
pub struct CallIdError {
    /// The text, shortened.
    pub text: String,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{}", self.order, self.operation, self.attempt)
    }
}

impl FromStr for CallId {
    type Err = CallIdError;

    fn from_str(text: &str) -> Result<Self, CallIdError> {
        let mut words = text.split(' ');
        let parsed = (|| {
            let order = OrderId::new(words.next()?).ok()?;
            let operation = Operation::from_word(words.next()?)?;
            let attempt = words.next()?.strip_prefix('#')?;
            let is_plain = attempt.bytes().all(|byte| byte.is_ascii_digit());
            let attempt: u32 = attempt.parse().ok().filter(|number| is_plain && *number > 0)?;
            words.next().is_none().then_some(Self { order, operation, attempt })
        })();
        parsed.ok_or_else(|| CallIdError { text: shorten(text) })
    }
}

/// An amount as a request gives it: exact already, or still as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountInput<'a> {
    /// Minor units of the order's currency.
    Exact(Amount),
    /// Decimal text, to be read in the order's currency.
    Text(&'a str),
}

impl From<Amount> for AmountInput<'_> {
    fn from(amount: Amount) -> Self {
        Self::Exact(amount)
    }
}

impl<'a> From<&'a str> for AmountInput<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// A request as a face received it, unchecked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is asked.
    pub operation: Operation,
    /// The order's name.
    pub order: &'a str,
    /// What to refund; a read has none.
    pub amount: Option<AmountInput<'a>>,
    /// The currency that the caller named, if any.
    pub currency: Option<&'a str>,
    /// The idempotency key; reads ignore it.
    pub key: Option<&'a str>,
    /// Whose key it is.
    pub caller: Option<Caller>,
}

impl<'a> Request<'a> {
    /// A read of an order.
    pub const fn get_order(order: &'a str) -> Self {
        Self {
            operation: Operation::GetOrder,
            order,
            amount: None,
            currency: None,
            key: None,
            caller: None,
        }
    }

    /// A refund on an order.
    pub const fn refund(order: &'a str, amount: AmountInput<'a>, key: Option<&'a str>) -> Self {
        Self {
            operation: Operation::Refund,
            order,
            amount: Some(amount),
            currency: None,
            key,
            caller: None,
        }
    }
}

/// An order as a read shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderState {
    /// The order's name.
    pub id: OrderId,
    /// The order's currency.
    pub currency: Currency,
    /// What the buyer paid.
    pub amount: Amount,
    /// The sum of the refunds.
    pub refunded: Total,
    /// The refunds; the first has number 1.
    pub refunds: Vec<Amount>,
    /// The numbers of those that have not simply succeeded, with how far they have come.
    pub unsettled: Vec<(u32, RefundStatus)>,
}

impl OrderState {
    /// How far a refund has come.
    pub fn status(&self, number: u32) -> RefundStatus {
        let unsettled = self.unsettled.iter().find(|(known, _)| *known == number);
        unsettled.map_or(RefundStatus::Succeeded, |(_, status)| *status)
    }

    /// The refunds that have not failed.
    pub fn held(&self) -> Vec<Amount> {
        let numbered = (1_u32..).zip(&self.refunds);
        let held = numbered.filter(|(number, _)| self.status(*number) != RefundStatus::Failed);
        held.map(|(_, amount)| *amount).collect()
    }
}

/// How far a refund has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefundStatus {
    /// The money has moved.
    #[default]
    Succeeded,
    /// It is accepted, and may yet fail.
    Pending,
    /// It was accepted, and has failed.
    Failed,
}

impl RefundStatus {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for RefundStatus {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        [Self::Succeeded, Self::Pending, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or(())
    }
}

/// The answer to a refund that was executed, or replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refunded {
    /// The order that was paid.
    pub order: OrderId,
    /// Number of the refund on that order, from 1.
    pub number: u32,
    /// What was paid.
    pub amount: Amount,
    /// The order's currency.
    pub currency: Currency,
    /// How far it had come.
    pub status: RefundStatus,
    /// Whether this is the stored answer of an earlier refund with the same key.
    pub is_replay: bool,
}

impl fmt::Display for Refunded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let money = Money::new(self.amount, self.currency);
        let Self { order, number, .. } = self;
        match self.status {
            RefundStatus::Succeeded => {
                write!(f, "Refunded {money} on order {order} (refund #{number}).")
            }
            RefundStatus::Pending => {
                write!(f, "Refunding {money} on order {order} is pending (refund #{number}).")
            }
            RefundStatus::Failed => {
                write!(f, "Refunding {money} on order {order} has failed (refund #{number}).")
            }
        }
    }
}

/// What the bank answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a read.
    Order(OrderState),
    /// To a refund.
    Refunded(Refunded),
}

/// How a call ended for its caller.
pub type Answer = Result<Reply, CallError>;

/// Why there is no reply, and what the caller may conclude from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallError {
    /// The bank answered before it touched the ledger: nothing has happened.
    #[error("Service Unavailable. This attempt made no changes.")]
    Unavailable,
    /// The bank takes no further requests for the moment: nothing has happened.
    #[error("Too many requests. This attempt made no changes.")]
    RateLimited {
        /// Seconds after which to come again.
        retry_after_s: u64,
    },
    /// Something went wrong inside the bank: the call may or may not have been executed.
    #[error("An internal error occurred.")]
    ServerError,
    /// No answer came: the call may or may not have been executed.
    #[error("The request may or may not have been processed.")]
    Timeout,
    /// The connection broke before an answer was complete: the call may or may not have been executed.
    #[error("the connection broke before an answer was complete: {detail}")]
    Broken {
        /// What the transport says.
        detail: String,
    },
    /// The bank understood the call and refused it: nothing has happened.
    #[error("{0}")]
    Refused(Refusal),
}

impl CallError {
    /// Whether the same call may meet a better fate.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable
            | Self::RateLimited { .. }
            | Self::ServerError
            | Self::Timeout
            | Self::Broken { .. } => true,
            Self::Refused(refusal) => refusal.code == RefusalCode::InFlight,
        }
    }

    /// Whether nobody can know if the call was executed.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Timeout | Self::ServerError | Self::Broken { .. })
    }

    /// Becomes `later`, another error that the same call has met since, unless that is the lesser one.
    ///
    /// A timeout is the worst, then come the others after which nobody can know; of equally bad ones it is the last.
    /// Who gives up reports the worst: a later attempt says nothing about an earlier one.
    pub(crate) fn worsen(&mut self, later: &Self) {
        if later.badness() >= self.badness() {
            self.clone_from(later);
        }
    }

    fn badness(&self) -> u8 {
        match self {
            Self::Timeout => 2,
            _ => u8::from(self.is_indeterminate()),
        }
    }
}

/// The two operations, as programs under test use them.
pub trait Payments {
    /// Reads an order and its refunds.
    ///
    /// # Errors
    ///
    /// [`CallError`] as the bank, or the network before it, answers.
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError>;

    /// Moves `amount` back to the buyer of `order`.
    ///
    /// # Errors
    ///
    /// [`CallError`] as the bank, or the network before it, answers.
    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError>;
}
