//! Whole programs against a bank that fails as it is told.

use std::collections::BTreeMap;

use super::*;
use crate::{
    call::{CallError, CallId, Operation, OrderState, Refunded, Refusal, RefusalCode},
    money::{Amount, Currency, Total},
    ticket::OrderId,
};

/// What happens to a call of a [`ScriptedBank`].
#[derive(Clone, Copy)]
enum Fate {
    Unavailable,
    /// Paid, but the reply is lost.
    Timeout,
    /// Never arrived, which looks the same.
    Lost,
    /// Paid twice; the first answer arrives.
    Duplicate,
    Refused,
}

/// A bank that remembers keys, and fails where the script says so.
#[derive(Default)]
struct ScriptedBank {
    fates: BTreeMap<String, Fate>,
    attempts: BTreeMap<(String, &'static str), u32>,
    refunds: BTreeMap<String, Vec<Amount>>,
    keys: BTreeMap<String, u32>,
    log: Vec<String>,
}

impl ScriptedBank {
    fn new(script: &[(&str, Fate)]) -> Self {
        let fates = script.iter().map(|(call, fate)| ((*call).to_owned(), *fate));
        Self { fates: fates.collect(), ..Self::default() }
    }

    fn meet(&mut self, operation: Operation, order: &str, key: Option<&str>) -> Option<Fate> {
        let attempt = self.attempts.entry((order.to_owned(), operation.as_str())).or_default();
        *attempt += 1;
        let call = CallId { order: OrderId::new(order).unwrap(), operation, attempt: *attempt };
        let key = key.map(|key| format!(" {key}")).unwrap_or_default();
        self.log.push(format!("{call}{key}"));
        self.fates.get(&call.to_string()).copied()
    }

    fn commit(&mut self, order: &str, amount: Amount, key: Option<&str>) -> Refunded {
        let stored = key.and_then(|key| self.keys.get(key).copied());
        let number = stored.unwrap_or_else(|| {
            let refunds = self.refunds.entry(order.to_owned()).or_default();
            refunds.push(amount);
            u32::try_from(refunds.len()).unwrap()
        });
        if let Some(key) = key {
            self.keys.insert(key.to_owned(), number);
        }
        Refunded {
            order: OrderId::new(order).unwrap(),
            number,
            amount,
            currency: Currency::EUR,
            is_replay: stored.is_some(),
            status: crate::call::RefundStatus::Succeeded,
        }
    }

    fn held(&self, order: &str) -> &[Amount] {
        self.refunds.get(order).map_or(&[], Vec::as_slice)
    }
}

impl Payments for ScriptedBank {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        match self.meet(Operation::GetOrder, order, None) {
            Some(Fate::Unavailable) => Err(CallError::Unavailable),
            Some(_) => Err(CallError::Timeout),
            None => Ok(OrderState {
                id: OrderId::new(order).unwrap(),
                currency: Currency::EUR,
                amount: Amount::from_minor(99_00).unwrap(),
                refunded: self.held(order).iter().copied().sum::<Total>(),
                refunds: self.held(order).to_vec(),
                unsettled: Vec::new(),
            }),
        }
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        match self.meet(Operation::Refund, order, key) {
            Some(Fate::Unavailable) => Err(CallError::Unavailable),
            Some(Fate::Lost) => Err(CallError::Timeout),
            Some(Fate::Refused) => Err(Refusal::new(RefusalCode::AlreadyRefunded, "no").into()),
            Some(Fate::Timeout) => {
                self.commit(order, amount, key);
                Err(CallError::Timeout)
            }
            Some(Fate::Duplicate) => {
                let first = self.commit(order, amount, key);
                self.commit(order, amount, key);
                Ok(first)
            }
            None => Ok(self.commit(order, amount, key)),
        }
    }
}

/// One run on one order of 42.50 EUR.
struct Trial {
    bank: ScriptedBank,
    outcome: Outcome,
}

impl Trial {
    fn run(design: Design, script: &[(&str, Fate)]) -> Self {
        let ticket =
            r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#;
        let ticket = Ticket::parse(ticket).unwrap();
        let mut bank = ScriptedBank::new(script);
        let outcome = run(design, &ticket, &mut bank, &mut VirtualTime, Seed::new(7));
        Self { bank, outcome }
    }

    fn refunds(&self) -> usize {
        self.bank.held("A-1").len()
    }

    fn claims(&self, claim: &str) -> bool {
        self.outcome.report.contains(&format!("{claim}: A-1\n"))
    }
}

/// The designs of the careful agent.
const CAREFUL: [Design; 5] =
    [Design::ModelOnly, Design::Retries, Design::Keyed, Design::BusinessKey, Design::ModelKey];

/// The other agents on their own.
const ALONE: [Design; 4] =
    [Design::Hasty, Design::Trusting, Design::Forgetful, Design::Paraphrasing];

const LOST_REPLY: &[(&str, Fate)] = &[("A-1 refund #1", Fate::Timeout)];

#[test]
fn without_faults_every_design_pays_once_in_three_turns_at_the_most() {
    for design in Design::ALL {
        let trial = Trial::run(design, &[]);
        assert_eq!(trial.refunds(), 1, "{design}");
        assert!(trial.claims("REFUNDED"), "{design}");
        // The hasty agent does without the first look.
        let turns = if design == Design::Hasty { 2 } else { 3 };
        assert_eq!(trial.outcome.agent_calls, turns, "{design}");
        assert_eq!(trial.outcome.waited, Duration::ZERO, "{design}");
    }
}

#[test]
fn retries_without_a_key_pay_twice_after_a_lost_reply() {
    let trial = Trial::run(Design::Retries, LOST_REPLY);
    assert_eq!(trial.refunds(), 2);
    assert!(trial.claims("DUPLICATED"));
    assert_eq!(trial.bank.log, ["A-1 get_order #1", "A-1 refund #1", "A-1 refund #2"]);
}

#[test]
fn a_keyed_retry_survives_a_lost_reply() {
    let trial = Trial::run(Design::Keyed, LOST_REPLY);
    assert_eq!(trial.refunds(), 1);
    assert!(trial.claims("REFUNDED"));
    assert_eq!(
        trial.bank.log,
        ["A-1 get_order #1", "A-1 refund #1 call-2", "A-1 refund #2 call-2"]
    );
}

#[test]
fn the_model_alone_survives_a_lost_reply_by_looking() {
    let trial = Trial::run(Design::ModelOnly, LOST_REPLY);
    assert_eq!(trial.refunds(), 1);
    assert!(trial.claims("REFUNDED"));
    assert_eq!(trial.bank.log, ["A-1 get_order #1", "A-1 refund #1", "A-1 get_order #2"]);
}

#[test]
fn a_second_delivery_is_only_caught_by_a_key() {
    let doubled = [("A-1 refund #1", Fate::Duplicate)];
    let refunds = CAREFUL.map(|design| Trial::run(design, &doubled).refunds());
    assert_eq!(refunds, [2, 2, 1, 1, 1]);
    assert_eq!(ALONE.map(|design| Trial::run(design, &doubled).refunds()), [2, 2, 2, 2]);
}

#[test]
fn reads_are_retried_unseen_by_the_agent() {
    let script = [("A-1 get_order #1", Fate::Unavailable), ("A-1 get_order #2", Fate::Lost)];
    let turns = CAREFUL.map(|design| Trial::run(design, &script).outcome.agent_calls);
    assert_eq!(turns, [5, 3, 3, 3, 5]);
}

#[test]
fn a_call_that_is_given_up_is_looked_into_because_its_worst_error_is_told() {
    let script = [
        ("A-1 refund #1", Fate::Timeout),
        ("A-1 refund #2", Fate::Unavailable),
        ("A-1 refund #3", Fate::Unavailable),
    ];
    for design in [Design::Retries, Design::Keyed] {
        let trial = Trial::run(design, &script);
        assert_eq!(trial.refunds(), 1, "{design}");
        assert!(trial.claims("REFUNDED"), "{design}");
        assert_eq!(trial.bank.log.last().unwrap(), "A-1 get_order #2");
    }
}

#[test]
fn a_call_that_the_agent_writes_again_has_a_new_key() {
    let dead = [1, 2, 3].map(|attempt| (format!("A-1 refund #{attempt}"), Fate::Unavailable));
    let dead: Vec<(&str, Fate)> = dead.iter().map(|(call, fate)| (call.as_str(), *fate)).collect();
    let trial = Trial::run(Design::Keyed, &dead);
    assert_eq!(trial.refunds(), 1);
    assert_eq!(trial.bank.log.last().unwrap(), "A-1 refund #4 call-4");
}

#[test]
fn a_refusal_is_not_retried() {
    for design in CAREFUL {
        let trial = Trial::run(design, &[("A-1 refund #1", Fate::Refused)]);
        assert_eq!(trial.refunds(), 0, "{design}");
        assert!(trial.claims("FAILED"), "{design}");
        assert_eq!(trial.bank.log.len(), 3, "{design}: {:?}", trial.bank.log);
    }
}

#[test]
fn layers_of_retries_multiply() {
    let dead: Vec<String> = (1..=20).map(|n| format!("A-1 refund #{n}")).collect();
    let dead: Vec<(&str, Fate)> = dead.iter().map(|call| (&**call, Fate::Unavailable)).collect();
    let calls = CAREFUL.map(|design| {
        let trial = Trial::run(design, &dead);
        assert!(trial.claims("FAILED"), "{design}");
        trial.bank.attempts[&("A-1".to_owned(), "refund")]
    });
    assert_eq!(calls, [3, 9, 9, 9, 3]);
}

#[test]
fn waits_are_counted_handed_to_the_sleeper_and_follow_from_the_seed() {
    struct Recorded(Vec<Duration>);
    impl Sleeper for Recorded {
        fn sleep(&mut self, delay: Duration) {
            self.0.push(delay);
        }
    }
    let ticket = Ticket::generate(Seed::new(7));
    let script: Vec<String> =
        ticket.orders().iter().map(|order| format!("{} get_order #1", order.id())).collect();
    let script: Vec<(&str, Fate)> = script.iter().map(|call| (&**call, Fate::Lost)).collect();
    let waits = |seed| {
        let mut sleeper = Recorded(Vec::new());
        let mut bank = ScriptedBank::new(&script);
        let outcome = run(Design::Keyed, &ticket, &mut bank, &mut sleeper, Seed::new(seed));
        assert_eq!(outcome.waited, sleeper.0.iter().sum::<Duration>());
        sleeper.0
    };
    assert_eq!(waits(7).len(), 8);
    assert_eq!(waits(7), waits(7));
    assert_ne!(waits(7), waits(8));
}

#[test]
fn keys_are_the_call_id_or_the_intent_and_the_model_chooses_its_own() {
    let ticket = Ticket::parse(
        r#"{"version": 1, "currency": "EUR", "orders": [
            {"id": "A-1", "amount": "5.00"}, {"id": "A-2", "amount": "9.00", "expect": ["3.00", "3.00"]}]}"#,
    )
    .unwrap();
    let mut agent = Agent::new(crate::agent::Manner::Careful, &ticket);
    let mut keys = Vec::new();
    while let Turn::Calls(calls) = agent.turn() {
        for call in calls {
            if let Action::Refund(_) = call.action {
                keys.push(CAREFUL.map(|design| design.key().of(&call, Sending::FIRST)));
                // Nobody answers, and nothing is known to have happened: the intent stays the same.
                agent.answered(&call, &Err(CallError::Timeout));
            } else {
                let order = ticket.order(&call.order).unwrap();
                let state = OrderState {
                    id: order.id().clone(),
                    currency: order.currency(),
                    amount: order.amount(),
                    refunded: Total::ZERO,
                    refunds: Vec::new(),
                    unsettled: Vec::new(),
                };
                agent.answered(&call, &Ok(Reply::Order(state)));
            }
        }
    }
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(keys[0], [None, None, some("call-3"), some("refund:A-1"), some("refund:A-1")]);
    assert_eq!(keys[1], [None, None, some("call-4"), some("refund:A-2/1"), some("refund:A-2/1")]);
    assert_eq!(keys[2], [None, None, some("call-7"), some("refund:A-1"), some("refund:A-1")]);
}

#[test]
fn after_a_lost_reply_only_the_agents_that_do_not_look_pay_again() {
    let refunds = ALONE.map(|design| Trial::run(design, LOST_REPLY).refunds());
    assert_eq!(refunds, [2, 1, 1, 1]);
    // The look meets a 503, which the forgetful agent takes for the refund's answer.
    let script = [LOST_REPLY[0], ("A-1 get_order #2", Fate::Unavailable)];
    let refunds = ALONE.map(|design| Trial::run(design, &script).refunds());
    assert_eq!(refunds, [2, 1, 2, 1]);
}

#[test]
fn an_agent_that_believes_its_errors_needs_to_be_told_the_worst() {
    let script = [LOST_REPLY[0], ("A-1 refund #2", Fate::Unavailable)];
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#;
    let ticket = Ticket::parse(ticket).unwrap();
    let retry = Retry { attempts_max: 2, ..Retry::default() };
    let refunds = |tells_the_last: bool| {
        let mut bank = ScriptedBank::new(&script);
        let mut harness = Harness::with(retry, Key::CallId, Seed::new(7));
        let mut agent = Agent::new(crate::agent::Manner::Trusting, &ticket);
        while let Turn::Calls(calls) = agent.turn() {
            for call in calls {
                let mut answer = harness.call(&call, &mut bank, &mut VirtualTime);
                if tells_the_last && answer == Err(CallError::Timeout) {
                    answer = Err(CallError::Unavailable);
                }
                agent.answered(&call, &answer);
            }
        }
        bank.held("A-1").len()
    };
    assert_eq!((refunds(false), refunds(true)), (1, 2));
}

#[test]
fn a_key_that_is_fresh_at_every_attempt_protects_from_nothing() {
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#;
    let Turn::Calls(calls) =
        Agent::new(crate::agent::Manner::Hasty, &Ticket::parse(ticket).unwrap()).turn()
    else {
        panic!("a report before a refund");
    };
    let refunds = Key::ALL.map(|key| {
        let mut bank = ScriptedBank::new(LOST_REPLY);
        let mut harness = Harness::with(Retry::default(), key, Seed::new(7));
        harness.call(&calls[0], &mut bank, &mut VirtualTime).unwrap();
        bank.held("A-1").len()
    });
    assert_eq!(refunds, [2, 2, 1, 1, 1, 1, 1, 1]);
}
