//! The live page on 127.0.0.1: one file without outside links, fed by server-sent events.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{
        Html, IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::get,
};
use gyre_config::bill::Bill;
use tokio_stream::{Stream, StreamExt as _, wrappers::BroadcastStream};

use super::{Sample, Sampler};
use crate::{
    bill,
    failure::{Context as _, Failure, Kind, Result},
};

const PAGE: &str = include_str!("page.html");

/// Serves the page until the tool ends.
///
/// # Errors
/// When the port is taken.
pub fn serve(port: u16, sampler: Arc<Sampler>) -> Result<()> {
    let taken = |error: std::io::Error| {
        let help = "choose another with --page PORT, or none with --page 0";
        Failure::with_help(format!("the live page cannot have port {port}: {error}"), help).kind(Kind::Environment)
    };
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(taken)?;
    listener.set_nonblocking(true).context(|| "cannot prepare the live page".into())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the live page".into())?;
    let run = move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let _ = axum::serve(listener, routes(sampler, port)).await;
            }
        });
    };
    std::thread::Builder::new().name("page".into()).spawn(run).context(|| "cannot start the live page".into())?;
    Ok(())
}

/// Whether a request is meant for this page: a name that another server has pointed here (DNS rebinding), or a page of another origin, is not.
fn is_ours(headers: &HeaderMap, port: u16) -> bool {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_host = |host: &str| hosts.iter().any(|own| own == host);
    let is_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_host);
    let is_site = |site: &str| matches!(site, "same-origin" | "none");
    text("host").is_some_and(is_host)
        && text("origin").is_none_or(is_origin)
        && text("sec-fetch-site").is_none_or(is_site)
}

async fn guard(State(port): State<u16>, request: Request, next: Next) -> Response {
    match is_ours(request.headers(), port) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "this page is for http://127.0.0.1 on this host only\n").into_response(),
    }
}

fn routes(sampler: Arc<Sampler>, port: u16) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async { ([(header::CONTENT_SECURITY_POLICY, "default-src 'self' 'unsafe-inline'")], Html(PAGE)) }),
        )
        .route("/history", get(history))
        .route("/live", get(live))
        .route("/bill.json", get(bill_json))
        .route("/bill.csv", get(bill_csv))
        .with_state(sampler)
        .layer(middleware::from_fn_with_state(port, guard))
}

#[derive(serde::Serialize)]
struct History {
    machine: String,
    samples: Vec<Sample>,
}

async fn history(State(sampler): State<Arc<Sampler>>) -> Json<History> {
    Json(History { machine: sampler.machine.clone(), samples: sampler.history() })
}

async fn live(State(sampler): State<Arc<Sampler>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let samples = BroadcastStream::new(sampler.subscribe());
    // A watcher that is too slow misses samples, not the connection.
    let events = samples.filter_map(|sample| Event::default().json_data(sample.ok()?).ok()).map(Ok);
    Sse::new(events).keep_alive(KeepAlive::default())
}

async fn bill_json(State(sampler): State<Arc<Sampler>>) -> impl IntoResponse {
    match sampler.latest() {
        Some(snapshot) => Json(Bill::of(&snapshot)).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the machine's agent has not answered yet").into_response(),
    }
}

async fn bill_csv(State(sampler): State<Arc<Sampler>>) -> impl IntoResponse {
    match sampler.latest() {
        Some(snapshot) => ([(header::CONTENT_TYPE, "text/csv")], bill::csv(&Bill::of(&snapshot))).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the machine's agent has not answered yet").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let asked = |list: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            list.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
            is_ours(&headers, 8077)
        };
        let own = ("host", "127.0.0.1:8077");
        assert!(asked(&[own]) && asked(&[("host", "localhost:8077")]));
        assert!(asked(&[own, ("origin", "http://127.0.0.1:8077"), ("sec-fetch-site", "same-origin")]));
        for other in ["evil.example:8077", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8077.evil.example", ""] {
            assert!(!asked(&[("host", other)]), "{other}");
        }
        assert!(!asked(&[]) && !asked(&[own, ("origin", "http://evil.example")]) && !asked(&[own, ("origin", "null")]));
        assert!(!asked(&[own, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn the_page_links_nowhere() {
        for word in ["http://", "https://", "src=\"//", "@import"] {
            let without = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!without.contains(word), "{word}");
        }
    }
}
