//! The desk before a service: numbers the calls, decides their faults, keeps the deliveries that are late.
//!
//! It is synchronous and never looks into a delivery, so the rules of lateness can be read, and tested,
//! without a service. They are the bank's: see [`Bank`](crate::Bank).

use std::{collections::BTreeMap, num::NonZero};

use crate::{
    call::{CallId, Operation},
    fault::{Commit, Fault, FaultLog, Injector, Plan},
    ledger::{Dedupe, OrderIndex},
    seed::Seed,
    ticket::OrderId,
};

/// Numbers calls, decides their faults, and keeps late deliveries until they are due.
pub(super) struct Desk<D> {
    seed: Seed,
    /// What the service behind is taken to do with keys.
    dedupe: Dedupe,
    injector: Injector,
    orders: BTreeMap<OrderId, OrderIndex>,
    /// Per order, reads and refunds so far.
    attempts: Vec<[u32; 2]>,
    /// Calls so far.
    taken: u64,
    faulted: Vec<(CallId, Fault)>,
    late: Vec<Late<D>>,
}

/// A call that the desk has taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    id: CallId,
    /// Number of the call in order of arrival, from 1.
    number: u64,
    pub(super) fault: Option<Fault>,
    /// What happens to the money.
    pub(super) commit: Commit,
}

/// A delivery that is still out.
struct Late<D> {
    call: Taken,
    /// Further calls on its order until it is due.
    due_after: u32,
    delivery: D,
}

impl<D> Desk<D> {
    pub(super) fn new(plan: &Plan) -> Self {
        let named = plan.orders();
        let orders: BTreeMap<OrderId, OrderIndex> = named
            .iter()
            .enumerate()
            .map(|(place, order)| ((*order).clone(), OrderIndex::new(place)))
            .collect();
        Self {
            seed: plan.effective_seed(),
            dedupe: plan.settings().dedupe,
            injector: Injector::new(plan, named),
            attempts: vec![[0; 2]; orders.len()],
            orders,
            taken: 0,
            faulted: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Takes a call in: numbers it, decides its fault, and keeps its delivery if that is late.
    ///
    /// Returns also the deliveries that are due by a call which has no effect of its own to wait for.
    pub(super) fn take(
        &mut self,
        operation: Operation,
        order: OrderId,
        delivery: impl FnOnce() -> D,
    ) -> (Taken, Vec<D>) {
        let call = self.number(operation, order);
        let due = match call.commit {
            Commit::Never => self.due(&call),
            Commit::Late(calls) => {
                let due = self.due(&call);
                self.keep(call.clone(), calls, delivery());
                due
            }
            _ => Vec::new(),
        };
        (call, due)
    }

    fn number(&mut self, operation: Operation, order: OrderId) -> Taken {
        let index = *self.orders.entry(order.clone()).or_insert_with(|| {
            self.attempts.push([0; 2]);
            self.injector.insert(&order)
        });
        let attempt = &mut self.attempts[index.get()][operation as usize];
        *attempt += 1;
        self.taken += 1;
        let fault = self.injector.decide(operation, index, *attempt);
        let id = CallId { order, operation, attempt: *attempt };
        self.faulted.extend(fault.map(|fault| (id.clone(), fault)));
        let commit = fault.map_or(Commit::Once, |fault| fault.commit_under(self.dedupe));
        Taken { id, number: self.taken, fault, commit }
    }

    fn keep(&mut self, call: Taken, calls: NonZero<u32>, delivery: D) {
        self.late.push(Late { call, due_after: calls.get(), delivery });
    }

    /// Counts a call that has had its effect; returns what is due by it, by attempt.
    pub(super) fn due(&mut self, further: &Taken) -> Vec<D> {
        for late in &mut self.late {
            if late.call.id.order == further.id.order && late.call.number < further.number {
                late.due_after -= 1;
            }
        }
        sorted(self.late.extract_if(.., |late| late.due_after == 0).collect())
    }

    /// Gives out all that is still out, by order and attempt.
    pub(super) fn rest(&mut self) -> Vec<D> {
        sorted(std::mem::take(&mut self.late))
    }

    pub(super) fn log(&self) -> FaultLog {
        FaultLog::new(self.seed, self.faulted.clone())
    }
}

fn sorted<D>(mut late: Vec<Late<D>>) -> Vec<D> {
    late.sort_by(|one, other| one.call.id.cmp(&other.call.id));
    late.into_iter().map(|late| late.delivery).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(faults: &[(&str, &str)]) -> Desk<&'static str> {
        let plan = faults.iter().fold(Plan::calm().seed(7), |plan, (call, fault)| {
            plan.script(call.parse().unwrap(), fault.parse().unwrap()).unwrap()
        });
        Desk::new(&plan)
    }

    fn take(
        desk: &mut Desk<&'static str>,
        operation: Operation,
        order: &str,
        delivery: &'static str,
    ) -> (Taken, Vec<&'static str>) {
        desk.take(operation, OrderId::new(order).unwrap(), || delivery)
    }

    #[test]
    fn a_delivery_is_due_after_so_many_further_calls_on_its_order() {
        let mut desk = desk(&[("A refund #1", "late(2)"), ("A refund #2", "transient")]);
        assert_eq!(take(&mut desk, Operation::Refund, "A", "first").1, [""; 0]);
        let (elsewhere, _) = take(&mut desk, Operation::Refund, "B", "");
        assert_eq!(desk.due(&elsewhere), [""; 0]);
        let (read, _) = take(&mut desk, Operation::GetOrder, "A", "");
        assert_eq!(desk.due(&read), [""; 0]);
        // A call that never happens counts too, and has nothing to wait for.
        assert_eq!(take(&mut desk, Operation::Refund, "A", "").1, ["first"]);
        assert_eq!(desk.rest(), [""; 0]);
    }

    #[test]
    fn a_call_that_came_before_a_late_one_is_no_further_call() {
        let mut desk = desk(&[("A refund #1", "late")]);
        let (before, _) = take(&mut desk, Operation::GetOrder, "A", "");
        take(&mut desk, Operation::Refund, "A", "late");
        assert_eq!(desk.due(&before), [""; 0]);
        let (after, _) = take(&mut desk, Operation::GetOrder, "A", "");
        assert_eq!(desk.due(&after), ["late"]);
    }

    #[test]
    fn several_that_are_due_land_by_attempt_and_the_rest_by_order_and_attempt() {
        let mut desk = desk(&[
            ("A refund #1", "late(2)"),
            ("A refund #2", "late(1)"),
            ("B refund #1", "late(9)"),
            ("A refund #4", "late(9)"),
        ]);
        take(&mut desk, Operation::Refund, "B", "b1");
        take(&mut desk, Operation::Refund, "A", "a1");
        take(&mut desk, Operation::Refund, "A", "a2");
        let (third, _) = take(&mut desk, Operation::Refund, "A", "a3");
        assert_eq!(desk.due(&third), ["a1", "a2"]);
        take(&mut desk, Operation::Refund, "A", "a4");
        assert_eq!(desk.rest(), ["a4", "b1"]);
    }

    #[test]
    fn an_order_decides_by_its_name_whether_a_rule_names_it_or_not() {
        let plan = Plan::article().seed(7);
        let named = plan.clone().script("B refund #9".parse().unwrap(), Fault::LOST).unwrap();
        let logs = [plan, named].map(|plan| {
            let mut desk = Desk::new(&plan);
            for _ in 0..50 {
                take(&mut desk, Operation::Refund, "A", "");
                take(&mut desk, Operation::Refund, "B", "");
            }
            desk.log().lines()
        });
        assert!(logs[0].len() > 20);
        let others = |log: &[String]| -> Vec<String> {
            log.iter().filter(|line| !line.starts_with("B refund #9 ")).cloned().collect()
        };
        assert_eq!(others(&logs[0]), others(&logs[1]));
        assert!(logs[1].contains(&"B refund #9 lost".to_owned()));
    }
}
