//! The judgement itself: evidence in, grade out.

use std::collections::BTreeMap;

use super::{
    ByCurrency, CallCounts, EvidenceState, Grade, OrderGrade, OrderVerdict, Report, Verdict, cause,
    exposure::{self, Exposure},
    facts::OrderFacts,
    render, truth,
};
use crate::{
    call::Operation,
    history::{Event, History},
    money::{Amount, Currency, Total},
    ticket::Order,
};

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    history: &'a History,
    /// The refunds that the ledger holds, per order.
    refunds: Vec<Vec<Amount>>,
    /// The reads and refunds that were asked for, per order.
    attempts: Vec<[u32; 2]>,
}

/// How the refunds of an order compare with the expected ones.
#[derive(Debug)]
pub(super) struct Match {
    /// Expected refunds that nothing fulfils.
    pub(super) missing: Vec<Amount>,
    /// Amounts of which there are refunds too many: how many were wanted of this run, how many too many.
    pub(super) surplus: BTreeMap<Amount, Surplus>,
}

/// Refunds of one amount, of which there are too many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surplus {
    /// Refunds of this amount that the order held at the start.
    pub(super) held: usize,
    /// Refunds too many.
    pub(super) extra: usize,
}

impl Match {
    /// Matches the refunds of an order against the expected ones, one to one and exactly.
    ///
    /// A refund that the order held at the start fulfils an expected one, or else is not graded.
    pub(super) fn new(order: &Order, refunds: &[Amount]) -> Self {
        let held = order.refunded().len().min(refunds.len());
        let (held, new) = refunds.split_at(held);
        let mut counts: BTreeMap<Amount, [usize; 3]> = BTreeMap::new();
        for (kind, amounts) in [order.expect(), held, new].into_iter().enumerate() {
            for amount in amounts {
                counts.entry(*amount).or_default()[kind] += 1;
            }
        }
        let mut missing = Vec::new();
        let mut surplus = BTreeMap::new();
        for (amount, [expected, held, new]) in counts {
            let wanted = expected.saturating_sub(held);
            missing.extend(std::iter::repeat_n(amount, wanted.saturating_sub(new)));
            let extra = new.saturating_sub(wanted);
            if extra > 0 {
                surplus.insert(amount, Surplus { held, extra });
            }
        }
        Self { missing, surplus }
    }

    fn is_right(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty()
    }

    fn left_over(&self) -> usize {
        self.surplus.values().map(|surplus| surplus.extra).sum()
    }

    fn verdict(&self, order: &Order) -> OrderVerdict {
        match (self.missing.is_empty(), self.surplus.is_empty()) {
            (true, true) => OrderVerdict::Ok,
            (true, false) if order.expect().is_empty() => OrderVerdict::Stray,
            (true, false) => OrderVerdict::Duplicated,
            (false, true) => OrderVerdict::Missed,
            (false, false) => OrderVerdict::WrongAmount,
        }
    }

    /// What was paid that was not expected, and the other way round.
    fn sums(&self) -> (Total, Total) {
        let extra = self
            .surplus
            .iter()
            .flat_map(|(amount, surplus)| std::iter::repeat_n(*amount, surplus.extra));
        (extra.sum(), self.missing.iter().copied().sum())
    }
}

impl<'a> Evidence<'a> {
    /// The evidence of a run whose ledger is at hand.
    pub(crate) fn of_run(
        history: &'a History,
        refunds: Vec<Vec<Amount>>,
        attempts: &[[u32; 2]],
    ) -> Self {
        Self { history, refunds, attempts: attempts.to_vec() }
    }

    /// The evidence of a recorded run.
    pub(crate) fn recorded(history: &'a History) -> Self {
        let totals = history.totals();
        let orders = totals.orders().iter();
        let refunds = orders.clone().map(|order| order.held().collect()).collect();
        let attempts = orders.map(|order| [order.reads, order.refunds_asked]).collect();
        Self { history, refunds, attempts }
    }

    /// The grade, with `report` in place of the recorded one if it is given.
    pub(crate) fn grade(&self, report: Option<&str>) -> Grade {
        let orders = self.history.header().ticket.orders();
        let matches: Vec<Match> = orders
            .iter()
            .zip(&self.refunds)
            .map(|(order, refunds)| Match::new(order, refunds))
            .collect();
        let facts = if matches.iter().all(Match::is_right) {
            Vec::new()
        } else {
            OrderFacts::collect(self.history)
        };
        let graded: Vec<OrderGrade> = (0..orders.len())
            .map(|place| self.order_grade(place, &matches[place], facts.get(place)))
            .collect();
        let recorded = self.history.events().iter().rev().find_map(|event| match event {
            Event::Report(text) => Some(&**text),
            _ => None,
        });
        let report = report.or(recorded).map(Report::read);
        let truth = truth::judge(report.as_ref(), orders, &graded);
        let exposure = exposure::measure(self.history);
        self.sum_up(graded, &matches, truth, exposure)
    }

    fn order_grade(&self, place: usize, matched: &Match, facts: Option<&OrderFacts>) -> OrderGrade {
        let order = &self.history.header().ticket.orders()[place];
        let currency = order.currency();
        let texts =
            |amounts: &[Amount]| amounts.iter().map(|amount| amount.display(currency)).collect();
        let verdict = matched.verdict(order);
        let facts = facts.filter(|_| verdict != OrderVerdict::Ok);
        let [reads, asked] = self.attempts[place];
        // From a part of the evidence no cause follows.
        let commits = self.refunds[place].len().saturating_sub(order.refunded().len());
        let is_whole = |facts: &&OrderFacts| {
            !self.history.is_cut() || facts.are_whole(self.attempts[place], commits)
        };
        let proof = facts.filter(is_whole);
        OrderGrade {
            order: order.id().clone(),
            verdict,
            expected: texts(order.expect()),
            refunds: texts(&self.refunds[place]),
            attempts: CallCounts { get_order: reads, refund: asked },
            causes: proof.map_or_else(Vec::new, |facts| cause::find(facts, matched, order)),
            steps: facts.map_or_else(Vec::new, |facts| render::steps(facts, order)),
            currency,
        }
    }

    fn sum_up(
        &self,
        orders: Vec<OrderGrade>,
        matches: &[Match],
        (report_true, report_note): (Option<bool>, Option<String>),
        exposure: Exposure,
    ) -> Grade {
        let count =
            |verdict: OrderVerdict| orders.iter().filter(|order| order.verdict == verdict).count();
        let ok = count(OrderVerdict::Ok);
        let all_ok = ok == orders.len();
        let extra = matches
            .iter()
            .map(|matched| matched.left_over().saturating_sub(matched.missing.len()) as u64);
        let (over_refunded, under_refunded) = net(&orders, matches);
        let verdict = match (all_ok && report_true != Some(false), exposure.is_exposed) {
            (false, _) => Verdict::Fail,
            (true, false) => Verdict::NotExposed,
            (true, true) => Verdict::Pass,
        };
        let is_cut = self.history.is_cut();
        Grade {
            verdict,
            ok,
            missed: count(OrderVerdict::Missed),
            dup_orders: count(OrderVerdict::Duplicated),
            extra_refunds: extra.sum(),
            wrong: count(OrderVerdict::WrongAmount),
            stray: count(OrderVerdict::Stray),
            all_ok,
            report_true,
            report_note,
            over_refunded,
            under_refunded,
            orders,
            exposure: exposure.met,
            unfired: exposure.unfired,
            overlapped: exposure.overlapped,
            evidence: if is_cut { EvidenceState::Partial } else { EvidenceState::Full },
            calls: self.history.call_count(),
        }
    }
}

/// What was paid too much and too little on the orders of each currency, each order taken by itself.
fn net(orders: &[OrderGrade], matches: &[Match]) -> (ByCurrency, ByCurrency) {
    let mut sums: BTreeMap<&'static str, (Currency, Total, Total)> = BTreeMap::new();
    for (order, matched) in orders.iter().zip(matches) {
        let (extra, missing) = matched.sums();
        let currency = order.currency;
        let (_, over, under) =
            sums.entry(currency.code()).or_insert((currency, Total::ZERO, Total::ZERO));
        *over = over.plus(extra.saturating_sub(missing));
        *under = under.plus(missing.saturating_sub(extra));
    }
    let texts = |pick: fn(&(Currency, Total, Total)) -> Total| {
        let some = sums.iter().filter(|(_, sum)| pick(sum) > Total::ZERO);
        some.map(|(code, sum)| (*code, pick(sum).display(sum.0))).collect()
    };
    (texts(|sum| sum.1), texts(|sum| sum.2))
}

// `attempts` is indexed by operation.
const _: () = assert!(Operation::GetOrder as usize == 0 && Operation::Refund as usize == 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Ticket;

    fn verdict(order: &str, refunds: &[u64]) -> (OrderVerdict, usize, usize) {
        let ticket = format!(
            r#"{{"version": 1, "currency": "EUR", "orders": [{{"id": "Z", "amount": "1"}}, {{"id": "A", {order}}}]}}"#
        );
        let ticket = Ticket::parse(&ticket).unwrap();
        let order = &ticket.orders()[1];
        let refunds = refunds.iter().map(|minor| Amount::from_minor(*minor).unwrap());
        let refunds: Vec<Amount> = order.refunded().iter().copied().chain(refunds).collect();
        let matched = Match::new(order, &refunds);
        (matched.verdict(order), matched.left_over(), matched.missing.len())
    }

    #[test]
    fn refunds_are_matched_one_to_one_and_exactly() {
        let full = r#""amount": "10.00""#;
        assert_eq!(verdict(full, &[1000]), (OrderVerdict::Ok, 0, 0));
        assert_eq!(verdict(full, &[]), (OrderVerdict::Missed, 0, 1));
        assert_eq!(verdict(full, &[1000, 1000]), (OrderVerdict::Duplicated, 1, 0));
        assert_eq!(verdict(full, &[1000, 5]), (OrderVerdict::Duplicated, 1, 0));
        assert_eq!(verdict(full, &[999]), (OrderVerdict::WrongAmount, 1, 1));
        let parts = r#""amount": "80.00", "expect": ["30.00", "30.00"], "refunded": ["10.00"]"#;
        assert_eq!(verdict(parts, &[3000, 3000]), (OrderVerdict::Ok, 0, 0));
        assert_eq!(verdict(parts, &[3000]), (OrderVerdict::Missed, 0, 1));
        assert_eq!(verdict(parts, &[6000]), (OrderVerdict::WrongAmount, 1, 2));
        let alone = r#""amount": "12.00", "expect": []"#;
        assert_eq!(verdict(alone, &[]), (OrderVerdict::Ok, 0, 0));
        assert_eq!(verdict(alone, &[1200]), (OrderVerdict::Stray, 1, 0));
    }

    #[test]
    fn a_held_refund_fulfils_an_expected_one_or_is_not_graded() {
        let held = r#""amount": "30.00", "expect": ["10.00"], "refunded": ["10.00"]"#;
        assert_eq!(verdict(held, &[]), (OrderVerdict::Ok, 0, 0));
        assert_eq!(verdict(held, &[1000]), (OrderVerdict::Duplicated, 1, 0));
        let other = r#""amount": "30.00", "expect": ["10.00"], "refunded": ["5.00", "5.00"]"#;
        assert_eq!(verdict(other, &[1000]), (OrderVerdict::Ok, 0, 0));
    }
}
