//! A stopping rule as a layer.

use super::{guard::Guarded, tally::TallyLayer};
use crate::harness::StoppingRule;

/// Answers calls that a [`StoppingRule`] has stopped with the worst error that they met, unsent.
///
/// The name that its first closure gives a request has to stay the same however often the call is written
/// anew, as its intent does; a read and a refund of one intent are two calls and need two names. What is
/// counted when, [`TallyLayer`] says.
///
/// # Examples
///
/// An agent writes a call that has failed anew, and anew:
///
/// ```
/// use badbank::{
///     Bank, SharedBank, Ticket,
///     call::Answer,
///     fault::Plan,
///     harness::StoppingRule,
///     service::{BankRequest, BankService, StoppingLayer},
/// };
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = Ticket::generate(7);
/// let order = &ticket.orders()[0];
/// let plan = Plan::parse(
///     r#"{"version": 1, "rules": [{"on": "refund", "attempts": "1-", "fault": "timeout"}]}"#,
/// )?;
/// let bank = SharedBank::new(Bank::open(&ticket, plan));
///
/// let stopping = StoppingLayer::new(
///     StoppingRule::after(2),
///     |request: &BankRequest| Some(format!("{} {}", request.operation(), request.order())),
///     |answer: &Answer| answer.clone().err(),
///     Err,
/// );
/// let mut service =
///     ServiceBuilder::new().layer(stopping.clone()).service(BankService::new(bank.clone()));
/// for _call in 0..5 {
///     let refund = BankRequest::refund(order.id(), order.amount(), None);
///     assert!(service.ready().await?.call(refund).await.is_err());
/// }
/// assert_eq!(stopping.rule().answered(), 3);
/// // It was paid twice, not five times.
/// let state = bank.lock().get_order(order.id())?;
/// assert_eq!(state.refunds, [order.amount(); 2]);
/// # Ok(())
/// # }
/// ```
pub type StoppingLayer<N, C, E> = TallyLayer<StoppingRule, N, C, E>;

/// A service whose calls a [`StoppingLayer`] stops.
pub type StoppingService<S, N, C, E> = Guarded<S, StoppingLayer<N, C, E>>;

impl<N, C, E> StoppingLayer<N, C, E> {
    /// The rule as it stands, with what it has counted.
    pub fn rule(&self) -> StoppingRule {
        self.lock().clone()
    }
}
