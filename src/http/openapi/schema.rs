//! What goes over the wire and is written by hand, or by the core, as schemas: mirrors that tests hold to the original.
//!
//! The other schemas come from the very structs that are written and read.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::super::wire::problem_codes;
use crate::call::RefundStatus;

/// A sum of money: decimal text with all the decimals that its currency has.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
#[schemars(rename = "Amount")]
pub(in super::super) struct AmountText(#[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))] String);

/// An ISO 4217 code with a minor unit.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
#[schemars(rename = "Currency")]
pub(in super::super) struct CurrencyCode(#[schemars(regex(pattern = r"^[A-Z]{3}$"))] String);

/// The name of an order or a ticket.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
#[schemars(rename = "Id")]
pub(in super::super) struct IdText(#[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,64}$"))] String);

/// The task: orders, each with the refunds that are expected of it.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Ticket")]
pub(super) struct TicketBody {
    version: u32,
    id: IdText,
    /// The currency of every order that names no other.
    currency: CurrencyCode,
    /// The task in words.
    text: String,
    #[schemars(length(min = 1))]
    orders: Vec<TicketOrder>,
}

/// An order of a ticket.
#[derive(Deserialize, JsonSchema, Serialize)]
pub(super) struct TicketOrder {
    id: IdText,
    /// What the buyer paid.
    amount: AmountText,
    /// Left out if it is the ticket's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CurrencyCode")]
    currency: Option<CurrencyCode>,
    /// The refunds asked for; none if the order is to be left alone.
    expect: Vec<AmountText>,
    /// The refunds that the order held at the start; left out if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refunded: Vec<AmountText>,
}

/// A refund that was made.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Refunded")]
pub(super) struct RefundedBody {
    pub(super) order: IdText,
    /// Number of the refund on its order, from 1.
    #[schemars(range(min = 1))]
    pub(super) refund: u32,
    pub(super) amount: AmountText,
    pub(super) currency: CurrencyCode,
    /// Left out where the refund has simply succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_status")]
    pub(super) status: Option<&'static str>,
    /// The same as a sentence.
    pub(super) message: String,
}

/// What was done, as the program that did it sees it: ids of orders.
#[derive(JsonSchema)]
#[schemars(rename = "Report")]
#[allow(dead_code, reason = "a report is read by the grader; this says what it reads")]
pub(super) struct ReportBody {
    /// Refunded as expected.
    #[serde(default)]
    refunded: Vec<String>,
    /// Not refunded, or not as expected.
    #[serde(default)]
    failed: Vec<String>,
    /// Refunded more than was expected.
    #[serde(default)]
    duplicated: Vec<String>,
    /// Nobody can tell.
    #[serde(default)]
    unknown: Vec<String>,
}

/// An amount as it may be asked for: what is accepted is read from its text, exactly.
pub(in super::super) fn asked_amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Above zero, with at most as many decimals as the order's currency has and at most 15 digits. A number is read from its digits, never as a binary float; one with an exponent is refused.",
        "anyOf": [
            {
                "type": "string",
                "pattern": r"^([0-9]*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)$",
                "maxLength": 16,
                "examples": ["42.50"],
            },
            {"type": "number", "exclusiveMinimum": 0, "maximum": 999_999_999_999_999_u64, "multipleOf": 0.0001},
        ],
    })
}

/// Every code that a problem may have.
pub(in super::super) fn codes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": problem_codes()})
}

/// The words for a refund that has not simply succeeded.
pub(in super::super) fn open_status(_: &mut SchemaGenerator) -> Schema {
    let words = [RefundStatus::Pending, RefundStatus::Failed].map(RefundStatus::as_str);
    json_schema!({"type": "string", "enum": words})
}

#[cfg(test)]
mod tests {
    use super::{super::super::wire::refunded_body, *};
    use crate::{
        call::Refunded,
        money::{Amount, Currency},
        ticket::{OrderId, Ticket},
    };

    #[test]
    fn a_ticket_is_written_as_its_schema_has_it() {
        let orders = r#"[{"id": "A-1", "amount": "42.50"}, {"id": "A-2", "amount": 80, "refunded": ["10.00"]},
            {"id": "J-1", "amount": "900", "currency": "JPY", "expect": []}]"#;
        let text = format!(r#"{{"version": 1, "currency": "EUR", "orders": {orders}}}"#);
        for ticket in [Ticket::generate(7), Ticket::parse(&text).unwrap()] {
            let written = ticket.to_json();
            let mirrored: TicketBody = serde_json::from_str(&written).unwrap();
            assert_eq!(serde_json::to_string(&mirrored).unwrap(), written);
        }
    }

    #[test]
    fn a_refund_is_confirmed_as_its_schema_has_it() {
        for (status, word) in
            [(RefundStatus::Succeeded, None), (RefundStatus::Pending, Some("pending"))]
        {
            let refunded = Refunded {
                order: OrderId::new("A-1").unwrap(),
                number: 2,
                amount: Amount::from_minor(4250).unwrap(),
                currency: Currency::EUR,
                status,
                is_replay: false,
            };
            let mirrored = RefundedBody {
                order: IdText("A-1".to_owned()),
                refund: 2,
                amount: AmountText("42.50".to_owned()),
                currency: CurrencyCode("EUR".to_owned()),
                status: word,
                message: refunded.to_string(),
            };
            assert_eq!(serde_json::to_vec(&mirrored).unwrap(), refunded_body(&refunded));
        }
    }
}
