//! Failures in a row against failures within an hour.
//!
//! Two tables: what the source's own log of a morning comes to under either rule, and how soon either rule
//! notices a backend that fails now and then, for fleets of one to sixteen workers.

mod fleet;
mod timeline;

use serde::Serialize;

pub use self::{
    fleet::{Arm, Fleet, FleetRow, fleet},
    timeline::{Timeline, TimelineRow, timeline},
};
use super::{Figure, Settings, Sheet};
use crate::harness::Policy;

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
const STREAK: Policy = Policy::Streak { failures: 3 };
const WINDOW: Policy = Policy::Window { failures: 3, within: HOUR };

/// Both tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breaker {
    /// The source's log under either rule.
    pub timeline: Timeline,
    /// Fleets under either rule.
    pub fleet: Fleet,
}

/// Makes both tables; a ticket of the settings is one run of a fleet.
///
/// # Determinism
///
/// Everything follows from the number of tickets and the seed.
pub fn run(settings: &Settings<'_>) -> Breaker {
    Breaker { timeline: timeline(), fleet: fleet(settings) }
}

impl Sheet for Breaker {
    fn title(&self) -> String {
        self.fleet.title()
    }

    fn header(&self) -> Vec<&'static str> {
        self.fleet.header()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.fleet.rows()
    }

    fn figures(&self) -> Vec<Figure> {
        let timeline = self.timeline.figures().into_iter();
        timeline.chain(self.fleet.figures()).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.fleet.notes()
    }

    fn text(&self) -> String {
        format!("{}\n{}", self.timeline.text(), self.fleet.text())
    }
}
