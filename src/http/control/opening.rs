//! What a run is opened with: a ticket, a plan, a seed, each with a default.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::invalid;
use crate::{
    document::{DocumentError, Part},
    fault::{NAMED_PLANS, Plan},
    http::{body::object, wire::Problem},
    money::shorten,
    seed::Seed,
    ticket::Ticket,
};

/// What a run is to be opened with.
pub(super) struct NewRun {
    pub(super) ticket: Ticket,
    pub(super) plan: Plan,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRunDocument<'a> {
    #[serde(borrow)]
    ticket: Option<&'a RawValue>,
    #[serde(borrow)]
    plan: Option<&'a RawValue>,
    seed: Option<Seed>,
}

impl NewRun {
    /// Reads the body of a request for a run: the plan `article` and a generated ticket unless it says
    /// otherwise; its seed beats the plan's.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::from_parts(None, None, None));
        }
        let whole = Part::whole(object(body).map_err(|error| invalid(&error))?);
        let document: NewRunDocument<'_> = whole.read().map_err(|error| invalid(&error))?;
        let ticket = document
            .ticket
            .map(|raw| Ticket::read(whole.inner(raw)))
            .transpose()
            .map_err(|error| invalid(&error))?;
        let plan = document
            .plan
            .map(|raw| read_plan(whole.inner(raw), raw))
            .transpose()
            .map_err(|error| invalid(&error))?;
        Ok(Self::from_parts(ticket, plan, document.seed))
    }

    fn from_parts(ticket: Option<Ticket>, plan: Option<Plan>, seed: Option<Seed>) -> Self {
        let mut plan = plan.unwrap_or_else(Plan::article);
        if let Some(seed) = seed {
            plan = plan.seed(seed);
        }
        let ticket = ticket.unwrap_or_else(|| Ticket::generate(plan.effective_seed()));
        Self { ticket, plan }
    }
}

/// Reads a plan: an object, or the name of one that badbank brings along.
pub(super) fn read_plan(part: Part<'_>, raw: &RawValue) -> Result<Plan, DocumentError> {
    if !raw.get().starts_with('"') {
        return Plan::read(part);
    }
    let name: String = part.read()?;
    Plan::find(&name).ok_or_else(|| {
        let known = NAMED_PLANS.iter().map(|plan| plan.name).collect::<Vec<_>>().join(", ");
        part.error(format!("no plan is called `{}`; there are {known}", shorten(&name)))
    })
}
