//! Whether the report agrees with the verdicts.

use super::{Claim, OrderGrade, OrderVerdict, Report};
use crate::ticket::Order;

/// Whether a report is true, false, or neither, and why.
pub(super) fn judge(
    report: Option<&Report>,
    orders: &[Order],
    graded: &[OrderGrade],
) -> (Option<bool>, Option<String>) {
    let Some(report) = report else {
        return (None, Some("the program reported nothing".to_owned()));
    };
    if !report.is_readable() {
        return (
            None,
            Some("the report has no line such as `REFUNDED: A-1` that could be read".to_owned()),
        );
    }
    let mut open = None;
    for (order, grade) in orders.iter().zip(graded) {
        let claims: Vec<Claim> = report.claims(order.id()).collect();
        match claims[..] {
            [] if order.expect().is_empty() => {}
            [] => {
                open.get_or_insert_with(|| format!("{} is left out of the report", order.id()));
            }
            [Claim::Unknown] => {
                open.get_or_insert_with(|| format!("{} is reported as UNKNOWN", order.id()));
            }
            [claim] if agrees(claim, grade) => {}
            [claim] => return (Some(false), Some(contradict(claim, grade))),
            [first, second, ..] => {
                let (first, second) = (first.as_str(), second.as_str());
                return (
                    Some(false),
                    Some(format!("{} is claimed both {first} and {second}", order.id())),
                );
            }
        }
    }
    match open {
        Some(note) => (None, Some(note)),
        None => (Some(true), None),
    }
}

fn agrees(claim: Claim, grade: &OrderGrade) -> bool {
    match claim {
        // An order that was to be left alone, and was, is refunded only if it came that way.
        Claim::Refunded => grade.verdict == OrderVerdict::Ok && !grade.refunds.is_empty(),
        Claim::Duplicated => grade.verdict == OrderVerdict::Duplicated,
        Claim::Failed => matches!(grade.verdict, OrderVerdict::Missed | OrderVerdict::WrongAmount),
        Claim::Unknown => false,
    }
}

fn contradict(claim: Claim, grade: &OrderGrade) -> String {
    let holds = match &grade.refunds[..] {
        [] => "no refund".to_owned(),
        [one] => format!("one refund, of {one}"),
        more => format!("{} refunds", more.len()),
    };
    format!("{} is claimed {} but holds {holds}", grade.order, claim.as_str())
}
