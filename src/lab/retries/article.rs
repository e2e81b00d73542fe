//! The four arms, and what the source reports of each (A, step 2).

use crate::harness::Design;

/// Tickets of an arm in the source.
pub(super) const TICKETS: u64 = 30;

/// An arm.
pub(super) struct Arm {
    pub(super) name: &'static str,
    pub(super) design: Design,
    pub(super) article: Article,
}

/// The source's figures of an arm; none where it gives none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Article {
    pub(super) double_tickets: u64,
    pub(super) extra_refunds: u64,
    /// Why they were too many, by our names.
    pub(super) causes: &'static [(&'static str, u64)],
    pub(super) clean_tickets: Option<u64>,
    pub(super) calls: Option<f64>,
    pub(super) wait_s: Option<f64>,
    /// Of the tickets with a double refund.
    pub(super) false_reports: Option<u64>,
    /// Of all timeouts.
    pub(super) looks: Option<(u64, u64)>,
    /// Of all refunds that were sent again.
    pub(super) same_keys: Option<(u64, u64)>,
}

const NOTHING: Article = Article {
    double_tickets: 0,
    extra_refunds: 0,
    causes: &[],
    clean_tickets: None,
    calls: None,
    wait_s: None,
    false_reports: None,
    looks: None,
    same_keys: None,
};

pub(super) const ARMS: [Arm; 4] = [
    Arm {
        name: "model_only",
        design: Design::ModelOnly,
        article: Article {
            double_tickets: 19,
            extra_refunds: 29,
            // The second is the slip: it took another call's error for that of a refund that had timed out.
            causes: &[("duplicate_delivery", 28), ("repeat_after_timeout", 1)],
            calls: Some(6.0),
            false_reports: Some(7),
            looks: Some((45, 45)),
            ..NOTHING
        },
    },
    Arm {
        name: "retries",
        design: Design::Retries,
        article: Article {
            double_tickets: 28,
            extra_refunds: 72,
            clean_tickets: Some(2),
            false_reports: Some(10),
            ..NOTHING
        },
    },
    Arm {
        name: "keyed",
        design: Design::Keyed,
        article: Article {
            clean_tickets: Some(30),
            calls: Some(3.4),
            wait_s: Some(1.4),
            ..NOTHING
        },
    },
    Arm {
        name: "model_key",
        design: Design::ModelKey,
        article: Article {
            clean_tickets: Some(30),
            calls: Some(5.8),
            same_keys: Some((7, 7)),
            ..NOTHING
        },
    },
];

/// The faults that the source met in a ticket: the least and the most of its arms.
pub(super) const TRANSIENTS: &str = "3.3 to 3.6";
pub(super) const TIMEOUTS: &str = "1.5 to 1.8";
pub(super) const DUPLICATES: &str = "0.9 to 1.0";

impl Article {
    /// Refunds too many that the source puts down to a cause.
    pub(super) fn cause(&self, name: &str) -> Option<u64> {
        self.causes.iter().find(|(cause, _)| *cause == name).map(|(_, count)| *count)
    }
}
