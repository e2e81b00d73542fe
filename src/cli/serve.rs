//! `badbank serve`: a bank for whoever comes.

use std::net::SocketAddr;

use anyhow::{Context as _, anyhow};
use serde::Serialize;

use super::{
    arguments::ServeArguments,
    exit::{CliError, Exit},
    input, output,
};
use crate::{
    http::{ControlOptions, Server, ServerOptions},
    ticket::Ticket,
};

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    control: &'a str,
    token: &'a str,
    run: &'a str,
}

/// Serves a bank until interrupted.
pub(super) fn serve(arguments: ServeArguments) -> Result<Exit, CliError> {
    if !arguments.bind.is_loopback() && arguments.token.is_none() {
        let address = arguments.bind;
        return Err(CliError::usage(anyhow!(
            "{address} can be reached from elsewhere; set the control plane's token with --token or BADBANK_TOKEN"
        )));
    }
    let (ticket, plan) = input::task(arguments.ticket.as_deref(), &arguments.plan, arguments.seed)?;
    let ticket = ticket.unwrap_or_else(|| Ticket::generate(plan.effective_seed()));
    let token = match arguments.token {
        Some(token) => token,
        None => random_token()?,
    };
    let control = ControlOptions {
        address: SocketAddr::new(arguments.bind, arguments.control_port),
        token: token.clone(),
    };
    let options = ServerOptions {
        address: SocketAddr::new(arguments.bind, arguments.port),
        control: Some(control),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot start").map_err(CliError::could_not_run)?;
    runtime.block_on(async {
        let server = Server::bind(options).await.map_err(CliError::could_not_run)?;
        let mut interrupts = super::run::interrupts()?;
        let run = server.open_run(&ticket, plan);
        let control = server.control_url().unwrap_or_default();
        let id = run.id().to_string();
        let ready = Ready { url: &run.url(), control: &control, token: &token, run: &id };
        let line = serde_json::to_string(&ready).expect("no map has keys that are not strings");
        output::data(&(line + "\n"))?;
        let _ = interrupts.wait_for(|is_interrupted| *is_interrupted).await;
        server.shutdown().await;
        Ok(Exit::Interrupted)
    })
}

/// A token that nobody can guess.
fn random_token() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("the system gives no random bytes: {error}"))
        .map_err(CliError::could_not_run)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
