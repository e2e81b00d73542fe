//! What must come out on average, by enumerating the fault process of one order.
//!
//! Every sequence of faults that a design can meet is walked through with the real design and the real
//! bank, and weighed with its probability. Sequences too unlikely to matter are left out and accounted for.

use crate::{
    Seed, Ticket,
    bank::Bank,
    call::{CallId, Operation},
    fault::{Fault, Plan, Rate, Trigger},
    harness::{self, Design, VirtualTime},
    history::Event,
};

/// Sequences less likely than this are left out.
const NEGLIGIBLE: f64 = 1e-13;

/// Probabilities and expectations for one order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderOdds {
    /// That it is refunded more than once.
    pub(super) doubled: f64,
    /// That it holds exactly what was expected.
    pub(super) right: f64,
    /// Refunds too many.
    pub(super) extra: f64,
    /// The square of that number.
    pub(super) extra_squared: f64,
    /// Probability of all sequences that were walked through; the rest was left out.
    pub(super) covered: f64,
}

/// The first calls of a run, and what each of them met.
type Prefix = Vec<(CallId, Option<Fault>)>;

/// What a call may meet, and how likely.
type Outcomes = Vec<(Option<Fault>, f64)>;

/// The odds of one order for a design under a plan of rates.
pub(super) fn order_odds(design: Design, plan: &Plan) -> OrderOdds {
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "10.00"}]}"#;
    let ticket = Ticket::parse(ticket).expect("the ticket is sound");
    let outcomes = Operation::ALL.map(|operation| outcomes(plan, operation));
    let mut odds = OrderOdds::default();
    let mut open: Vec<(Prefix, f64)> = vec![(Prefix::new(), 1.0)];
    while let Some((prefix, probability)) = open.pop() {
        let (calls, grade) = walk(design, &ticket, plan, &prefix);
        let Some(next) = calls.get(prefix.len()) else {
            odds.add(probability, &grade);
            continue;
        };
        for (fault, share) in &outcomes[next.operation as usize] {
            let probability = probability * share;
            if probability >= NEGLIGIBLE {
                let mut longer = prefix.clone();
                longer.push((next.clone(), *fault));
                open.push((longer, probability));
            }
        }
    }
    odds
}

impl OrderOdds {
    fn add(&mut self, probability: f64, grade: &crate::grade::Grade) {
        self.covered += probability;
        let extra = grade.extra_refunds();
        if extra > 0 {
            self.doubled += probability;
            let extra = f64::from(u32::try_from(extra).unwrap_or(u32::MAX));
            self.extra += probability * extra;
            self.extra_squared += probability * extra * extra;
        }
        if grade.all_ok() {
            self.right += probability;
        }
    }
}

/// Runs the design against the faults of a prefix and no others; gives the calls that it made.
fn walk(
    design: Design,
    ticket: &Ticket,
    plan: &Plan,
    prefix: &Prefix,
) -> (Vec<CallId>, crate::grade::Grade) {
    let mut scripted = Plan::calm().with_settings(*plan.settings());
    for (call, fault) in prefix {
        if let Some(fault) = fault {
            scripted = scripted
                .script(call.clone(), *fault)
                .expect("the plan has this fault on this operation");
        }
    }
    let mut bank = Bank::open(ticket, scripted);
    let outcome = harness::run(design, ticket, &mut bank, &mut VirtualTime, Seed::new(0));
    let grade = bank.grade(&outcome.report);
    let history = bank.history();
    let calls = history.events().iter().filter_map(|event| match event {
        Event::Invoke(call) => Some(history.call_id(*call)),
        _ => None,
    });
    (calls.collect(), grade)
}

/// What a call of an operation may meet under the rates of a plan.
fn outcomes(plan: &Plan, operation: Operation) -> Outcomes {
    let whole = f64::from(Rate::WHOLE);
    let rates =
        plan.rules().iter().filter(|rule| rule.on.includes(operation) && rule.order.is_none());
    let mut outcomes: Outcomes = rates
        .filter_map(|rule| match rule.trigger {
            Trigger::Rate(rate) => Some((Some(rule.fault), f64::from(rate.billionths()) / whole)),
            _ => None,
        })
        .collect();
    let faulted: f64 = outcomes.iter().map(|(_, share)| share).sum();
    outcomes.push((None, 1.0 - faulted));
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn the_odds_of_the_article_agree_with_those_worked_out_by_hand() {
        let plan = Plan::article();
        // A refund is doubled by a duplicate delivery alone, after at most two transients.
        let model_only = order_odds(Design::ModelOnly, &plan);
        is_close(model_only.covered, 1.0);
        is_close(model_only.doubled, 0.1 * (1.0 + 0.15 + 0.0225));
        is_close(model_only.right, 1.0 - model_only.doubled - 0.15_f64.powi(3));
        // One tool call of three attempts pays 0.95 + 0.3 x (0.95 + 0.3 x 0.95) on average; a further one comes
        // only after three transients.
        let call = 0.95 * (1.0 + 0.3 + 0.09);
        let unpaid = 0.15_f64.powi(3);
        let paid = call * (1.0 + unpaid + unpaid * unpaid);
        let retries = order_odds(Design::Retries, &plan);
        is_close(retries.extra, paid - (1.0 - unpaid.powi(3)));
        let keyed = order_odds(Design::Keyed, &plan);
        is_close(keyed.doubled, 0.0);
        is_close(keyed.right, 1.0 - unpaid.powi(3));
    }
}
