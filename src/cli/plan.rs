//! `badbank plan`: what there is, what a plan says, what each call will meet.

use std::path::Path;

use serde::Serialize;

use super::{
    arguments::{PlanArguments, PlanCommand, PlanFormat},
    exit::{CliError, Exit},
    input, output,
};
use crate::{
    call::Operation,
    fault::{Fault, Injector, NAMED_PLANS, Plan},
    ledger::OrderIndex,
    render::columns,
    seed::Seed,
    ticket::{Order, Ticket},
};

/// Does what the command line says about plans.
pub(super) fn plan(arguments: PlanArguments) -> Result<Exit, CliError> {
    match arguments.command {
        PlanCommand::List { format } => list(format),
        PlanCommand::Show { plan } => show(&plan),
        PlanCommand::Check { plan, ticket } => check(&plan, ticket.as_deref()),
        PlanCommand::Forecast { plan, ticket, seed, attempts, format } => {
            let (ticket, plan) = input::task(ticket.as_deref(), &plan, seed)?;
            forecast(ticket, &plan, attempts, format)
        }
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
}

fn list(format: PlanFormat) -> Result<Exit, CliError> {
    let plans = NAMED_PLANS.iter().map(|plan| Listed { name: plan.name, summary: plan.summary });
    let text = match format {
        PlanFormat::Json => json(&plans.collect::<Vec<_>>()),
        PlanFormat::Text => {
            let width = NAMED_PLANS.iter().map(|plan| plan.name.len()).max().unwrap_or(0);
            plans.fold(String::new(), |text, plan| {
                format!("{text}{:width$}  {}\n", plan.name, plan.summary)
            })
        }
    };
    output::data(&text)?;
    Ok(Exit::Pass)
}

fn show(name: &str) -> Result<Exit, CliError> {
    let plan = input::plan(name)?;
    let text =
        serde_json::to_string_pretty(&plan).expect("a plan has no map whose keys are not strings");
    output::data(&(text + "\n"))?;
    Ok(Exit::Pass)
}

fn check(name: &str, ticket: Option<&Path>) -> Result<Exit, CliError> {
    let plan = input::plan(name)?;
    if let Some(path) = ticket {
        input::warn_of_lacking_orders(&plan, &input::ticket(path)?);
    }
    let rules = match plan.rules().len() {
        0 => "no rules: nothing will fail".to_owned(),
        1 => "1 rule".to_owned(),
        more => format!("{more} rules"),
    };
    output::data(&format!("{name} is sound: {rules}\n"))?;
    Ok(Exit::Pass)
}

/// What the attempts of an operation on an order will meet.
#[derive(Serialize)]
struct Outlook<'a> {
    order: &'a str,
    operation: Operation,
    attempts: Vec<Option<String>>,
}

#[derive(Serialize)]
struct Forecast<'a> {
    seed: Seed,
    calls: Vec<Outlook<'a>>,
}

fn forecast(
    ticket: Option<Ticket>,
    plan: &Plan,
    attempts: u32,
    format: PlanFormat,
) -> Result<Exit, CliError> {
    let seed = plan.effective_seed();
    let ticket = ticket.unwrap_or_else(|| Ticket::generate(seed));
    let injector = Injector::new(plan, ticket.orders().iter().map(Order::id));
    let outlook = |(place, order): (usize, &'_ Order), operation| {
        let decide = |attempt| injector.decide(operation, OrderIndex::new(place), attempt);
        (
            order.id().to_string(),
            operation,
            (1..=attempts).map(decide).collect::<Vec<Option<Fault>>>(),
        )
    };
    let calls: Vec<_> = ticket
        .orders()
        .iter()
        .enumerate()
        .flat_map(|at| Operation::ALL.map(|operation| outlook(at, operation)))
        .collect();
    let calls: Vec<Outlook<'_>> = calls
        .iter()
        .map(|(order, operation, faults)| Outlook {
            order,
            operation: *operation,
            attempts: faults.iter().map(|fault| fault.map(|fault| fault.to_string())).collect(),
        })
        .collect();
    output::data(&match format {
        PlanFormat::Json => json(&Forecast { seed, calls }),
        PlanFormat::Text => format!("seed {seed}\n{}", table(&calls, attempts)),
    })?;
    Ok(Exit::Pass)
}

fn table(calls: &[Outlook<'_>], attempts: u32) -> String {
    let head = ["order".to_owned(), "operation".to_owned()].into_iter();
    let head = head.chain((1..=attempts).map(|attempt| format!("#{attempt}")));
    let rows = calls.iter().map(|call| {
        let faults =
            call.attempts.iter().map(|fault| fault.clone().unwrap_or_else(|| "-".to_owned()));
        [call.order.to_owned(), call.operation.to_string()].into_iter().chain(faults).collect()
    });
    columns(&std::iter::once(head.collect()).chain(rows).collect::<Vec<_>>())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("no map has keys that are not strings") + "\n"
}
