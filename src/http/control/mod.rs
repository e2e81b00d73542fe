//! The control plane: runs, plans, clocks, logs and grades.
//!
//! It wants a bearer token, and refuses whatever a browser sends on behalf of a page.

mod evidence;
mod opening;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::opening::{NewRun, read_plan};
use super::{
    body::{Failure, object, read_body, readable},
    connection::{Link, Lost},
    data::{method_not_allowed, not_found},
    routes::normal,
    run::{Run, Runs},
    wire::{self, Body, Problem},
};
use crate::{
    bank::PlanChangeError,
    call::{Refusal, RefusalCode},
    document::Part,
    money::shorten,
    seed::Seed,
};

/// Bytes of a body at the most: a ticket may have many orders.
const BODY_MAX: u64 = 16 << 20;

/// What answers on the control plane's listener.
pub(super) struct ControlPlane {
    runs: Arc<Runs>,
    token: String,
}

/// A resource of the control plane.
#[derive(Clone, Copy)]
enum Route {
    Health,
    Runs,
    Run,
    Reset,
    Plan,
    Clock,
    Faults,
    History,
    Grade,
}

impl Route {
    /// The resource that a path names, and the name of its run.
    fn find(path: &str) -> Option<(Self, &str)> {
        match path {
            "/healthz" => return Some((Self::Health, "")),
            "/runs" => return Some((Self::Runs, "")),
            _ => {}
        }
        let rest = path.strip_prefix("/runs/")?;
        let (run, resource) = rest.split_once('/').unwrap_or((rest, ""));
        let route = match resource {
            "" if !rest.ends_with('/') => Self::Run,
            "reset" => Self::Reset,
            "plan" => Self::Plan,
            "clock" => Self::Clock,
            "faults" => Self::Faults,
            "history" => Self::History,
            "grade" => Self::Grade,
            _ => return None,
        };
        Some((route, run))
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Health | Self::Faults | Self::History => "GET",
            Self::Runs | Self::Grade => "GET, POST",
            Self::Run => "GET, DELETE",
            Self::Reset | Self::Clock => "POST",
            Self::Plan => "PUT",
        }
    }

    fn allows(self, method: &Method) -> bool {
        self.allowed().split(", ").any(|allowed| allowed == method.as_str())
    }
}

impl ControlPlane {
    pub(super) fn new(runs: Arc<Runs>, token: &str) -> Self {
        Self { runs, token: token.to_owned() }
    }

    /// Answers a request on the control plane.
    pub(super) async fn handle(
        self: Arc<Self>,
        link: Arc<Link>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Lost> {
        let (head, mut body) = request.into_parts();
        let response = self.response(&link, &head, &mut body).await?;
        Ok(readable(response, &head.headers, body, &link).await)
    }

    async fn response(
        &self,
        link: &Link,
        head: &Parts,
        body: &mut Incoming,
    ) -> Result<Response<Body>, Lost> {
        if is_from_browser(&head.headers) {
            return Ok(forbidden());
        }
        let path = normal(head.uri.path());
        let route = Route::find(&path);
        if !matches!(route, Some((Route::Health, _))) && !self.is_authorized(&head.headers) {
            return Ok(unauthorized());
        }
        let Some((route, name)) = route else {
            return Ok(Problem::from(not_found(head.uri.path())).response());
        };
        if !route.allows(&head.method) {
            return Ok(method_not_allowed(&head.method, &route.allowed()));
        }
        let body = match read_body(body, link, BODY_MAX).await {
            Ok(body) => body,
            Err(Failure::Late) => return Err(Lost),
            Err(Failure::Refused(refusal)) => return Ok(Problem::from(refusal).response()),
        };
        let response = self.answer(route, name, head, &body);
        Ok(response.unwrap_or_else(|problem| problem.response()))
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let credential = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '));
        credential.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer")
                && !self.token.is_empty()
                && token.trim_start() == self.token
        })
    }

    fn answer(
        &self,
        route: Route,
        name: &str,
        head: &Parts,
        body: &Bytes,
    ) -> Result<Response<Body>, Problem> {
        match route {
            Route::Health => return Ok(wire::json(StatusCode::OK, &Health { status: "ok" })),
            Route::Runs if head.method == Method::POST => return self.open(body),
            Route::Runs => return Ok(self.list()),
            _ => {}
        }
        let run = self.runs.find(name).ok_or_else(|| {
            let detail = format!("there is no run `{}`", shorten(name));
            Refusal::new(RefusalCode::UnknownRun, detail)
        })?;
        match route {
            Route::Run if head.method == Method::DELETE => {
                self.runs.remove(&run);
                Ok(wire::no_content())
            }
            Route::Reset => {
                self.runs.reset(&run);
                Ok(wire::no_content())
            }
            Route::Plan => set_plan(&run, body),
            Route::Clock => set_clock(&run, body),
            Route::Faults => evidence::faults(&run, head),
            Route::History => Ok(evidence::history(&run, &head.headers)),
            Route::Grade => Ok(evidence::grade(&run, head, body)),
            Route::Run | Route::Runs | Route::Health => {
                Ok(wire::json(StatusCode::OK, &self.summary(&run)))
            }
        }
    }

    fn open(&self, body: &Bytes) -> Result<Response<Body>, Problem> {
        let NewRun { ticket, plan } = NewRun::read(body)?;
        let warnings = plan.warnings(&ticket);
        let run = self.runs.open(&ticket, plan);
        let opened = Opened { id: run.id().to_string(), url: self.runs.url(run.id()), warnings };
        Ok(wire::json(StatusCode::CREATED, &opened))
    }

    fn list(&self) -> Response<Body> {
        let runs = self.runs.list();
        let runs = runs.iter().map(|run| self.summary(run)).collect();
        wire::json(StatusCode::OK, &RunList { runs })
    }

    fn summary(&self, run: &Run) -> Summary {
        let url = self.runs.url(run.id());
        run.with_bank(|bank| Summary {
            id: run.id().to_string(),
            url,
            ticket: bank.ticket().id().to_string(),
            plan: bank.plan().name().map(str::to_owned),
            seed: bank.plan().effective_seed(),
            calls: bank.history().call_count(),
            now_ms: bank.now_ms(),
            ended: bank.has_ended(),
        })
    }
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Serialize)]
struct Opened {
    id: String,
    url: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct PlanBody {
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct RunList {
    runs: Vec<Summary>,
}

#[derive(Serialize)]
struct Summary {
    id: String,
    url: String,
    ticket: String,
    plan: Option<String>,
    seed: Seed,
    calls: u64,
    now_ms: u64,
    ended: bool,
}

fn set_plan(run: &Run, body: &Bytes) -> Result<Response<Body>, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| invalid(&"the body is not UTF-8"))?;
    let whole = Part::whole(text);
    let raw: &RawValue = whole.read().map_err(|error| invalid(&error))?;
    let plan = read_plan(whole.inner(raw), raw).map_err(|error| invalid(&error))?;
    let set = run.with_bank(|bank| {
        let warnings = plan.warnings(bank.ticket());
        bank.set_plan(plan).map(|()| warnings)
    });
    match set {
        Ok(warnings) if warnings.is_empty() => Ok(wire::no_content()),
        Ok(warnings) => Ok(wire::json(StatusCode::OK, &PlanBody { warnings })),
        Err(error @ PlanChangeError::RunEnded) => {
            Err(Refusal::new(RefusalCode::RunEnded, error).into())
        }
        Err(error @ PlanChangeError::OtherSeed { .. }) => Err(invalid(&error)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockDocument {
    advance_ms: u64,
}

#[derive(Serialize)]
struct ClockBody {
    now_ms: u64,
}

fn set_clock(run: &Run, body: &Bytes) -> Result<Response<Body>, Problem> {
    let text = object(body).map_err(|error| invalid(&error))?;
    let ClockDocument { advance_ms } = Part::whole(text).read().map_err(|error| invalid(&error))?;
    let now_ms = run.advance(Duration::from_millis(advance_ms));
    Ok(wire::json(StatusCode::OK, &ClockBody { now_ms }))
}

/// Whether a browser sent it on behalf of a page.
fn is_from_browser(headers: &HeaderMap) -> bool {
    let is_foreign = |site: &HeaderValue| site != "none" && site != "same-origin";
    headers.contains_key(header::ORIGIN) || headers.get("sec-fetch-site").is_some_and(is_foreign)
}

fn forbidden() -> Response<Body> {
    let problem = Problem {
        status: StatusCode::FORBIDDEN,
        code: "forbidden_origin",
        detail: "the control plane takes no requests from web pages".to_owned(),
    };
    problem.response()
}

fn unauthorized() -> Response<Body> {
    let problem = Problem {
        status: StatusCode::UNAUTHORIZED,
        code: "unauthorized",
        detail: "the control plane wants the bearer token that the server was started with"
            .to_owned(),
    };
    let mut response = problem.response();
    let bearer = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    response
}

fn invalid(what: &impl ToString) -> Problem {
    Refusal::new(RefusalCode::InvalidBody, what.to_string()).into()
}
