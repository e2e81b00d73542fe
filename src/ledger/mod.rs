//! Orders, refunds and keys: where money moves.
//!
//! A refund **arrives** (its key is looked up, and reserved) and **finishes** (money, key and reply in
//! one step). What is stored under a key is what the ledger answered. The ledger knows nothing of
//! faults: the bank decides which deliveries it hears of.

mod account;
mod dedupe;
mod error;
mod key;

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use self::dedupe::{InFlight, Policy};
use self::key::{KeyIndex, KeyRecord, KeyState, KeyStore};
pub use self::{
    account::Account,
    dedupe::Dedupe,
    error::LedgerError,
    key::{Caller, IdempotencyKey, KeyError},
};
use crate::{
    money::Amount,
    ticket::{OrderId, Ticket},
};

/// What the ledger does with a refund of more than is left on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverRefund {
    /// Pays it: a doubled full refund must be able to show.
    #[default]
    Allow,
    /// Refuses it.
    Reject,
}

impl OverRefund {
    /// The word in plans and histories.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Reject => "reject",
        }
    }
}

/// How a ledger treats keys and balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// What happens to keys.
    pub dedupe: Dedupe,
    /// What happens past the balance.
    pub over_refund: OverRefund,
    /// Seconds after its first use at which a key expires, under [`Dedupe::Strict`].
    pub key_ttl_s: u64,
}

/// Place of an order in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderIndex(u32);

impl OrderIndex {
    /// The place as an index, from 0 in the ticket's order.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn new(place: usize) -> Self {
        Self(u32::try_from(place).expect("a ticket has fewer than 2^32 orders"))
    }
}

/// A refund that the ledger has executed: what it answers, now and to every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The order that was paid.
    pub order: OrderIndex,
    /// Number of the refund on that order, from 1.
    pub number: u32,
    /// What was paid.
    pub amount: Amount,
    /// Whether it was accepted only, and may yet fail.
    pub is_pending: bool,
}

/// A well-formed refund on its way to the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'a> {
    /// The order to pay.
    pub order: OrderIndex,
    /// What to pay.
    pub amount: Amount,
    /// The key, if the caller sent one.
    pub key: Option<&'a IdempotencyKey>,
    /// Whose key it is.
    pub caller: Option<Caller>,
}

/// A delivery that has arrived and must be finished.
#[derive(Clone, Debug)]
#[must_use = "a delivery that is never finished holds its key for ever"]
pub struct Delivery {
    order: OrderIndex,
    amount: Amount,
    part: Part,
    is_pending: bool,
}

impl Delivery {
    /// The same delivery, to be accepted only: it may yet fail.
    pub(crate) fn pending(self) -> Self {
        Self { is_pending: true, ..self }
    }

    /// Whether it executes nothing: it waits for the delivery that holds its key.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.part, Part::Waits(_))
    }
}

/// What a delivery has to do with its key.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// There is none, or it is ignored.
    Keyless,
    /// Holds it.
    Holds(KeyIndex),
    /// Found nothing stored, and holds nothing.
    Races(KeyIndex),
    /// Waits for the delivery that holds it.
    Waits(KeyIndex),
}

/// What has become of a delivery that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// It is not finished.
    Unfinished,
    /// It was refused, and the key is free again.
    Released,
    /// It bound the key.
    Bound,
}

/// How a delivery was received.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// It executes, or waits, until it is finished.
    Pending(Delivery),
    /// Its key is known: the stored answer, again.
    Replay(Receipt),
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The money has moved.
    Committed(Receipt),
    /// Its key was bound by the delivery that it waited for.
    Replayed(Receipt),
    /// Nothing has moved.
    Refused(LedgerError),
    /// The delivery that it waits for is not finished; finish it again afterwards.
    Waits,
}

/// The orders of a ticket, with their refunds and keys.
#[derive(Clone, Debug)]
pub struct Ledger {
    settings: LedgerSettings,
    accounts: Vec<Account>,
    places: HashMap<OrderId, OrderIndex, FixedState>,
    keys: KeyStore,
}

impl Ledger {
    /// The ledger at the start of a run of `ticket`.
    pub fn open(ticket: &Ticket, settings: LedgerSettings) -> Self {
        let mut places =
            HashMap::with_capacity_and_hasher(ticket.orders().len(), FixedState::default());
        let mut accounts = Vec::with_capacity(ticket.orders().len());
        for (place, order) in ticket.orders().iter().enumerate() {
            places.insert(order.id().clone(), OrderIndex::new(place));
            accounts.push(Account::open(order));
        }
        Self { settings, accounts, places, keys: KeyStore::default() }
    }

    /// Treats keys and balances as `settings` say from now on.
    pub fn set_settings(&mut self, settings: LedgerSettings) {
        self.settings = settings;
    }

    /// Where the order of that name is.
    pub fn find(&self, order: &str) -> Option<OrderIndex> {
        self.places.get(order).copied()
    }

    /// The order at a place.
    pub fn account(&self, order: OrderIndex) -> &Account {
        &self.accounts[order.get()]
    }

    /// All orders, in the ticket's order.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Receives a delivery: looks its key up, and reserves it.
    ///
    /// # Errors
    ///
    /// Where the mode has it, [`LedgerError::KeyMismatch`], [`LedgerError::InFlight`] and stored failures.
    pub fn arrive(
        &mut self,
        instruction: Instruction<'_>,
        now_ms: u64,
    ) -> Result<Arrival, LedgerError> {
        let Instruction { order, amount, key, caller } = instruction;
        let pending =
            |part| Ok(Arrival::Pending(Delivery { order, amount, part, is_pending: false }));
        let policy = self.settings.dedupe.policy(self.settings.key_ttl_s);
        let Some((key, policy)) = key.zip(policy) else {
            return pending(Part::Keyless);
        };
        let caller = caller.filter(|_| policy.is_per_caller);
        let Some(index) = self.standing(caller, key, &policy, now_ms) else {
            let is_racy = policy.in_flight == InFlight::Races;
            let state = if is_racy { KeyState::Raced } else { KeyState::Reserved };
            let record = KeyRecord { order, amount, first_use_ms: now_ms, state };
            let index = self.keys.put(caller, key, record);
            return pending(if is_racy { Part::Races(index) } else { Part::Holds(index) });
        };
        let record = self.keys.record(index);
        if policy.checks_parameters && (record.order, record.amount) != (order, amount) {
            let account = &self.accounts[record.order.get()];
            return Err(LedgerError::KeyMismatch {
                order: account.id().clone(),
                first: account.money(record.amount),
            });
        }
        match &record.state {
            KeyState::Bound(receipt) => Ok(Arrival::Replay(*receipt)),
            KeyState::Failed(error) => Err(error.clone()),
            KeyState::Reserved if policy.in_flight == InFlight::Refused => {
                Err(LedgerError::InFlight)
            }
            KeyState::Reserved => pending(Part::Waits(index)),
            KeyState::Raced => pending(Part::Races(index)),
            KeyState::Released(_) => unreachable!("a key that is free again stands for nothing"),
        }
    }

    /// The record of a key that a delivery has to heed; none if the key is free.
    fn standing(
        &self,
        caller: Option<Caller>,
        key: &IdempotencyKey,
        policy: &Policy,
        now_ms: u64,
    ) -> Option<KeyIndex> {
        let index = self.keys.find(caller, key)?;
        let record = self.keys.record(index);
        let stands = match record.state {
            KeyState::Reserved => true,
            KeyState::Released(_) => false,
            KeyState::Raced => policy.in_flight == InFlight::Races,
            KeyState::Bound(_) | KeyState::Failed(_) => {
                let age_ms = now_ms.saturating_sub(record.first_use_ms);
                let is_fresh = policy.ttl_s.is_none_or(|ttl_s| age_ms < ttl_s.saturating_mul(1000));
                is_fresh && policy.keys_max.is_none_or(|keys| self.keys.newer_than(index) < keys)
            }
        };
        stands.then_some(index)
    }

    /// What has become of the delivery that another one waits for, if it waits for any.
    pub(crate) fn awaited(&self, delivery: &Delivery) -> Option<Awaited> {
        let Part::Waits(index) = delivery.part else { return None };
        Some(match self.keys.record(index).state {
            KeyState::Reserved | KeyState::Raced => Awaited::Unfinished,
            KeyState::Released(_) => Awaited::Released,
            KeyState::Bound(_) | KeyState::Failed(_) => Awaited::Bound,
        })
    }

    /// Ends a delivery: money, key and reply in one step.
    pub fn finish(&mut self, delivery: &Delivery) -> Finish {
        if let Part::Waits(index) = delivery.part {
            return match &self.keys.record(index).state {
                KeyState::Bound(receipt) => Finish::Replayed(*receipt),
                KeyState::Released(error) | KeyState::Failed(error) => {
                    Finish::Refused(error.clone())
                }
                // Nobody waits for a race, whose record is never reserved.
                KeyState::Reserved | KeyState::Raced => Finish::Waits,
            };
        }
        let account = &mut self.accounts[delivery.order.get()];
        match account.refund(delivery.amount, self.settings.over_refund) {
            Ok(number) => {
                let Delivery { order, amount, .. } = *delivery;
                let receipt = Receipt { order, number, amount, is_pending: delivery.is_pending };
                self.bind(delivery.part, receipt);
                Finish::Committed(receipt)
            }
            Err(error) => {
                if let Part::Holds(index) = delivery.part {
                    self.keys.record_mut(index).state = if self.stores_failures() {
                        KeyState::Failed(error.clone())
                    } else {
                        KeyState::Released(error.clone())
                    };
                }
                Finish::Refused(error)
            }
        }
    }

    /// Lets a refund that was accepted fail: its amount is free again, and its number is not given anew.
    ///
    /// # Panics
    ///
    /// If the order holds no such refund.
    pub fn revert(&mut self, order: OrderIndex, number: u32) {
        self.accounts[order.get()].revert(number);
    }

    /// Whether a mode answers with what has become of a refund, not with what was answered first.
    pub(crate) fn answers_latest(&self) -> bool {
        self.settings.dedupe == Dedupe::Paypal
    }

    /// Ends a delivery with a failure that is bound to its key: no money moves, and every repeat is
    /// answered with the failure.
    pub fn fail(&mut self, delivery: &Delivery) -> LedgerError {
        match delivery.part {
            Part::Keyless | Part::Waits(_) => {}
            Part::Holds(index) => {
                self.keys.record_mut(index).state = KeyState::Failed(LedgerError::Failed);
            }
            Part::Races(index) => {
                let record = self.keys.record_mut(index);
                if matches!(record.state, KeyState::Raced) {
                    record.state = KeyState::Failed(LedgerError::Failed);
                }
            }
        }
        LedgerError::Failed
    }

    /// Notes that a delivery that has finished was answered with a server error: where failures are
    /// stored, that is what every repeat gets.
    pub fn answered_with_error(&mut self, delivery: &Delivery) {
        if let Part::Holds(index) = delivery.part
            && self.stores_failures()
        {
            self.keys.record_mut(index).state = KeyState::Failed(LedgerError::Failed);
        }
    }

    fn stores_failures(&self) -> bool {
        let LedgerSettings { dedupe, key_ttl_s, .. } = self.settings;
        dedupe.policy(key_ttl_s).is_some_and(|policy| policy.stores_failures)
    }

    fn bind(&mut self, part: Part, receipt: Receipt) {
        match part {
            Part::Keyless | Part::Waits(_) => {}
            Part::Holds(index) => {
                let record = self.keys.record_mut(index);
                assert!(matches!(record.state, KeyState::Reserved), "only its holder binds a key");
                record.state = KeyState::Bound(receipt);
            }
            // The first of several racers to finish is the one whose reply later repeats get.
            Part::Races(index) => {
                let record = self.keys.record_mut(index);
                if matches!(record.state, KeyState::Raced) {
                    record.state = KeyState::Bound(receipt);
                }
            }
        }
    }
}
