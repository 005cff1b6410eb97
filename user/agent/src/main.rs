//! The agent: runs in the machine as the system tenant and tells the host, over HTTP/1.1, what the machine does.
//!
//! ```text
//! GET  /metrics            Prometheus text
//! GET  /snapshot           everything, as JSON
//! GET  /bill               the bill, as JSON
//! GET  /events             server-sent events: a snapshot now and each second
//! POST /exec               {"tenant": ..., "argv": [...], "env": [...]}, then 101 and frames (gyre_config::session)
//! POST /set              a change of the machine (gyre_config::native::Change), as JSON
//! POST /end              ends the machine in order; the body is the programs' grace time, ms
//! GET  /logs/TENANT        what the tenant wrote; ?follow=1 waits for more
//! ```
//! Threads and blocking sockets: a dozen connections at most, and nothing to port. `--fake` and `--linux` take the figures
//! from a formula or from Linux's control groups, so that the agent is tested, and compared, outside the machine.
#![forbid(unsafe_code)]

mod events;
mod exec;
mod http;
mod logs;
mod metrics;
mod server;
mod source;

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
};

use gyre_config::address;
use source::Source;

const USAGE: &str = "usage: gyre-agent [--fake | --linux] [--listen ADDRESS:PORT]";

fn main() -> ExitCode {
    match start(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("agent: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let mut source: Arc<dyn Source> = Arc::new(source::Native);
    let mut listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address::AGENT_PORT));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fake" => source = Arc::new(source::Fake::default()),
            "--linux" => source = Arc::new(source::Linux::default()),
            "--listen" => listen = arguments.next().and_then(|text| text.parse().ok()).ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    server::serve(listen, &source).map_err(|error| format!("cannot serve {listen}: {error}"))
}
