//! An order and the refunds that it holds.

use super::{LedgerError, OverRefund};
use crate::{
    money::{Amount, Currency, Money, Total},
    ticket::{Order, OrderId},
};

/// An order as the ledger holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    id: OrderId,
    currency: Currency,
    amount: Amount,
    refunds: Vec<Amount>,
    /// The numbers of refunds that were accepted and have failed since.
    failed: Vec<u32>,
    refunded: Total,
}

impl Account {
    /// The order at the start of a run.
    pub(super) fn open(order: &Order) -> Self {
        Self {
            id: order.id().clone(),
            currency: order.currency(),
            amount: order.amount(),
            refunds: order.refunded().to_vec(),
            failed: Vec::new(),
            refunded: order.refunded().iter().copied().sum(),
        }
    }

    /// The order's name.
    pub fn id(&self) -> &OrderId {
        &self.id
    }

    /// The order's currency.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// What the buyer paid.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// The refunds that the order holds; the first has number 1.
    pub fn refunds(&self) -> &[Amount] {
        &self.refunds
    }

    /// The numbers of refunds that were accepted and have failed since.
    pub fn failed(&self) -> &[u32] {
        &self.failed
    }

    /// The refunds that have not failed.
    pub fn held(&self) -> impl Iterator<Item = Amount> {
        let numbered = (1_u32..).zip(&self.refunds);
        numbered.filter(|(number, _)| !self.failed.contains(number)).map(|(_, amount)| *amount)
    }

    /// The sum of the refunds that have not failed.
    pub fn refunded(&self) -> Total {
        self.refunded
    }

    pub(super) fn money(&self, amount: Amount) -> Money {
        Money::new(amount, self.currency)
    }

    fn push(&mut self, amount: Amount) -> u32 {
        self.refunds.push(amount);
        self.refunded = self.refunded.plus(amount.into());
        let sum: u128 = self.refunded.minor();
        assert!(sum >= u128::from(amount.minor()), "a refund never lowers what is refunded");
        u32::try_from(self.refunds.len()).expect("an order has fewer than 2^32 refunds")
    }

    /// Moves `amount` back to the buyer.
    pub(super) fn refund(
        &mut self,
        amount: Amount,
        over_refund: OverRefund,
    ) -> Result<u32, LedgerError> {
        let left = Total::from(self.amount).saturating_sub(self.refunded);
        if over_refund == OverRefund::Reject && Total::from(amount) > left {
            let standing =
                (1_u32..).zip(&self.refunds).filter(|(number, _)| !self.failed.contains(number));
            return Err(match standing.last() {
                Some((number, last)) if left == Total::ZERO => {
                    LedgerError::AlreadyRefunded { number, amount: self.money(*last) }
                }
                _ => LedgerError::ExceedsRefundable {
                    asked: self.money(amount),
                    left,
                    currency: self.currency,
                },
            });
        }
        Ok(self.push(amount))
    }

    /// Lets a refund fail: its amount is free again, and its number is not given anew.
    pub(super) fn revert(&mut self, number: u32) {
        assert!(!self.failed.contains(&number), "a refund fails once");
        let place = (number as usize).checked_sub(1).expect("refunds count from 1");
        let amount = Total::from(self.refunds[place]);
        assert!(self.refunded >= amount, "a refund that fails was counted");
        self.refunded = self.refunded.saturating_sub(amount);
        self.failed.push(number);
    }
}
