//! The front door of the design's §9, as a user writes it.

use badbank::{
    Bank, Ticket,
    bank::PlanChangeError,
    call::{CallError, Payments},
    fault::Plan,
};

use crate::trial::snapshots;

/// Refunds every order of the ticket, sends what failed again under the same key, and reports.
fn my_harness(bank: &mut Bank) -> Result<String, CallError> {
    let ticket = bank.ticket().clone();
    for order in ticket.orders() {
        let key = format!("refund-{}", order.id());
        let mut tries = 0..20;
        while let Err(error) = bank.refund(order.id(), order.amount(), Some(&key)) {
            if !error.is_retryable() || tries.next().is_none() {
                return Err(error);
            }
        }
    }
    let ids: Vec<&str> = ticket.orders().iter().map(|order| order.id().as_str()).collect();
    Ok(format!("REFUNDED: {}", ids.join(", ")))
}

#[test]
fn the_front_door_is_as_the_design_has_it() -> Result<(), CallError> {
    let _in_area = snapshots(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/bank"));

    let ticket = Ticket::generate(7);
    let mut bank = Bank::open(&ticket, Plan::article().seed(7));
    let report = my_harness(&mut bank)?;
    let grade = bank.grade(&report);
    assert!(grade.all_ok(), "{grade}");
    insta::assert_snapshot!(bank.fault_log());

    for order in ticket.orders() {
        let account = bank.ledger().account(bank.ledger().find(order.id()).unwrap());
        assert_eq!(account.refunds(), [order.amount()]);
    }
    Ok(())
}

#[test]
fn a_harness_that_knows_only_the_trait_meets_the_same_faults() -> Result<(), CallError> {
    fn generic(bank: &mut impl Payments, ticket: &Ticket) {
        for order in ticket.orders() {
            let key = format!("refund-{}", order.id());
            while bank.refund(order.id(), order.amount(), Some(&key)).is_err() {}
        }
    }
    let ticket = Ticket::generate(7);
    let open = || Bank::open(&ticket, Plan::article().seed(7));
    let (mut known, mut generic_bank) = (open(), open());
    my_harness(&mut known)?;
    generic(&mut generic_bank, &ticket);
    assert_eq!(known.fault_log(), generic_bank.fault_log());
    assert_eq!(generic_bank.grade("").extra_refunds(), 0);
    Ok(())
}

#[test]
fn a_run_keeps_its_seed_whatever_plans_come() {
    let ticket = Ticket::generate(7);
    let mut bank = Bank::open(&ticket, Plan::article().seed(7));
    let before = bank.history().to_string();
    let error = bank.set_plan(Plan::calm().seed(8)).unwrap_err();
    assert!(matches!(error, PlanChangeError::OtherSeed { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the plan names seed 8, and the run has seed 7, which it keeps; leave the seed out, or open another run"
    );
    assert_eq!(bank.plan(), &Plan::article().seed(7));
    assert_eq!(bank.history().to_string(), before);
    for plan in [Plan::calm(), Plan::calm().seed(7), Plan::article()] {
        bank.set_plan(plan).unwrap();
        assert_eq!(bank.plan().effective_seed(), 7.into());
    }
    // What the log's first line says gives the same faults again, under the plan that was in force.
    let mut again = Bank::open(&ticket, Plan::article().seed(bank.fault_log().seed()));
    for order in ticket.orders() {
        assert_eq!(
            bank.refund(order.id(), order.amount(), None),
            again.refund(order.id(), order.amount(), None)
        );
    }
    assert_eq!(bank.fault_log(), again.fault_log());
    assert!(!again.fault_log().calls().is_empty());
}

#[test]
fn a_run_that_has_ended_keeps_its_plan() {
    let mut bank = Bank::open(&Ticket::generate(7), Plan::article().seed(7));
    bank.settle();
    let before = bank.history().to_string();
    assert_eq!(bank.set_plan(Plan::calm()), Err(PlanChangeError::RunEnded));
    assert_eq!(bank.history().to_string(), before);
    assert_eq!(bank.plan().name(), Some("article"));
}
