//! Why the ledger refuses.

use crate::{
    money::{Currency, Money, Total},
    ticket::OrderId,
};

/// Why the ledger refused a refund; order and keys are unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The key was used before with another order or amount.
    #[error(
        "the idempotency key was used before for {first} on order {order}; send a new key for a new refund"
    )]
    KeyMismatch {
        /// The order that the key was used for.
        order: OrderId,
        /// What the key was used for.
        first: Money,
    },
    /// The first refund under the key has not finished.
    #[error(
        "a refund with this idempotency key is still being processed; send it again later with the same key"
    )]
    InFlight,
    /// The delivery failed inside, and its key, if any, is bound to that failure.
    #[error("An internal error occurred.")]
    Failed,
    /// More than is left on the order.
    #[error("{asked} is more than the {} {currency} left on the order", left.display(*currency))]
    ExceedsRefundable {
        /// What was asked for.
        asked: Money,
        /// What is left.
        left: Total,
        /// The order's currency.
        currency: Currency,
    },
    /// Nothing is left on the order.
    #[error("the order is already refunded: refund #{number} of {amount} is its last")]
    AlreadyRefunded {
        /// Number of the order's last refund.
        number: u32,
        /// Amount of the order's last refund.
        amount: Money,
    },
}
