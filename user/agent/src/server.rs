//! One thread per connection, few connections.

use std::{
    io::{self, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use gyre_config::{bill::Bill, native::Change};

use crate::{
    door::{Door, Visit},
    events, exec,
    http::{self, Request},
    key::Key,
    logs, metrics,
    source::Source,
};

/// A thread's stack: the deepest call is JSON of a snapshot.
const STACK_BYTES: usize = 256 << 10;
/// A client that says nothing for so long is closed,
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// a stranger sooner.
const STRANGER_LIMIT: Duration = Duration::from_secs(10);

/// Serves until the listener fails.
///
/// # Errors
/// When the address cannot be listened at.
pub fn serve(listen: SocketAddr, source: &Arc<dyn Source>, key: Key) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    eprintln!("agent: serving {}", listener.local_addr()?);
    let (door, key) = (Arc::new(Door::default()), Arc::new(key));
    loop {
        // A connection that broke before we took it is nobody's failure; the pause keeps a lasting one from spinning.
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        match door.enter(peer.ip(), stream.try_clone().ok()) {
            Some(visit) => begin(stream, visit, source.clone(), key.clone()),
            None => drop(busy(&stream)),
        }
    }
}

fn busy(mut stream: &TcpStream) -> io::Result<()> {
    http::refuse(&mut stream, "503 Service Unavailable", "too many connections, come later")
}

/// Serves a connection in a thread of its own; one that cannot be started closes it.
fn begin(stream: TcpStream, mut visit: Visit, source: Arc<dyn Source>, key: Arc<Key>) {
    let serve = move || {
        let ending = stream.try_clone();
        // The client's errors end its connection and nothing else.
        let _ = converse(stream, &mut visit, &source, &key);
        if let Ok(stream) = ending {
            http::close(&stream);
        }
    };
    let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
}

fn converse(stream: TcpStream, visit: &mut Visit, source: &Arc<dyn Source>, key: &Key) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        stream.set_read_timeout(Some(if visit.is_known() { IDLE_LIMIT } else { STRANGER_LIMIT }))?;
        match http::read(&mut reader, |shown| key.admits(shown)) {
            Ok(Some(_)) if !visit.become_known() => return busy(&stream),
            Ok(Some(request)) if !answer(&request, &mut reader, &stream, source)? => return Ok(()),
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
    source: &Arc<dyn Source>,
) -> io::Result<bool> {
    let mut out = stream;
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/events") => return events::stream(stream, source).map(|()| false),
        ("POST", "/exec") => return exec::run(request, reader, stream, source),
        ("GET", path) if path.starts_with("/logs/") => {
            return logs::stream(request, stream, source).map(|()| false);
        }
        ("POST", path) if path.starts_with("/checkpoint/") || path.starts_with("/evict/") => {
            keep(&mut out, path, request, source)?;
        }
        ("POST", "/end") => end(&mut out, &request.body, source)?,
        ("POST", "/set") => set(&mut out, &request.body, source)?,
        ("GET", "/metrics") => {
            figures(&mut out, source, "text/plain; version=0.0.4", |snapshot| Ok(metrics::text(snapshot)))?
        }
        ("GET", "/snapshot") => {
            figures(&mut out, source, "application/json", |snapshot| Ok(serde_json::to_string(snapshot)?))?
        }
        ("GET", "/bill") => {
            figures(&mut out, source, "application/json", |snapshot| Ok(serde_json::to_string(&Bill::of(snapshot))?))?
        }
        ("GET", "/") => http::refuse(
            &mut out,
            "200 OK",
            "metrics snapshot bill events exec set end logs/TENANT checkpoint/TENANT evict/TENANT",
        )?,
        ("GET" | "POST", _) => http::refuse(
            &mut out,
            "404 Not Found",
            "there is: /metrics /snapshot /bill /events /exec /set /end /logs/TENANT /checkpoint/TENANT /evict/TENANT",
        )?,
        _ => http::refuse(&mut out, "405 Method Not Allowed", "GET, or POST /exec, /set, /end, /checkpoint or /evict")?,
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

/// Changes the machine; answers with one line of text where it cannot be done.
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
    source: &Arc<dyn Source>,
    kind: &str,
    form: impl Fn(&gyre_config::monitor::Snapshot) -> io::Result<String>,
) -> io::Result<()> {
    match source.snapshot().and_then(|snapshot| form(&snapshot)) {
        Ok(text) => http::respond(out, "200 OK", kind, text.as_bytes()),
        Err(error) => http::refuse(out, "500 Internal Server Error", &format!("no figures: {error}")),
    }
}
