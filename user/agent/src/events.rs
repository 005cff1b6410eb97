//! `GET /events`: server-sent events, a snapshot at once and then each second.

use std::{
    io::{self, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::{http, server::Served};

const PERIOD: Duration = Duration::from_secs(1);

/// Sends until the client goes.
///
/// # Errors
/// When the client has gone, which is the normal end.
pub fn stream(mut stream: &TcpStream, served: &Served) -> io::Result<()> {
    http::start_stream(&mut stream, "text/event-stream")?;
    let mut next = Instant::now();
    loop {
        let text = serde_json::to_string(&served.snapshot()?)?;
        stream.write_all(format!("event: snapshot\ndata: {text}\n\n").as_bytes())?;
        // By the clock, not by pauses: the time to answer does not add up.
        next += PERIOD;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
