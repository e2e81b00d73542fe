//! Slow answers behind tower: who stays for one has it, and who does not is written down as having left.

use std::time::Duration;

use badbank::{
    Bank, SharedBank, Ticket,
    fault::PlanSettings,
    grade::Cause,
    money::Amount,
    service::{BankFuture, BankRequest, BankService},
};
use tokio::time::{sleep, timeout};
use tower::Service;

use crate::{
    support::scripted,
    trial::{causes, happened},
};

fn open(fault: &str, latency_ms: u64) -> (SharedBank, BankService) {
    let ticket = Ticket::parse(
        r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#,
    );
    let plan = scripted(&[("A-1 refund #1", fault)]);
    let settings = PlanSettings { slow_ms: 5000, latency_ms, ..*plan.settings() };
    let bank = SharedBank::new(Bank::open(&ticket.unwrap(), plan.with_settings(settings)));
    (bank.clone(), BankService::new(bank))
}

fn refund(service: &mut BankService) -> BankFuture {
    let id = "A-1".parse().unwrap();
    service.call(BankRequest::refund(&id, Amount::from_minor(4250).unwrap(), None))
}

fn words(bank: &SharedBank) -> String {
    happened(bank.lock().history())
}

async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_limit_is_shorter_pays_again_while_the_first_is_unanswered() {
    for (fault, first, found) in [
        ("slow", "arrive commit", &[Cause::RepeatInFlight][..]),
        (
            "twice+slow",
            "arrive commit arrive commit",
            &[Cause::DuplicateDelivery, Cause::RepeatInFlight],
        ),
    ] {
        let (bank, mut service) = open(fault, 0);
        assert!(timeout(Duration::from_millis(200), refund(&mut service)).await.is_err());
        refund(&mut service).await.unwrap();
        pass(4700).await;
        assert_eq!(words(&bank), format!("{first} arrive commit ok"));
        pass(200).await;
        assert_eq!(words(&bank), format!("{first} arrive commit ok info(left)"));
        let grade = bank.lock().grade("");
        assert_eq!((causes(&grade).as_slice(), grade.overlapped().len()), (found, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stays_repeats_after_success_as_in_process() {
    let (bank, mut service) = open("slow", 0);
    let mut in_process = bank.lock().clone();
    let first = refund(&mut service);
    pass(4900).await;
    assert_eq!(words(&bank), "arrive commit");
    first.await.unwrap();
    assert_eq!(words(&bank), "arrive commit ok");
    refund(&mut service).await.unwrap();

    for _ in 0..2 {
        in_process.refund("A-1", "42.50", None).unwrap();
    }
    let grade = in_process.grade("");
    assert_eq!(causes(&grade), [Cause::RepeatAfterSuccess]);
    assert_eq!(bank.lock().grade("").to_json(), grade.to_json());
    assert_eq!(bank.lock().history().to_string(), in_process.history().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_repeats_in_parallel_has_nothing_of_the_first_in_its_hands() {
    let (bank, mut service) = open("slow", 0);
    let first = refund(&mut service);
    refund(&mut service).await.unwrap();
    first.await.unwrap();
    assert_eq!(words(&bank), "arrive commit arrive commit ok ok");
    let grade = bank.lock().grade("");
    assert_eq!((causes(&grade), grade.overlapped().len()), (vec![Cause::RepeatInFlight], 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_run_finds_who_has_nothing_yet_and_the_answer_comes_all_the_same() {
    let (bank, mut service) = open("slow", 0);
    let first = refund(&mut service);
    pass(1000).await;
    assert_eq!(bank.lock().grade("").extra_refunds(), 0);
    first.await.unwrap();
    assert_eq!(words(&bank), "arrive commit info(left) settle");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_in_the_latency_is_gone_when_its_call_finishes() {
    let (bank, mut service) = open("slow", 2000);
    assert!(timeout(Duration::from_millis(200), refund(&mut service)).await.is_err());
    pass(1900).await;
    assert_eq!(words(&bank), "arrive commit info(left)");
}
