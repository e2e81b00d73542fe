//! What the grader may know of a run beside its events.

use std::collections::BTreeSet;

use crate::{
    call::Operation,
    fault::{Attempts, On, Plan, PlanSettings, Rule, Told, Trigger},
    seed::Seed,
    ticket::{OrderId, Ticket},
};

/// What the grader may know of a run beside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The task.
    pub ticket: Ticket,
    /// The seed.
    pub seed: Seed,
    /// How the bank behaves, apart from its faults.
    pub settings: PlanSettings,
    /// The faults to be expected.
    pub armed: Armed,
}

impl Header {
    /// The header of a run of `ticket` under `plan`.
    pub fn new(ticket: &Ticket, plan: &Plan) -> Self {
        Self {
            ticket: ticket.clone(),
            seed: plan.effective_seed(),
            settings: *plan.settings(),
            armed: Armed::new(ticket, plan),
        }
    }
}

/// The faults that a plan holds ready, by name, and its scripted calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// The names of the faults, in plan order.
    pub faults: Vec<String>,
    /// Whether one of them may make a caller without a key pay twice.
    pub is_doubling: bool,
    /// The scripted calls.
    pub scripted: Vec<Script>,
    /// Other rules for an order that the ticket lacks, in words.
    pub unmatched: Vec<String>,
}

/// Calls for which a plan scripts a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The operations.
    pub on: On,
    /// The order; every one of the ticket if none is named.
    pub order: Option<OrderId>,
    /// The attempts.
    pub attempts: Attempts,
    /// The fault's name.
    pub fault: String,
}

impl Armed {
    pub(crate) fn new(ticket: &Ticket, plan: &Plan) -> Self {
        let mut armed = Self::default();
        let mut seen = BTreeSet::new();
        for rule in plan.rules().iter().filter(|rule| rule.is_armed()) {
            let name = rule.fault.to_string();
            // A stale read is armed here; whether it doubles shows when it hides something.
            let is_stale = matches!(rule.fault.told(), Told::Stale(_));
            let is_doubling = rule.fault.is_doubling() && rule.on.includes(Operation::Refund);
            armed.is_doubling |= is_stale || is_doubling;
            armed.add(ticket, rule, &name);
            if seen.insert(rule.fault) {
                armed.faults.push(name);
            }
        }
        armed
    }

    fn add(&mut self, ticket: &Ticket, rule: &Rule, fault: &str) {
        let Rule { on, order, trigger, .. } = rule;
        match trigger {
            Trigger::Attempts(attempts) => self.scripted.push(Script {
                on: *on,
                order: order.clone(),
                attempts: *attempts,
                fault: fault.to_owned(),
            }),
            Trigger::Rate(_) | Trigger::Burst(_) => {
                if let Some(order) = order.as_ref().filter(|order| ticket.order(order).is_none()) {
                    let lacking =
                        on.operations().map(|operation| format!("{order} {operation} {fault}"));
                    self.unmatched.extend(lacking);
                }
            }
        }
    }
}
