//! `GET /logs/TENANT`: what a tenant wrote, and with `?follow=1` what it goes on to write; with `&new=1` only that.

use std::{
    io::{self, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use gyre_contract::monitor::{Activity, ActivityKind};

use crate::{
    http::{self, Request},
    source::Source,
};

/// The kernel's call never waits, so following looks again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The most that the kernel keeps of a log, bytes. A tenant may write faster than its log is read: whoever does not follow gets as much.
const KEPT_BYTES: u64 = 64 << 10;

/// Sends the log.
///
/// # Errors
/// When the client has gone.
pub fn stream(request: &Request, mut stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    let tenant = request.path.trim_start_matches("/logs/");
    let follow = request.query.split('&').any(|word| word == "follow=1");
    let is_new_wanted = request.query.split('&').any(|word| word == "new=1");
    let mut offset = if is_new_wanted { end_of(source, tenant) } else { 0 };
    let mut part = match source.log(tenant, offset) {
        Ok(part) => part,
        // It has no log: it could not even begin.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !troubles(source, tenant)?.is_empty() => {
            http::start_stream(&mut stream, "text/plain; charset=utf-8")?;
            return tell(stream, &troubles(source, tenant)?, &mut vec![]);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return http::refuse(&mut stream, "404 Not Found", &error.to_string());
        }
        Err(error) => {
            return http::refuse(&mut stream, "500 Internal Server Error", &error.to_string());
        }
    };
    http::start_stream(&mut stream, "text/plain; charset=utf-8")?;
    let (mut told, mut sent) = (vec![], 0);
    loop {
        let (first, bytes) = part;
        if first > offset && offset > 0 {
            stream.write_all(format!("[{} bytes were not kept]\n", first - offset).as_bytes())?;
        }
        stream.write_all(&bytes)?;
        offset = first + bytes.len() as u64;
        sent += bytes.len() as u64;
        if bytes.is_empty() || !follow && sent >= KEPT_BYTES {
            tell(stream, &troubles(source, tenant)?, &mut told)?;
            if !follow {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        part = source.log(tenant, offset)?;
    }
}

/// Returns the end of what a tenant has written so far.
fn end_of(source: &Arc<dyn Source>, tenant: &str) -> u64 {
    let (mut offset, mut passed) = (0, 0);
    while let Ok((first, bytes)) = source.log(tenant, offset) {
        offset = first.saturating_add(bytes.len() as u64);
        passed += bytes.len() as u64;
        if bytes.is_empty() || passed >= KEPT_BYTES {
            break;
        }
    }
    offset
}

/// News of a tenant for its owner, beside the tenant's own output.
fn troubles(source: &Arc<dyn Source>, tenant: &str) -> io::Result<Vec<String>> {
    let snapshot = source.snapshot()?;
    let is_it = |one: &&Activity| one.name == tenant && matches!(one.kind, ActivityKind::Tenant | ActivityKind::System);
    Ok(snapshot.activities.iter().find(is_it).map(Activity::troubles).unwrap_or_default())
}

/// Writes what has not been told yet, each a line that no program of the tenant wrote.
fn tell(mut stream: &TcpStream, troubles: &[String], told: &mut Vec<String>) -> io::Result<()> {
    for trouble in troubles.iter().filter(|trouble| !told.contains(trouble)) {
        writeln!(stream, "[gyre: {trouble}]")?;
    }
    *told = troubles.to_vec();
    Ok(())
}
