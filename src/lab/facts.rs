//! What can be counted in a run when it is over.

use std::collections::BTreeMap;

use crate::{
    bank::Bank,
    call::Operation,
    fault::Fault,
    grade::{Grade, OrderVerdict},
    history::{Event, History},
    ledger::IdempotencyKey,
};

/// What a run met and what it came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Whether every order holds exactly what was expected.
    pub(super) is_right: bool,
    /// Whether the report says something that is not so.
    pub(super) is_false: bool,
    /// Refunds too many.
    pub(super) extra: u64,
    /// Why they were too many.
    pub(super) causes: BTreeMap<&'static str, u64>,
    /// Orders that hold less than was expected.
    pub(super) missed: u64,
    pub(super) transients: u64,
    pub(super) timeouts: u64,
    pub(super) duplicates: u64,
    /// Timeouts after which the next call on the order was a read.
    pub(super) looks: u64,
    /// Refunds that were asked for when their order had seen one before.
    pub(super) repeats: u64,
    /// Those that had the key of the one before.
    pub(super) same_keys: u64,
}

impl Facts {
    /// The facts of a run that is graded.
    pub(super) fn of(bank: &Bank, grade: &Grade) -> Self {
        let mut facts = Self {
            is_right: grade.all_ok(),
            is_false: grade.report_true() == Some(false),
            extra: grade.extra_refunds(),
            ..Self::default()
        };
        for order in grade.orders() {
            facts.missed += u64::from(order.verdict == OrderVerdict::Missed);
            for finding in order.causes.iter().filter(|finding| finding.refund.is_some()) {
                *facts.causes.entry(finding.cause.as_str()).or_default() += 1;
            }
        }
        facts.read(bank.history());
        facts
    }

    /// Whether an order holds a refund too many.
    pub(super) fn is_doubled(&self) -> bool {
        self.extra > 0
    }

    fn read<'a>(&mut self, history: &'a History) {
        let orders = history.header().ticket.orders().len();
        let mut is_timed_out = vec![false; orders];
        let mut last_key: Vec<Option<Option<&'a IdempotencyKey>>> = vec![None; orders];
        for event in history.events() {
            match event {
                Event::Invoke(call) => {
                    let record = history.call(*call);
                    let order = record.order.get();
                    let is_read = record.operation == Operation::GetOrder;
                    self.looks += u64::from(is_timed_out[order] && is_read);
                    is_timed_out[order] = false;
                    if !is_read {
                        let key = record.key.as_ref();
                        if let Some(before) = last_key[order].replace(key) {
                            self.repeats += 1;
                            self.same_keys += u64::from(key.is_some() && key == before);
                        }
                    }
                }
                Event::Fault(_, Fault::TRANSIENT) => self.transients += 1,
                Event::Fault(_, Fault::DUPLICATE) => self.duplicates += 1,
                Event::Fault(call, Fault::TIMEOUT) => {
                    self.timeouts += 1;
                    is_timed_out[history.call(*call).order.get()] = true;
                }
                _ => {}
            }
        }
    }
}
