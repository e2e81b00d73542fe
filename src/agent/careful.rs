//! The careful agent: it looks before it pays, and looks again after every error.
//!
//! - It reads all orders in one batch; a read that fails is sent again in the next, up to 25 times in a row.
//! - Then it refunds, in one batch, one of what remains on each order.
//! - After any error on a refund it reads the order before it decides anything else about it, so it never
//!   repeats a refund blindly. A refusal is final: the order is read, and nothing more is sent to it.
//! - It sends three refund calls for each expected refund at the most, and then reports.
//!
//! What remains on an order is what the ticket expects without the refunds that the last read showed and
//! those that have succeeded since. Orders of which the ticket expects nothing are left alone.

use super::{Action, ToolCall, ToolCallId, Turn};
use crate::{
    call::{Answer, CallError, Reply},
    money::Amount,
    ticket::{Order, OrderId, Ticket},
};

/// Reads of an order that may fail in a row before the agent gives the order up.
const READS_MAX: u32 = 25;

/// Refund calls for each expected refund.
const REFUNDS_MAX: u32 = 3;

/// An agent that reads every order before it pays and after every error.
///
/// # Examples
///
/// ```
/// use badbank::{Ticket, agent::{Action, Careful, Turn}};
///
/// let ticket = Ticket::parse(r#"{"version": 1, "currency": "EUR", "orders": [{"id": "A-1", "amount": "42.50"}]}"#)?;
/// let Turn::Calls(calls) = Careful::new(&ticket).turn() else { unreachable!() };
/// assert_eq!(calls[0].id.to_string(), "call-1");
/// assert_eq!(calls[0].action, Action::GetOrder); // no money moves before the order is known
/// # Ok::<(), badbank::DocumentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Careful {
    tasks: Vec<Task>,
    calls: u32,
}

impl Careful {
    /// An agent that has just been given `ticket`.
    pub fn new(ticket: &Ticket) -> Self {
        let asked = ticket.orders().iter().filter(|order| !order.expect().is_empty());
        Self { tasks: asked.map(Task::new).collect(), calls: 0 }
    }

    /// The next batch, or the report once there is nothing left to do.
    ///
    /// Reads come first: as long as an order has to be read, a batch holds only such reads. A call that
    /// nobody answers counts as one that may have happened.
    pub fn turn(&mut self) -> Turn {
        let mut calls = self.batch(|task| task.needs_read.then_some(Action::GetOrder));
        if calls.is_empty() {
            calls = self.batch(Task::pay);
        }
        if calls.is_empty() { Turn::Report(self.report()) } else { Turn::Calls(calls) }
    }

    /// Takes what came of a call of the last batch.
    ///
    /// # Panics
    ///
    /// If a read is answered as a refund, or a refund as a read.
    pub fn answered(&mut self, call: &ToolCall, answer: &Answer) {
        let task = &mut self.tasks[call.task];
        match (call.action, answer) {
            (Action::GetOrder, Ok(Reply::Order(order))) => task.read(&order.held()),
            (Action::GetOrder, Err(error)) => task.read_failed(error),
            (Action::Refund(amount), Ok(Reply::Refunded(refund))) => {
                task.paid(amount, refund.number as usize);
            }
            (Action::Refund(_), Err(error)) => task.refund_failed(error),
            (action, Ok(reply)) => panic!("{action:?} was answered with {reply:?}"),
        }
    }

    /// One call for each order for which `choose` has an action, in the ticket's order.
    fn batch(&mut self, mut choose: impl FnMut(&mut Task) -> Option<Action>) -> Vec<ToolCall> {
        let mut batch = Vec::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            if let Some(action) = choose(task) {
                self.calls += 1;
                batch.push(ToolCall {
                    id: ToolCallId::new(self.calls),
                    order: task.order.clone(),
                    action,
                    intent: task.intent(),
                    task: index,
                });
            }
        }
        batch
    }

    fn report(&self) -> String {
        let line = |claim: Claim| {
            let claimed = self.tasks.iter().filter(|task| task.claim() == claim);
            let orders: Vec<&str> = claimed.map(|task| task.order.as_str()).collect();
            let orders = if orders.is_empty() { "none".to_owned() } else { orders.join(", ") };
            format!("{}: {orders}\n", claim.as_str())
        };
        Claim::ALL.into_iter().map(line).collect()
    }
}

/// An order that is to be refunded, and what the agent knows of it.
#[derive(Clone, Debug)]
struct Task {
    order: OrderId,
    /// What the ticket asks for.
    expect: Vec<Amount>,
    /// What the order holds when all is well: the expected refunds, and the others that it held before.
    wanted: Vec<Amount>,
    /// The refunds that the last read showed, and those that have succeeded since; none before the first.
    known: Option<Vec<Amount>>,
    /// Whether the order has to be read before anything else is done with it.
    needs_read: bool,
    /// Whether a refund since the last read may have happened without the agent knowing.
    is_open: bool,
    /// Whether the number of a refund gave away that the order holds more than is wanted.
    is_over: bool,
    reads_left: u32,
    refunds_left: u32,
}

impl Task {
    fn new(order: &Order) -> Self {
        let expect = order.expect().to_vec();
        // A refund held before that equals an expected one fulfils it.
        let mut wanted = expect.clone();
        wanted.extend(without(order.refunded(), &expect));
        let expected = u32::try_from(expect.len()).unwrap_or(u32::MAX);
        Self {
            order: order.id().clone(),
            expect,
            wanted,
            known: None,
            needs_read: true,
            is_open: false,
            is_over: false,
            reads_left: READS_MAX,
            refunds_left: expected.saturating_mul(REFUNDS_MAX),
        }
    }

    /// The next refund to send, if there is one; until it is answered, it may have happened.
    fn pay(&mut self) -> Option<Action> {
        if self.needs_read || self.refunds_left == 0 {
            return None;
        }
        let amount = *self.missing().first()?;
        self.refunds_left -= 1;
        self.needs_read = true;
        self.is_open = true;
        Some(Action::Refund(amount))
    }

    /// What the next refund is for: the same words until it is known to have happened.
    fn intent(&self) -> String {
        let part = self.expect.len() - self.missing().len() + 1;
        match self.expect.len() {
            1 => format!("refund:{}", self.order),
            _ => format!("refund:{}/{part}", self.order),
        }
    }

    fn read(&mut self, refunds: &[Amount]) {
        self.known = Some(refunds.to_vec());
        self.needs_read = false;
        self.is_open = false;
        self.reads_left = READS_MAX;
    }

    fn read_failed(&mut self, error: &CallError) {
        self.reads_left -= 1;
        if self.reads_left == 0 || !error.is_retryable() {
            self.needs_read = false;
            self.refunds_left = 0;
        }
    }

    fn paid(&mut self, amount: Amount, number: usize) {
        let known = self.known.get_or_insert_default();
        known.push(amount);
        // A refund whose number is not the next one tells of refunds that nobody has seen.
        let adds_up = number == known.len();
        let is_settled = adds_up || self.missing().is_empty();
        self.is_over |= number > self.wanted.len();
        self.needs_read = !is_settled;
        self.is_open = !is_settled;
    }

    fn refund_failed(&mut self, error: &CallError) {
        let is_refusal = matches!(error, CallError::Refused(_));
        let is_in_flight = is_refusal && error.is_retryable();
        self.is_open = error.is_indeterminate() || is_in_flight;
        if is_refusal && !is_in_flight {
            self.refunds_left = 0;
        }
    }

    /// The expected refunds that the order is not known to hold.
    fn missing(&self) -> Vec<Amount> {
        without(&self.expect, self.known.as_deref().unwrap_or_default())
    }

    fn claim(&self) -> Claim {
        match &self.known {
            _ if self.is_open && self.is_over => Claim::Duplicated,
            _ if self.is_open => Claim::Unknown,
            None => Claim::Unknown,
            Some(_) if !self.missing().is_empty() => Claim::Failed,
            Some(known) if self.is_over || !without(known, &self.wanted).is_empty() => {
                Claim::Duplicated
            }
            Some(_) => Claim::Refunded,
        }
    }
}

/// What the report says of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Refunded,
    Failed,
    Duplicated,
    Unknown,
}

impl Claim {
    const ALL: [Self; 4] = [Self::Refunded, Self::Failed, Self::Duplicated, Self::Unknown];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Refunded => "REFUNDED",
            Self::Failed => "FAILED",
            Self::Duplicated => "DUPLICATED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// What is left of `amounts` when each of `taken` takes away one that equals it.
fn without(amounts: &[Amount], taken: &[Amount]) -> Vec<Amount> {
    let mut left = amounts.to_vec();
    for amount in taken {
        if let Some(found) = left.iter().position(|other| other == amount) {
            left.remove(found);
        }
    }
    left
}
