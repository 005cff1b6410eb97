//! `GET /logs/TENANT`: what a tenant wrote, and with `?follow=1` what it goes on to write.

use std::{
    io::{self, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use crate::{
    http::{self, Request},
    source::Source,
};

/// The kernel's call never waits, so following looks again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Sends the log.
///
/// # Errors
/// When the client has gone.
pub fn stream(request: &Request, mut stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    let tenant = request.path.trim_start_matches("/logs/");
    let follow = request.query.split('&').any(|word| word == "follow=1");
    let mut offset = 0;
    let mut part = match source.log(tenant, offset) {
        Ok(part) => part,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return http::refuse(&mut stream, "404 Not Found", &error.to_string());
        }
        Err(error) => {
            return http::refuse(&mut stream, "500 Internal Server Error", &error.to_string());
        }
    };
    http::start_stream(&mut stream, "text/plain; charset=utf-8")?;
    loop {
        let (first, bytes) = part;
        if first > offset && offset > 0 {
            stream.write_all(format!("[{} bytes were not kept]\n", first - offset).as_bytes())?;
        }
        stream.write_all(&bytes)?;
        offset = first + bytes.len() as u64;
        if bytes.is_empty() {
            if !follow {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        part = source.log(tenant, offset)?;
    }
}
