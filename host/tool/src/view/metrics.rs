//! The figures of a machine for Prometheus, over TCP: those of its agents, and those of the host's side.
//!
//! On a loopback address everyone of this host may read them; on any other address a token is needed
//! (`Authorization: Bearer TOKEN`, which Prometheus sends with `authorization.credentials_file`).
//! Each instance of a machine with zones has a label `zone`, the first one none.

use std::{net::SocketAddr, path::Path, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{
    agent::Agent,
    failure::{Context as _, Failure, Kind, Result},
    outbound::{self, Figures},
};

/// The kind of text that Prometheus expects.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The shortest token that is taken, bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// The sources of what is served.
pub struct Source {
    /// The agents, and the zone of each but the first.
    pub agents: Vec<(Option<String>, Agent)>,
    /// The way out, if a tenant has one.
    pub router: Option<Arc<outbound::Router>>,
    /// The token that is asked for.
    pub token: Option<String>,
}

/// Reads a token from a file: its first line.
///
/// # Errors
/// When it cannot be read, or is shorter than a token should be.
pub fn token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    match token.len() >= TOKEN_BYTES_MIN {
        true => Ok(token),
        false => {
            let message = format!("the token in {} has fewer than {TOKEN_BYTES_MIN} bytes", path.display());
            Err(Failure::with_help(message, "make one with: openssl rand -hex 32"))
        }
    }
}

/// Serves the figures until the tool ends.
///
/// # Errors
/// When the address is taken, or is no loopback address and there is no token.
pub fn serve(at: SocketAddr, source: Source) -> Result<()> {
    if source.token.is_none() && !at.ip().is_loopback() {
        let message = format!("the figures at {at} would be everyone's to read");
        return Err(Failure::with_help(message, "give a --metrics-token FILE, or take an address such as 127.0.0.1"));
    }
    let taken = |error: std::io::Error| {
        let help = "choose another with --metrics ADDRESS:PORT";
        Failure::with_help(format!("the figures cannot be served at {at}: {error}"), help).kind(Kind::Environment)
    };
    let listener = std::net::TcpListener::bind(at).map_err(taken)?;
    listener.set_nonblocking(true).context(|| "cannot prepare the figures".into())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot serve the figures".into())?;
    let run = move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let routes = Router::new().route("/metrics", get(metrics)).with_state(Arc::new(source));
                let _ = axum::serve(listener, routes).await;
            }
        });
    };
    std::thread::Builder::new().name("metrics".into()).spawn(run).context(|| "cannot serve the figures".into())?;
    Ok(())
}

async fn metrics(State(source): State<Arc<Source>>, headers: HeaderMap) -> Response {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !may_read(source.token.as_deref(), given) {
        let ask = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, ask, "a token is needed: Authorization: Bearer TOKEN\n").into_response();
    }
    let answer = tokio::task::spawn_blocking(move || text(&source)).await;
    match answer.unwrap_or_else(|error| Err(Failure::new(error.to_string()))) {
        Ok(text) => ([(header::CONTENT_TYPE, KIND)], text).into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", failure.report)).into_response(),
    }
}

/// Returns whether a request has the token. Every byte is compared, so that time tells nothing of those that are right.
fn may_read(token: Option<&str>, given: Option<&str>) -> bool {
    let Some(token) = token else { return true };
    let given = given.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default().trim();
    let differ = token.bytes().zip(given.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    token.len() == given.len() && differ == 0
}

fn text(source: &Source) -> Result<String> {
    let page = |(zone, agent): &(Option<String>, Agent)| Ok(labelled(&agent.get("/metrics")?, zone.as_deref()));
    // A zone that is down has no figures; the others have theirs.
    let wanted = |answer: &Result<String>, zone: &Option<String>| answer.is_ok() || zone.is_none();
    let answers = source.agents.iter().map(|one| (page(one), &one.0)).filter(|(answer, zone)| wanted(answer, zone));
    let pages = answers.map(|(answer, _)| answer).collect::<Result<Vec<String>>>()?;
    let figures = source.router.as_ref().map(|router| router.figures()).unwrap_or_default();
    Ok(merged(&pages) + &of_outbound(&figures))
}

/// Adds a zone's label to each sample of a page.
fn labelled(page: &str, zone: Option<&str>) -> String {
    let Some(zone) = zone else { return page.to_owned() };
    let sample = |line: &str| match line.find(['{', ' ']) {
        _ if line.starts_with('#') || line.is_empty() => line.to_owned(),
        Some(at) if line[at..].starts_with('{') => format!("{}{{zone=\"{zone}\",{}", &line[..at], &line[at + 1..]),
        Some(at) => format!("{}{{zone=\"{zone}\"}}{}", &line[..at], &line[at..]),
        None => line.to_owned(),
    };
    page.lines().map(|line| sample(line) + "\n").collect()
}

/// Puts the pages of several instances together: the samples of a family stand behind one head, as the format demands.
fn merged(pages: &[String]) -> String {
    if let [only] = pages {
        return only.clone();
    }
    let mut families: Vec<(String, String)> = vec![];
    for page in pages {
        let mut name = String::new();
        for line in page.lines() {
            let word = |at: usize| line.split(' ').nth(at).unwrap_or_default().to_owned();
            let is_head = line.starts_with("# ");
            if is_head {
                name = word(2);
            }
            let at = families.iter().position(|(other, _)| *other == name);
            let is_new = at.is_none();
            let at = at.unwrap_or_else(|| {
                families.push((name.clone(), String::new()));
                families.len() - 1
            });
            let text = &mut families[at].1;
            let has_head = !is_new && is_head && text.lines().any(|other| other == line);
            if !has_head {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    families.into_iter().map(|(_, text)| text).collect()
}

/// Writes the figures of the way out.
fn of_outbound(figures: &[Figures]) -> String {
    type Value = fn(&Figures) -> u64;
    const FAMILIES: &[(&str, &str, Value)] = &[
        ("connections", "Connections and flows of datagrams that went the tenant's way out.", |one| one.connections),
        ("refused", "Packets and connections that the tenant's list does not allow.", |one| one.refused),
        ("dropped", "Packets and connections above the tenant's limits.", |one| one.dropped),
        ("failed", "Connections that the destination did not take.", |one| one.failed),
        ("questions", "Questions of DNS.", |one| one.questions),
        ("sent_bytes", "Contents sent to destinations.", |one| one.sent_bytes),
        ("received_bytes", "Contents received from destinations.", |one| one.received_bytes),
    ];
    let family = |(name, help, value): &(&str, &str, Value)| {
        let name = format!("gyre_tenant_outbound_{name}_total");
        let sample = |one: &Figures| format!("{name}{{name=\"{}\"}} {}\n", one.tenant, value(one));
        let samples: String = figures.iter().map(sample).collect();
        format!("# HELP {name} {help}\n# TYPE {name} counter\n{samples}")
    };
    if figures.is_empty() { String::new() } else { FAMILIES.iter().map(family).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_asked_for() {
        let token = Some("0123456789abcdef");
        assert!(may_read(token, Some("Bearer 0123456789abcdef")) && may_read(None, None));
        for wrong in [
            None,
            Some(""),
            Some("Bearer "),
            Some("Bearer 0123456789abcdee"),
            Some("0123456789abcdef"),
            Some("Basic 0123456789abcdef"),
        ] {
            assert!(!may_read(token, wrong), "{wrong:?}");
        }
    }

    #[test]
    fn others_need_a_token() {
        let source = || Source { agents: vec![], router: None, token: None };
        assert!(serve("0.0.0.0:0".parse().unwrap(), source()).is_err());
        assert!(serve("127.0.0.1:0".parse().unwrap(), source()).is_ok());
    }

    #[test]
    fn a_family_of_several_instances_has_one_head() {
        let page =
            "# HELP a_total Text.\n# TYPE a_total counter\na_total{name=\"x\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        let both = merged(&[page.to_owned(), labelled(page, Some("right"))]);
        let wanted = "# HELP a_total Text.\n# TYPE a_total counter\na_total{name=\"x\"} 1\na_total{zone=\"right\",name=\"x\"} 1\n\
                      # HELP b B.\n# TYPE b gauge\nb 2\nb{zone=\"right\"} 2\n";
        assert_eq!(both, wanted);
    }

    #[test]
    fn the_way_out_is_counted() {
        let figures = Figures { tenant: "web".into(), refused: 3, ..Figures::default() };
        assert!(of_outbound(&[figures]).contains("gyre_tenant_outbound_refused_total{name=\"web\"} 3\n"));
        assert_eq!(of_outbound(&[]), "");
    }
}
