//! The task: a currency and a list of orders, each with the refunds that are expected of it.
//!
//! A [`Ticket`] that exists is sound: it has at least one order, no order twice, and expects at least
//! one refund. It comes from [`Ticket::parse`] or, eight orders in EUR, from [`Ticket::generate`].

mod generate;
mod id;
mod read;

use serde::{Serialize, Serializer, ser::SerializeStruct};

pub use self::id::{IdError, OrderId, TicketId};
use crate::money::{Amount, Currency, Money, Total};

/// What the program under test is asked to do.
///
/// # Examples
///
/// ```
/// use badbank::Ticket;
///
/// let ticket = Ticket::parse(r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#)?;
/// assert_eq!(ticket.orders()[0].expect(), [ticket.orders()[0].amount()]);
/// # Ok::<(), badbank::DocumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: TicketId,
    currency: Currency,
    text: String,
    orders: Vec<Order>,
    /// The places of the orders, sorted by name.
    sorted: Vec<usize>,
}

impl Ticket {
    fn new(id: TicketId, currency: Currency, text: String, orders: Vec<Order>) -> Self {
        let mut sorted: Vec<usize> = (0..orders.len()).collect();
        sorted.sort_unstable_by(|one, other| orders[*one].id.cmp(&orders[*other].id));
        Self { id, currency, text, orders, sorted }
    }

    /// The ticket's name.
    pub fn id(&self) -> &TicketId {
        &self.id
    }

    /// The currency of the orders that do not name their own.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// The task in words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The orders, in the ticket's order; at least one.
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// The order of that name.
    pub fn order(&self, id: &str) -> Option<&Order> {
        self.place(id).map(|place| &self.orders[place])
    }

    /// The place of the order of that name.
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        let found = self.sorted.binary_search_by(|place| self.orders[*place].id.as_str().cmp(id));
        found.ok().map(|at| self.sorted[at])
    }

    /// The ticket as JSON, version 1, with every expectation spelled out.
    ///
    /// # Panics
    ///
    /// Never: a ticket has no map whose keys are not strings.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a ticket has no map whose keys are not strings")
    }
}

/// An order of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    id: OrderId,
    amount: Amount,
    currency: Currency,
    expect: Vec<Amount>,
    refunded: Vec<Amount>,
}

impl Order {
    /// The order's name.
    pub fn id(&self) -> &OrderId {
        &self.id
    }

    /// What the buyer paid.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// The currency of the order and of its refunds.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// The refunds asked for; empty if the order is to be left alone.
    pub fn expect(&self) -> &[Amount] {
        &self.expect
    }

    /// The refunds that the order holds at the start.
    pub fn refunded(&self) -> &[Amount] {
        &self.refunded
    }

    fn left(&self) -> Total {
        Total::from(self.amount).saturating_sub(self.refunded.iter().copied().sum())
    }
}

/// The task in words, for a ticket that does not bring its own.
fn describe(orders: &[Order]) -> String {
    let wanted = orders.iter().flat_map(|order| {
        order
            .expect
            .iter()
            .map(|amount| format!("{} {}", order.id, Money::new(*amount, order.currency)))
    });
    let alone: Vec<&str> = orders
        .iter()
        .filter(|order| order.expect.is_empty())
        .map(|order| order.id.as_str())
        .collect();
    let mut text = format!(
        "Please refund these orders, each exactly once: {}.",
        wanted.collect::<Vec<_>>().join(", ")
    );
    if !alone.is_empty() {
        text.push_str(" Leave these alone: ");
        text.push_str(&alone.join(", "));
        text.push('.');
    }
    text
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines: Vec<OrderLine<'_>> =
            self.orders.iter().map(|order| OrderLine { order, of: self.currency }).collect();
        let mut ticket = serializer.serialize_struct("Ticket", 5)?;
        ticket.serialize_field("version", &1)?;
        ticket.serialize_field("id", &self.id)?;
        ticket.serialize_field("currency", &self.currency)?;
        ticket.serialize_field("text", &self.text)?;
        ticket.serialize_field("orders", &lines)?;
        ticket.end()
    }
}

/// An order as a ticket in a currency writes it.
struct OrderLine<'a> {
    order: &'a Order,
    of: Currency,
}

impl Serialize for OrderLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Order { id, amount, currency, expect, refunded } = self.order;
        let texts = |amounts: &[Amount]| -> Vec<_> {
            amounts.iter().map(|a| a.display(*currency)).collect()
        };
        let mut order = serializer.serialize_struct("Order", 5)?;
        order.serialize_field("id", id)?;
        order.serialize_field("amount", &amount.display(*currency))?;
        if *currency != self.of {
            order.serialize_field("currency", currency)?;
        }
        order.serialize_field("expect", &texts(expect))?;
        if !refunded.is_empty() {
            order.serialize_field("refunded", &texts(refunded))?;
        }
        order.end()
    }
}
