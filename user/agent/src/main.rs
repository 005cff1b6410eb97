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
//! Each request shows the key of the run (`Authorization: Bearer KEY`): tenants reach this port too.
//! Threads and blocking sockets: a dozen connections at most, and nothing to port. `--fake` and `--linux` take the figures
//! from a formula or from Linux's control groups, so that the agent is tested, and compared, outside the machine.
#![forbid(unsafe_code)]

mod door;
mod events;
mod exec;
mod http;
mod key;
mod logs;
mod metrics;
mod server;
mod source;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use gyre_config::address;
use key::Key;
use source::Source;

const USAGE: &str = "usage: gyre-agent [--fake | --linux] [--key FILE] [--listen ADDRESS:PORT]";

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
    let mut key_file = Some(address::AGENT_KEY_PATH.to_owned());
    let mut listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address::AGENT_PORT));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fake" => (source, key_file) = (Arc::new(source::Fake::default()), None),
            "--linux" => (source, key_file) = (Arc::new(source::Linux::default()), None),
            "--key" => key_file = Some(arguments.next().ok_or(USAGE)?),
            "--listen" => listen = arguments.next().and_then(|text| text.parse().ok()).ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let read = |path: String| Key::read(Path::new(&path)).map_err(|error| format!("no key in {path}: {error}"));
    let key = key_file.map(read).transpose()?.unwrap_or_default();
    server::serve(listen, &source, key).map_err(|error| format!("cannot serve {listen}: {error}"))
}
