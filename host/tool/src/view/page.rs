//! The live pages on 127.0.0.1, fed by server-sent events and JSON. No file of theirs comes from elsewhere.
//!
//! * [`serve`] gives those of one machine: the machine, each tenant at `/tenant/NAME`, its events at `/events`.
//! * [`machines`] gives those of all machines of this host, each below `/machine/NAME/`.
//! * [`watched`] is the machine that a request is about, [`tenant`] what its page says, [`assets`] the files.
//!
//! Safety: a request whose `Host`, `Origin` or `Sec-Fetch-Site` is another's is refused ([`guard`]); a page runs only scripts that are files
//! of this server, so that a text which a tenant chose never becomes one; all answers are bounded.

mod assets;
mod guard;
pub mod machines;
mod tenant;
mod watched;

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

use axum::{
    Extension, Json, Router,
    extract::Query,
    http::{StatusCode, header},
    middleware,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::get,
};
use gyre_contract::bill::Bill;
use serde::{Deserialize, Serialize};
use tokio_stream::{StreamExt as _, wrappers::BroadcastStream};

use super::{Sample, harmless::harmless, sample::Part};
use crate::{
    bill::{self, Document},
    failure::{Context as _, Failure, Kind, Result},
    machines::{events, info},
};
pub use watched::Watched;

/// Events that an answer holds at most.
const EVENTS_MAX: usize = 500;
/// Samples of all tenants that a page gets when it is opened: somewhat more than its charts show.
const SAMPLES_MAX: usize = 150;

/// Serves the pages of one machine until the tool ends.
///
/// # Errors
/// When the port is taken.
pub fn serve(port: u16, watched: Watched) -> Result<()> {
    listen(port, routes("").layer(Extension(Arc::new(watched))))
}

/// Serves pages until the tool ends.
fn listen(port: u16, routes: Router) -> Result<()> {
    let taken = |error: std::io::Error| {
        let help = "choose another with --page PORT, or none with --page 0; of gyre page with --port";
        Failure::with_help(format!("the live page cannot have port {port}: {error}"), help).kind(Kind::Environment)
    };
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(taken)?;
    listener.set_nonblocking(true).context(|| "cannot prepare the live page".into())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the live page".into())?;
    let guarded = routes.merge(assets::routes()).layer(middleware::from_fn_with_state(port, guard::guard));
    let run = move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let _ = axum::serve(listener, guarded).await;
            }
        });
    };
    std::thread::Builder::new().name("page".into()).spawn(run).context(|| "cannot start the live page".into())?;
    Ok(())
}

/// Returns the pages of a machine, each below a prefix. The machine itself comes by a layer.
fn routes(prefix: &str) -> Router {
    let at = |path: &str| format!("{prefix}{path}");
    Router::new()
        .route(&at("/"), get(|| async { assets::page(assets::MACHINE) }))
        .route(&at("/events"), get(|| async { assets::page(assets::EVENTS) }))
        .route(&at("/tenant/{tenant}"), get(|| async { assets::page(assets::TENANT) }))
        .route(&at("/tenant/{tenant}/figures.json"), get(tenant::figures))
        .route(&at("/tenant/{tenant}/log.json"), get(tenant::log))
        .route(&at("/history"), get(history))
        .route(&at("/live"), get(live))
        .route(&at("/events.json"), get(events_json))
        .route(&at("/bill.json"), get(bill_json))
        .route(&at("/bill.csv"), get(bill_csv))
}

/// Whom a request is about.
#[derive(Debug, Deserialize)]
struct Whom {
    tenant: Option<String>,
}

impl Whom {
    fn part(&self) -> Part {
        self.tenant.clone().map_or(Part::Lines, Part::Tenant)
    }
}

#[derive(Serialize)]
struct History {
    machine: String,
    /// The host's time, ms since 1970: that of the last sample.
    now_unix_ms: i64,
    /// How the machine ended; none while it runs.
    ended: Option<String>,
    samples: Vec<Sample>,
}

async fn history(Extension(watched): Extension<Arc<Watched>>, Query(whom): Query<Whom>) -> Json<History> {
    let sampler = &watched.sampler;
    let mut samples = sampler.history();
    let last = samples.pop().map(|last| if whom.tenant.is_some() { whom.part().of(last) } else { last });
    let kept = if whom.tenant.is_some() { samples.len() } else { SAMPLES_MAX };
    let first = samples.len().saturating_sub(kept);
    let samples = samples.into_iter().skip(first).map(|sample| whom.part().of(sample)).chain(last).collect();
    let (machine, ended) = (sampler.machine.clone(), watched.ended.clone());
    Json(History { machine, now_unix_ms: info::now_unix_ms(), ended, samples })
}

async fn live(Extension(watched): Extension<Arc<Watched>>, Query(whom): Query<Whom>) -> Response {
    if watched.ended.is_some() {
        // Whoever follows a stream asks again and again, but for this answer.
        return StatusCode::NO_CONTENT.into_response();
    }
    let part = whom.tenant.map_or(Part::Whole, Part::Tenant);
    let samples = BroadcastStream::new(watched.sampler.subscribe());
    // A watcher that is too slow misses samples, not the connection.
    let events = samples.filter_map(move |sample| Event::default().json_data(part.of(sample.ok()?)).ok());
    Sse::new(events.map(Ok::<Event, Infallible>)).keep_alive(KeepAlive::default()).into_response()
}

#[derive(Serialize)]
struct Events {
    /// When this run began, ms since 1970; none if that is not known.
    started_unix_ms: Option<i64>,
    /// The newest last; those of earlier runs are among them.
    events: Vec<events::Event>,
}

async fn events_json(Extension(watched): Extension<Arc<Watched>>, Query(whom): Query<Whom>) -> Response {
    let all = match events::read(&watched.folder) {
        Ok(all) => all,
        Err(failure) => return failed(&failure),
    };
    let is_wanted = |event: &events::Event| whom.tenant.is_none() || event.tenant == whom.tenant;
    let mut events: Vec<events::Event> = all.into_iter().filter(is_wanted).collect();
    events.drain(..events.len().saturating_sub(EVENTS_MAX));
    events.iter_mut().for_each(|event| event.event = harmless(&event.event));
    let started_unix_ms = info::Info::read(&watched.folder).map(|info| info.started_unix_ms);
    Json(Events { started_unix_ms, events }).into_response()
}

fn failed(failure: &Failure) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", failure.report)).into_response()
}

fn silent() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the machine's agent has not answered yet\n").into_response()
}

async fn bill_json(Extension(watched): Extension<Arc<Watched>>) -> Response {
    watched.sampler.latest().map_or_else(silent, |snapshot| Json(Document::of(Bill::of(&snapshot))).into_response())
}

async fn bill_csv(Extension(watched): Extension<Arc<Watched>>) -> Response {
    let csv = |snapshot| ([(header::CONTENT_TYPE, "text/csv")], bill::csv(&Bill::of(&snapshot))).into_response();
    watched.sampler.latest().map_or_else(silent, csv)
}
