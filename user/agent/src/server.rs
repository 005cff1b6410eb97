//! One thread per connection, few connections.
//!
//! * [`serve`] takes connections as long as the listener lives; who may come in is the door's matter ([`Door`]).
//! * A request shows the key of the run before its body is read. A stranger has a minute for that: one that is slow may be a client of the
//!   owner's whose host stands still, and one that says nothing for longer would keep a place of its address for ever. The owner has a minute
//!   between requests.
//! * Most requests have one answer, and the connection takes the next one. Streams (`/events`, `/output`, logs that are followed, consoles)
//!   and programs (`/exec`) take the connection for themselves.
//! * A request that cannot be done is answered with a status and one line of text.
//! * A client's error ends its connection and nothing else.

use std::{
    io::{self, BufReader},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use gyre_contract::{bill::Bill, monitor::Snapshot, native::Change};

use crate::{
    cells,
    door::{Door, Visit},
    events, exec, goals,
    health::Health,
    http::{self, Request},
    keeper::Keeper,
    key::Key,
    logs, metrics, output, seats,
    source::Source,
    trace, zone_metrics, zones,
};

/// A thread's stack: the deepest call is JSON of a snapshot.
const STACK_BYTES: usize = 256 << 10;
/// A client that says nothing for so long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Everything that a connection may ask for.
#[derive(Clone)]
pub struct Served {
    /// The machine.
    pub source: Arc<dyn Source>,
    /// The keeper of the broker.
    pub keeper: Arc<Keeper>,
    /// The health of tenants.
    pub health: Arc<Health>,
}

impl Served {
    /// Reads all figures, with the health of tenants.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn snapshot(&self) -> io::Result<Snapshot> {
        let mut snapshot = self.source.snapshot()?;
        self.health.overlay(&mut snapshot);
        Ok(snapshot)
    }
}

/// Serves until the listener fails.
///
/// # Errors
/// When the listener has no address.
pub fn serve(listener: &TcpListener, served: &Served, key: Key) -> io::Result<()> {
    eprintln!("agent: serving {}", listener.local_addr()?);
    let (door, key) = (Arc::new(Door::default()), Arc::new(key));
    loop {
        // A connection that broke before we took it is nobody's failure; the pause keeps a lasting one from spinning.
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        match door.enter(peer.ip(), stream.try_clone().ok()) {
            Some(visit) => begin(stream, visit, served.clone(), key.clone()),
            None => drop(busy(&stream)),
        }
    }
}

fn busy(mut stream: &TcpStream) -> io::Result<()> {
    http::refuse(&mut stream, "503 Service Unavailable", "too many connections, come later")
}

/// Serves a connection in a thread of its own; one that cannot be started closes it.
fn begin(stream: TcpStream, mut visit: Visit, served: Served, key: Arc<Key>) {
    let serve = move || {
        let ending = stream.try_clone();
        // The client's errors end its connection and nothing else.
        let _ = converse(stream, &mut visit, &served, &key);
        if let Ok(stream) = ending {
            http::close(&stream);
        }
    };
    let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
}

fn converse(stream: TcpStream, visit: &mut Visit, served: &Served, key: &Key) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        stream.set_read_timeout(Some(IDLE_LIMIT))?;
        match http::read(&mut reader, |shown| key.admits(shown)) {
            Ok(Some(_)) if !visit.become_known() => return busy(&stream),
            Ok(Some(request)) if !answer(&request, &mut reader, &stream, served)? => return Ok(()),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) => return refused(&stream, error),
        }
    }
}

/// Says what was wrong with a request; the connection ends.
fn refused(mut stream: &TcpStream, error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::InvalidData => http::refuse(&mut stream, "400 Bad Request", &error.to_string()),
        io::ErrorKind::PermissionDenied => http::refuse(&mut stream, "401 Unauthorized", &error.to_string()),
        _ => Err(error),
    }
}

/// Answers one request; says whether the connection can take another.
fn answer(
    request: &Request,
    reader: &mut BufReader<TcpStream>,
    stream: &TcpStream,
    served: &Served,
) -> io::Result<bool> {
    let (mut out, source) = (stream, &served.source);
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/output") => return output::stream(stream, source).map(|()| false),
        ("GET", "/events") => return events::stream(stream, served).map(|()| false),
        ("POST", "/exec") => return exec::run(request, reader, stream, source),
        ("GET", path) if path.starts_with("/logs/") => {
            return logs::stream(request, stream, source).map(|()| false);
        }
        ("GET", path) if path.starts_with("/trace/") => {
            return trace::stream(request, stream, source).map(|()| false);
        }
        (_, path) if path == "/zones" || path.starts_with("/zones/") => {
            return Ok(zones::answer(request, stream, source)? == zones::Next::Request);
        }
        ("POST", path) if path.starts_with("/checkpoint/") || path.starts_with("/evict/") => {
            keep(&mut out, path, request, source)?;
        }
        ("POST", path) if path.starts_with("/console/") => type_in(&mut out, path, &request.body, source)?,
        ("POST", "/end") => end(&mut out, &request.body, source)?,
        ("POST", "/change") => goals::change(&mut out, &request.body, source)?,
        ("GET", "/changes") => goals::changes(&mut out, &request.query, source)?,
        ("GET", "/goals") => goals::goals(&mut out, &served.keeper)?,
        ("POST", "/broker") => goals::broker(&mut out, &request.body, &served.keeper)?,
        ("POST", "/health") => checks(&mut out, &request.body, served)?,
        ("POST", "/set") => set(&mut out, &request.body, source)?,
        ("GET" | "POST", "/cells") => cells::answer(request, stream, source)?,
        (_, path) if path == "/seats" || path.starts_with("/seats/") => seats::answer(request, &mut out, source)?,
        ("GET", "/metrics") => {
            let zones = source.zones().map(|zones| zone_metrics::text(&zones)).unwrap_or_default();
            figures(&mut out, served, "text/plain; version=0.0.4", |snapshot| {
                Ok(metrics::text(snapshot) + &cells::metrics(source) + &zones)
            })?
        }
        ("GET", "/snapshot") => {
            figures(&mut out, served, "application/json", |snapshot| Ok(serde_json::to_string(snapshot)?))?
        }
        ("GET", "/bill") => {
            figures(&mut out, served, "application/json", |snapshot| Ok(serde_json::to_string(&Bill::of(snapshot))?))?
        }
        ("GET", "/") => http::refuse(
            &mut out,
            "200 OK",
            "metrics snapshot bill events output exec set cells seats change changes goals broker health end logs/TENANT trace/TENANT checkpoint/TENANT evict/TENANT zones zones/log zones/NAME/console",
        )?,
        ("GET" | "POST", _) => http::refuse(
            &mut out,
            "404 Not Found",
            "there is: /metrics /snapshot /bill /events /output /exec /set /cells /seats /change /changes /goals /broker /health /end /logs/TENANT /trace/TENANT /checkpoint/TENANT /evict/TENANT /zones",
        )?,
        _ => http::refuse(
            &mut out,
            "405 Method Not Allowed",
            "GET, or POST /exec, /set, /cells, /seats, /change, /broker, /health, /end, /checkpoint, /evict or /zones",
        )?,
    }
    Ok(true)
}

/// `POST /checkpoint/TENANT` and `POST /evict/TENANT`: the body is the file's path, or empty for the whole tenant.
fn keep(out: &mut impl io::Write, path: &str, request: &Request, source: &Arc<dyn Source>) -> io::Result<()> {
    let (what, tenant) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let Ok(file) = std::str::from_utf8(&request.body) else {
        return http::refuse(out, "400 Bad Request", "the path is not UTF-8");
    };
    match source.keep(tenant, Some(file).filter(|file| !file.is_empty()), what == "evict") {
        Ok(bytes) => http::respond(out, "200 OK", "text/plain", bytes.to_string().as_bytes()),
        Err(error) => http::refuse(out, "404 Not Found", &format!("{what} {tenant} {file}: {error}")),
    }
}

/// `POST /console/TENANT`: types the body on the tenant's console; answers how many bytes were taken.
fn type_in(out: &mut impl io::Write, path: &str, body: &[u8], source: &Arc<dyn Source>) -> io::Result<()> {
    match source.type_in(path.trim_start_matches("/console/"), body) {
        Ok(taken) => http::respond(out, "200 OK", "text/plain", taken.to_string().as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => http::respond(out, "200 OK", "text/plain", b"0"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => http::refuse(out, "404 Not Found", &error.to_string()),
        Err(error) => http::refuse(out, "409 Conflict", &format!("nothing can be typed there: {error}")),
    }
}

/// `POST /end`: ends the machine in order; the body is the programs' grace time, ms. The answer comes before the end.
fn end(out: &mut impl io::Write, body: &[u8], source: &Arc<dyn Source>) -> io::Result<()> {
    let grace_ms = std::str::from_utf8(body).ok().and_then(|text| text.trim().parse().ok());
    let Some(grace_ms) = grace_ms else {
        return http::refuse(out, "400 Bad Request", "the body must be the programs' grace time in milliseconds");
    };
    match source.end(grace_ms) {
        Ok(()) => http::respond(out, "200 OK", "text/plain", b"ending\n"),
        Err(error) => http::refuse(out, "409 Conflict", &format!("the machine is not ended: {error}")),
    }
}

/// `POST /health`: a list of checks (`gyre_contract::health`) in place of those before.
fn checks(out: &mut impl io::Write, body: &[u8], served: &Served) -> io::Result<()> {
    match serde_json::from_slice(body) {
        Ok(checks) => {
            served.health.begin(checks, &served.source);
            http::respond(out, "200 OK", "application/json", b"{}\n")
        }
        Err(error) => http::refuse(out, "400 Bad Request", &format!("these are no checks: {error}")),
    }
}

/// Changes the machine; answers with one line of text if it cannot be done.
fn set(out: &mut impl io::Write, body: &[u8], source: &Arc<dyn Source>) -> io::Result<()> {
    let change: Change = match serde_json::from_slice(body) {
        Ok(change) => change,
        Err(error) => return http::refuse(out, "400 Bad Request", &format!("this is no change: {error}")),
    };
    match source.set(&change) {
        Ok(()) => http::respond(out, "200 OK", "application/json", b"{}\n"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => http::refuse(out, "404 Not Found", &error.to_string()),
        Err(error) => http::refuse(out, "422 Unprocessable Content", &error.to_string()),
    }
}

fn figures(
    out: &mut impl io::Write,
    served: &Served,
    kind: &str,
    form: impl Fn(&gyre_contract::monitor::Snapshot) -> io::Result<String>,
) -> io::Result<()> {
    match served.snapshot().and_then(|snapshot| form(&snapshot)) {
        Ok(text) => http::respond(out, "200 OK", kind, text.as_bytes()),
        Err(error) => http::refuse(out, "500 Internal Server Error", &format!("no figures: {error}")),
    }
}
