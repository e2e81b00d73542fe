//! Reads a report that is JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};

use super::{Claim, lines};
use crate::ticket::OrderId;

/// The claims of a text that is one JSON object with lists of ids.
pub(super) fn read(text: &str) -> Option<Vec<(Claim, OrderId)>> {
    let Lists(lists) = serde_json::from_str(unfenced(text)).ok()?;
    let claims = |(claim, text): (Claim, String)| ids(&text).into_iter().map(move |id| (claim, id));
    Some(lists.into_iter().flat_map(claims).collect())
}

/// A string that is an id is taken as it stands, final dot and all; any other is a list in words.
fn ids(text: &str) -> Vec<OrderId> {
    OrderId::new(text).map_or_else(|_| lines::ids(text).collect(), |id| vec![id])
}

/// The text without the code fence that it may be in.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"))
        .and_then(|text| text.split_once('\n'))
        .map_or(text, |(_, inner)| inner)
}

/// The strings of the four lists.
struct Lists(Vec<(Claim, String)>);

impl<'de> Deserialize<'de> for Lists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ListsVisitor)
    }
}

struct ListsVisitor;

impl<'de> Visitor<'de> for ListsVisitor {
    type Value = Lists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of ids under refunded, failed, duplicated or unknown")
    }

    /// A list that is given twice counts twice, so that a contradiction shows.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Lists, A::Error> {
        let mut lists = Vec::new();
        let mut is_report = false;
        while let Some(name) = fields.next_key::<String>()? {
            if let Some(claim) = Claim::from_label(&name) {
                let list: Vec<String> = fields.next_value()?;
                lists.extend(list.into_iter().map(|text| (claim, text)));
                is_report = true;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        if is_report { Ok(Lists(lists)) } else { Err(A::Error::invalid_length(0, &self)) }
    }
}
