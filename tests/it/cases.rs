//! What went wrong elsewhere, shown here: each test is a case that people reported of real systems.
//!
//! The reports say what a bank, its keys and a grader have to get right. Free text is never taken for a
//! claim: where a case has a report in free text, the grade says that it could not be read.

use std::time::Duration;

use badbank::{
    Bank, SharedBank, Ticket,
    bank::{Arrival, Pending},
    call::{Refusal, RefusalCode, Request},
    fault::{Fault, Plan},
    grade::{Cause, Verdict},
    harness::{Backoff, Jitter, Retry, Step},
    history::Event,
    ledger::{Caller, Dedupe},
    money::{Amount, Total},
};

use crate::trial::{Trial, causes, held, told, told_of, verdict_on};

/// Sends refunds, each an order, an amount and a key, and gives the words that the caller hears.
fn send(bank: &mut Bank, refunds: &[(&str, &str, Option<&str>)]) -> Vec<&'static str> {
    let refunds = refunds.iter();
    refunds.map(|(order, amount, key)| told(&bank.refund(order, *amount, *key))).collect()
}

/// Lets a refund arrive that is not answered at once.
fn arrive(bank: &mut Bank, order: &str, amount: &str, key: Option<&str>) -> Pending {
    match bank.arrive(&Request::refund(order, amount.into(), key)) {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(answer) => panic!("answered at once: {answer:?}"),
    }
}

/// Lets a refund arrive that is answered at once.
fn answered(bank: &mut Bank, order: &str, amount: &str, key: Option<&str>) -> &'static str {
    match bank.arrive(&Request::refund(order, amount.into(), key)) {
        Arrival::Answered(answer) => told_of(answer.received()),
        Arrival::Pending(_) => panic!("not answered at once"),
    }
}

fn finish(bank: &mut Bank, pending: Pending) -> &'static str {
    told_of(bank.finish(pending).unwrap().received())
}

const NOTHING: [&str; 0] = [];

// Keys.

const PART_OF_80: &str = r#"{"id": "A-100", "amount": "80.00", "expect": ["30.00"]}"#;

/// Case keys-01, medusajs/medusa#16681 and #16292: the id of a row that is deleted on failure is no key.
#[test]
fn a_key_that_does_not_survive_a_failed_attempt_pays_twice() {
    let trial = Trial::orders(PART_OF_80).reject().script("A-100 refund #1", Fault::TIMEOUT);
    let mut bank = trial.open();
    let replies =
        send(&mut bank, &[("A-100", "30.00", Some("r1")), ("A-100", "30.00", Some("r2"))]);
    assert_eq!(replies, ["no_reply", "ok"]);
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-100"), ["30.00", "30.00"]);
    assert_eq!(verdict_on(&grade, "A-100"), "duplicated");
    assert_eq!(grade.extra_refunds(), 1);
    assert_eq!(causes(&grade), [Cause::KeyChanged]);

    let mut bank = trial.open();
    assert_eq!(told(&bank.refund("A-100", "30.00", Some("r1"))), "no_reply");
    let replay = bank.refund("A-100", "30.00", Some("r1")).unwrap();
    assert!(replay.is_replay);
    // The very body that the lost reply would have carried.
    assert_eq!(replay.to_string(), "Refunded 30.00 EUR on order A-100 (refund #1).");
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-100"), ["30.00"]);
    assert_eq!(verdict_on(&grade, "A-100"), "ok");
    assert_eq!(grade.verdict(), Verdict::Pass);
}

const TWO_HALVES: &str = r#"
    {"id": "A-1", "amount": "50.00", "expect": ["25.00"]},
    {"id": "A-2", "amount": "50.00", "expect": ["25.00"]}"#;

/// Case keys-03, stripe/stripe-ruby#598 and #503, stripe/stripe-java#389, odoo/odoo#101243: a client
/// carried a key into a call about something else, and nobody could tell that refusal from others.
#[test]
fn a_key_used_for_something_else_is_refused_with_a_code_of_its_own() {
    let mut bank = Trial::orders(TWO_HALVES).dedupe(Dedupe::Strict).open();
    let replies = send(
        &mut bank,
        &[
            ("A-1", "25.00", Some("k1")),
            ("A-2", "25.00", Some("k1")),
            ("A-1", "26.00", Some("k1")),
            ("A-1", "25.00", Some("k1")),
        ],
    );
    assert_eq!(replies, ["ok", "key_mismatch", "key_mismatch", "replayed"]);
    let mut read = Request::get_order("A-2");
    read.key = Some("k1");
    assert_eq!(told_of(bank.call(&read)), "ok");
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["25.00"]);
    assert_eq!(held(&bank, "A-2"), NOTHING);
    assert_eq!(verdict_on(&grade, "A-1"), "ok");
    assert_eq!(verdict_on(&grade, "A-2"), "missed");
    assert_eq!(causes(&grade), [Cause::Refused]);
    let mut codes: Vec<&str> = RefusalCode::ALL.iter().map(|code| code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), RefusalCode::ALL.len());
}

/// Case keys-05, kortix-ai/suna#5267, josipmusa/idempotency4j#9 and the IETF draft's security section:
/// a key unique across all callers hands one tenant's answer to another.
#[test]
fn the_keys_of_two_callers_never_meet() {
    let mut bank =
        Trial::orders(r#"{"id": "A-1", "amount": "10.00"}, {"id": "B-1", "amount": "20.00"}"#)
            .open();
    let mut send = |order: &str, credential: &str| {
        let amount = bank.ticket().order(order).unwrap().amount();
        let mut request = Request::refund(order, amount.into(), Some("1"));
        request.caller = Some(Caller::from_credential(credential.as_bytes()));
        match bank.call(&request).unwrap() {
            badbank::call::Reply::Refunded(refunded) => refunded,
            badbank::call::Reply::Order(state) => panic!("{state:?}"),
        }
    };
    let (first, second, again) = (send("A-1", "T1"), send("B-1", "T2"), send("B-1", "T2"));
    assert_eq!([first.is_replay, second.is_replay, again.is_replay], [false, false, true]);
    for reply in [second.to_string(), again.to_string()] {
        assert!(!reply.contains("A-1") && !reply.contains("10.00"), "{reply}");
    }
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["10.00"]);
    assert_eq!(held(&bank, "B-1"), ["20.00"]);
    assert!(grade.all_ok());
}

/// Case keys-07, runvendo/vendo#1297, idempot-dev/idempot-js#183 and ietf-wg-httpapi/idempotency#11:
/// looking a key up and storing it were two steps, so two requests under one key both ran.
#[test]
fn while_a_refund_is_under_way_its_key_is_taken_and_a_mismatch_wins() {
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "60.00", "expect": ["25.00"]}"#)
        .dedupe(Dedupe::Strict);
    for _ in 0..200 {
        let mut bank = trial.open();
        let first = arrive(&mut bank, "A-1", "25.00", Some("k1"));
        bank.advance(Duration::from_millis(100));
        assert_eq!(answered(&mut bank, "A-1", "25.00", Some("k1")), "in_flight");
        bank.advance(Duration::from_millis(100));
        assert_eq!(answered(&mut bank, "A-1", "30.00", Some("k1")), "key_mismatch");
        bank.advance(Duration::from_millis(300));
        assert_eq!(finish(&mut bank, first), "ok");
        assert_eq!(answered(&mut bank, "A-1", "25.00", Some("k1")), "replayed");
        let grade = bank.grade("");
        assert_eq!(held(&bank, "A-1"), ["25.00"]);
        assert_eq!(verdict_on(&grade, "A-1"), "ok");
    }
}

/// Case keys-07 with threads: whoever comes first, one refund is executed and the others are told of it.
#[test]
fn of_many_threads_with_one_key_one_pays() {
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "60.00", "expect": ["25.00"]}"#);
    for dedupe in [Dedupe::FirstReply, Dedupe::Strict] {
        let bank = SharedBank::new(trial.clone().dedupe(dedupe).open());
        let told: Vec<&str> = std::thread::scope(|scope| {
            let send = || {
                let bank = bank.clone();
                let call = move || bank.call(&Request::refund("A-1", "25.00".into(), Some("k1")));
                scope.spawn(move || told_of(call()))
            };
            let threads: Vec<_> = (0..8).map(|_| send()).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(told.iter().filter(|word| **word == "ok").count(), 1, "{told:?}");
        assert_eq!(held(&bank.lock(), "A-1"), ["25.00"]);
    }
}

const TWO_ITEMS: &str = r#"{"id": "A-1", "amount": "50.00", "expect": ["10.00", "10.00"]}"#;

/// Case keys-09, Mangopay/mangopay#60, saleor/apps#2446 and openai/openai-agents-python#4254: a key made
/// of the arguments swallows the second of two equal refunds.
#[test]
fn two_equal_refunds_need_two_keys() {
    let trial = Trial::orders(TWO_ITEMS).script("A-1 refund #1", Fault::TIMEOUT);
    let refund = |key| ("A-1", "10.00", Some(key));

    let mut bank = trial.open();
    let (one, two) = (refund("A-1/item-1"), refund("A-1/item-2"));
    assert_eq!(send(&mut bank, &[one, one, two]), ["no_reply", "replayed", "ok"]);
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["10.00", "10.00"]);
    assert_eq!(verdict_on(&grade, "A-1"), "ok");

    let mut bank = trial.open();
    let same = refund("A-1:10.00");
    assert_eq!(send(&mut bank, &[same; 3]), ["no_reply", "replayed", "replayed"]);
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["10.00"]);
    assert_eq!(verdict_on(&grade, "A-1"), "missed");
    assert_eq!(causes(&grade), [Cause::SwallowedByKey]);
}

// Money.

const YEN: &str = r#"
    {"id": "J-1", "amount": "5800", "currency": "JPY"},
    {"id": "J-2", "amount": "60000", "currency": "JPY", "expect": ["500"]},
    {"id": "J-3", "amount": "9899", "currency": "JPY"}"#;

/// Case money-01, antiwork/gumroad#3749 and woocommerce/woocommerce-gateway-stripe#435: code that always
/// reckons with hundredths turns a refund in yen into a hundredth or a hundredfold of it.
#[test]
fn yen_have_no_hundredths() {
    let mut bank = Trial::orders(YEN).reject().open();
    let replies = send(
        &mut bank,
        &[
            ("J-1", "58", None),
            ("J-2", "50000", None),
            ("J-3", "989900", None),
            ("J-3", "9899", None),
        ],
    );
    assert_eq!(replies, ["ok", "ok", "over_refund", "ok"]);
    for amount in ["9899.00", "9899.5"] {
        assert_eq!(told(&bank.refund("J-3", amount, None)), "invalid_amount");
    }
    let grade = bank.grade("");
    assert_eq!(held(&bank, "J-1"), ["58"]);
    assert_eq!(held(&bank, "J-2"), ["50000"]);
    assert_eq!(held(&bank, "J-3"), ["9899"]);
    let verdicts = ["J-1", "J-2", "J-3"].map(|order| verdict_on(&grade, order));
    assert_eq!(verdicts, ["wrong_amount", "wrong_amount", "ok"]);
    assert!(bank.history().to_string().contains(r#""amount":"50000""#));
}

const CENTS: &str = r#"
    {"id": "E-2", "amount": "30.20"},
    {"id": "E-3", "amount": "25.99"},
    {"id": "E-4", "amount": "145.05"}"#;

/// Case money-03, invoiceninja/invoiceninja#12231, Attendize/Attendize#37 and craftcms/commerce#3213: sums
/// of floats came out a hair above the balance. (The amounts as JSON numbers are a matter of the wire.)
#[test]
fn the_last_cent_can_be_refunded_and_not_one_more() {
    let mut bank = Trial::orders(CENTS).reject().open();
    let replies = send(
        &mut bank,
        &[
            ("E-2", "11.85", None),
            ("E-2", "18.35", None),
            ("E-3", "25.00", None),
            ("E-3", "0.99", None),
            ("E-4", "145.05", None),
        ],
    );
    assert_eq!(replies, ["ok"; 5]);
    for (order, minor) in [("E-2", 3020), ("E-3", 2599), ("E-4", 14505)] {
        let account = bank.ledger().account(bank.ledger().find(order).unwrap());
        assert_eq!(account.refunded().minor(), minor);
        assert_eq!(Total::from(account.amount()), account.refunded());
        assert_eq!(told(&bank.refund(order, "0.01", None)), "already_refunded");
    }
}

/// Case money-05, Automattic/woocommerce-payments#5215 and Adyen/adyen-magento2#689: only the bare number
/// travelled, so 1,000 pounds were paid as 1,000 rupees.
#[test]
fn a_refund_in_another_currency_is_refused_before_anything_happens() {
    let ticket =
        r#"{"version": 1, "currency": "INR", "orders": [{"id": "I-1", "amount": "98633.00"}]}"#;
    let mut bank = Bank::open(&Ticket::parse(ticket).unwrap(), Plan::calm());
    let mut request = Request::refund("I-1", "1000.00".into(), None);
    request.currency = Some("GBP");
    assert_eq!(told_of(bank.call(&request)), "currency_mismatch");
    assert_eq!(held(&bank, "I-1"), NOTHING);
    let refunded = bank.refund("I-1", "1000.00", None).unwrap();
    assert!(refunded.to_string().contains("1000.00 INR"), "{refunded}");
    let grade = bank.grade("I-1 refunded 1000.00 GBP");
    assert_eq!(held(&bank, "I-1"), ["1000.00"]);
    assert_eq!(verdict_on(&grade, "I-1"), "wrong_amount");
    assert_eq!(grade.report_true(), None);
}

// Agents that start again.

const THREE: &str = r#"
    {"id": "A-1", "amount": "20.00"}, {"id": "A-2", "amount": "20.00"}, {"id": "A-3", "amount": "20.00"}"#;

/// Case agent-01, langchain-ai/langgraph#7412 and #3126: one call of a batch fails, and on resume the
/// whole batch runs again, with those that had taken effect.
#[test]
fn a_batch_that_runs_again_pays_twice_unless_its_keys_are_the_same() {
    let batch = |keys: [&'static str; 3]| {
        let orders = ["A-1", "A-2", "A-3"];
        [0, 1, 2].map(|call| (orders[call], "20.00", Some(keys[call])))
    };
    let trial = Trial::orders(THREE).script("A-2 refund #1", Fault::TRANSIENT);

    let mut bank = trial.open();
    let first = batch(["t1", "t2", "t3"]);
    assert_eq!(send(&mut bank, &first), ["ok", "unavailable", "ok"]);
    assert_eq!(send(&mut bank, &first), ["replayed", "ok", "replayed"]);
    let grade = bank.grade("");
    for order in ["A-1", "A-2", "A-3"] {
        assert_eq!(held(&bank, order), ["20.00"]);
        assert_eq!(verdict_on(&grade, order), "ok");
    }

    let mut bank = trial.open();
    send(&mut bank, &first);
    let again = batch(["t4", "t5", "t6"]);
    assert_eq!(send(&mut bank, &again), ["ok"; 3]);
    let grade = bank.grade("");
    let verdicts = ["A-1", "A-2", "A-3"].map(|order| verdict_on(&grade, order));
    assert_eq!(verdicts, ["duplicated", "ok", "duplicated"]);
    assert_eq!(causes(&grade), [Cause::KeyChanged; 2]);
}

/// Case agent-03, vercel/ai#3953 and anthropics/claude-code#20693: an id that looks like a safe key came
/// out for a call cut short, for the whole call, and for a call about another order.
#[test]
fn an_id_that_covers_two_calls_is_no_safe_key() {
    let mut bank =
        Trial::orders(r#"{"id": "A-1", "amount": "45.00"}, {"id": "A-2", "amount": "45.00"}"#)
            .dedupe(Dedupe::Strict)
            .open();
    let replies = send(
        &mut bank,
        &[("A-1", "4.00", Some("c1")), ("A-1", "45.00", Some("c1")), ("A-2", "45.00", Some("c1"))],
    );
    assert_eq!(replies, ["ok", "key_mismatch", "key_mismatch"]);
    let grade = bank.grade("A-1 refunded 45.00 EUR, A-2 refunded 45.00 EUR");
    assert_eq!(held(&bank, "A-1"), ["4.00"]);
    assert_eq!(held(&bank, "A-2"), NOTHING);
    assert_eq!(verdict_on(&grade, "A-1"), "wrong_amount");
    assert_eq!(verdict_on(&grade, "A-2"), "missed");
    assert_eq!(grade.report_true(), None);
}

/// Sends one refund of 20.00 as often as `retry` has it.
fn try_often(bank: &mut Bank, retry: Retry) -> bool {
    let mut retrying = retry.begin(1.into(), 1);
    loop {
        let answer = bank.refund("A-1", "20.00", Some("k1"));
        if retrying.next(&answer) == Step::Stop {
            return answer.is_ok();
        }
    }
}

/// Case agent-06, HKUDS/nanobot#2760, livekit/agents#5335 and BerriAI/litellm#34129: an application
/// retried over a library that retried by itself, and its own log showed a third of the calls.
#[test]
fn retries_over_retries_multiply_and_the_bank_counts_them() {
    let plan = r#"{"version": 1, "rules": [{"on": "refund", "fault": "transient", "rate": 1}]}"#;
    let ticket =
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "20.00"}]}"#;
    let ticket = Ticket::parse(ticket).unwrap();
    let retry = |attempts_max| Retry {
        attempts_max,
        backoff: Backoff { base: Duration::ZERO, cap: Duration::ZERO, jitter: Jitter::None },
    };
    for (library, calls) in [(3, 12), (1, 4)] {
        let mut bank = Bank::open(&ticket, Plan::parse(plan).unwrap());
        let tries = (0..4).map(|_| try_often(&mut bank, retry(library)));
        assert_eq!(tries.filter(|is_paid| *is_paid).count(), 0);
        let grade = bank.grade("A-1 could not be refunded; the service was unavailable.");
        assert_eq!(grade.calls(), calls);
        assert_eq!(u64::from(grade.order("A-1").unwrap().attempts.refund), calls);
        assert_eq!(bank.fault_log().lines().len() as u64, calls);
        assert_eq!(bank.fault_log().lines()[0], "A-1 refund #1 transient");
        assert_eq!(held(&bank, "A-1"), NOTHING);
        assert_eq!(verdict_on(&grade, "A-1"), "missed");
        assert_eq!(causes(&grade), [Cause::GaveUp]);
        assert_eq!(grade.report_true(), None);
    }
}

// Delivery.

const ONE: &str = r#"{"id": "A-1", "amount": "20.00"}"#;

/// Case delivery-01 a, celery/kombu#337 and sidekiq/sidekiq#6379: a queue hands a job out again an hour
/// later, after the first worker has done it.
#[test]
fn a_job_handed_out_again_pays_again_without_a_key() {
    let run = |key: Option<&str>| {
        let mut bank = Trial::orders(ONE).open();
        let first = told(&bank.refund("A-1", "20.00", key));
        bank.advance(Duration::from_secs(3_600));
        let second = told(&bank.refund("A-1", "20.00", key));
        let grade = bank.grade("");
        ([first, second], verdict_on(&grade, "A-1"), held(&bank, "A-1").len())
    };
    assert_eq!(run(None), (["ok", "ok"], "duplicated", 2));
    assert_eq!(run(Some("J1")), (["ok", "replayed"], "ok", 1));
}

/// Case delivery-01 b, OptimalBits/bull#308: the job is handed out again while the first worker is busy.
#[test]
fn a_job_handed_out_again_while_it_is_worked_on_waits_or_is_refused() {
    let mut bank = Trial::orders(ONE).open();
    let first = arrive(&mut bank, "A-1", "20.00", Some("J1"));
    bank.advance(Duration::from_secs(1));
    let second = arrive(&mut bank, "A-1", "20.00", Some("J1"));
    // It waits for the first, and nothing is executed meanwhile.
    let second = bank.finish(second).unwrap_err();
    assert_eq!(held(&bank, "A-1"), NOTHING);
    bank.advance(Duration::from_secs(4));
    assert_eq!(finish(&mut bank, first), "ok");
    assert_eq!(finish(&mut bank, second), "replayed");
    assert_eq!(held(&bank, "A-1"), ["20.00"]);

    let mut bank = Trial::orders(ONE).dedupe(Dedupe::Strict).open();
    let first = arrive(&mut bank, "A-1", "20.00", Some("J1"));
    assert_eq!(answered(&mut bank, "A-1", "20.00", Some("J1")), "in_flight");
    assert_eq!(finish(&mut bank, first), "ok");
    assert_eq!(held(&bank, "A-1"), ["20.00"]);
}

/// Case delivery-01 c: the first worker's call arrives after the second's has been executed.
#[test]
fn of_two_workers_the_one_that_arrives_first_pays_and_both_hear_the_same() {
    let mut bank = Trial::orders(ONE).open();
    bank.advance(Duration::from_secs(3));
    let second_worker = bank.refund("A-1", "20.00", Some("J1")).unwrap();
    bank.advance(Duration::from_secs(7));
    let first_worker = bank.refund("A-1", "20.00", Some("J1")).unwrap();
    assert!(!second_worker.is_replay && first_worker.is_replay);
    assert_eq!(first_worker.to_string(), second_worker.to_string());
    assert_eq!(held(&bank, "A-1"), ["20.00"]);
}

const TENTH: &str = r#"{"id": "A-1", "amount": "100.00", "expect": ["10.00"]}"#;

/// Case delivery-03, dust-tt/dust#4272: the client's limit is shorter than an answer takes, so every
/// attempt counts as failed while every attempt is executed.
#[test]
fn a_client_that_leaves_cancels_nothing() {
    let mut bank = Trial::orders(TENTH).open();
    // Three attempts, two seconds apart, each left after two seconds and executed after three.
    let mut left: Option<Pending> = None;
    for _attempt in 1..=3 {
        let pending = arrive(&mut bank, "A-1", "10.00", None);
        bank.advance(Duration::from_secs(1));
        if let Some(earlier) = left.take() {
            assert_eq!(finish(&mut bank, earlier), "no_reply");
        }
        bank.advance(Duration::from_secs(1));
        bank.leave(&pending);
        left = Some(pending);
    }
    let grade = bank.grade("A-1 FAILED after 3 attempts");
    assert_eq!(held(&bank, "A-1"), ["10.00"; 3]);
    assert_eq!(verdict_on(&grade, "A-1"), "duplicated");
    assert_eq!(grade.extra_refunds(), 2);
    let commits = bank.history().events().iter();
    let commits = commits.filter(|event| matches!(event, Event::Commit(..)));
    assert_eq!(commits.count(), 3);
}

/// Case delivery-03 with a key: the second attempt finds the first under way, the third its answer.
#[test]
fn a_client_that_leaves_finds_its_answer_under_its_key() {
    let mut bank = Trial::orders(TENTH).dedupe(Dedupe::Strict).open();
    let first = arrive(&mut bank, "A-1", "10.00", Some("k1"));
    bank.advance(Duration::from_secs(2));
    bank.leave(&first);
    assert_eq!(answered(&mut bank, "A-1", "10.00", Some("k1")), "in_flight");
    bank.advance(Duration::from_secs(1));
    assert_eq!(finish(&mut bank, first), "no_reply");
    bank.advance(Duration::from_secs(1));
    assert_eq!(answered(&mut bank, "A-1", "10.00", Some("k1")), "replayed");
    let grade = bank.grade("");
    assert_eq!(held(&bank, "A-1"), ["10.00"]);
    assert_eq!(verdict_on(&grade, "A-1"), "ok");
}

// The test double itself.

/// Case double-01, tinyhumansai/openhuman#5646 and cockroachdb/cockroach#3301: faults were drawn from one
/// generator for all requests, so arrival order decided who got which.
#[test]
fn what_a_call_meets_does_not_depend_on_the_others() {
    let ticket = Ticket::generate(7);
    let nine = ticket
        .to_json()
        .replace(r#""orders":["#, r#""orders":[{"id":"Z-9","amount":"1.00","expect":["1.00"]},"#);
    let nine = Ticket::parse(&nine).unwrap();
    assert_eq!(nine.orders().len(), 9);
    let work = |bank: &SharedBank, order: &badbank::ticket::Order| {
        let _state = bank.call(&Request::get_order(order.id()));
        for _ in 0..3 {
            let refund = Request::refund(order.id(), order.amount().into(), None);
            let _answer = bank.call(&refund);
        }
    };
    let open = |ticket: &Ticket| SharedBank::new(Bank::open(ticket, Plan::article().seed(7)));
    let lines = |bank: &SharedBank| bank.lock().fault_log().lines();

    let forward = open(&ticket);
    ticket.orders().iter().for_each(|order| work(&forward, order));
    let expected = lines(&forward);
    assert!(expected.len() > 8, "{expected:?}");

    let reverse = open(&ticket);
    ticket.orders().iter().rev().for_each(|order| work(&reverse, order));
    assert_eq!(lines(&reverse), expected);

    for _ in 0..50 {
        let threads = open(&ticket);
        std::thread::scope(|scope| {
            for order in ticket.orders() {
                let threads = threads.clone();
                scope.spawn(move || work(&threads, order));
            }
        });
        assert_eq!(lines(&threads), expected);
    }

    let further = open(&nine);
    nine.orders().iter().for_each(|order| work(&further, order));
    let without_ninth: Vec<String> =
        lines(&further).into_iter().filter(|line| !line.starts_with("Z-9 ")).collect();
    assert_eq!(without_ninth, expected);
    let log = forward.lock().fault_log().to_string();
    assert!(log.starts_with("badbank faults v1 seed=7\n"), "{log}");
}

/// The plan with these rates of transient, timeout and duplicate, if it may stand.
fn rates(transient: &str, timeout: &str, duplicate: &str) -> Result<Plan, String> {
    Plan::parse(&format!(
        r#"{{"version": 1, "rules": [
            {{"on": "*", "fault": "transient", "rate": {transient}}},
            {{"on": "refund", "fault": "timeout", "rate": {timeout}}},
            {{"on": "refund", "fault": "duplicate", "rate": {duplicate}}}]}}"#
    ))
    .map_err(|error| error.to_string())
}

/// Case double-03, Shopify/toxiproxy#603 and #148: a fault of probability zero struck all the same, and
/// one of probability one let some escape.
#[test]
fn a_rate_of_zero_never_strikes_a_call_and_a_rate_of_one_strikes_all() {
    let ticket = Ticket::generate(7);
    let order = &ticket.orders()[0];
    let mut bank = Bank::open(&ticket, rates("0", "0", "0").unwrap());
    for number in 1..=5_000 {
        assert_eq!(bank.refund(order.id(), order.amount(), None).unwrap().number, number);
        let state = bank.get_order(order.id()).unwrap();
        assert_eq!(state.refunds.len(), number as usize);
    }
    assert_eq!(bank.fault_log().calls(), []);

    let mut bank = Bank::open(&ticket, rates("1.0", "0", "0").unwrap());
    for _ in 0..500 {
        assert_eq!(told(&bank.refund(order.id(), order.amount(), None)), "unavailable");
        assert_eq!(told_of(bank.call(&Request::get_order(order.id()))), "unavailable");
    }
    assert_eq!(bank.fault_log().calls().len(), 1_000);
    assert!(ticket.orders().iter().all(|order| held(&bank, order.id()).is_empty()));
}

/// Case double-03 c and d: rates that cannot be are refused before anything starts.
#[test]
fn rates_below_zero_or_over_one_together_are_refused() {
    let error = rates("0.6", "0.5", "0.1").unwrap_err();
    assert!(error.contains("line 3") && error.contains("1.1"), "{error}");
    let error = rates("-0.1", "0", "0").unwrap_err();
    assert!(error.contains("line 2") && error.contains("-0.1"), "{error}");
    assert!(rates("0.4", "0.5", "0.1").is_ok());
}

/// Case double-07, wiremock/wiremock#574 and #565: a mock listed requests only once it had answered them,
/// so calls that timed out were missing when a test looked.
#[test]
fn the_record_shows_a_call_before_it_is_answered() {
    let mut bank = Trial::orders(THREE).script("A-1 refund #1", Fault::TIMEOUT).open();
    let first = arrive(&mut bank, "A-1", "20.00", None);
    let log = bank.history().to_string();
    assert!(log.contains(r#""event":"fault","call":1"#), "{log}");
    assert!(log.contains(r#""event":"arrive","call":1"#), "{log}");
    assert_eq!(bank.fault_log().lines(), ["A-1 refund #1 timeout"]);

    let second = arrive(&mut bank, "A-3", "20.00", None);
    let third = arrive(&mut bank, "A-2", "20.00", None);
    assert_eq!(finish(&mut bank, first), "no_reply");
    assert_eq!(finish(&mut bank, third), "ok");
    assert_eq!(finish(&mut bank, second), "ok");
    let readings = [bank.history().to_string(), bank.history().to_string()];
    assert_eq!(readings[0], readings[1]);

    let lines: Vec<serde_json::Value> =
        readings[0].lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=lines.len() as u64), "{numbers:?}");
    let commits = lines.iter().filter(|line| line["event"] == "commit");
    let commits: Vec<&str> = commits.map(|line| line["order"].as_str().unwrap()).collect();
    assert_eq!(commits, ["A-1", "A-2", "A-3"]);
}

// The grader.

/// Case grader-01, sierra-research/tau2-bench#384 and #15, dbt-labs/ade-bench#7: agents that did nothing
/// were rewarded, since checks without entries counted as passed.
#[test]
fn doing_nothing_is_never_right() {
    let ticket = Ticket::generate(7);
    for report in ["All done, every order was refunded.", "I refunded none of the orders.", ""] {
        let mut bank = Bank::open(&ticket, Plan::calm());
        let grade = bank.grade(report);
        assert_eq!(grade.orders().len(), 8);
        assert!(grade.orders().iter().all(|order| order.verdict.as_str() == "missed"));
        assert!(!grade.all_ok());
        assert_eq!(grade.verdict(), Verdict::Fail);
        assert_eq!(grade.report_true(), None);
    }
    let empty = Ticket::parse(r#"{"version": 1, "currency": "EUR", "orders": []}"#);
    assert!(empty.unwrap_err().message.contains("at least one"));
}

/// The grade's answer to a report after A-1 was refunded and A-2 was not.
fn report_true(ledger: [&str; 2], reports: &[&str]) -> Vec<Option<bool>> {
    let orders = ["A-1", "A-2"].map(|order| {
        let amount = if order == "A-1" { ledger[0] } else { ledger[1] };
        format!(r#"{{"id": "{order}", "amount": "{amount}"}}"#)
    });
    let reports = reports.iter();
    reports
        .map(|report| {
            let mut bank = Trial::orders(&orders.join(",")).open();
            assert_eq!(told(&bank.refund("A-1", ledger[0], None)), "ok");
            bank.grade(report).report_true()
        })
        .collect()
}

/// Case grader-03, heypinchy/pinchy#731 and NVIDIA/nemoclaw-community#143: a check for false claims read
/// denials as claims and plans as deeds.
#[test]
fn free_text_is_neither_true_nor_false() {
    let reports = [
        "A-1 refunded 20.00. A-2 was not refunded: the service was unavailable.",
        "A-1 refunded 20.00. A-2: I cannot confirm that it was refunded.",
        "A-1 refunded 20.00. Once A-2 is refunded I will write again.",
        "A-1: this wrong-size return was refunded 20.00. A-2 failed.",
        "A-1 and A-2 refunded.",
        "Neither A-1 nor A-2 was refunded.",
    ];
    assert_eq!(report_true(["20.00", "20.00"], &reports), [None; 6]);
}

/// Case grader-05, stanford-crfm/helm#4337: a pattern for numbers matched a lone comma and glued a time
/// of day together.
#[test]
fn amounts_in_a_report_are_not_guessed_at() {
    let reports = [
        "A-1 refunded 1,250.00 EUR, as agreed; A-2 refunded 72 EUR, altogether, at 7:30.",
        "A-1 refunded 1,205.00 EUR; A-2 refunded 72.00 EUR.",
        "A-1 refunded EUR 1250, A-2 refunded EUR 72.0 (2 of 2).",
    ];
    assert_eq!(report_true(["1250.00", "72.00"], &reports), [None; 3]);
}

/// Case grader-07, key0ai/key0#115 and balanced/balanced-api#167: a payment timed out after it had
/// settled, the retry was refused as already used, and the client took the payment for failed.
#[test]
fn a_refusal_for_what_is_already_refunded_names_the_refund_that_exists() {
    let mut bank = Trial::orders(r#"{"id": "F-1", "amount": "100.00"}"#)
        .reject()
        .script("F-1 refund #1", Fault::TIMEOUT)
        .open();
    let first = bank.refund("F-1", "100.00", None);
    assert_eq!(told(&first), "no_reply");
    let second = bank.refund("F-1", "100.00", None);
    assert_eq!(told(&second), "already_refunded");
    let Err(badbank::call::CallError::Refused(Refusal { detail, .. })) = &second else {
        panic!("{second:?}")
    };
    assert!(detail.contains("#1") && detail.contains("100.00 EUR"), "{detail}");
    assert!(!second.is_err_and(|error| error.is_retryable()));
    let grade = bank.grade("");
    assert_eq!(held(&bank, "F-1"), ["100.00"]);
    assert_eq!(verdict_on(&grade, "F-1"), "ok");
    assert_eq!(grade.verdict(), Verdict::Pass);
}

/// Case grader-07 again: what a program knows after giving up is its worst outcome, not its last error.
#[test]
fn a_lost_reply_outweighs_the_refusal_after_it() {
    let mut bank = Trial::orders(r#"{"id": "F-1", "amount": "100.00"}"#)
        .reject()
        .script("F-1 refund #1", Fault::TIMEOUT)
        .open();
    let mut retrying = Retry::default().begin(1.into(), 1);
    let amount = Amount::from_minor(10_000).unwrap();
    let first = bank.refund("F-1", amount, None);
    assert!(matches!(retrying.next(&first), Step::Wait(_)));
    let second = bank.refund("F-1", amount, None);
    assert_eq!(retrying.next(&second), Step::Stop);
    assert!(retrying.conclude(second).unwrap_err().is_indeterminate());
    assert_eq!(bank.history().call_count(), 2);
    assert_eq!(bank.grade("").order("F-1").unwrap().attempts.refund, 2);
}
