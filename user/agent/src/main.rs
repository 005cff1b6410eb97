//! The agent's program: reads its arguments and serves. With `broker` as the first argument it is the broker.
#![forbid(unsafe_code)]

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use gyre_agent::{
    health::Health,
    keeper::Keeper,
    key::Key,
    server::{self, Served},
    source::{self, Source},
};
use gyre_contract::{address, health::PATH as HEALTH_PATH};

const USAGE: &str = "usage: gyre-agent [--linux] [--key FILE] [--listen ADDRESS:PORT], or gyre-agent broker [--linux] [--policy NAME] [--dry-run]";

fn main() -> ExitCode {
    match start(std::env::args()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("agent: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let program = arguments.next().unwrap_or_default();
    let mut arguments = arguments.peekable();
    if arguments.next_if(|word| word == "broker").is_some() {
        return broker(arguments);
    }
    let health = Arc::new(Health::default());
    let mut source: Arc<dyn Source> = Arc::new(source::Native::default());
    let mut broker_words = vec![program, "broker".to_owned()];
    let mut key_file = Some(address::AGENT_KEY_PATH.to_owned());
    let mut listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address::AGENT_PORT));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--linux" => {
                (source, key_file) = (Arc::new(source::Linux::default()), None);
                broker_words.push(argument);
            }
            "--key" => key_file = Some(arguments.next().ok_or(USAGE)?),
            "--listen" => listen = arguments.next().and_then(|text| text.parse().ok()).ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let read = |path: String| Key::read(Path::new(&path)).map_err(|error| format!("no key in {path}: {error}"));
    let key = key_file.map(read).transpose()?.unwrap_or_default();
    let keeper = Keeper::new(source.clone(), broker_words);
    keeper.start();
    match Health::read(Path::new(HEALTH_PATH)) {
        Ok(checks) => health.begin(checks, &source),
        Err(error) => eprintln!("agent: {HEALTH_PATH} cannot be read: {error}"),
    }
    let served = Served { source, keeper, health };
    let served = TcpListener::bind(listen).and_then(|listener| server::serve(&listener, &served, key));
    served.map_err(|error| format!("cannot serve {listen}: {error}"))
}

/// Is the broker, until nobody reads what it says.
fn broker(words: impl Iterator<Item = String>) -> Result<(), String> {
    let mut words = words.peekable();
    let machine: Box<dyn gyre_broker_program::Machine> = match words.next_if(|word| word == "--linux") {
        Some(_) => Box::new(source::Linux::default()),
        None => Box::new(gyre_broker_program::Native),
    };
    let options = gyre_broker_program::Options::read(words)?;
    gyre_broker_program::run(&*machine, &options).map_err(|error| format!("broker: {error}"))
}
