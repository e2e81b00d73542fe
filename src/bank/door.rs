//! What a request passes before it is a call.

use super::{Bank, delivery::Course};
use crate::{
    call::{AmountInput, Operation, Refusal, RefusalCode, Request, Sent},
    history::{CallRecord, TurnedAway},
    ledger::{IdempotencyKey, OrderIndex},
    money::{Amount, shorten},
    ticket::OrderId,
};

/// A request that was found well-formed.
struct Checked {
    order: OrderIndex,
    amount: Option<Amount>,
    key: Option<IdempotencyKey>,
}

impl Bank {
    /// Refuses a request that a face could not make a call of.
    pub fn turn_away(
        &mut self,
        operation: Option<Operation>,
        order: Option<&str>,
        code: RefusalCode,
    ) {
        if self.has_ended {
            return;
        }
        let order = order.and_then(|order| OrderId::new(order).ok());
        self.history.turn_away(TurnedAway { code, operation, order });
    }

    /// Makes a call of a request: numbers it, decides its fault, and lets its deliveries arrive.
    ///
    /// # Errors
    ///
    /// The answer, if it is no call, or the ledger does not hear of it before it is answered.
    pub(super) fn begin(&mut self, request: &Request<'_>) -> Result<Course, Sent> {
        if self.has_ended {
            let refusal =
                Refusal::new(RefusalCode::RunEnded, "the run has ended; it takes no further calls");
            return Err(Sent::whole(Err(refusal.into())));
        }
        let checked = self.check(request).map_err(|refusal| {
            self.turn_away(Some(request.operation), Some(request.order), refusal.code);
            Sent::whole(Err(refusal.into()))
        })?;
        let Checked { order, amount, key } = checked;
        let operation = request.operation;
        let attempt = &mut self.attempts[order.get()][operation as usize];
        *attempt += 1;
        let attempt = *attempt;
        let fault = self.injector.decide(operation, order, attempt);
        let number = self.history.call_count() + 1;
        let caller = request.caller;
        let record = CallRecord { number, operation, order, attempt, amount, key, caller };
        let call = self.history.invoke(&record, fault);
        self.dispatch(Course::new(call, record, fault), fault)
    }

    /// Checks a request in the order of the design: key, order, amount, currency.
    fn check(&self, request: &Request<'_>) -> Result<Checked, Refusal> {
        let is_refund = request.operation == Operation::Refund;
        let key = request.key.filter(|_| is_refund).map(IdempotencyKey::new).transpose()?;
        let order = self.ledger.find(request.order).ok_or_else(|| {
            let detail = format!("the ticket has no order `{}`", shorten(request.order));
            Refusal::new(RefusalCode::UnknownOrder, detail)
        })?;
        let currency = self.ledger.account(order).currency();
        let amount = match request.amount {
            _ if !is_refund => None,
            Some(AmountInput::Exact(amount)) => Some(amount),
            Some(AmountInput::Text(text)) => Some(Amount::parse(text, currency)?),
            None => Some(Amount::parse("", currency)?),
        };
        match request.currency {
            Some(named) if is_refund && named != currency.code() => {
                let detail = format!("the order is in {currency}, not in `{}`", shorten(named));
                Err(Refusal::new(RefusalCode::CurrencyMismatch, detail))
            }
            _ => Ok(Checked { order, amount, key }),
        }
    }
}
