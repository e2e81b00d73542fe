//! Dead letters as a layer.

use super::{guard::Guarded, tally::TallyLayer};
use crate::harness::{DeadLetter, Letter};

/// Sets work aside that has failed too often, and answers further calls for it with the worst error it met.
///
/// What counts as one piece of work its first closure says: the intent of a request. An error that no
/// further attempt would change sets it aside at once; a success, also of a call that was still under way,
/// ends the count. A person looks at [`letters`](Self::letters) and takes work back with
/// [`release`](Self::release). What is counted when, [`TallyLayer`] says.
///
/// # Examples
///
/// ```
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::{Answer, CallError},
///     fault::{Fault, Plan},
///     harness::DeadLetter,
///     service::{BankRequest, BankService, DeadLetterLayer},
/// };
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let call = |attempt| format!("{} refund #{attempt}", order.id()).parse();
/// let plan = Plan::calm().script(call(1)?, Fault::TIMEOUT)?.script(call(2)?, Fault::TRANSIENT)?;
/// let bank = SharedBank::new(Bank::open(&ticket, plan));
///
/// let dead = DeadLetterLayer::new(
///     DeadLetter::after(2),
///     |request: &BankRequest| Some(format!("refund:{}", request.order())),
///     |answer: &Answer| answer.clone().err(),
///     Err,
/// );
/// let mut service =
///     ServiceBuilder::new().layer(dead.clone()).service(BankService::new(bank.clone()));
/// let refund = BankRequest::refund(order.id(), order.amount(), None);
/// for _attempt in 1..=2 {
///     assert!(service.ready().await?.call(refund.clone()).await.is_err());
/// }
/// // A third attempt would succeed, and pay again: the first was paid, and its reply lost.
/// assert_eq!(service.ready().await?.call(refund).await, Err(CallError::Timeout));
/// assert_eq!(dead.letters()[0].error, CallError::Timeout);
/// assert_eq!(bank.lock().get_order(order.id())?.refunds, [order.amount()]);
/// # Ok(())
/// # }
/// ```
pub type DeadLetterLayer<N, C, E> = TallyLayer<DeadLetter, N, C, E>;

/// A service whose failing work a [`DeadLetterLayer`] sets aside.
pub type DeadLetterService<S, N, C, E> = Guarded<S, DeadLetterLayer<N, C, E>>;

impl<N, C, E> DeadLetterLayer<N, C, E> {
    /// The work that is set aside, by intent, for a person to look at.
    pub fn letters(&self) -> Vec<Letter> {
        self.lock().letters().cloned().collect()
    }

    /// Takes work back that a person has looked at; its attempts are counted anew.
    pub fn release(&self, intent: &str) -> Option<Letter> {
        self.lock().release(intent)
    }
}
