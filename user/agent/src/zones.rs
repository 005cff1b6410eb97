//! The zones of the machine over HTTP: `/zones`, `/zones/log` and `/zones/NAME/console`. Only the agent of a supervisor has them;
//! that of a zone has `/zones/wish`.

use std::{
    io::{self, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use gyre_contract::zones::{Command, Orderer, Wish};

use crate::{
    http::{self, Request},
    source::{Piece, Source},
};

const JSON: &str = "application/json";
/// The kernel's calls never wait, so following looks again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Whether a connection can take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It can.
    Request,
    /// It ends.
    End,
}

/// Answers a request below `/zones`.
///
/// # Errors
/// When the client has gone.
pub fn answer(request: &Request, stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<Next> {
    let mut out = stream;
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/zones") => send(&mut out, source.zones())?,
        ("GET", "/zones/log") => log(&mut out, &request.query, source)?,
        ("POST", "/zones") => control(&mut out, request, source)?,
        ("POST", "/zones/module") => module(&mut out, request, source)?,
        ("POST", "/zones/wish") => wish(&mut out, &request.body, source)?,
        ("GET", path) => match path.strip_prefix("/zones/").and_then(|rest| rest.strip_suffix("/console")) {
            Some(zone) => return console(zone, &request.query, stream, source).map(|()| Next::End),
            None => none(&mut out)?,
        },
        _ => none(&mut out)?,
    }
    Ok(Next::Request)
}

fn none(out: &mut impl Write) -> io::Result<()> {
    http::refuse(
        out,
        "404 Not Found",
        "there is: GET /zones, /zones/log and /zones/NAME/console; POST /zones, /zones/module and /zones/wish",
    )
}

fn send(out: &mut impl Write, result: io::Result<impl serde::Serialize>) -> io::Result<()> {
    match result {
        Ok(value) => http::respond(out, "200 OK", JSON, &serde_json::to_vec(&value)?),
        Err(error) => refuse(out, &error),
    }
}

/// Says why there is nothing to tell of zones.
fn refuse(out: &mut impl Write, error: &io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => http::refuse(out, "404 Not Found", &error.to_string()),
        io::ErrorKind::PermissionDenied => {
            http::refuse(out, "403 Forbidden", "this kernel instance supervises no zones: ask that of the supervisor")
        }
        io::ErrorKind::Unsupported => http::refuse(out, "501 Not Implemented", "this kernel knows no zones"),
        io::ErrorKind::InvalidInput => http::refuse(out, "400 Bad Request", &error.to_string()),
        _ => http::refuse(out, "500 Internal Server Error", &format!("zones: {error}")),
    }
}

/// `GET /zones/log?from=N`: a list of the records from that number on.
fn log(out: &mut impl Write, query: &str, source: &Arc<dyn Source>) -> io::Result<()> {
    match from(query) {
        Some(from) => send(out, source.zone_log(from)),
        None => http::refuse(out, "400 Bad Request", FROM),
    }
}

const FROM: &str = "`from` must be a number";

/// The number of `from=N`, 0 without it.
fn from(query: &str) -> Option<u64> {
    query.split('&').find_map(|word| word.strip_prefix("from=")).map_or(Some(0), |word| word.parse().ok())
}

/// `POST /zones`, `POST /zones?by=ORDERER`: a list of commands, done together or not at all. A refusal is its reason as JSON.
fn control(out: &mut impl Write, request: &Request, source: &Arc<dyn Source>) -> io::Result<()> {
    let name = request.query.split('&').find_map(|word| word.strip_prefix("by="));
    let Some(by) = name.map_or(Some(Orderer::default()), Orderer::named) else {
        return http::refuse(out, "400 Bad Request", "`by` must be owner or controller");
    };
    let commands: Vec<Command> = match serde_json::from_slice(&request.body) {
        Ok(commands) => commands,
        Err(error) => return http::refuse(out, "400 Bad Request", &format!("this is no list of commands: {error}")),
    };
    match source.control(&commands, by) {
        Ok(Ok(())) => http::respond(out, "200 OK", JSON, b"{}\n"),
        Ok(Err(refusal)) => http::respond(out, "409 Conflict", JSON, &serde_json::to_vec(&refusal)?),
        Err(error) => refuse(out, &error),
    }
}

/// `POST /zones/module?number=N&whole=BYTES&offset=BYTE`: a piece of the boot module of a zone that is to come; answers the bytes that there are.
fn module(out: &mut impl Write, request: &Request, source: &Arc<dyn Source>) -> io::Result<()> {
    let Some(piece) = piece(&request.query) else {
        return http::refuse(out, "400 Bad Request", "`number`, `whole` and `offset` must be numbers");
    };
    match source.stage(piece, &request.body) {
        Ok(there) => http::respond(out, "200 OK", JSON, there.to_string().as_bytes()),
        Err(error) => match error.kind() {
            io::ErrorKind::StaleNetworkFileHandle => {
                http::refuse(out, "409 Conflict", "this piece does not follow: another module was begun meanwhile")
            }
            io::ErrorKind::OutOfMemory => {
                let why = "the supervisor has no memory for the zone's boot module: its system tenant keeps it";
                http::refuse(out, "507 Insufficient Storage", why)
            }
            io::ErrorKind::InvalidInput => {
                http::refuse(out, "400 Bad Request", "a boot module has 1 byte to 8 MiB, and a piece at most 256 KiB")
            }
            _ => refuse(out, &error),
        },
    }
}

fn piece(query: &str) -> Option<Piece> {
    let number = |key: &str| {
        let value = query.split('&').find_map(|word| word.split_once('=').filter(|(name, _)| *name == key));
        value?.1.parse().ok()
    };
    Some(Piece { module: number("number")?, whole: number("whole")?, offset: number("offset")? })
}

/// `POST /zones/wish`: parts of this zone go to another one. A refusal is its reason as JSON.
fn wish(out: &mut impl Write, body: &[u8], source: &Arc<dyn Source>) -> io::Result<()> {
    let wish: Wish = match serde_json::from_slice(body) {
        Ok(wish) => wish,
        Err(error) => return http::refuse(out, "400 Bad Request", &format!("this is no wish: {error}")),
    };
    match source.wish(&wish) {
        Ok(Ok(())) => http::respond(out, "200 OK", JSON, b"{}\n"),
        Ok(Err(why)) => http::respond(out, "409 Conflict", JSON, &serde_json::to_vec(&why)?),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            http::refuse(out, "501 Not Implemented", "this kernel instance is no zone: ask that of the zone")
        }
        Err(error) => refuse(out, &error),
    }
}

/// `GET /zones/NAME/console`: what the zone has printed, from `?from=BYTE` on; with `?follow=1` also what it goes on to print.
fn console(zone: &str, query: &str, mut stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    let is_followed = query.split('&').any(|word| word == "follow=1");
    let Some(mut offset) = from(query) else { return http::refuse(&mut stream, "400 Bad Request", FROM) };
    let mut part = match source.zone_console(zone, offset) {
        Ok(part) => part,
        Err(error) => return refuse(&mut stream, &error),
    };
    http::start_stream(&mut stream, "text/plain; charset=utf-8")?;
    loop {
        let (first, bytes) = part;
        if first > offset && offset > 0 {
            writeln!(stream, "[gyre: {} bytes were not kept]", first - offset)?;
        }
        stream.write_all(&bytes)?;
        // A zone that was made again has begun to print anew.
        let is_anew = first < offset;
        offset = if is_anew { 0 } else { first + bytes.len() as u64 };
        if bytes.is_empty() && !is_anew {
            if !is_followed {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        part = source.zone_console(zone, offset)?;
    }
}
