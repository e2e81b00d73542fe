//! What must come out on average, by enumerating the fault process of one order.
//!
//! Every sequence of faults that a design can meet is walked through with the real design and the real
//! bank, and weighed with its probability. Faults too unlikely to matter are taken not to happen.
//! The orders of a ticket meet their faults independently, so what holds of one gives what holds of all.

use super::facts::Facts;
use crate::{
    Seed, Ticket,
    agent::{Action, Agent, Turn},
    bank::Bank,
    call::{CallId, Operation},
    fault::{Fault, Plan, Rate, Trigger},
    harness::{Backoff, Design, Harness, Jitter, Retry, VirtualTime},
    history::Event,
};

/// Sequences less likely than this count as if their last fault had not happened. Rare are mostly those in which a read
/// fails again and again, and those change little: where they are left out, what is rare and matters is kept.
const fn negligible(operation: Operation) -> f64 {
    match operation {
        Operation::GetOrder => 1e-11,
        Operation::Refund => 1e-13,
    }
}

/// What may become of one order, and how likely.
#[derive(Debug, Default)]
pub(super) struct OrderOdds {
    courses: Vec<(f64, Course)>,
}

/// A way in which one order may go.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) facts: Facts,
    /// The waits, on average, in milliseconds.
    pub(super) waited_ms: f64,
    /// Turns in which the agent reads: before its first refund, before its second, and so on.
    reads: Vec<usize>,
    /// Turns in which it refunds.
    refunds: usize,
}

/// The faults so far, up to a call.
struct Branch {
    faults: Vec<(CallId, Fault)>,
    /// Calls that are decided, by a fault or by none.
    decided: usize,
    probability: f64,
}

/// The odds of one order for a design under a plan of rates.
pub(super) fn order_odds(design: Design, plan: &Plan) -> OrderOdds {
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "10.00"}]}"#;
    let ticket = Ticket::parse(ticket).expect("the ticket is sound");
    let rates = Operation::ALL.map(|operation| rates(plan, operation));
    let mut odds = OrderOdds::default();
    let mut open = vec![Branch { faults: Vec::new(), decided: 0, probability: 1.0 }];
    while let Some(Branch { faults, decided, mut probability }) = open.pop() {
        let (course, calls) = walk(design, &ticket, plan, &faults);
        // Either a further call meets a fault, or none does.
        for (place, call) in calls.iter().enumerate().skip(decided) {
            let before = probability;
            for (fault, rate) in &rates[call.operation as usize] {
                if before * rate >= negligible(call.operation) {
                    let faults = faults.iter().cloned().chain([(call.clone(), *fault)]).collect();
                    open.push(Branch { faults, decided: place + 1, probability: before * rate });
                    probability -= before * rate;
                }
            }
        }
        odds.courses.push((probability, course));
    }
    odds
}

impl OrderOdds {
    /// How often something is so.
    pub(super) fn chance(&self, is_so: impl Fn(&Facts) -> bool) -> f64 {
        let so = self.courses.iter().filter(|(_, course)| is_so(&course.facts));
        // The sum of nothing is -0 in floats.
        so.map(|(probability, _)| probability).sum::<f64>().abs()
    }

    /// How much of something there is on average.
    #[allow(clippy::cast_precision_loss, reason = "an order has a few calls")]
    pub(super) fn mean(&self, of: impl Fn(&Facts) -> u64) -> f64 {
        self.courses
            .iter()
            .map(|(probability, course)| probability * of(&course.facts) as f64)
            .sum()
    }

    /// The waits, in milliseconds.
    pub(super) fn waited_ms(&self) -> f64 {
        self.courses.iter().map(|(probability, course)| probability * course.waited_ms).sum()
    }

    /// The names of all causes.
    pub(super) fn causes(&self) -> impl Iterator<Item = &'static str> {
        self.courses.iter().flat_map(|(_, course)| course.facts.causes.keys().copied())
    }

    /// Turns of the agent for a ticket of so many orders, the report included.
    ///
    /// A round is a number of turns in which it reads, then one in which it refunds; the round of a ticket takes as
    /// long as that of the order that takes longest. The mean of a maximum is the sum of the chances that it
    /// is more than 0, than 1, and so on.
    pub(super) fn turns(&self, orders: i32) -> f64 {
        let rounds = self.courses.iter().map(|(_, course)| course.reads.len()).max().unwrap_or(0);
        let mut more_reads = vec![Vec::new(); rounds];
        let mut refunds = vec![0.0; rounds];
        for (probability, course) in &self.courses {
            for (more, reads) in more_reads.iter_mut().zip(&course.reads) {
                more.resize(more.len().max(*reads), 0.0);
                more[..*reads].iter_mut().for_each(|chance| *chance += probability);
            }
            refunds[..course.refunds].iter_mut().for_each(|chance| *chance += probability);
        }
        let turns = more_reads.into_iter().flatten().chain(refunds);
        1.0 + turns.map(|chance| any_of(orders, chance)).sum::<f64>()
    }
}

/// The chance that something happens to any of so many orders that happens to one with `chance`.
pub(super) fn any_of(orders: i32, chance: f64) -> f64 {
    // 1 - (1 - chance)^orders, which would make nothing of a chance that is close to nothing. Chances
    // that add up to 1 may in floats come to a little more.
    -(f64::from(orders) * (-chance.min(1.0)).ln_1p()).exp_m1()
}

/// Runs the design against these faults and no others; gives what became of the order, and the calls.
fn walk(
    design: Design,
    ticket: &Ticket,
    plan: &Plan,
    faults: &[(CallId, Fault)],
) -> (Course, Vec<CallId>) {
    let mut scripted = Plan::calm().with_settings(*plan.settings());
    for (call, fault) in faults {
        scripted = scripted
            .script(call.clone(), *fault)
            .expect("the plan has this fault on this operation");
    }
    let mut bank = Bank::open(ticket, scripted);
    let mut agent = Agent::new(design.manner(), ticket);
    let mut harness = longest_waits(design);
    let (mut reads, mut refunds) = (vec![0], 0);
    let report = loop {
        match agent.turn() {
            Turn::Report(report) => break report,
            Turn::Calls(calls) => {
                for call in &calls {
                    match call.action {
                        Action::GetOrder => reads[refunds] += 1,
                        Action::Refund(_) => {
                            refunds += 1;
                            reads.push(0);
                        }
                    }
                    let answer = harness.call(call, &mut bank, &mut VirtualTime);
                    agent.answered(call, &answer);
                }
            }
        }
    };
    let grade = bank.grade(&report);
    let history = bank.history();
    let calls = history.events().iter().filter_map(|event| match event {
        Event::Invoke(call) => Some(history.call_id(*call)),
        _ => None,
    });
    let calls = calls.collect();
    // Full jitter waits half of the longest on average.
    let waited_ms = harness.waited().as_secs_f64() * 1000.0 / 2.0;
    (Course { facts: Facts::of(&bank, &grade), waited_ms, reads, refunds }, calls)
}

/// The harness of a design, but it always waits as long as it may.
fn longest_waits(design: Design) -> Harness {
    let Retry { attempts_max, backoff } = design.retry();
    assert_eq!(backoff.jitter, Jitter::Full, "the mean is that of full jitter");
    let backoff = Backoff { jitter: Jitter::None, ..backoff };
    Harness::with(Retry { attempts_max, backoff }, design.key(), Seed::new(0))
}

/// The faults that a call of an operation may meet under the rates of a plan, and how likely.
fn rates(plan: &Plan, operation: Operation) -> Vec<(Fault, f64)> {
    let whole = f64::from(Rate::WHOLE);
    let rules =
        plan.rules().iter().filter(|rule| rule.on.includes(operation) && rule.order.is_none());
    let rates = rules.filter_map(|rule| match rule.trigger {
        Trigger::Rate(rate) => Some((rule.fault, f64::from(rate.billionths()) / whole)),
        _ => None,
    });
    rates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-7, "{value} is not {expected}");
    }

    #[test]
    fn the_odds_of_the_article_agree_with_those_worked_out_by_hand() {
        let plan = Plan::article();
        // A refund is doubled by a duplicate delivery alone, after at most two transients.
        let model_only = order_odds(Design::ModelOnly, &plan);
        is_close(model_only.chance(|_| true), 1.0);
        is_close(model_only.chance(Facts::is_doubled), 0.1 * (1.0 + 0.15 + 0.0225));
        is_close(model_only.mean(|facts| facts.missed), 0.15_f64.powi(3));
        is_close(model_only.mean(|facts| facts.timeouts), 0.15 * (1.0 + 0.15 + 0.0225));
        is_close(model_only.mean(|facts| facts.repeats), 0.15 + 0.0225);
        is_close(model_only.waited_ms(), 0.0);
        // One tool call of three attempts pays 0.95 + 0.3 x (0.95 + 0.3 x 0.95) on average; a further one comes
        // only after three transients.
        let call = 0.95 * (1.0 + 0.3 + 0.09);
        let unpaid = 0.15_f64.powi(3);
        let paid = call * (1.0 + unpaid + unpaid * unpaid);
        let retries = order_odds(Design::Retries, &plan);
        is_close(retries.mean(|facts| facts.extra), paid - (1.0 - unpaid.powi(3)));
        let keyed = order_odds(Design::Keyed, &plan);
        is_close(keyed.chance(Facts::is_doubled), 0.0);
        is_close(keyed.chance(|facts| !facts.is_right), unpaid.powi(3));
        // A call waits 250 ms on average after a first failure, and 500 ms after a second one.
        let wait = |failure: f64| failure * (250.0 + failure * 500.0);
        // Reads come until one answers: at first, and after each refund of which all attempts failed.
        let read = wait(0.15) / (1.0 - unpaid);
        let refund = wait(0.3) * (1.0 + unpaid + unpaid * unpaid);
        let reads = 1.0 + 0.3_f64.powi(3) * (1.0 + unpaid + unpaid * unpaid);
        let waited_ms = keyed.waited_ms();
        assert!((waited_ms - reads * read - refund).abs() < 1e-3, "{waited_ms}");
    }

    #[test]
    fn the_turns_of_a_ticket_without_faults_are_three() {
        for design in [Design::ModelOnly, Design::Keyed] {
            is_close(order_odds(design, &Plan::calm()).turns(8), 3.0);
        }
    }
}
