//! Reads a plan from JSON, version 1, and writes it.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;

use super::{
    Burst, LostReply, MeanLength, Plan, PlanError, PlanSettings, RetryAfter, Rule, Trigger,
    Truncation,
};
use crate::{
    document::{DocumentError, Part, check_version},
    ledger::{Dedupe, OverRefund},
    seed::Seed,
    ticket::OrderId,
};

/// The longest that a plan may make a caller wait: an hour.
const TIME_MAX_MS: u64 = 3_600_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanDocument<'a> {
    #[serde(borrow)]
    version: &'a RawValue,
    seed: Option<Seed>,
    dedupe: Option<Dedupe>,
    over_refund: Option<OverRefund>,
    key_ttl_s: Option<u64>,
    #[serde(borrow)]
    latency_ms: Option<&'a RawValue>,
    lost_reply: Option<LostReply>,
    retry_after_s: Option<u64>,
    retry_after: Option<RetryAfter>,
    truncation: Option<Truncation>,
    #[serde(borrow)]
    slow_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    rules: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument<'a> {
    #[serde(borrow)]
    on: &'a RawValue,
    order: Option<OrderId>,
    #[serde(borrow)]
    fault: &'a RawValue,
    #[serde(borrow)]
    rate: Option<&'a RawValue>,
    #[serde(borrow)]
    attempts: Option<&'a RawValue>,
    #[serde(borrow)]
    burst: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstDocument<'a> {
    #[serde(borrow)]
    good: &'a RawValue,
    #[serde(borrow)]
    bad: &'a RawValue,
}

impl Plan {
    /// Reads a plan from JSON, version 1.
    ///
    /// # Errors
    ///
    /// [`DocumentError`] with the line, the value and what is allowed: for JSON that is none, unknown
    /// fields, faults on operations that cannot have them, and rates outside 0 to 1 or over 1 together.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        Self::read(Part::whole(text))
    }

    pub(crate) fn read(part: Part<'_>) -> Result<Self, DocumentError> {
        let document: PlanDocument<'_> = part.read_object()?;
        check_version("plan", part.inner(document.version))?;
        let defaults = PlanSettings::default();
        let time = |field: &str, raw: Option<&RawValue>| {
            raw.map(|raw| read_time(field, part.inner(raw))).transpose()
        };
        let settings = PlanSettings {
            dedupe: document.dedupe.unwrap_or(defaults.dedupe),
            over_refund: document.over_refund.unwrap_or(defaults.over_refund),
            key_ttl_s: document.key_ttl_s.unwrap_or(defaults.key_ttl_s),
            latency_ms: time("latency_ms", document.latency_ms)?.unwrap_or(defaults.latency_ms),
            lost_reply: document.lost_reply.unwrap_or(defaults.lost_reply),
            retry_after_s: document.retry_after_s.unwrap_or(defaults.retry_after_s),
            retry_after: document.retry_after.unwrap_or(defaults.retry_after),
            truncation: document.truncation.unwrap_or(defaults.truncation),
            slow_ms: time("slow_ms", document.slow_ms)?.unwrap_or(defaults.slow_ms),
        };
        let mut plan = Self::default().with_settings(settings);
        if let Some(seed) = document.seed {
            plan = plan.seed(seed);
        }
        document.rules.into_iter().try_fold(plan, |plan, raw| add_rule(plan, part.inner(raw)))
    }
}

fn read_time(field: &str, part: Part<'_>) -> Result<u64, DocumentError> {
    let given: u64 = part.read()?;
    if given > TIME_MAX_MS {
        return Err(part.error(format!("`{field}` is {given}; at most {TIME_MAX_MS} is allowed")));
    }
    Ok(given)
}

fn add_rule(plan: Plan, part: Part<'_>) -> Result<Plan, DocumentError> {
    let document: RuleDocument<'_> = part.read_object()?;
    let RuleDocument { rate, attempts, burst, .. } = document;
    let given = [rate, attempts, burst];
    let fault = part.inner(document.fault);
    let rule = Rule {
        on: part.inner(document.on).parse()?,
        order: document.order,
        fault: fault.parse()?,
        trigger: read_trigger(part, given)?,
    };
    plan.rule(rule).map_err(|error| match (&error, rate) {
        (PlanError::RatesOverOne { .. }, Some(rate)) => part.inner(rate).error(error),
        _ => fault.error(error),
    })
}

fn read_trigger<'a>(
    part: Part<'a>,
    [rate, attempts, burst]: [Option<&'a RawValue>; 3],
) -> Result<Trigger, DocumentError> {
    match (rate, attempts, burst) {
        (Some(rate), None, None) => part.inner(rate).parse().map(Trigger::Rate),
        (None, Some(attempts), None) => part.inner(attempts).parse().map(Trigger::Attempts),
        (None, None, Some(burst)) => {
            let part = part.inner(burst);
            let BurstDocument { good, bad } = part.read_object()?;
            let mean = |field: &str, raw: &'a RawValue| {
                let mean = part.inner(raw).parse::<MeanLength>();
                mean.map_err(|DocumentError { line, message }| {
                    DocumentError::new(line, format!("`{field}`: {message}"))
                })
            };
            Ok(Trigger::Burst(Burst { good: mean("good", good)?, bad: mean("bad", bad)? }))
        }
        (None, None, None) => Err(part.error(
            "a rule needs `rate`, such as 0.15, or `attempts`, such as \"1-4\", or `burst`, such as {\"good\": 6, \"bad\": 2}",
        )),
        _ => Err(part.error("a rule has one of `rate`, `attempts` and `burst`, never both")),
    }
}

/// A plan as it is written, with everything that may be left out.
#[derive(Serialize)]
struct PlanLines<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<Seed>,
    #[serde(flatten)]
    settings: &'a PlanSettings,
    rules: &'a [Rule],
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlanLines {
            version: 1,
            seed: self.named_seed(),
            settings: self.settings(),
            rules: self.rules(),
        }
        .serialize(serializer)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rule = serializer.serialize_struct("Rule", 4)?;
        rule.serialize_field("on", self.on.as_str())?;
        if let Some(order) = &self.order {
            rule.serialize_field("order", order)?;
        }
        rule.serialize_field("fault", &self.fault.to_string())?;
        match self.trigger {
            Trigger::Rate(rate) => rule.serialize_field("rate", &number(rate))?,
            Trigger::Attempts(attempts) => {
                rule.serialize_field("attempts", &attempts.to_string())?;
            }
            Trigger::Burst(burst) => rule.serialize_field("burst", &BurstLines(burst))?,
        }
        rule.end()
    }
}

struct BurstLines(Burst);

impl Serialize for BurstLines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut burst = serializer.serialize_struct("Burst", 2)?;
        burst.serialize_field("good", &number(self.0.good))?;
        burst.serialize_field("bad", &number(self.0.bad))?;
        burst.end()
    }
}

fn number(decimal: impl std::fmt::Display) -> Box<RawValue> {
    RawValue::from_string(decimal.to_string()).expect("a decimal is a JSON number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_back_from_its_own_json() {
        let text = r#"{"version": 1, "seed": 7, "dedupe": "strict", "over-refund": "reject"}"#;
        assert!(Plan::parse(text).is_err(), "field names are snake_case");
        let text = r#"{"version": 1, "seed": 18446744073709551615, "dedupe": "first-reply", "lost_reply": "hang", "rules": [
            {"on": "*", "fault": "transient", "rate": 0.15},
            {"on": "refund", "order": "A-1", "fault": "twice+timeout", "attempts": "2-"},
            {"on": "*", "fault": "rate-limited", "burst": {"good": 6, "bad": 2.5}},
            {"on": "get-order", "fault": "lost", "attempts": 3}]}"#;
        let plan = Plan::parse(text).unwrap();
        let written = serde_json::to_string(&plan).unwrap();
        assert_eq!(Plan::parse(&written), Ok(plan), "{written}");
        assert!(written.contains(r#""rate":0.15"#), "{written}");
    }

    #[test]
    fn refusals_name_line_value_and_what_is_allowed() {
        let rules = |rules: &str| format!("{{\"version\": 1,\n\"rules\": [\n{rules}\n]}}");
        for (text, line, wanted) in [
            (
                rules(r#"{"on": "refund", "fault": "timeout", "rate": 1.5}"#),
                3,
                "`1.5` is not a rate",
            ),
            (
                rules(r#"{"on": "refund", "fault": "timeout", "rate": -0.1}"#),
                3,
                "`-0.1` is not a rate",
            ),
            (
                rules(r#"{"on": "get_order", "fault": "timeout", "rate": 0.1}"#),
                3,
                "use it on refund",
            ),
            (rules(r#"{"on": "*", "fault": "duplicate", "attempts": "1"}"#), 3, "use it on refund"),
            (
                rules(r#"{"on": "refunds", "fault": "lost", "rate": 0.1}"#),
                3,
                "`get_order`, `refund` or `*`",
            ),
            (
                rules(r#"{"on": "refund", "fault": "losst", "rate": 0.1}"#),
                3,
                "`losst` is not a fault",
            ),
            (rules(r#"{"on": "refund", "fault": "lost"}"#), 3, "needs `rate`"),
            (
                rules(r#"{"on": "refund", "fault": "lost", "rate": 0.1, "attempts": "1"}"#),
                3,
                "never both",
            ),
            (rules(r#"{"on": "refund", "fault": "lost", "attempts": "0"}"#), 3, "counted from 1"),
            (
                rules("{\"on\": \"refund\",\n \"fault\": \"lost\", \"rat\": 0.1}"),
                4,
                "unknown field `rat`",
            ),
            (
                rules(
                    "{\"on\": \"*\", \"fault\": \"lost\", \"rate\": 0.6},\n{\"on\": \"refund\", \"fault\": \"timeout\", \"rate\": 0.5}",
                ),
                4,
                "come to 1.1",
            ),
            ("{\"version\": 1,\n \"sede\": 8}".to_owned(), 2, "unknown field `sede`"),
            ("{\"version\": 1,\n \"dedupe\": \"on\"}".to_owned(), 2, "first_reply"),
            ("{\"version\": 9}".to_owned(), 1, "version 9"),
        ] {
            let error = Plan::parse(&text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_that_is_refused_is_refused_at_its_own_line() {
        let rule = |rule: &str| format!("{{\"version\": 1,\n\"rules\": [\n{rule}\n]}}");
        for (text, line, wanted) in [
            ("{\n\"seed\": 1,\n\"version\":\n2}".to_owned(), 4, "version 2"),
            ("{\"version\": 1,\n\n\n\"latency_ms\": 3600001}".to_owned(), 4, "3600001"),
            ("{\"version\": 1,\n\"slow_ms\": 3600001,\n\"seed\": 1}".to_owned(), 2, "3600001"),
            (rule("{\"on\":\n\"pay\",\n\"fault\": \"lost\", \"rate\": 0.1}"), 4, "`pay`"),
            (rule("{\"on\": \"*\",\n\"fault\": \"boom\",\n\"rate\": 0.1}"), 4, "`boom`"),
            (rule("{\"on\": \"*\",\n\"fault\": \"late\",\n\"rate\": 0.1}"), 4, "late(1)"),
            (rule("{\"on\": \"*\",\n\"fault\": \"lost\",\n\"rate\": 1.5\n}"), 5, "`1.5`"),
            (rule("{\"on\": \"*\",\n\"fault\": \"lost\",\n\"attempts\": \"0\"\n}"), 5, "`0`"),
            (
                rule(
                    "{\"on\": \"*\",\n\"fault\": \"lost\",\n\"burst\": {\"good\": 1,\n\"bad\": 0}\n}",
                ),
                6,
                "`bad`: `0`",
            ),
            (
                rule(
                    "{\"on\": \"*\", \"fault\": \"lost\", \"rate\": 1},\n{\"on\": \"*\",\n\"rate\": 0.5,\n\"fault\": \"lost\"}",
                ),
                5,
                "come to 1.5",
            ),
        ] {
            let error = Plan::parse(&text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_plan_of_many_rules_is_read_in_one_go() {
        let rules = (0..20_000).map(|order| {
            format!(r#"{{"on": "refund", "order": "A-{order}", "fault": "lost", "rate": 0.5}}"#)
        });
        let rules = rules.collect::<Vec<_>>().join(",\n");
        let general = r#",{"on": "*", "fault": "lost", "rate": 0}"#.repeat(20_000);
        let text = format!("{{\"version\": 1, \"rules\": [\n{rules}{general}]}}");
        assert_eq!(Plan::parse(&text).unwrap().rules().len(), 40_000);
        let error = Plan::parse(&text.replace("A-19999", "A 1")).unwrap_err();
        assert_eq!(error.line, 20_001);
    }

    #[test]
    fn rates_of_one_order_count_with_those_of_all() {
        let text = r#"{"version": 1, "rules": [
            {"on": "refund", "order": "A-1", "fault": "lost", "rate": 0.5},
            {"on": "refund", "order": "A-2", "fault": "lost", "rate": 0.9},
            {"on": "refund", "fault": "timeout", "rate": 0.1},
            {"on": "refund", "fault": "timeout", "rate": 0.000000001}]}"#;
        let error = Plan::parse(text).unwrap_err();
        assert!(
            error.message.contains("order A-2") && error.message.contains("1.000000001"),
            "{error}"
        );
    }
}
