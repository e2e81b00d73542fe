//! Parts of a harness against a real bank: outbox, dead letters, stopping rule, budget, deadline.

use std::time::Duration;

use badbank::{
    Bank, Seed, Ticket,
    call::{CallError, Operation, Refusal, RefusalCode},
    fault::{Fault, On, Plan, Rule},
    harness::{
        self, Backoff, Budget, DeadLetter, Deadline, Design, Harness, Jitter, Key, Letter, Outbox,
        Retry, StoppingRule, VirtualTime,
    },
    ledger::OverRefund,
    money::Amount,
};

/// A bank whose first order answers 503 to refunds, at these attempts.
fn failing(ticket: &Ticket, attempts: &str) -> Bank {
    let order = ticket.orders()[0].id().clone();
    let attempts = attempts.parse().unwrap();
    let rule = Rule::scripted(Operation::Refund, order, attempts, Fault::TRANSIENT);
    Bank::open(ticket, Plan::calm().rule(rule).unwrap())
}

/// An outbox with one intent for each order.
fn outbox(ticket: &Ticket) -> Outbox<(String, Amount)> {
    let mut outbox = Outbox::default();
    for order in ticket.orders() {
        let intent = format!("refund:{}", order.id());
        assert!(outbox.write(intent.clone(), (order.id().to_string(), order.amount())));
        assert!(!outbox.write(intent, (order.id().to_string(), order.amount())));
    }
    outbox
}

type Act<'a> = Box<dyn FnMut(&str, &(String, Amount)) -> Result<(), CallError> + 'a>;

fn pay(bank: &mut Bank) -> Act<'_> {
    Box::new(|key, (order, amount)| bank.refund(order, *amount, Some(key)).map(drop))
}

#[test]
fn an_outbox_is_drained_through_every_fault_of_the_article_and_pays_once() {
    for seed in 0..50 {
        let ticket = Ticket::generate(seed);
        let mut bank = Bank::open(&ticket, Plan::article().seed(seed));
        let mut outbox = outbox(&ticket);
        assert_eq!(outbox.drain(&mut DeadLetter::after(100), pay(&mut bank)), 8);
        assert!(outbox.is_empty());
        let grade = bank.grade("");
        assert!(grade.orders().iter().all(|order| order.verdict.as_str() == "ok"), "{grade}");
    }
}

#[test]
fn a_worker_that_dies_after_the_act_acts_again_and_the_intent_as_key_makes_it_once() {
    for (is_keyed, refunds) in [(true, 1), (false, 2)] {
        let ticket = Ticket::generate(7);
        let mut bank = Bank::open(&ticket, Plan::calm());
        let mut outbox = outbox(&ticket);
        let (intent, (order, amount)) = outbox.next().unwrap();
        bank.refund(order, *amount, is_keyed.then_some(intent)).unwrap();
        // It dies before it can strike the intent out; another takes over.
        bank.crash();
        let again = |key: &str, act: &(String, Amount)| {
            bank.refund(&act.0, act.1, is_keyed.then_some(key)).map(drop)
        };
        let mut dead = DeadLetter::after(1);
        assert_eq!(outbox.drain(&mut dead, again), 8);
        assert_eq!(bank.ledger().accounts()[0].refunds().len(), refunds);
    }
}

#[test]
fn what_always_fails_is_set_aside_and_holds_up_nobody() {
    let ticket = Ticket::generate(7);
    let mut bank = failing(&ticket, "1-");
    let mut outbox = outbox(&ticket);
    let mut dead = DeadLetter::after(3);
    assert_eq!(outbox.drain(&mut dead, pay(&mut bank)), 7);
    let letters: Vec<&Letter> = dead.letters().collect();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].intent, format!("refund:{}", ticket.orders()[0].id()));
    assert_eq!((letters[0].attempts, &letters[0].error), (3, &CallError::Unavailable));
    // The intent is still there: a person releases it, and it is tried again.
    assert_eq!(outbox.len(), 1);
    let intent = letters[0].intent.clone();
    assert!(dead.release(&intent).is_some());
    assert_eq!(outbox.drain(&mut dead, |_, _| Ok(())), 1);
}

/// The process dies, and another goes on with what was saved.
#[test]
fn an_outbox_and_its_dead_letters_outlive_their_process() {
    let mut outbox = Outbox::default();
    for (intent, amount) in [("refund:A-1", 4250), ("refund:A-2", 1200), ("refund:A-3", 700)] {
        outbox.write(intent, ("A".to_owned(), amount));
    }
    let mut dead = DeadLetter::after(2);
    let refusal = Refusal::new(RefusalCode::OverRefund, "more than is left");
    for error in [
        CallError::Unavailable,
        CallError::RateLimited { retry_after_s: 7 },
        CallError::ServerError,
        CallError::Timeout,
        CallError::Broken { detail: "reset".to_owned() },
        CallError::Refused(refusal),
    ] {
        dead.note(&format!("refund:{error:?}"), &Err::<(), _>(error));
    }
    dead.note("refund:A-2", &Err::<(), _>(CallError::Timeout));
    dead.note("refund:A-2", &Err::<(), _>(CallError::Unavailable));
    let saved = [serde_json::to_string(&outbox), serde_json::to_string(&dead)].map(Result::unwrap);
    let mut loaded: Outbox<(String, u64)> = serde_json::from_str(&saved[0]).unwrap();
    let mut loaded_dead: DeadLetter = serde_json::from_str(&saved[1]).unwrap();
    assert_eq!((&loaded, &loaded_dead), (&outbox, &dead));
    assert_eq!(loaded.drain(&mut loaded_dead, |_, _| Ok(())), 2);
    assert_eq!(loaded.next().map(|(intent, _)| intent), Some("refund:A-2"));
    assert!(loaded_dead.release("refund:A-2").is_some());
    assert_eq!(loaded.drain(&mut loaded_dead, |_, _| Ok(())), 1);

    for code in RefusalCode::ALL {
        let word = serde_json::to_string(code).unwrap();
        assert_eq!(word, format!("\"{}\"", code.as_str()));
        assert_eq!(serde_json::from_str::<RefusalCode>(&word).unwrap(), *code);
    }
}

#[test]
fn a_refusal_goes_to_a_person_at_once() {
    let ticket = Ticket::generate(7);
    let mut bank = Bank::open(&ticket, Plan::calm().over_refund(OverRefund::Reject));
    let mut outbox = Outbox::default();
    let too_much: Amount = Amount::from_minor(99_999_999).unwrap();
    outbox.write("refund:too much", (ticket.orders()[0].id().to_string(), too_much));
    let mut dead = DeadLetter::after(5);
    assert_eq!(outbox.drain(&mut dead, pay(&mut bank)), 0);
    assert_eq!(dead.letters().map(|letter| letter.attempts).collect::<Vec<_>>(), [1]);
}

/// Refund calls that a harness makes to an order that is always unavailable.
fn calls_to_the_dead_order(harness: &mut Harness) -> u32 {
    let ticket = Ticket::generate(7);
    let mut bank = failing(&ticket, "1-");
    let outcome = harness::run_in(
        harness,
        &mut badbank::agent::Agent::new(badbank::agent::Manner::Careful, &ticket),
        &mut bank,
        &mut VirtualTime,
    );
    let grade = bank.grade(&outcome.report);
    assert_eq!(grade.report_true(), Some(true));
    grade.orders()[0].attempts.refund
}

#[test]
fn a_stopping_rule_counts_across_the_calls_that_the_agent_writes_anew() {
    let keyed = || Harness::new(Design::Keyed, Seed::new(7));
    assert_eq!(calls_to_the_dead_order(&mut keyed()), 9);
    let mut stopped = keyed().with_stopping_rule(StoppingRule::after(3));
    assert_eq!(calls_to_the_dead_order(&mut stopped), 3);
    assert_eq!(stopped.stopping_rule().unwrap().answered(), 2);
    let mut alone =
        Harness::new(Design::ModelOnly, Seed::new(7)).with_stopping_rule(StoppingRule::after(3));
    assert_eq!(calls_to_the_dead_order(&mut alone), 3);
    assert_eq!(alone.stopping_rule().unwrap().answered(), 0);
}

#[test]
fn a_budget_bounds_the_retries_of_a_whole_run() {
    let mut harness =
        Harness::new(Design::Keyed, Seed::new(7)).with_budget(Budget::of_percent(0).with_burst(2));
    // Three calls of the agent, and the two retries of the first.
    assert_eq!(calls_to_the_dead_order(&mut harness), 5);
}

#[test]
fn no_attempt_begins_after_the_deadline_of_the_call() {
    let mut harness =
        Harness::new(Design::Keyed, Seed::new(7)).with_deadline(Deadline::after(Duration::ZERO));
    assert_eq!(calls_to_the_dead_order(&mut harness), 3);
    assert_eq!(harness.waited(), Duration::ZERO);
    let mut patient = Harness::new(Design::Keyed, Seed::new(7))
        .with_deadline(Deadline::after(Duration::from_secs(60)));
    assert_eq!(calls_to_the_dead_order(&mut patient), 9);
}

#[test]
fn a_retry_that_the_deadline_forbids_is_not_paid_for() {
    const SECOND: Duration = Duration::from_secs(1);
    let backoff = Backoff { base: SECOND, jitter: Jitter::None, ..Backoff::default() };
    let retry = Retry { backoff, ..Retry::default() };
    let mut harness = Harness::with(retry, Key::CallId, Seed::new(7))
        .with_budget(Budget::of_percent(0).with_burst(1))
        .with_deadline(Deadline::after(SECOND));
    assert_eq!(calls_to_the_dead_order(&mut harness), 3);
    let budget = harness.budget().unwrap();
    assert_eq!((budget.left(), budget.refused()), (1, 0));
}

/// A rate limit names its time, and a retry does not come before it.
#[test]
fn a_retry_waits_as_long_as_the_bank_says() {
    let ticket = Ticket::generate(7);
    let limited = Rule::rate(On::All, Fault::RATE_LIMITED, "1".parse().unwrap());
    let plan = Plan::calm().rule(limited).unwrap();
    let settings = badbank::fault::PlanSettings { retry_after_s: 30, ..*plan.settings() };
    let mut bank = Bank::open(&ticket, plan.with_settings(settings));
    let mut retrying = harness::Retry::default().begin(Seed::new(7), 1);
    let step = retrying.next(&bank.get_order(ticket.orders()[0].id()));
    assert_eq!(step, harness::Step::Wait(Duration::from_secs(30)));
}
