//! Reads a ticket from JSON, version 1.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::{Order, OrderId, Ticket, TicketId, describe};
use crate::{
    document::{DocumentError, NumberText, Part, check_version},
    money::{Amount, Currency},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TicketDocument<'a> {
    #[serde(borrow)]
    version: &'a RawValue,
    id: Option<TicketId>,
    currency: Currency,
    text: Option<String>,
    #[serde(borrow)]
    orders: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderDocument<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    amount: &'a RawValue,
    currency: Option<Currency>,
    #[serde(borrow)]
    expect: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    refunded: Vec<&'a RawValue>,
}

impl Ticket {
    /// Reads a ticket from JSON, version 1.
    ///
    /// A ticket without a `text` gets a sentence; one without an `id`, a hash of its text.
    ///
    /// # Errors
    ///
    /// [`DocumentError`] with the line: for JSON that is none, unknown or missing fields, an order named
    /// twice, an amount that is none, no order at all, and a ticket that expects no refund.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        Self::read(Part::whole(text))
    }

    pub(crate) fn read(part: Part<'_>) -> Result<Self, DocumentError> {
        let document: TicketDocument<'_> = part.read_object()?;
        check_version("ticket", part.inner(document.version))?;
        let list = part.inner(document.orders);
        let raws: Vec<&RawValue> = list.read()?;
        let mut seen = BTreeSet::new();
        let mut orders = Vec::with_capacity(raws.len());
        for raw in raws {
            let (order, id) = read_order(part.inner(raw), document.currency)?;
            if !seen.insert(order.id.clone()) {
                return Err(id.error(format!(
                    "order `{}` stands in the ticket twice; name each order once",
                    order.id
                )));
            }
            orders.push(order);
        }
        if orders.is_empty() {
            return Err(list.error("the ticket has no orders; it needs at least one"));
        }
        if orders.iter().all(|order| order.expect.is_empty()) {
            return Err(list.error(
                "the ticket expects no refund, so nothing could be graded; leave out `expect` on an order, or list an amount there",
            ));
        }
        let text = document.text.unwrap_or_else(|| describe(&orders));
        let id = document.id.unwrap_or_else(|| hashed_name(text.as_bytes()));
        Ok(Self::new(id, document.currency, text, orders))
    }
}

/// The order that a part describes, and where it gives its name.
fn read_order<'a>(part: Part<'a>, currency: Currency) -> Result<(Order, Part<'a>), DocumentError> {
    let document: OrderDocument<'_> = part.read_object()?;
    let id_part = part.inner(document.id);
    let id: OrderId = id_part.read()?;
    let currency = document.currency.unwrap_or(currency);
    let read = |field: &str, raw: &'a RawValue| {
        let part = part.inner(raw);
        let NumberText(text) = part.read()?;
        Amount::parse(&text, currency)
            // The program under test sees it with all its decimals, and must be able to ask for it so.
            .and_then(|amount| Amount::parse(&amount.display(currency).to_string(), currency))
            .map_err(|error| part.error(format!("order `{id}`, {field}: {error}")))
    };
    let read_all = |field: &str, raws: Vec<&'a RawValue>| {
        raws.into_iter().map(|raw| read(field, raw)).collect::<Result<Vec<_>, _>>()
    };
    let amount = read("amount", document.amount)?;
    let refunded = read_all("refunded", document.refunded)?;
    let expect = document.expect.map(|raws| read_all("expect", raws)).transpose()?;
    let mut order = Order { id: id.clone(), amount, currency, expect: Vec::new(), refunded };
    order.expect = expect.unwrap_or_else(|| order.left().to_amount().into_iter().collect());
    Ok((order, id_part))
}

/// A name that tells nothing of what it was made from.
pub(super) fn hashed_name(bytes: &[u8]) -> TicketId {
    let mut hasher = SipHasher13::new_with_keys(0x6261_6462_616e_6b00, 0x7469_636b_6574_0000);
    std::hash::Hasher::write(&mut hasher, bytes);
    let hash = hasher.finish128().h1 >> 32;
    TicketId::new(&format!("T-{hash:08x}")).expect("a letter, a dash and eight digits are an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> DocumentError {
        Ticket::parse(text).unwrap_err()
    }

    #[test]
    fn expectations_default_to_what_is_left() {
        let ticket = Ticket::parse(
            r#"{"version": 1, "currency": "EUR", "orders": [
                {"id": "A-1", "amount": "42.50"},
                {"id": "A-2", "amount": 80, "refunded": ["10.00"]},
                {"id": "A-3", "amount": "12.00", "refunded": ["12.00"]},
                {"id": "J-1", "amount": "900", "currency": "JPY", "expect": ["300", 300]}]}"#,
        )
        .unwrap();
        let expected: Vec<Vec<u64>> = ticket
            .orders()
            .iter()
            .map(|order| order.expect().iter().map(|a| a.minor()).collect())
            .collect();
        assert_eq!(expected, [vec![4250], vec![7000], vec![], vec![300, 300]]);
    }

    #[test]
    fn a_ticket_reads_back_from_its_own_json() {
        let ticket = Ticket::generate(crate::Seed::new(7));
        assert_eq!(Ticket::parse(&ticket.to_json()), Ok(ticket));
    }

    #[test]
    fn an_amount_that_could_not_be_asked_for_as_it_is_shown_is_refused() {
        let ticket = |amount: &str| {
            format!(
                r#"{{"version": 1, "currency": "EUR", "orders": [{{"id": "A-1", "amount": {amount}}}]}}"#
            )
        };
        let error = refusal(&ticket("14294967296308"));
        assert!(error.message.contains("`14294967296308.00` is longer than 15 digits"), "{error}");
        let largest = Ticket::parse(&ticket("9999999999999")).unwrap();
        assert_eq!(Ticket::parse(&largest.to_json()), Ok(largest));
    }

    #[test]
    fn an_empty_ticket_is_refused() {
        let error = refusal(r#"{"version": 1, "currency": "EUR", "orders": []}"#);
        assert!(error.message.contains("at least one"), "{error}");
        let error = refusal(
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1", "expect": []}]}"#,
        );
        assert!(error.message.contains("expects no refund"), "{error}");
    }

    #[test]
    fn an_order_named_twice_is_refused_at_its_line() {
        let error = refusal(
            "{\"version\": 1, \"currency\": \"EUR\",\n \"orders\": [{\"id\": \"A-1\", \"amount\": \"1\"},\n  {\"id\": \"A-1\", \"amount\": \"2\"}]}",
        );
        assert_eq!(error.line, 3);
        assert!(error.message.contains("A-1"), "{error}");
    }

    #[test]
    fn a_bad_amount_is_refused_with_order_field_and_line() {
        let error = refusal(
            "{\"version\": 1, \"currency\": \"EUR\", \"orders\": [\n {\"id\": \"A-1\", \"amount\": \"1\", \"expect\": [\"1.234\"]}]}",
        );
        assert_eq!(error.line, 2);
        assert!(error.message.contains("A-1") && error.message.contains("expect"), "{error}");
    }

    #[test]
    fn a_value_that_is_refused_is_refused_at_its_own_line() {
        let ticket = |orders: &str| {
            format!("{{\"version\": 1,\n\"currency\": \"EUR\",\n\"orders\": [\n{orders}\n]}}")
        };
        for (text, line, wanted) in [
            (ticket("").replacen(": 1", ":\n2", 1), 2, "version 2"),
            (ticket("").replace("EUR", "XXX"), 2, "XXX"),
            (ticket(""), 3, "at least one"),
            (ticket("{\"id\":\n\"none\", \"amount\": 1}"), 5, "`none`"),
            (ticket("{\"id\": \"A\",\n\"amount\": 0\n}"), 5, "`0` is zero"),
            (ticket("{\"id\": \"A\",\n\"amount\": true\n}"), 5, "`true`"),
            (ticket("{\"id\": \"A\",\n\"amount\": 3,\n\"expect\": [1,\n2,\n0]}"), 8, "expect"),
            (ticket("{\"id\": \"A\",\n\"amount\": 3,\n\"refunded\": [1,\n-2]}"), 7, "refunded"),
            (
                ticket("{\"id\": \"A\", \"amount\": 3},\n{\"amount\": 3,\n\"id\": \"A\"}"),
                6,
                "twice",
            ),
        ] {
            let error = refusal(&text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_fields_versions_and_ids_are_refused() {
        for text in [
            r#"{"version": 2, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1"}]}"#,
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1"}], "x": 1}"#,
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1", "x": 1}]}"#,
            r#"{"version": 1, "currency": "XXX", "orders": [{"id": "A-1", "amount": "1"}]}"#,
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "none", "amount": "1"}]}"#,
            r#"{"version": 1, "version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "1"}]}"#,
            "",
            "null",
            "[]",
            "{",
        ] {
            assert!(Ticket::parse(text).is_err(), "{text}");
        }
    }
}
