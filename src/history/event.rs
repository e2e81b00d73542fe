//! What can happen in a run.

use super::Armed;
use crate::{
    call::{Operation, RefusalCode},
    fault::{Fault, PlanSettings},
    ledger::{Caller, IdempotencyKey, OrderIndex},
    money::Amount,
    ticket::OrderId,
};

/// Place of a call in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallIndex(pub(super) u32);

impl CallIndex {
    /// A call of which the history keeps nothing, since it was full.
    pub(super) const DROPPED: Self = Self(u32::MAX);
}

/// What a call asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Number of the call in order of arrival, from 1.
    pub number: u64,
    /// What was asked.
    pub operation: Operation,
    /// About which order.
    pub order: OrderIndex,
    /// Number of the call among those of its operation on its order, from 1.
    pub attempt: u32,
    /// The refund asked for.
    pub amount: Option<Amount>,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Whose key it is.
    pub caller: Option<Caller>,
}

/// A request that was refused at the door, and so is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// Why.
    pub code: RefusalCode,
    /// What was asked, if that could be told.
    pub operation: Option<Operation>,
    /// About which order, if that could be told.
    pub order: Option<OrderId>,
}

/// What the plan was changed to in mid-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// How the bank behaves from here on, apart from its faults.
    pub settings: PlanSettings,
    /// The faults to be expected from here on.
    pub armed: Armed,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A call came.
    Invoke(CallIndex),
    /// The injector did something to it.
    Fault(CallIndex, Fault),
    /// A delivery of it reached the ledger.
    Arrive(CallIndex, Delivery),
    /// A late delivery of it reached the ledger.
    Land(CallIndex, Delivery),
    /// A delivery of it moved money.
    Commit(CallIndex, Delivery, RefundNumber),
    /// The refund that it was accepted as has failed.
    Revert(CallIndex, RefundNumber),
    /// A delivery of it found its key bound: the answer is an earlier refund's.
    Replay(CallIndex, Delivery, Replayed),
    /// The ledger refused a delivery of it.
    Refuse(CallIndex, Delivery, RefusalCode),
    /// It was answered.
    Ok(CallIndex, Option<Shown>),
    /// It was answered that it did not happen.
    Fail(CallIndex, Failure),
    /// It was not answered: nobody can know.
    Info(CallIndex, Silence),
    /// A request was refused at the door.
    TurnedAway(Box<TurnedAway>),
    /// The plan was changed.
    Plan(Box<PlanChange>),
    /// The program under test was killed and started again.
    Crash,
    /// The program under test reported.
    Report(Box<str>),
    /// The run ended.
    Settle,
}

impl Event {
    /// The call that it happened to.
    pub const fn call(&self) -> Option<CallIndex> {
        match self {
            Self::Invoke(call)
            | Self::Fault(call, _)
            | Self::Arrive(call, _)
            | Self::Land(call, _)
            | Self::Commit(call, ..)
            | Self::Revert(call, _)
            | Self::Replay(call, ..)
            | Self::Refuse(call, ..)
            | Self::Ok(call, _)
            | Self::Fail(call, _)
            | Self::Info(call, _) => Some(*call),
            _ => None,
        }
    }
}

/// Number of a delivery of a call, from 1.
pub type Delivery = u8;
/// Number of a refund on its order, from 1.
pub type RefundNumber = u32;

/// The refund whose answer was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Its order, which under `first_reply` may be another.
    pub order: OrderIndex,
    /// Its number on that order.
    pub number: RefundNumber,
}

/// What a read showed of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The refunds that it showed.
    pub refunds: u32,
    /// Commits of this run that a stale read left out.
    pub hidden: u32,
}

/// What a caller was told that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The service was unavailable.
    Unavailable,
    /// There were too many requests.
    RateLimited,
    /// The ledger refused.
    Refused(RefusalCode),
}

/// Why a caller heard nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The answer was lost, or there was none.
    Timeout,
    /// The caller had left.
    Left,
    /// The connection broke, or the answer was incomplete.
    Broken,
    /// Something went wrong inside, it was told.
    ServerError,
}
