//! `GET /trace/TENANT?process=PID`: the calls of a process, a batch as JSON a line, until the process or the client ends.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    http::{self, Request},
    source::Source,
};

/// The kernel's call never waits, so it is made again this often while nothing comes, ns.
const LOOK_AGAIN_NS: i64 = 50_000_000;

/// Sends the calls.
///
/// # Errors
/// When the client has gone.
pub fn stream(request: &Request, mut stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    let tenant = request.path.trim_start_matches("/trace/");
    let process = request.query.strip_prefix("process=").and_then(|number| number.parse().ok());
    let Some(process) = process else {
        return http::refuse(&mut stream, "400 Bad Request", "the process is missing: /trace/TENANT?process=PID");
    };
    let mut trace = match source.trace(tenant, process) {
        Ok(trace) => trace,
        Err(error) => return http::refuse(&mut stream, status(&error), &error.to_string()),
    };
    http::start_stream(&mut stream, "application/x-ndjson")?;
    // An empty batch: the trace has begun.
    let mut pause_ns = 0;
    let mut is_begun = false;
    while !has_left(stream, pause_ns)? {
        let batch = trace.read()?;
        let is_empty = batch.events.is_empty() && batch.lost == 0;
        if !is_empty || batch.is_over || !is_begun {
            let mut line = serde_json::to_vec(&batch)?;
            line.push(b'\n');
            stream.write_all(&line)?;
        }
        if batch.is_over {
            return Ok(());
        }
        is_begun = true;
        pause_ns = if is_empty { LOOK_AGAIN_NS } else { 0 };
    }
    Ok(())
}

fn status(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "404 Not Found",
        io::ErrorKind::ResourceBusy => "409 Conflict",
        io::ErrorKind::Unsupported => "501 Not Implemented",
        _ => "500 Internal Server Error",
    }
}

/// Waits so long for the client's end. A client says nothing more on this connection.
fn has_left(mut stream: &TcpStream, pause_ns: i64) -> io::Result<bool> {
    let pause = Timespec { tv_sec: 0, tv_nsec: pause_ns };
    let mut one = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut one, Some(&pause)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) => Ok(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_))),
        Err(error) => Err(error.into()),
    }
}
