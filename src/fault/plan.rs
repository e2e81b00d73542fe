//! The bank's settings, and the rules that decide the faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{Attempts, Fault, FaultError, FaultLog, Rate, Rule, Trigger};
use crate::{
    call::{CallId, Operation},
    ledger::{Dedupe, LedgerSettings, OverRefund},
    seed::Seed,
    ticket::{OrderId, Ticket},
};

/// How a lost reply looks on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostReply {
    /// A gateway answers 504 at once.
    #[default]
    Status,
    /// No answer until the client gives up; closed after 30 s.
    Hang,
    /// The connection is closed without a byte.
    Close,
    /// The connection is reset.
    Reset,
}

/// How `Retry-After` is written on the wire (RFC 9110, 10.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// As whole seconds.
    #[default]
    Seconds,
    /// As an HTTP date.
    Date,
}

/// How an answer that is cut short announced its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// By `Content-Length`.
    #[default]
    #[serde(alias = "content-length")]
    ContentLength,
    /// Not at all: it is chunked, and the last chunk never comes.
    Chunked,
}

/// How the bank behaves, apart from its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanSettings {
    /// What happens to idempotency keys.
    pub dedupe: Dedupe,
    /// What happens past an order's balance.
    pub over_refund: OverRefund,
    /// Seconds after its first use at which a key expires, under [`Dedupe::Strict`].
    pub key_ttl_s: u64,
    /// Milliseconds between the arrival of a delivery and its end.
    pub latency_ms: u64,
    /// How a lost reply looks on the wire.
    pub lost_reply: LostReply,
    /// Seconds after which a rate-limited caller is told to come again.
    pub retry_after_s: u64,
    /// How that is written.
    pub retry_after: RetryAfter,
    /// How a truncated answer announced its length.
    pub truncation: Truncation,
    /// Milliseconds that a slow answer takes: half of them before its first byte.
    pub slow_ms: u64,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            dedupe: Dedupe::default(),
            over_refund: OverRefund::default(),
            key_ttl_s: 86_400,
            latency_ms: 0,
            lost_reply: LostReply::default(),
            retry_after_s: 1,
            retry_after: RetryAfter::default(),
            truncation: Truncation::default(),
            slow_ms: 1000,
        }
    }
}

impl PlanSettings {
    /// The part that the ledger acts on.
    pub const fn ledger(&self) -> LedgerSettings {
        LedgerSettings {
            dedupe: self.dedupe,
            over_refund: self.over_refund,
            key_ttl_s: self.key_ttl_s,
        }
    }
}

/// Why a rule cannot stand in a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A fault on an operation that cannot have it.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The rates that apply to one operation on one order come to more than 1.
    #[error("the rates on {operation}{} come to {} with this rule; they may come to 1 at the most",
        Whose(order.as_ref()), Sum(*billionths))]
    RatesOverOne {
        /// The operation.
        operation: Operation,
        /// The order, if the rates are its own.
        order: Option<OrderId>,
        /// The sum, in billionths.
        billionths: u64,
    },
}

struct Whose<'a>(Option<&'a OrderId>);

impl fmt::Display for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |order| write!(f, " of order {order}"))
    }
}

struct Sum(u64);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = u64::from(Rate::WHOLE);
        let decimals = format!("{:09}", self.0 % whole);
        write!(f, "{}.{}", self.0 / whole, decimals.trim_end_matches('0'))
    }
}

/// A plan that badbank brings along.
#[derive(Clone, Copy, Debug)]
pub struct NamedPlan {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub summary: &'static str,
    /// Its rules, as JSON.
    rules: &'static str,
}

impl NamedPlan {
    /// The plan of that name.
    ///
    /// # Panics
    ///
    /// Never: a test reads every one of them.
    pub fn plan(&self) -> Plan {
        let text = format!("{{\"version\": 1, \"rules\": {}}}", self.rules);
        Plan::parse(&text).expect("the rules of a named plan are sound").named(self.name)
    }
}

macro_rules! named_plans {
    ($($name:literal = $summary:literal, $rules:expr;)*) => {
        /// The plans that badbank brings along.
        pub const NAMED_PLANS: &[NamedPlan] = &[
            $(NamedPlan { name: $name, summary: $summary, rules: $rules },)*
        ];
    };
}

named_plans! {
    "article" = "a transient 503 on 15 % of all calls, 15 % lost replies and 10 % double deliveries on refunds: retries pay twice, a key saves them", r#"[
        {"on": "*", "fault": "transient", "rate": 0.15},
        {"on": "refund", "fault": "timeout", "rate": 0.15},
        {"on": "refund", "fault": "duplicate", "rate": 0.10}]"#;
    "calm" = "no faults at all: a program that fails here fails anywhere", "[]";
    "lost-replies" = "30 % lost replies and 10 % lost requests, which nobody can tell apart: retrying blindly pays twice, not retrying misses", r#"[
        {"on": "refund", "fault": "timeout", "rate": 0.3},
        {"on": "*", "fault": "lost", "rate": 0.1}]"#;
    "late-commits" = "30 % of the refunds reach the ledger only after the caller has looked: checking before repeating pays twice too", r#"[
        {"on": "refund", "fault": "late(2)", "rate": 0.3}]"#;
    "stale-reads" = "30 % lost replies, and half of the reads do not show the newest refund: checking before repeating pays twice too", r#"[
        {"on": "refund", "fault": "timeout", "rate": 0.3},
        {"on": "get_order", "fault": "stale", "rate": 0.5}]"#;
    "brown-out" = "stretches of 503s and 429s, and some lost replies: too few attempts miss refunds, too many are a storm", r#"[
        {"on": "refund", "fault": "transient", "burst": {"good": 4, "bad": 3}},
        {"on": "get_order", "fault": "rate_limited", "burst": {"good": 6, "bad": 2}},
        {"on": "refund", "fault": "timeout", "rate": 0.15}]"#;
    "poison" = "every eighth order or so cannot be refunded, however often it is tried: a program must stop, and say so", r#"[
        {"on": "refund", "fault": "transient", "burst": {"good": 700000, "bad": 100000}}]"#;
    // `hang` is a lost reply to ledger and caller alike, and on the wire would take half a minute each time.
    "everything" = "every fault there is but `hang`, each now and then", r#"[
        {"on": "*", "fault": "transient", "rate": 0.05},
        {"on": "*", "fault": "lost", "rate": 0.03},
        {"on": "*", "fault": "rate_limited", "rate": 0.03},
        {"on": "*", "fault": "reset_before", "rate": 0.03},
        {"on": "*", "fault": "server_error", "rate": 0.03},
        {"on": "*", "fault": "reset_after", "rate": 0.03},
        {"on": "*", "fault": "closed", "rate": 0.03},
        {"on": "*", "fault": "truncated", "rate": 0.03},
        {"on": "*", "fault": "slow", "rate": 0.01},
        {"on": "get_order", "fault": "stale", "rate": 0.10},
        {"on": "refund", "fault": "timeout", "rate": 0.08},
        {"on": "refund", "fault": "duplicate", "rate": 0.08},
        {"on": "refund", "fault": "late", "rate": 0.04},
        {"on": "refund", "fault": "late(2)", "rate": 0.04},
        {"on": "refund", "fault": "stored_error", "rate": 0.02},
        {"on": "refund", "fault": "twice_overlapping+reply", "rate": 0.03},
        {"on": "refund", "fault": "twice+timeout", "rate": 0.02},
        {"on": "refund", "fault": "accepted_then_failed(2)", "rate": 0.02}]"#;
}

/// The bank's settings and the rules that decide the faults, with a seed.
///
/// # Examples
///
/// ```
/// use badbank::{call::Operation, fault::{Fault, Plan}};
///
/// let plan = Plan::calm().seed(7).script("A-1 refund #1".parse()?, Fault::TIMEOUT)?;
/// assert_eq!(plan.rules().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    name: Option<String>,
    seed: Option<Seed>,
    settings: PlanSettings,
    rules: Vec<Rule>,
    sums: RateSums,
}

impl Plan {
    /// The seed of a run that names none.
    pub const DEFAULT_SEED: Seed = Seed::new(1);

    /// The rates of the article: 15 % transient on every call, 15 % timeout and 10 % duplicate on refunds.
    ///
    /// # Panics
    ///
    /// Never: the plan is one of those that badbank brings along.
    pub fn article() -> Self {
        Self::find("article").expect("badbank brings the article's plan along")
    }

    /// No rules at all.
    pub fn calm() -> Self {
        Self::default().named("calm")
    }

    /// The plan of that name, if badbank brings it along; `lost-replies` and `lost_replies` are one.
    pub fn find(name: &str) -> Option<Self> {
        let name = name.replace('_', "-");
        NAMED_PLANS.iter().find(|known| known.name == name).map(NamedPlan::plan)
    }

    /// A plan that injects exactly the faults of a log, and no others.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the log names a fault on an operation that cannot have it.
    pub fn replay(log: &FaultLog) -> Result<Self, PlanError> {
        let plan = Self::default().named("replay").seed(log.seed());
        log.calls().iter().try_fold(plan, |plan, (call, fault)| plan.script(call.clone(), *fault))
    }

    /// The plan under a name of its own.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The plan with that seed.
    #[must_use]
    pub fn seed(mut self, seed: impl Into<Seed>) -> Self {
        self.seed = Some(seed.into());
        self
    }

    /// The plan with those settings.
    #[must_use]
    pub fn with_settings(mut self, settings: PlanSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The plan with `dedupe`.
    #[must_use]
    pub fn dedupe(mut self, dedupe: Dedupe) -> Self {
        self.settings.dedupe = dedupe;
        self
    }

    /// The plan with `over_refund`.
    #[must_use]
    pub fn over_refund(mut self, over_refund: OverRefund) -> Self {
        self.settings.over_refund = over_refund;
        self
    }

    /// The plan with a further rule at its end; this moves no other rule's draw.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the fault cannot happen to an operation of the rule, or the rates come to more
    /// than 1 for some operation and order.
    pub fn rule(mut self, rule: Rule) -> Result<Self, PlanError> {
        for operation in rule.on.operations() {
            rule.fault.check_on(operation)?;
        }
        self.sums.add(&rule)?;
        self.rules.push(rule);
        Ok(self)
    }

    /// The plan in which `call` meets `fault`.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the fault cannot happen to the call's operation.
    ///
    /// # Panics
    ///
    /// If the call's attempt is 0; attempts count from 1.
    pub fn script(self, call: CallId, fault: Fault) -> Result<Self, PlanError> {
        let attempts = Attempts::only(call.attempt).expect("attempts count from 1");
        self.rule(Rule::scripted(call.operation, call.order, attempts, fault))
    }

    /// The plan's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The seed that the plan names.
    pub fn named_seed(&self) -> Option<Seed> {
        self.seed
    }

    /// The seed of a run under this plan.
    pub fn effective_seed(&self) -> Seed {
        self.seed.unwrap_or(Self::DEFAULT_SEED)
    }

    /// How the bank behaves, apart from its faults.
    pub fn settings(&self) -> &PlanSettings {
        &self.settings
    }

    /// The rules, in plan order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The orders that rules name, each once, sorted.
    pub fn orders(&self) -> BTreeSet<&OrderId> {
        self.rules.iter().filter_map(|rule| rule.order.as_ref()).collect()
    }

    /// What is odd about the plan for a ticket, a sentence each: rules for orders that the ticket lacks.
    pub fn warnings(&self, ticket: &Ticket) -> Vec<String> {
        let lacking = self.orders().into_iter().filter(|order| ticket.order(order).is_none());
        lacking
            .map(|order| {
                format!(
                    "the plan has a rule for order {order}, which the ticket lacks: it can never strike"
                )
            })
            .collect()
    }
}

/// What the rates of a plan come to, per operation and order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RateSums {
    of_all: BTreeMap<Operation, u64>,
    of_order: BTreeMap<(Operation, OrderId), u64>,
    /// The largest of the orders' own, which is the first to come to too much.
    largest: BTreeMap<Operation, (u64, OrderId)>,
}

impl RateSums {
    fn add(&mut self, rule: &Rule) -> Result<(), PlanError> {
        let Trigger::Rate(rate) = rule.trigger else {
            return Ok(());
        };
        let rate = u64::from(rate.billionths());
        for operation in rule.on.operations() {
            let common = self.of_all.entry(operation).or_default();
            let (order, sum) = if let Some(order) = &rule.order {
                let own = self.of_order.entry((operation, order.clone())).or_default();
                *own += rate;
                let candidate = (*own, order.clone());
                if self.largest.get(&operation).is_none_or(|largest| *largest < candidate) {
                    self.largest.insert(operation, candidate);
                }
                (Some(order.clone()), *common + *own)
            } else {
                *common += rate;
                match self.largest.get(&operation) {
                    Some((own, order)) if *own > 0 => (Some(order.clone()), *common + *own),
                    _ => (None, *common),
                }
            };
            if sum > u64::from(Rate::WHOLE) {
                return Err(PlanError::RatesOverOne { operation, order, billionths: sum });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_plan_is_sound_and_the_two_spellings_of_its_name_are_one() {
        for named in NAMED_PLANS {
            let plan = named.plan();
            assert_eq!(plan.name(), Some(named.name));
            assert_eq!(Plan::find(&named.name.replace('-', "_")), Some(plan));
        }
        assert_eq!(Plan::article().rules().len(), 3);
        assert_eq!(Plan::calm(), Plan::find("calm").unwrap());
    }
}
