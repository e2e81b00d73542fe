//! The bank as a tower service, the injector around services that are not the bank, and the harness
//! before them.

mod bank;
mod compose;
mod foreign;
mod harness;
mod inject;
mod ledger;
mod slow;

use badbank::{
    Ticket,
    call::{Answer, CallError},
    fault::{Commit, Plan, Rule, Told},
    service::BankRequest,
};

/// Every order is read, refunded in up to five attempts, every second under a key, and read again.
async fn work(ticket: &Ticket, mut call: impl AsyncFnMut(BankRequest) -> Answer) -> Vec<Answer> {
    let mut answers = vec![];
    for (place, order) in ticket.orders().iter().enumerate() {
        let key = (place % 2 == 0).then(|| format!("refund:{}", order.id()));
        answers.push(call(BankRequest::get_order(order.id())).await);
        for _attempt in 1..=5 {
            let refund = BankRequest::refund(order.id(), order.amount(), key.as_deref());
            answers.push(call(refund).await);
            if !answers.last().unwrap().as_ref().is_err_and(CallError::is_retryable) {
                break;
            }
        }
        answers.push(call(BankRequest::get_order(order.id())).await);
    }
    answers
}

/// The plan `everything`, without what happens inside a ledger.
fn everything_outside_the_ledger() -> Plan {
    let is_outside = |rule: &&Rule| {
        !matches!(rule.fault.told(), Told::Stale(_))
            && !matches!(rule.fault.commit(), Commit::Stored | Commit::Accepted(_))
    };
    let everything = Plan::find("everything").unwrap();
    let rules = everything.rules().iter().filter(is_outside);
    rules.fold(Plan::calm(), |plan, rule| plan.rule(rule.clone()).unwrap())
}

/// As many orders as there are tasks.
fn many_orders() -> Ticket {
    let orders: Vec<String> =
        (1..=64).map(|order| format!(r#"{{"id": "A-{order}", "amount": "{order}.50"}}"#)).collect();
    let orders = orders.join(",");
    Ticket::parse(&format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#)).unwrap()
}
