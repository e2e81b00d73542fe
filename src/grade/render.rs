//! A grade for people: a short table, then for each wrong order what the caller saw and what the
//! ledger did, call by call, and one plain sentence on the cause.

use std::fmt::{self, Write as _};

use super::{
    ByCurrency, CallCounts, Cause, EvidenceState, Grade, OrderGrade, OrderVerdict, Verdict,
    facts::{CallFacts, DeliveryFacts, End, Heard, OrderFacts},
};
use crate::{
    history::{Failure, Silence},
    money::{Decimal, Money},
    render::columns,
    ticket::{Order, OrderId},
};

/// Right orders are listed one by one up to so many orders.
const LISTED_MAX: usize = 40;

/// A call of a wrong order, from both sides.
#[derive(Clone, Debug)]
pub(super) struct Step {
    call: String,
    saw: String,
    did: String,
}

/// The calls of an order, from both sides.
pub(super) fn steps(facts: &OrderFacts, order: &Order) -> Vec<Step> {
    facts.calls.iter().map(|call| step(call, order)).collect()
}

fn step(call: &CallFacts, order: &Order) -> Step {
    let key = call.key.as_ref().map_or_else(String::new, |(_, key)| format!(", key {key}"));
    let fault = call.fault.as_ref().map_or_else(String::new, |fault| format!("  [{fault}]"));
    let name = format!("{} #{}{key}", call.id.operation, call.id.attempt);
    Step { call: name, saw: saw(call), did: did(call, order) + &fault }
}

/// What the caller was told.
fn saw(call: &CallFacts) -> String {
    let Some((_, heard)) = call.answer else {
        return "nothing yet".to_owned();
    };
    match heard {
        Heard::Ok if !call.is_refund() => match call.shown.map_or(0, |shown| shown.refunds) {
            0 => "no refund on the order".to_owned(),
            1 => "1 refund on the order".to_owned(),
            more => format!("{more} refunds on the order"),
        },
        Heard::Ok => call.deliveries.first().and_then(|delivery| delivery.end).map_or_else(
            || "ok".to_owned(),
            |(_, end)| match end {
                End::Committed(refund) => format!("ok, refund #{refund}"),
                End::Reverted(refund) => format!("ok, refund #{refund}, pending"),
                End::Replayed(of) => format!("ok, refund #{} (replayed)", of.number),
                End::Refused(code) => format!("refused: {}", code.as_str()),
            },
        ),
        Heard::Failed(Failure::RateLimited) => "rate limited, nothing changed".to_owned(),
        Heard::Nothing(Silence::Broken) => "a broken answer".to_owned(),
        Heard::Nothing(Silence::ServerError) => "a server error".to_owned(),
        Heard::Failed(Failure::Unavailable) => "unavailable, nothing changed".to_owned(),
        Heard::Failed(Failure::Refused(code)) => format!("refused: {}", code.as_str()),
        Heard::Nothing(Silence::Timeout) => "no answer".to_owned(),
        Heard::Nothing(Silence::Left) => "left before the answer".to_owned(),
    }
}

/// What the ledger did.
fn did(call: &CallFacts, order: &Order) -> String {
    if call.deliveries.is_empty() {
        return "nothing, it never arrived".to_owned();
    }
    if !call.is_refund() {
        return "read the order".to_owned();
    }
    let ends = call.deliveries.iter().map(|delivery| end(delivery, call, order));
    ends.collect::<Vec<_>>().join(", then ")
}

fn end(delivery: &DeliveryFacts, call: &CallFacts, order: &Order) -> String {
    let late = if delivery.is_late { "late, " } else { "" };
    let what = match (delivery.end, call.amount) {
        (Some((_, End::Committed(refund))), Some(amount)) => {
            format!("paid {} as refund #{refund}", Money::new(amount, order.currency()))
        }
        (Some((_, End::Committed(refund))), None) => format!("paid refund #{refund}"),
        (Some((_, End::Reverted(refund))), _) => {
            format!("accepted it as refund #{refund}, which failed later")
        }
        (Some((_, End::Replayed(of))), _) => format!("answered again as for refund #{}", of.number),
        (Some((_, End::Refused(code))), _) => format!("refused: {}", code.as_str()),
        (None, _) => "took it in".to_owned(),
    };
    format!("{late}{what}")
}

fn sum(amounts: &[Decimal]) -> String {
    if amounts.is_empty() {
        return "-".to_owned();
    }
    amounts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

impl Grade {
    fn table(&self) -> String {
        let is_listed = |order: &&OrderGrade| {
            self.orders.len() <= LISTED_MAX || order.verdict != OrderVerdict::Ok
        };
        let head = ["order", "verdict", "expected", "refunded", "reads", "asked"]
            .map(str::to_owned)
            .to_vec();
        let rows = self.orders.iter().filter(is_listed).map(|order| {
            let CallCounts { get_order, refund } = order.attempts;
            vec![
                order.order.to_string(),
                order.verdict.to_string(),
                sum(&order.expected),
                sum(&order.refunds),
                get_order.to_string(),
                refund.to_string(),
            ]
        });
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        let unlisted = self.orders.len() + 1 - rows.len();
        let mut text = columns(&rows);
        if unlisted > 0 {
            let _ = writeln!(text, "  and {unlisted} more, all ok");
        }
        text
    }

    fn count(&self) -> String {
        let counts = [
            (self.ok, "ok"),
            (self.dup_orders, "duplicated"),
            (self.missed, "missed"),
            (self.wrong, "wrong amount"),
            (self.stray, "stray"),
        ];
        let some = counts.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    fn money(&self) -> String {
        let texts = |sums: &ByCurrency, word: &str| -> String {
            sums.iter()
                .fold(String::new(), |text, (code, sum)| format!("{text}, {sum} {code} {word}"))
        };
        texts(&self.over_refunded, "too much") + &texts(&self.under_refunded, "too little")
    }
}

impl OrderGrade {
    /// What was seen and what was done, call by call, and why it is wrong; for an order that is right,
    /// its name and verdict.
    pub fn story(&self) -> String {
        let mut text = format!("\n{} {}\n", self.order, self.verdict);
        let head = ["call", "the caller saw", "the ledger did"].map(str::to_owned).to_vec();
        let steps = self
            .steps
            .iter()
            .map(|step| vec![step.call.clone(), step.saw.clone(), step.did.clone()]);
        if !self.steps.is_empty() {
            text.push_str(&columns(&std::iter::once(head).chain(steps).collect::<Vec<_>>()));
        }
        for finding in &self.causes {
            let what = match (finding.refund, finding.missing) {
                (Some(refund), _) if finding.cause == Cause::OtherAmount => {
                    format!("refund #{refund} was not expected")
                }
                (Some(refund), _) => format!("refund #{refund} is too many"),
                (None, Some(amount)) => format!("{amount} {} is missing", self.currency),
                (None, None) => "wrong".to_owned(),
            };
            let _ = writeln!(
                text,
                "  {what}: {}\n    {}",
                finding.cause.as_str(),
                finding.cause.sentence()
            );
        }
        text
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table())?;
        let wrong = self.orders.iter().filter(|order| order.verdict != OrderVerdict::Ok);
        let (untouched, stories): (Vec<&OrderGrade>, Vec<&OrderGrade>) =
            wrong.partition(|order| order.steps.is_empty());
        for order in stories {
            f.write_str(&order.story())?;
        }
        if !untouched.is_empty() {
            let orders: Vec<&str> = untouched.iter().map(|order| order.order.as_str()).collect();
            writeln!(
                f,
                "
nothing was asked of {}",
                orders.join(", ")
            )?;
        }
        f.write_str("\n")?;
        let extra = match self.extra_refunds {
            0 => String::new(),
            1 => "; 1 extra refund".to_owned(),
            more => format!("; {more} extra refunds"),
        };
        let doubt = match self.verdict {
            Verdict::NotExposed => "; the faults that matter were not met, so this shows nothing",
            Verdict::Pass | Verdict::Fail => "",
        };
        let (verdict, count, money) = (self.verdict, self.count(), self.money());
        writeln!(f, "verdict   {verdict}: {count}{extra}{money}{doubt}")?;
        let truth = match self.report_true {
            Some(true) => "true",
            Some(false) => "false",
            None => "not judged",
        };
        let note = self.report_note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
        writeln!(f, "report    {truth}{note}")?;
        let met = self.exposure.iter().map(|(fault, count)| format!("{count} {fault}"));
        let met = if self.exposure.is_empty() {
            "none".to_owned()
        } else {
            met.collect::<Vec<_>>().join(", ")
        };
        let calls =
            if self.calls == 1 { "1 call".to_owned() } else { format!("{} calls", self.calls) };
        writeln!(f, "faults    {met} in {calls}")?;
        if !self.unfired.is_empty() {
            writeln!(f, "unfired   {}", self.unfired.join(", "))?;
        }
        if !self.overlapped.is_empty() {
            let orders: Vec<&str> = self.overlapped.iter().map(OrderId::as_str).collect();
            writeln!(
                f,
                "overlap   {}: calls came while another was unanswered, so their numbers depend on arrival",
                orders.join(", ")
            )?;
        }
        if self.evidence == EvidenceState::Partial {
            writeln!(f, "evidence  partial: the history was full, so causes may be missing")?;
        }
        Ok(())
    }
}
