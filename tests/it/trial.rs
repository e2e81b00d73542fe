//! Runs as tests write them: orders, a plan and a program, and what came of it in words.

use std::{fs, path::Path};

use badbank::{
    Bank, Seed, Ticket,
    call::{Answer, CallError, Refunded, Reply},
    fault::{Fault, Plan},
    grade::{Cause, Grade, Verdict},
    harness::{self, Design, VirtualTime},
    history::{Event, History},
    ledger::{Dedupe, OverRefund},
};

/// Compares a text with its snapshot, `snapshots/<area>/<test>.snap` under the root.
macro_rules! assert_log {
    ($area:literal, $log:expr) => {{
        let _in_area =
            crate::trial::snapshots(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/", $area));
        insta::assert_snapshot!($log.to_string());
    }};
}
pub(crate) use assert_log;

/// Lets insta look for snapshots in `folder` for as long as the guard lives.
pub(crate) fn snapshots(folder: &str) -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind_to_scope()
}

/// A ticket and a plan, before the run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    ticket: Ticket,
    plan: Plan,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) bank: Bank,
    pub(crate) grade: Grade,
}

impl Trial {
    /// A run of `ticket` under `plan`.
    pub(crate) fn new(ticket: Ticket, plan: Plan) -> Self {
        Self { ticket, plan }
    }

    /// A run of a plan that badbank brings along, on the ticket of `seed`.
    pub(crate) fn plan(name: &str, seed: u64) -> Self {
        let plan = Plan::find(name).unwrap().seed(seed);
        Self::new(Ticket::generate(seed), plan)
    }

    /// A run without faults, on orders in EUR that are written as in a ticket.
    pub(crate) fn orders(orders: &str) -> Self {
        let ticket = format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#);
        Self::new(Ticket::parse(&ticket).unwrap(), Plan::calm())
    }

    /// The run in which `call` meets `fault`.
    pub(crate) fn script(mut self, call: &str, fault: Fault) -> Self {
        self.plan = self.plan.script(call.parse().unwrap(), fault).unwrap();
        self
    }

    /// The run under `dedupe`.
    pub(crate) fn dedupe(mut self, dedupe: Dedupe) -> Self {
        self.plan = self.plan.dedupe(dedupe);
        self
    }

    /// The run in which the ledger pays no more than is left on an order.
    pub(crate) fn reject(mut self) -> Self {
        self.plan = self.plan.over_refund(OverRefund::Reject);
        self
    }

    /// The bank at the start of the run.
    pub(crate) fn open(&self) -> Bank {
        Bank::open(&self.ticket, self.plan.clone())
    }

    /// The bank at the start of the run, with a history of at most so many events.
    pub(crate) fn open_with(&self, events_max: usize) -> Bank {
        Bank::with_events_max(&self.ticket, self.plan.clone(), events_max)
    }

    /// The run of the careful agent behind a harness of `design`; what it reports counts for nothing.
    pub(crate) fn drive(&self, design: Design) -> Run {
        let mut bank = self.open();
        let seed: Seed = self.plan.effective_seed();
        harness::run(design, &self.ticket, &mut bank, &mut VirtualTime, seed);
        let grade = bank.grade("");
        Run { bank, grade }
    }
}

impl Run {
    /// What came out of it.
    pub(crate) fn verdict(&self) -> Verdict {
        self.grade.verdict()
    }

    /// Its fault log.
    pub(crate) fn log(&self) -> String {
        self.bank.fault_log().to_string()
    }
}

/// What the caller of a refund was told, in one word.
pub(crate) fn told(answer: &Result<Refunded, CallError>) -> &'static str {
    match answer {
        Ok(refunded) if refunded.is_replay => "replayed",
        Ok(_) => "ok",
        Err(CallError::Unavailable) => "unavailable",
        Err(CallError::Timeout) => "no_reply",
        Err(CallError::Refused(refusal)) => refusal.code.as_str(),
        Err(other) => panic!("no bank in process answers {other:?}"),
    }
}

/// The same of any call.
pub(crate) fn told_of(answer: Answer) -> &'static str {
    match answer {
        Ok(Reply::Order(_)) => "ok",
        Ok(Reply::Refunded(refunded)) => told(&Ok(refunded)),
        Err(error) => told(&Err(error)),
    }
}

/// The words of what happened, from the fault on.
pub(crate) fn happened(history: &History) -> String {
    let words = history.events().iter().filter_map(|event| match event {
        Event::Invoke(_) | Event::Fault(..) => None,
        Event::Refuse(_, _, code) => Some(format!("refuse({})", code.as_str())),
        Event::Fail(_, failure) => Some(format!("fail({})", failure.as_str())),
        Event::Info(_, silence) => Some(format!("info({})", silence.as_str())),
        other => Some(other.word().to_owned()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The refunds that an order holds, as decimal text.
pub(crate) fn held(bank: &Bank, order: &str) -> Vec<String> {
    let account = bank.ledger().account(bank.ledger().find(order).unwrap());
    account.refunds().iter().map(|amount| amount.display(account.currency()).to_string()).collect()
}

/// The verdict on an order, in its word.
pub(crate) fn verdict_on(grade: &Grade, order: &str) -> &'static str {
    grade.order(order).unwrap().verdict.as_str()
}

/// The causes that a grade names, order by order.
pub(crate) fn causes(grade: &Grade) -> Vec<Cause> {
    let orders = grade.orders().iter();
    orders.flat_map(|order| order.causes.iter().map(|finding| finding.cause)).collect()
}

/// The orders of a grade as JSON: all that does not depend on the plan's rules.
pub(crate) fn orders_of(grade: &Grade) -> serde_json::Value {
    let grade: serde_json::Value = serde_json::from_str(&grade.to_json()).unwrap();
    grade["orders"].clone()
}

/// The text of a file under `fixtures`.
pub(crate) fn fixture(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
