//! The grader: every cause is found, in a run and in a log broken by hand, and none where nothing is wrong.

use std::time::Duration;

use badbank::{
    Bank, Ticket,
    bank::{Arrival, Pending},
    call::Request,
    fault::{Fault, NAMED_PLANS, NamedPlan, Plan},
    grade::{Cause, EvidenceState, Grade, Verdict},
    harness::{self, Design, VirtualTime},
    history::History,
    ledger::Dedupe,
    money::{Amount, Currency},
};

use crate::trial::{
    Run, Trial, assert_log, causes, fixture, held, orders_of, told, told_of, verdict_on,
};

const ONE: &str = r#"{"id": "A-1", "amount": "42.50"}"#;
const TWO: &str = r#"{"id": "A-1", "amount": "42.50"}, {"id": "A-2", "amount": "42.50"}"#;

/// Sends refunds of 42.50, keyed or not, and wants to hear these words.
fn send(bank: &mut Bank, refunds: &[(&str, Option<&str>, &str)]) {
    for (order, key, word) in refunds {
        assert_eq!(told(&bank.refund(order, "42.50", *key)), *word);
    }
}

/// Lets a refund of 42.50 on A-1 arrive.
fn arrive(bank: &mut Bank, key: Option<&str>) -> Pending {
    match bank.arrive(&Request::refund("A-1", "42.50".into(), key)) {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(answer) => panic!("answered at once: {answer:?}"),
    }
}

fn finish(bank: &mut Bank, pending: Pending) -> &'static str {
    told_of(bank.finish(pending).unwrap().received())
}

/// A run in which an order goes wrong for that cause and no other.
fn run_with(cause: Cause) -> Bank {
    let one = Trial::orders(ONE);
    let (k1, k2) = (Some("k1"), Some("k2"));
    let plain = ("A-1", None, "ok");
    match cause {
        Cause::RacyDedupe => overlapping(&one.dedupe(Dedupe::Racy), k1),
        Cause::RepeatInFlight => overlapping(&one, None),
        Cause::RepeatAfterError => refused_and_paid(),
        Cause::DuplicateDelivery => sent(&one.script("A-1 refund #1", Fault::DUPLICATE), &[plain]),
        Cause::LateCommit => {
            let late = one.script("A-1 refund #1", "late".parse().unwrap());
            sent(&late, &[("A-1", None, "no_reply"), plain])
        }
        Cause::RepeatAfterTimeout => {
            let lost = one.script("A-1 refund #1", Fault::TIMEOUT);
            sent(&lost, &[("A-1", None, "no_reply"), plain])
        }
        Cause::RepeatAfterSuccess => sent(&one, &[plain, plain]),
        Cause::RepeatAfterCrash => {
            let mut bank = sent(&one, &[plain]);
            bank.crash();
            send(&mut bank, &[plain]);
            bank
        }
        Cause::StaleRead => {
            let stale = one.script("A-1 get_order #1", "stale".parse().unwrap());
            let mut bank = sent(&stale, &[plain]);
            assert_eq!(bank.get_order("A-1").unwrap().refunds, []);
            send(&mut bank, &[plain]);
            bank
        }
        Cause::KeyIgnored => {
            sent(&one.dedupe(Dedupe::Off), &[("A-1", k1, "ok"), ("A-1", k1, "ok")])
        }
        Cause::KeyChanged => sent(&one, &[("A-1", k1, "ok"), ("A-1", k2, "ok")]),
        Cause::KeyExpired => {
            let mut bank = sent(&one.dedupe(Dedupe::Strict), &[("A-1", k1, "ok")]);
            bank.advance(Duration::from_secs(86_400));
            send(&mut bank, &[("A-1", k1, "ok")]);
            bank
        }
        Cause::OtherAmount => {
            let mut bank = sent(&one, &[plain]);
            assert_eq!(told(&bank.refund("A-1", "4.25", None)), "ok");
            bank
        }
        Cause::NeverTried => sent(&Trial::orders(TWO), &[plain]),
        Cause::SwallowedByKey => {
            sent(&Trial::orders(TWO), &[("A-1", k1, "ok"), ("A-2", k1, "replayed")])
        }
        Cause::Refused => {
            let mut bank = one.reject().open();
            assert_eq!(told(&bank.refund("A-1", "425.00", None)), "over_refund");
            bank
        }
        Cause::GaveUp => {
            let down =
                one.script("A-1 refund #1", Fault::TRANSIENT).script("A-1 refund #2", Fault::LOST);
            sent(&down, &[("A-1", None, "unavailable"), ("A-1", None, "no_reply")])
        }
        Cause::FailedLater => {
            let accepted = one.script("A-1 refund #1", "accepted_then_failed".parse().unwrap());
            sent(&accepted, &[plain])
        }
        other => panic!("no run shows {other:?} yet; add one"),
    }
}

/// The bank of a run in which these refunds were sent.
fn sent(trial: &Trial, refunds: &[(&str, Option<&str>, &str)]) -> Bank {
    let mut bank = trial.open();
    send(&mut bank, refunds);
    bank
}

/// Two refunds of which the second arrives before the first is finished; both are executed.
fn overlapping(trial: &Trial, key: Option<&str>) -> Bank {
    let mut bank = trial.open();
    let (first, second) = (arrive(&mut bank, key), arrive(&mut bank, key));
    assert_eq!(finish(&mut bank, first), "ok");
    assert_eq!(finish(&mut bank, second), "ok");
    bank
}

/// A call is delivered twice: the first delivery waits for another refund under its key and is refused
/// with that one, the second pays. Its caller hears of the refusal alone, and sends it again.
fn refused_and_paid() -> Bank {
    let mut bank = Trial::orders(r#"{"id": "A-1", "amount": "42.50", "expect": ["20.00"]}"#)
        .reject()
        .script("A-1 refund #2", Fault::DUPLICATE)
        .open();
    let Arrival::Pending(first) = bank.arrive(&Request::refund("A-1", "425.00".into(), Some("k")))
    else {
        panic!("nothing was under way")
    };
    let Arrival::Pending(second) = bank.arrive(&Request::refund("A-1", "20.00".into(), Some("k")))
    else {
        panic!("the first is under way")
    };
    assert_eq!(finish(&mut bank, first), "over_refund");
    assert_eq!(finish(&mut bank, second), "over_refund");
    assert_eq!(held(&bank, "A-1"), ["20.00"]);
    assert_eq!(told(&bank.refund("A-1", "20.00", None)), "ok");
    bank
}

#[test]
fn every_cause_is_found_in_a_run() {
    for cause in Cause::ALL {
        let grade = run_with(*cause).grade("");
        assert_eq!(causes(&grade), [*cause], "{}\n{grade}", cause.as_str());
        assert_eq!(grade.verdict(), Verdict::Fail);
    }
}

#[test]
fn every_cause_is_found_in_the_record_of_that_run() {
    for cause in Cause::ALL {
        let mut bank = run_with(*cause);
        let grade = bank.grade("");
        let read = History::parse(&bank.history().to_string()).unwrap();
        assert_eq!(read.warning, None);
        assert_eq!(Grade::of(&read.history, None).to_json(), grade.to_json());
    }
}

/// Logs under `fixtures/histories`, each broken by hand for one cause.
const BROKEN: [(&str, Cause); 18] = [
    ("racy_dedupe.jsonl", Cause::RacyDedupe),
    ("duplicate_delivery.jsonl", Cause::DuplicateDelivery),
    ("late_commit.jsonl", Cause::LateCommit),
    ("repeat_after_crash.jsonl", Cause::RepeatAfterCrash),
    ("key_ignored.jsonl", Cause::KeyIgnored),
    ("key_expired.jsonl", Cause::KeyExpired),
    ("key_changed.jsonl", Cause::KeyChanged),
    ("stale_read.jsonl", Cause::StaleRead),
    ("repeat_in_flight.jsonl", Cause::RepeatInFlight),
    ("repeat_after_timeout.jsonl", Cause::RepeatAfterTimeout),
    ("repeat_after_error.jsonl", Cause::RepeatAfterError),
    ("repeat_after_success.jsonl", Cause::RepeatAfterSuccess),
    ("other_amount.jsonl", Cause::OtherAmount),
    ("never_tried.jsonl", Cause::NeverTried),
    ("swallowed_by_key.jsonl", Cause::SwallowedByKey),
    ("failed_later.jsonl", Cause::FailedLater),
    ("refused.jsonl", Cause::Refused),
    ("gave_up.jsonl", Cause::GaveUp),
];

/// The grade of a log under `fixtures/histories`.
fn graded(name: &str) -> Grade {
    let read = History::parse(&fixture(&format!("histories/{name}")));
    let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read.warning, None, "{name}");
    Grade::of(&read.history, None)
}

#[test]
fn every_cause_is_found_in_a_log_broken_by_hand() {
    for (name, cause) in BROKEN {
        let grade = graded(name);
        assert_eq!(causes(&grade), [cause], "{name}\n{grade}");
        assert_eq!(grade.verdict(), Verdict::Fail, "{name}");
    }
    let shown = BROKEN.map(|(_, cause)| cause);
    assert_eq!(shown.as_slice(), Cause::ALL, "a cause has no broken log");
}

#[test]
fn no_cause_is_found_in_a_clean_log() {
    let grade = graded("clean.jsonl");
    assert_eq!(causes(&grade), []);
    assert_eq!(grade.verdict(), Verdict::Pass);
    assert!(grade.all_ok());
    assert_eq!(grade.extra_refunds(), 0);
}

#[test]
fn no_cause_is_found_where_nothing_is_wrong() {
    for seed in 0..=100 {
        let run = Trial::plan("article", seed).drive(Design::Keyed);
        assert!(run.grade.all_ok(), "seed {seed}\n{}", run.grade);
        assert_eq!(causes(&run.grade), [], "seed {seed}");
    }
}

#[test]
fn every_wrong_order_of_a_run_has_a_cause_and_calls_that_prove_it() {
    let mut wrong = 0;
    for seed in 0..=100 {
        for design in [Design::ModelOnly, Design::Retries] {
            let run = Trial::plan("article", seed).drive(design);
            for order in run.grade.orders() {
                let is_ok = order.verdict.as_str() == "ok";
                assert_eq!(order.causes.is_empty(), is_ok, "seed {seed}\n{}", run.grade);
                assert!(order.causes.iter().all(|finding| !finding.calls.is_empty()));
                wrong += u32::from(!is_ok);
            }
        }
    }
    assert!(wrong > 100, "{wrong}");
}

#[test]
fn the_story_of_each_cause_reads_well() {
    let stories = BROKEN.map(|(name, _)| format!("## {name}\n\n{}\n", graded(name)));
    assert_log!("grade", stories.concat());
}

#[test]
fn under_racy_a_doubled_delivery_with_a_key_is_the_stores_fault() {
    let mut bank =
        Trial::orders(ONE).dedupe(Dedupe::Racy).script("A-1 refund #1", Fault::DUPLICATE).open();
    send(&mut bank, &[("A-1", Some("k1"), "ok"), ("A-1", Some("k1"), "replayed")]);
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["42.50", "42.50"]);
    assert_eq!(causes(&grade), [Cause::RacyDedupe]);
}

// Exposure.

/// The fixed part of a plan that arms a lost reply at a rate so small that nothing ever meets it.
fn armed(rules: &str) -> Plan {
    Plan::parse(&format!(
        r#"{{"version": 1, "rules": [{{"on": "refund", "fault": "timeout", "rate": 0.000000001}}{rules}]}}"#
    ))
    .unwrap()
}

/// A run in which every refund is sent until it is answered.
fn patient(plan: Plan) -> Run {
    let ticket = Ticket::generate(7);
    let mut bank = Bank::open(&ticket, plan);
    for order in ticket.orders() {
        while bank.refund(order.id(), order.amount(), Some(order.id())).is_err() {}
    }
    let grade = bank.grade("");
    assert!(grade.all_ok(), "{grade}");
    Run { bank, grade }
}

#[test]
fn a_plan_without_faults_can_pass() {
    let run = patient(Plan::calm());
    assert_eq!(run.verdict(), Verdict::Pass);
    assert_eq!(run.grade.exposure(), []);
}

#[test]
fn doing_nothing_fails_under_every_plan() {
    for plan in [Plan::calm(), Plan::article(), armed("")] {
        let mut bank = Bank::open(&Ticket::generate(7), plan);
        let grade = bank.grade("");
        assert_eq!(grade.verdict(), Verdict::Fail);
        assert!(grade.orders().iter().all(|order| order.verdict.as_str() == "missed"));
        assert_eq!(causes(&grade), [Cause::NeverTried; 8]);
    }
}

#[test]
fn a_run_that_met_none_of_the_armed_faults_shows_nothing() {
    let run = patient(armed(""));
    assert_eq!(run.verdict(), Verdict::NotExposed);
    let line = "\nverdict   not_exposed: 8 ok; the faults that matter were not met, so this shows nothing\n";
    assert!(run.grade.to_string().contains(line), "{}", run.grade);
}

#[test]
fn where_a_doubling_fault_is_armed_a_harmless_one_is_not_enough() {
    let harmless = r#", {"on": "refund", "fault": "transient", "attempts": "1"}"#;
    let run = patient(armed(harmless));
    assert_eq!(run.grade.exposure(), [("transient".to_owned(), 8)]);
    assert_eq!(run.verdict(), Verdict::NotExposed);

    let only_harmless =
        r#"{"version": 1, "rules": [{"on": "refund", "fault": "transient", "attempts": "1"}]}"#;
    let run = patient(Plan::parse(only_harmless).unwrap());
    assert_eq!(run.verdict(), Verdict::Pass);

    let doubling = r#", {"on": "refund", "fault": "duplicate", "attempts": "1"}"#;
    assert_eq!(patient(armed(doubling)).verdict(), Verdict::Pass);
}

#[test]
fn a_stale_read_counts_where_it_hid_a_refund() {
    let trial = Trial::orders(ONE).script("A-1 get_order #1", "stale".parse().unwrap());
    let refund = ("A-1", Some("k1"), "ok");

    let mut bank = trial.open();
    assert!(bank.get_order("A-1").is_ok());
    send(&mut bank, &[refund]);
    let grade = bank.grade("");
    assert_eq!(grade.exposure(), [("stale(1)".to_owned(), 1)]);
    assert_eq!(grade.verdict(), Verdict::NotExposed);

    let mut bank = trial.open();
    send(&mut bank, &[refund]);
    assert_eq!(bank.get_order("A-1").unwrap().refunds, []);
    assert_eq!(bank.grade("").verdict(), Verdict::Pass);
}

#[test]
fn a_scripted_fault_that_no_call_met_is_named_and_the_run_shows_nothing() {
    let trial = Trial::orders(TWO)
        .script("A-1 refund #1", Fault::DUPLICATE)
        .script("A-2 get_order #1", Fault::TRANSIENT);
    let refunds = [("A-1", Some("k1"), "ok"), ("A-2", Some("k2"), "ok")];

    let mut bank = trial.open();
    send(&mut bank, &refunds);
    let grade = bank.grade("");
    assert_eq!(grade.unfired(), ["A-2 get_order #1 transient"]);
    assert_eq!(grade.verdict(), Verdict::NotExposed);

    let mut bank = trial.open();
    assert!(bank.get_order("A-2").is_err());
    send(&mut bank, &refunds);
    let grade = bank.grade("");
    assert_eq!(grade.unfired(), [""; 0]);
    assert_eq!(grade.verdict(), Verdict::Pass);
}

#[test]
fn one_of_several_scripted_faults_on_an_order_is_enough_and_the_others_are_named() {
    let trial = Trial::orders(ONE)
        .script("A-1 refund #1", Fault::TIMEOUT)
        .script("A-1 refund #2", Fault::TIMEOUT)
        .script("A-1 refund #3", Fault::TIMEOUT);
    let mut bank = trial.open();
    send(&mut bank, &[("A-1", Some("k1"), "no_reply")]);
    let grade = bank.grade("");
    assert_eq!(grade.unfired(), ["A-1 refund #2 timeout", "A-1 refund #3 timeout"]);
    assert_eq!(grade.verdict(), Verdict::Pass);
}

#[test]
fn a_fault_for_an_order_that_the_ticket_lacks_is_unfired() {
    let scripted = r#", {"on": "refund", "order": "Z-9", "fault": "timeout", "attempts": "1"}"#;
    let run = patient(armed(scripted));
    assert_eq!(run.grade.unfired(), ["Z-9 refund #1 timeout"]);
    assert_eq!(run.verdict(), Verdict::NotExposed);

    let met = r#", {"on": "refund", "fault": "duplicate", "attempts": "1"}"#;
    let run = patient(armed(&format!("{met}{scripted}")));
    assert_eq!(run.grade.unfired(), ["Z-9 refund #1 timeout"]);
    assert_eq!(run.verdict(), Verdict::NotExposed);

    let rate = r#", {"on": "refund", "order": "Z-9", "fault": "lost", "rate": 0.5}"#;
    let run = patient(armed(&format!("{met}{rate}")));
    assert_eq!(run.grade.unfired(), ["Z-9 refund lost"]);
    assert_eq!(run.verdict(), Verdict::Pass);
}

#[test]
fn a_fault_is_met_when_its_call_came_even_if_nobody_heard_of_it() {
    let mut bank = Trial::orders(ONE).script("A-1 refund #1", Fault::DUPLICATE).open();
    let pending = arrive(&mut bank, Some("k1"));
    bank.leave(&pending);
    let grade = bank.grade("");
    assert_eq!(grade.exposure(), [("duplicate".to_owned(), 1)]);
    assert_eq!(grade.verdict(), Verdict::Pass);
}

#[test]
fn the_verdict_over_several_runs_is_the_worst_that_shows_something() {
    use Verdict::{Fail, NotExposed, Pass};
    for (verdicts, over) in [
        (&[Pass, Pass][..], Pass),
        (&[Pass, NotExposed], Pass),
        (&[NotExposed, Pass], Pass),
        (&[NotExposed, NotExposed], NotExposed),
        (&[Pass, NotExposed, Fail], Fail),
        (&[Fail, Pass], Fail),
        (&[], NotExposed),
    ] {
        assert_eq!(Verdict::over(verdicts.iter().copied()), over, "{verdicts:?}");
    }
}

// Money.

const CURRENCIES: &str = r#"
    {"id": "E-1", "amount": "42.50"},
    {"id": "E-2", "amount": "10.00"},
    {"id": "J-1", "amount": "5800", "currency": "JPY"},
    {"id": "J-2", "amount": "900", "currency": "JPY"},
    {"id": "K-1", "amount": "1.234", "currency": "KWD"},
    {"id": "K-2", "amount": "0.005", "currency": "KWD"}"#;

#[test]
fn too_much_and_too_little_are_summed_per_currency_and_never_set_off() {
    let mut bank = Trial::orders(CURRENCIES).open();
    for (order, amount) in [
        ("E-1", "42.50"),
        ("E-1", "42.50"),
        ("J-1", "580"),
        ("J-2", "900"),
        ("J-2", "900"),
        ("K-1", "1.234"),
        ("K-1", "1.234"),
        ("K-1", "1.234"),
    ] {
        assert_eq!(told(&bank.refund(order, amount, None)), "ok");
    }
    let grade = bank.grade("");
    let json: serde_json::Value = serde_json::from_str(&grade.to_json()).unwrap();
    assert_eq!(
        json["over_refunded"],
        serde_json::json!({"EUR": "42.50", "JPY": "900", "KWD": "2.468"})
    );
    assert_eq!(
        json["under_refunded"],
        serde_json::json!({"EUR": "10.00", "JPY": "5220", "KWD": "0.005"})
    );
    assert_eq!(grade.extra_refunds(), 4);
    assert_log!("grade", grade);
}

#[test]
fn the_currencies_of_a_ticket_never_mix() {
    let mut bank = Trial::orders(CURRENCIES).open();
    for (order, currency, word) in [
        ("E-1", Some("JPY"), "currency_mismatch"),
        ("J-1", Some("EUR"), "currency_mismatch"),
        ("J-1", Some("JPY"), "ok"),
        ("K-1", None, "ok"),
        ("K-1", Some("kwd"), "currency_mismatch"),
    ] {
        let amount = bank.ticket().order(order).unwrap().amount();
        let mut request = Request::refund(order, amount.into(), None);
        request.currency = currency;
        assert_eq!(told_of(bank.call(&request)), word, "{order} {currency:?}");
    }
    assert_eq!(held(&bank, "E-1"), [""; 0]);
    assert_eq!(held(&bank, "J-1"), ["5800"]);
    assert_eq!(held(&bank, "K-1"), ["1.234"]);
}

const PARTS: &str = r#"
    {"id": "A-1", "amount": "80.00", "expect": ["30.00", "30.00"], "refunded": ["10.00"]},
    {"id": "A-2", "amount": "80.00", "expect": ["30.00"], "refunded": ["30.00"]},
    {"id": "A-3", "amount": "80.00", "expect": []},
    {"id": "A-4", "amount": "80.00", "refunded": ["10.00"]}"#;

/// The verdicts on the four orders once these refunds were made.
fn verdicts(refunds: &[(&str, &str)]) -> ([&'static str; 4], u64) {
    let mut bank = Trial::orders(PARTS).open();
    for (order, amount) in refunds {
        assert_eq!(told(&bank.refund(order, *amount, None)), "ok");
    }
    let grade = bank.grade("");
    let verdicts = ["A-1", "A-2", "A-3", "A-4"].map(|order| verdict_on(&grade, order));
    (verdicts, grade.extra_refunds())
}

#[test]
fn partial_repeated_and_held_refunds_are_matched_one_to_one() {
    let right = [("A-1", "30.00"), ("A-1", "30.00"), ("A-4", "70.00")];
    assert_eq!(verdicts(&right), (["ok"; 4], 0));

    let nothing = verdicts(&[]);
    assert_eq!(nothing, (["missed", "ok", "ok", "missed"], 0));

    let half = verdicts(&[("A-1", "30.00"), ("A-4", "70.00")]);
    assert_eq!(half, (["missed", "ok", "ok", "ok"], 0));

    let at_once = verdicts(&[("A-1", "60.00"), ("A-4", "80.00")]);
    assert_eq!(at_once, (["wrong_amount", "ok", "ok", "wrong_amount"], 0));

    let again = [right[0], right[0], right[0], right[2], ("A-2", "30.00"), ("A-3", "1.00")];
    assert_eq!(verdicts(&again), (["duplicated", "duplicated", "stray", "ok"], 3));
}

#[test]
fn a_held_refund_takes_the_first_number_and_counts_for_the_balance() {
    let mut bank = Trial::orders(PARTS).reject().open();
    assert_eq!(bank.refund("A-1", "30.00", None).unwrap().number, 2);
    assert_eq!(told(&bank.refund("A-1", "40.01", None)), "over_refund");
    assert_eq!(bank.refund("A-1", "40.00", None).unwrap().number, 3);
    assert_eq!(told(&bank.refund("A-1", "0.01", None)), "already_refunded");
    let state = bank.get_order("A-1").unwrap();
    assert_eq!(state.refunded.display(Currency::EUR).to_string(), "80.00");
}

#[test]
fn a_refund_on_an_order_to_be_left_alone_is_stray_whatever_its_amount() {
    for amount in ["80.00", "0.01"] {
        let mut bank = Trial::orders(PARTS).open();
        bank.refund("A-3", amount, None).unwrap();
        let grade = bank.grade("");
        assert_eq!(verdict_on(&grade, "A-3"), "stray");
        assert_eq!(grade.order("A-3").unwrap().causes[0].cause, Cause::OtherAmount);
    }
}

// Looking without touching, and what is left of a run that was too long to keep.

#[test]
fn a_preview_changes_nothing() {
    let mut bank = Trial::plan("article", 7).open();
    let ticket = bank.ticket().clone();
    let mut pending = Vec::new();
    for order in ticket.orders() {
        match bank.arrive(&Request::refund(order.id(), order.amount().into(), None)) {
            Arrival::Pending(under_way) => pending.push(under_way),
            Arrival::Answered(answer) => assert_eq!(told_of(answer.received()), "unavailable"),
        }
    }
    let mut untouched = bank.clone();
    let previews = [bank.preview().to_json(), bank.preview().to_json()];
    assert_eq!(previews[0], previews[1]);
    assert!(!bank.has_ended());
    assert_eq!(bank.history(), untouched.history());
    assert!(ticket.orders().iter().all(|order| held(&bank, order.id()).is_empty()));
    for pending in pending {
        assert_eq!(told_of(bank.finish(pending).unwrap().received()), "ok");
    }
    // What was under way is finished in the preview as it is in the end.
    assert_eq!(bank.grade("").to_json(), previews[0]);
    assert_eq!(untouched.grade("").to_json(), previews[0]);
}

/// The naive harness under seed 7 on many orders, with a history of at most so many events.
fn long_run(events_max: usize) -> Run {
    let orders: Vec<String> =
        (0..100).map(|order| format!(r#"{{"id": "A-{order}", "amount": "42.50"}}"#)).collect();
    let text = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{}]}}"#, orders.join(","));
    let ticket = Ticket::parse(&text).unwrap();
    let mut bank = Bank::with_events_max(&ticket, Plan::article().seed(7), events_max);
    let amount = Amount::from_minor(4250).unwrap();
    for order in ticket.orders() {
        let _attempts = (0..3).find(|_| bank.refund(order.id(), amount, None).is_ok());
        let _state = bank.get_order(order.id());
    }
    let grade = bank.grade("REFUNDED: none");
    Run { bank, grade }
}

/// Order, verdict, refunds and attempts: all of an order's grade but its causes.
fn facts(grade: &Grade) -> Vec<String> {
    let orders = grade.orders().iter();
    orders
        .map(|order| {
            let refunds: Vec<String> = order.refunds.iter().map(ToString::to_string).collect();
            format!("{} {} {refunds:?} {:?}", order.order, order.verdict, order.attempts)
        })
        .collect()
}

#[test]
fn past_the_bound_verdicts_stay_exact_and_the_fault_log_is_never_cut() {
    let full = long_run(usize::MAX);
    assert_eq!(full.grade.evidence(), EvidenceState::Full);
    assert!(full.grade.extra_refunds() > 10);
    for events_max in [0, 1, 10, 500] {
        let cut = long_run(events_max);
        assert_eq!(cut.grade.evidence(), EvidenceState::Partial, "{events_max}");
        assert_eq!(cut.log(), full.log(), "{events_max}");
        assert_eq!(facts(&cut.grade), facts(&full.grade), "{events_max}");
        assert_eq!(cut.grade.verdict(), full.grade.verdict());
        assert_eq!(cut.grade.extra_refunds(), full.grade.extra_refunds());
        assert_eq!(cut.grade.calls(), full.grade.calls());
        assert_eq!(cut.grade.exposure(), full.grade.exposure());
        assert!(cut.bank.history().events().len() < full.bank.history().events().len());
    }
}

#[test]
fn a_history_that_was_cut_says_so_when_it_is_read_again() {
    for events_max in [0, 1, 10, 500] {
        let cut = long_run(events_max);
        let text = cut.bank.history().to_string();
        let read = History::parse(&text).unwrap();
        assert_eq!(read.warning, None);
        assert!(read.history.is_cut());
        assert_eq!(read.history.to_string(), text);
        assert_eq!(read.history.fault_log(), cut.bank.fault_log());
        let grade = Grade::of(&read.history, None);
        assert_eq!(grade.to_json(), cut.grade.to_json(), "{events_max}");
    }
}

#[test]
fn a_bound_that_is_not_reached_cuts_nothing() {
    let full = long_run(usize::MAX);
    let events = full.bank.history().events().len();
    let kept = long_run(events);
    assert_eq!(kept.grade.to_json(), full.grade.to_json());
    assert_eq!(orders_of(&kept.grade), orders_of(&full.grade));
}

/// The verdict, and all else of a grade that decides on it.
fn decisive(grade: &Grade) -> (Verdict, Option<bool>, String) {
    let orders = grade.orders().iter().map(|order| order.verdict.as_str());
    let text =
        format!("{:?} {:?} {:?}", orders.collect::<Vec<_>>(), grade.exposure(), grade.unfired());
    (grade.verdict(), grade.report_true(), text)
}

#[test]
fn past_the_bound_every_plan_and_seed_has_the_verdict_of_the_full_history() {
    let stale = Plan::parse(
        r#"{"version": 1, "rules": [{"on": "get_order", "fault": "stale", "rate": 0.3}]}"#,
    );
    let plans = NAMED_PLANS.iter().map(NamedPlan::plan).chain([stale.unwrap()]);
    let mut seen = std::collections::BTreeMap::new();
    for plan in plans {
        for seed in 0..40 {
            let ticket = Ticket::generate(seed);
            let drive = |events_max| {
                let plan = plan.clone().seed(seed);
                let mut bank = Bank::with_events_max(&ticket, plan, events_max);
                harness::run(Design::Keyed, &ticket, &mut bank, &mut VirtualTime, seed.into());
                for order in ticket.orders().iter().take(2) {
                    let _stale_or_not = bank.get_order(order.id());
                }
                bank.grade("");
                bank
            };
            let full = drive(usize::MAX).preview();
            *seen.entry(full.verdict()).or_insert(0) += 1;
            for events_max in [0, 1, 7, 40] {
                let cut = drive(events_max);
                let at = format!("{:?} seed {seed} bound {events_max}", plan.name());
                assert_eq!(decisive(&cut.preview()), decisive(&full), "{at}");
                let text = cut.history().to_string();
                let read = History::parse(&text).unwrap().history;
                assert_eq!(read.to_string(), text, "{at}");
                assert_eq!(decisive(&Grade::of(&read, None)), decisive(&full), "{at}");
            }
        }
    }
    // Each verdict is there to be got wrong.
    assert!(seen.len() == 3 && seen.values().all(|count| *count > 20), "{seen:?}");
}

#[test]
fn past_the_bound_a_read_that_hid_a_refund_still_exposes() {
    let trial = Trial::orders(ONE).script("A-1 get_order #1", "stale".parse().unwrap());
    for (reads_first, verdict) in [(false, Verdict::Pass), (true, Verdict::NotExposed)] {
        let mut bank = trial.open_with(0);
        if reads_first {
            bank.get_order("A-1").unwrap();
        }
        bank.refund("A-1", "42.50", None).unwrap();
        bank.get_order("A-1").unwrap();
        let grade = bank.grade("");
        assert_eq!((grade.verdict(), grade.evidence()), (verdict, EvidenceState::Partial));
    }
}

#[test]
fn a_cause_goes_by_what_was_done_with_keys_when_the_extra_refund_came() {
    for (first, in_force, after) in [
        (Dedupe::Strict, Dedupe::Off, Dedupe::Strict),
        (Dedupe::FirstReply, Dedupe::Off, Dedupe::Racy),
        (Dedupe::Off, Dedupe::Off, Dedupe::Strict),
    ] {
        let mut bank = Trial::orders(ONE).dedupe(first).open();
        send(&mut bank, &[("A-1", Some("k"), "ok")]);
        bank.set_plan(Plan::calm().dedupe(in_force)).unwrap();
        send(&mut bank, &[("A-1", Some("k"), "ok")]);
        bank.set_plan(Plan::calm().dedupe(after)).unwrap();
        assert_eq!(causes(&bank.grade("")), [Cause::KeyIgnored], "{first:?}, then {after:?}");
    }
}

#[test]
fn a_key_that_expires_under_a_later_plan_is_the_cause() {
    let mut bank = Trial::orders(ONE).open();
    send(&mut bank, &[("A-1", Some("k"), "ok"), ("A-1", Some("k"), "replayed")]);
    bank.set_plan(Plan::calm().dedupe(Dedupe::Strict)).unwrap();
    bank.advance(Duration::from_hours(24));
    send(&mut bank, &[("A-1", Some("k"), "ok")]);
    bank.set_plan(Plan::calm()).unwrap();
    assert_eq!(causes(&bank.grade("")), [Cause::KeyExpired]);
}

#[test]
fn two_that_race_under_a_later_plan_are_the_stores_fault() {
    let mut bank = Trial::orders(ONE).open();
    bank.set_plan(Plan::calm().dedupe(Dedupe::Racy)).unwrap();
    let calls = [arrive(&mut bank, Some("k")), arrive(&mut bank, Some("k"))];
    // Looked up is looked up: the plan that comes before they finish changes nothing.
    bank.set_plan(Plan::calm()).unwrap();
    for call in calls {
        assert_eq!(finish(&mut bank, call), "ok");
    }
    let grade = bank.grade("");
    assert_eq!(causes(&grade), [Cause::RacyDedupe]);
    let read = History::parse(&bank.history().to_string()).unwrap();
    assert_eq!(causes(&Grade::of(&read.history, None)), [Cause::RacyDedupe]);
}
