//! The parts of a harness as layers, on a clock that stands still: before the bank, and before a service
//! that is not ours.

mod breaker;
mod compose;
mod dead_letter;
mod deadline;
mod gateway;
mod key;
mod outbox;
mod retry;
mod stopping;

use badbank::{
    Bank, Seed, SharedBank, Ticket,
    call::{Answer, CallError},
    fault::Plan,
};

use super::many_orders;

const SEED: Seed = Seed::new(7);

fn open(plan: Plan) -> (Ticket, SharedBank) {
    let ticket = many_orders();
    let bank = SharedBank::new(Bank::open(&ticket, plan));
    (ticket, bank)
}

fn by_error(answer: &Answer) -> Option<CallError> {
    answer.clone().err()
}
