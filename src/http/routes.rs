//! The resources of the data plane: one table, which the router and the document both follow.

use std::borrow::Cow;

use crate::call::RefusalCode as Code;

/// What a path under a run's base URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Ticket,
    Order,
    Refunds,
    Report,
}

/// A resource, the one method that it takes, and what it may answer.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) resource: Resource,
    pub(super) method: &'static str,
    /// Under a run's base URL; [`ORDER`] stands for an order's id.
    pub(super) path: &'static str,
    /// What the operation is called in the document.
    pub(super) operation: &'static str,
    pub(super) summary: &'static str,
    /// How it may refuse, beside [`EVERYWHERE`].
    pub(super) refusals: &'static [Code],
    /// Whether it is a call, which the network may fail.
    pub(super) is_call: bool,
}

/// Stands in a path for an order's id.
pub(super) const ORDER: &str = "{order}";

/// How every route may refuse.
pub(super) const EVERYWHERE: [Code; 2] = [Code::UnknownRun, Code::MethodNotAllowed];

pub(super) const ROUTES: &[Route] = &[
    Route {
        resource: Resource::Ticket,
        method: "GET",
        path: "/ticket",
        operation: "get_ticket",
        summary: "What is to be refunded, in words and as data.",
        refusals: &[],
        is_call: false,
    },
    Route {
        resource: Resource::Order,
        method: "GET",
        path: "/orders/{order}",
        operation: "get_order",
        summary: "An order and its refunds.",
        refusals: &[Code::UnknownOrder, Code::NotFound, Code::RunEnded],
        is_call: true,
    },
    Route {
        resource: Resource::Refunds,
        method: "POST",
        path: "/orders/{order}/refunds",
        operation: "refund",
        summary: "Moves money back to the buyer.",
        refusals: &[
            Code::InvalidAmount,
            Code::InvalidKey,
            Code::InvalidBody,
            Code::UnknownOrder,
            Code::NotFound,
            Code::InFlight,
            Code::RunEnded,
            Code::TooLarge,
            Code::UnsupportedType,
            Code::KeyMismatch,
            Code::OverRefund,
            Code::AlreadyRefunded,
            Code::CurrencyMismatch,
            Code::ServerError,
        ],
        is_call: true,
    },
    Route {
        resource: Resource::Report,
        method: "POST",
        path: "/report",
        operation: "report",
        summary: "Takes the final report; of several, the last counts.",
        refusals: &[Code::InvalidBody, Code::RunEnded, Code::TooLarge],
        is_call: false,
    },
];

/// What a path leads to, whatever the method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) route: &'static Route,
    /// The order that it is about, if it is about one.
    pub(super) order: Option<&'a str>,
}

/// A path with letters in the place of their escapes: `A%2D1` names what `A-1` does (RFC 3986, 6.2.2.2). Other
/// escapes stay, and name nothing.
pub(super) fn normal(path: &str) -> Cow<'_, str> {
    let mut parts = path.split('%');
    let first = parts.next().unwrap_or_default();
    if first.len() == path.len() {
        return Cow::Borrowed(path);
    }
    let mut normal = first.to_owned();
    for part in parts {
        let (letter, rest) = unescaped(part).unwrap_or(('%', part));
        normal.push(letter);
        normal.push_str(rest);
    }
    Cow::Owned(normal)
}

/// The letter whose escape a text begins with, without its percent sign, and the rest.
fn unescaped(text: &str) -> Option<(char, &str)> {
    let (digits, rest) = text.split_at_checked(2)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let letter = char::from(u8::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?);
    let is_unreserved = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | '~');
    is_unreserved.then_some((letter, rest))
}

/// The run's name and the resource in it, if there is one, that a path names.
pub(super) fn find(path: &str) -> Option<(&str, Option<Target<'_>>)> {
    let rest = path.strip_prefix("/runs/")?;
    let (run, resource) = rest.split_at(rest.find('/')?);
    let target = ROUTES.iter().find_map(|route| {
        let order = order_in(route.path, resource)?;
        Some(Target { route, order: (!order.is_empty()).then_some(order) })
    });
    Some((run, target))
}

/// The order that `path` names where `template` has [`ORDER`], nothing if it has none; none if they do not fit.
fn order_in<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    let Some((before, after)) = template.split_once(ORDER) else {
        return (template == path).then_some("");
    };
    let order = path.strip_prefix(before)?.strip_suffix(after)?;
    (!order.is_empty() && !order.contains('/')).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_run_and_a_resource() {
        for (path, found) in [
            ("/runs/1/ticket", Some(("1", Some((Resource::Ticket, None))))),
            ("/runs/1/report", Some(("1", Some((Resource::Report, None))))),
            ("/runs/1/orders/A-1", Some(("1", Some((Resource::Order, Some("A-1")))))),
            ("/runs/1/orders/refunds", Some(("1", Some((Resource::Order, Some("refunds")))))),
            ("/runs/1/orders/A-1/refunds", Some(("1", Some((Resource::Refunds, Some("A-1")))))),
            ("/runs/1/orders", Some(("1", None))),
            ("/runs/1/orders/", Some(("1", None))),
            ("/runs/1/orders//refunds", Some(("1", None))),
            ("/runs/1/orders/A-1/refunds/", Some(("1", None))),
            ("/runs/1/orders/A-1/x/refunds", Some(("1", None))),
            ("/runs/1/", Some(("1", None))),
            ("/runs//ticket", Some(("", Some((Resource::Ticket, None))))),
            ("/runs/1", None),
            ("/", None),
            ("*", None),
        ] {
            let named = find(path).map(|(run, target)| {
                (run, target.map(|target| (target.route.resource, target.order)))
            });
            assert_eq!(named, found, "{path}");
        }
    }

    #[test]
    fn an_escaped_letter_is_the_letter() {
        for (path, normal_path) in [
            ("/runs/1/orders/A-1", "/runs/1/orders/A-1"),
            ("/r%75ns/%31/orders/A%2D1", "/runs/1/orders/A-1"),
            ("%41%2d%7e%2E%5F", "A-~._"),
            ("a%2Fb%20%00%C3%A4%25", "a%2Fb%20%00%C3%A4%25"),
            ("%2541", "%2541"),
            ("%%41%", "%A%"),
            ("%zz%4%+1", "%zz%4%+1"),
        ] {
            assert_eq!(normal(path), normal_path);
        }
    }

    #[test]
    fn no_two_routes_share_a_path_or_a_name() {
        let mut names: Vec<&str> =
            ROUTES.iter().flat_map(|route| [route.path, route.operation]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * ROUTES.len());
    }

    #[test]
    fn every_refusal_belongs_to_a_route() {
        let listed = |code: &Code| {
            let mut refusals = ROUTES.iter().flat_map(|route| route.refusals);
            EVERYWHERE.contains(code) || refusals.any(|listed| listed == code)
        };
        let homeless: Vec<&Code> = Code::ALL.iter().filter(|code| !listed(code)).collect();
        assert_eq!(homeless, [&Code::RunEnded; 0]);
    }
}
