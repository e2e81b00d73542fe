//! The front door of the design's §9, as a user writes it.

use badbank::{
    Bank, Ticket,
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
