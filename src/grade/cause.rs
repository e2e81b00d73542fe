//! Why a refund is too many, or is missing.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    Finding,
    facts::{CallFacts, Commit, End, Heard, OrderFacts},
    judge::{Match, Surplus},
};
use crate::{
    history::{Replayed, Silence},
    money::Amount,
    ticket::Order,
};

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $sentence:literal;)*) => {
        /// Why a refund is too many, or is missing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Cause {
            $($(#[$doc])* $variant,)*
        }

        impl Cause {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word in grades.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// The cause in a plain sentence.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$variant => $sentence,)*
                }
            }
        }
    };
}

causes! {
    /// Two deliveries with one key overlapped, and the ledger reserves nothing.
    RacyDedupe = "racy_dedupe",
        "Two deliveries with one key overlapped; the ledger looks keys up but does not reserve them.";
    /// The network delivered the request twice.
    DuplicateDelivery = "duplicate_delivery",
        "The network delivered the request twice and both were paid; only a key that the ledger honours helps.";
    /// One of the two reached the ledger after its caller had given up.
    LateCommit = "late_commit",
        "An unanswered request reached the ledger later, after the order had been checked and paid again.";
    /// The program under test was started again in between.
    RepeatAfterCrash = "repeat_after_crash",
        "The program died after the refund, was started again, and no longer knew of it.";
    /// Both bore the same key, and the ledger ignores keys.
    KeyIgnored = "key_ignored",
        "Both requests bore the same key, but the ledger ignores keys.";
    /// Both bore the same key, and the ledger no longer knew it.
    KeyExpired = "key_expired",
        "Both requests bore the same key, but the ledger no longer knew it when the second came.";
    /// Both bore a key, not the same one.
    KeyChanged = "key_changed",
        "It was sent again under another key, so the ledger took it for a new refund.";
    /// The caller looked before it repeated, and was shown an old state.
    StaleRead = "stale_read",
        "The order was read before it was paid again, but the read was stale and did not show the refund.";
    /// The repeat was sent before the first was answered.
    RepeatInFlight = "repeat_in_flight",
        "It was sent again while the first was under way, with no key to tell that they are one.";
    /// The repeat was sent after the first was not answered.
    RepeatAfterTimeout = "repeat_after_timeout",
        "The first was paid but its reply was lost; it was sent again with no key to tell that they are one.";
    /// The repeat was sent after the first was answered with an error.
    RepeatAfterError = "repeat_after_error",
        "The first was paid but its caller got an error; it was sent again with no key to tell that they are one.";
    /// The repeat was sent after the first was answered.
    RepeatAfterSuccess = "repeat_after_success",
        "The refund was already there for the caller to see, and was asked for again.";
    /// The refund repeats none: its amount, or any refund of the order, was never expected.
    OtherAmount = "other_amount",
        "No refund of this amount was expected on the order.";
    /// Nothing was asked for.
    NeverTried = "never_tried",
        "The refund was never asked for.";
    /// The answer of another refund was replayed.
    SwallowedByKey = "swallowed_by_key",
        "It bore a key that another refund had used, so that refund's reply was all it got.";
    /// It was accepted, and failed afterwards.
    FailedLater = "failed_later",
        "The bank accepted the refund and answered that it was pending; it failed later, and nobody looked.";
    /// The bank refused.
    Refused = "refused",
        "The bank refused the request.";
    /// Only faults were met.
    GaveUp = "gave_up",
        "Every request failed before it reached the ledger, and the program stopped trying.";
}

/// The causes of everything that is wrong with an order.
pub(super) fn find(facts: &OrderFacts, matched: &Match, order: &Order) -> Vec<Finding> {
    let commits = facts.commits();
    let mut findings: Vec<Finding> = matched
        .surplus
        .iter()
        .flat_map(|(amount, surplus)| extras(facts, &commits, *amount, *surplus))
        .collect();
    findings.sort_by_key(|finding| finding.refund);
    let mut used = Vec::new();
    for amount in &matched.missing {
        let (cause, calls) = missed(facts, &commits, *amount, order, &mut used);
        let calls = calls.into_iter().map(|call| call.id.clone()).collect();
        findings.push(Finding {
            refund: None,
            missing: Some(amount.display(order.currency())),
            cause,
            calls,
        });
    }
    findings
}

/// The causes of the refunds too many of one amount.
fn extras(
    facts: &OrderFacts,
    commits: &[Commit<'_>],
    amount: Amount,
    surplus: Surplus,
) -> Vec<Finding> {
    let equal: Vec<Commit<'_>> =
        commits.iter().copied().filter(|commit| commit.call.amount == Some(amount)).collect();
    let mut ranked = equal.clone();
    // Second deliveries first, then repeated keys, then the rest; the latest of each first.
    ranked.sort_by_key(|commit| {
        // A second delivery is one too many only if the first has paid.
        let is_second = commits
            .iter()
            .any(|earlier| earlier.at < commit.at && earlier.call.id == commit.call.id);
        let bears_known_key =
            commits.iter().any(|earlier| earlier.at < commit.at && has_same_key(earlier, commit));
        let rank = if is_second {
            0
        } else if bears_known_key {
            1
        } else {
            2
        };
        (rank, Reverse(commit.at))
    });
    let extras = ranked.iter().take(surplus.extra);
    extras
        .map(|extra| {
            let original = original(extra, &equal);
            let cause = match original {
                Some(original) => repeat(facts, original, extra),
                None if surplus.held > 0 => repeat_of_held(facts, extra),
                None => Cause::OtherAmount,
            };
            let mut calls = vec![extra.call.id.clone()];
            if let Some(original) = original.filter(|original| original.call.id != extra.call.id) {
                calls.insert(0, original.call.id.clone());
            }
            Finding { refund: Some(extra.refund), missing: None, cause, calls }
        })
        .collect()
}

/// What a refund repeats of those that are equal to it: the first delivery of its call, the first refund under
/// its key, or the one before it.
fn original<'a>(extra: &Commit<'_>, equal: &[Commit<'a>]) -> Option<Commit<'a>> {
    let earlier = |commit: &&Commit<'a>| commit.at < extra.at;
    let same_call = equal.iter().filter(earlier).find(|commit| commit.call.id == extra.call.id);
    let same_key = || equal.iter().filter(earlier).find(|commit| has_same_key(commit, extra));
    same_call.or_else(same_key).or_else(|| equal.iter().rfind(earlier)).copied()
}

fn has_same_key(one: &Commit<'_>, other: &Commit<'_>) -> bool {
    one.call.key.is_some() && one.call.key == other.call.key
}

/// Why `extra` was executed although `original` had been.
fn repeat(facts: &OrderFacts, original: Commit<'_>, extra: &Commit<'_>) -> Cause {
    let dedupe = extra.delivery.dedupe;
    let is_same_key = has_same_key(&original, extra);
    let overlap = extra.delivery.arrived < original.at;
    let has_crashed =
        facts.crashes.iter().any(|at| original.call.invoked < *at && *at < extra.call.invoked);
    if is_same_key && overlap && dedupe.may_race() {
        Cause::RacyDedupe
    } else if original.call.id == extra.call.id {
        Cause::DuplicateDelivery
    } else if original.delivery.is_late || extra.delivery.is_late {
        Cause::LateCommit
    } else if has_crashed {
        Cause::RepeatAfterCrash
    } else if is_same_key && dedupe.forgets_keys() {
        Cause::KeyExpired
    } else if is_same_key {
        Cause::KeyIgnored
    } else if original.call.key.is_some() && extra.call.key.is_some() {
        Cause::KeyChanged
    } else if has_stale_read(facts, original, extra) {
        Cause::StaleRead
    } else {
        match original.call.heard_by(extra.call.invoked) {
            None => Cause::RepeatInFlight,
            Some(Heard::Nothing(Silence::Timeout | Silence::Left)) => Cause::RepeatAfterTimeout,
            Some(Heard::Nothing(_) | Heard::Failed(_)) => Cause::RepeatAfterError,
            Some(Heard::Ok) => Cause::RepeatAfterSuccess,
        }
    }
}

/// Why `extra` was executed although the order held an equal refund before the run.
fn repeat_of_held(facts: &OrderFacts, extra: &Commit<'_>) -> Cause {
    if extra.delivery.is_late {
        Cause::LateCommit
    } else if facts.crashes.iter().any(|at| *at < extra.call.invoked) {
        Cause::RepeatAfterCrash
    } else {
        Cause::RepeatAfterSuccess
    }
}

/// Whether the last read that was answered between the two showed an old state.
fn has_stale_read(facts: &OrderFacts, original: Commit<'_>, extra: &Commit<'_>) -> bool {
    let between = original.call.invoked..extra.call.invoked;
    let reads = facts.calls.iter().filter(|call| !call.is_refund());
    let shown =
        reads.filter_map(|call| call.answer.zip(call.shown).map(|((at, _), shown)| (at, shown)));
    let last = shown.filter(|(at, _)| between.contains(at)).max_by_key(|(at, _)| *at);
    last.is_some_and(|(_, shown)| shown.hidden > 0)
}

/// Whether all that a call got was the reply of an equal refund, which it repeated.
fn is_own_replay(call: &CallFacts, commits: &[Commit<'_>]) -> bool {
    let is_of = |of: Replayed, commit: &Commit<'_>| {
        let paid = commit.call;
        commit.refund == of.number && paid.key == call.key && paid.amount == call.amount
    };
    call.deliveries.iter().any(|delivery| match delivery.end {
        Some((_, End::Replayed(of))) => commits.iter().any(|commit| is_of(of, commit)),
        _ => false,
    })
}

/// Why an expected refund is missing, and the calls that tried; each that was deceived explains one.
///
/// Those that asked for the amount tried, or else those that asked for one that nobody expected, and did not only
/// repeat a refund that had been paid.
fn missed<'a>(
    facts: &'a OrderFacts,
    commits: &[Commit<'_>],
    amount: Amount,
    order: &Order,
    used: &mut Vec<&'a CallFacts>,
) -> (Cause, Vec<&'a CallFacts>) {
    let has_paid = |call: &CallFacts| {
        call.deliveries.iter().any(|delivery| matches!(delivery.end, Some((_, End::Committed(_)))))
    };
    let is_used = |call: &CallFacts| used.iter().any(|other| other.id == call.id);
    let is_in_vain = |call: &&CallFacts| call.is_refund() && !has_paid(call) && !is_used(call);
    let tried: Vec<&CallFacts> = facts.calls.iter().filter(is_in_vain).collect();
    let (of_amount, others): (Vec<&CallFacts>, Vec<&CallFacts>) =
        tried.into_iter().partition(|call| call.amount == Some(amount));
    let is_astray = |call: &&CallFacts| {
        let is_expected = call.amount.is_some_and(|asked| order.expect().contains(&asked));
        !is_expected && !is_own_replay(call, commits)
    };
    let tried = if of_amount.is_empty() {
        others.into_iter().filter(is_astray).collect()
    } else {
        of_amount
    };
    // Of what looked like a refund and was none, the last: a replay of one that failed only afterwards told the
    // truth, and one of what had failed before did not.
    let deceptions = tried.iter().flat_map(|call| {
        let ends = call.deliveries.iter().filter_map(|delivery| delivery.end);
        ends.filter_map(move |(at, end)| match end {
            End::Replayed(_) => Some((at, Cause::SwallowedByKey, *call)),
            End::Reverted(_) => Some((at, Cause::FailedLater, *call)),
            End::Committed(_) | End::Refused(_) => None,
        })
    });
    if let Some((_, cause, call)) = deceptions.max_by_key(|(at, ..)| *at) {
        used.push(call);
        return (cause, vec![call]);
    }
    let is_refused = |call: &&&CallFacts| {
        call.deliveries.iter().any(|delivery| matches!(delivery.end, Some((_, End::Refused(_)))))
    };
    if let Some(call) = tried.iter().rfind(is_refused).copied() {
        return (Cause::Refused, vec![call]);
    }
    if !tried.is_empty() {
        return (Cause::GaveUp, tried);
    }
    let cause = if facts.turned_away.is_empty() { Cause::NeverTried } else { Cause::Refused };
    (cause, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_written_as_its_word() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_string(cause).unwrap(), format!("\"{}\"", cause.as_str()));
        }
    }
}
