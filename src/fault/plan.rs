//! The bank's settings, and the rules that decide the faults.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{Attempts, Fault, FaultError, FaultLog, On, Rate, Rule, Trigger};
use crate::{
    call::{CallId, Operation},
    ledger::{Dedupe, LedgerSettings, OverRefund},
    seed::Seed,
    ticket::OrderId,
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

/// How the bank behaves, apart from its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            dedupe: Dedupe::default(),
            over_refund: OverRefund::default(),
            key_ttl_s: 86_400,
            latency_ms: 0,
            lost_reply: LostReply::default(),
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
    make: fn() -> Plan,
}

impl NamedPlan {
    /// The plan of that name.
    pub fn plan(&self) -> Plan {
        (self.make)()
    }
}

/// The plans that badbank brings along.
pub const NAMED_PLANS: [NamedPlan; 2] = [
    NamedPlan {
        name: "article",
        summary: "15 % transient on every call, 15 % timeout and 10 % duplicate on refunds: retries pay twice, a key saves them",
        make: Plan::article,
    },
    NamedPlan {
        name: "calm",
        summary: "no faults at all: a program that fails here fails anywhere",
        make: Plan::calm,
    },
];

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
    /// Never: the rates come to less than 1.
    pub fn article() -> Self {
        let percent =
            |percent: u32| Rate::from_billionths(percent * 10_000_000).expect("at most a whole");
        let refund = On::One(Operation::Refund);
        [
            Rule::rate(On::All, Fault::TRANSIENT, percent(15)),
            Rule::rate(refund, Fault::TIMEOUT, percent(15)),
            Rule::rate(refund, Fault::DUPLICATE, percent(10)),
        ]
        .into_iter()
        .try_fold(Self::default(), Self::rule)
        .expect("the rates come to 0.4")
        .named("article")
    }

    /// No rules at all.
    pub fn calm() -> Self {
        Self::default().named("calm")
    }

    /// The plan of that name, if badbank brings it along; kebab-case and snake_case are one.
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
}

/// What the rates of a plan come to, per operation and order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RateSums {
    of_all: BTreeMap<Operation, u64>,
    of_order: BTreeMap<(Operation, OrderId), u64>,
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
                (Some(order.clone()), *common + *own)
            } else {
                *common += rate;
                let own = self.of_order.iter().filter(|((of, _), _)| *of == operation);
                match own.max_by_key(|(_, sum)| **sum) {
                    Some(((_, order), own)) if *own > 0 => (Some(order.clone()), *common + *own),
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
