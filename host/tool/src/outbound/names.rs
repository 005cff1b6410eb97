//! Names as this host resolves them, remembered for a short while.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, ToSocketAddrs as _},
    sync::Mutex,
    time::{Duration, Instant},
};

use super::dns::Found;

/// How long an answer is remembered.
const FRESH: Duration = Duration::from_secs(30);
/// Names that are remembered at once.
const NAMES_MAX: usize = 1024;

/// The names that were asked for lately.
#[derive(Default)]
pub struct Names {
    known: Mutex<HashMap<String, (Instant, Found)>>,
}

impl Names {
    /// Returns what the host knows of a name; may take as long as the host's resolver does.
    pub fn find(&self, name: &str) -> Found {
        if let Some(found) = self.remembered(name) {
            return found;
        }
        let found = ask(name);
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.retain(|_, (when, _)| when.elapsed() < FRESH);
        if found != Found::Failed && known.len() < NAMES_MAX {
            known.insert(name.into(), (Instant::now(), found.clone()));
        }
        found
    }

    /// Returns the addresses of a name.
    pub fn addresses(&self, name: &str) -> Vec<Ipv4Addr> {
        match self.find(name) {
            Found::Addresses(all) => all,
            _ => vec![],
        }
    }

    fn remembered(&self, name: &str) -> Option<Found> {
        let known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.get(name).filter(|(when, _)| when.elapsed() < FRESH).map(|(_, found)| found.clone())
    }
}

/// Asks the host: /etc/hosts and its resolver.
fn ask(name: &str) -> Found {
    match (name, 0).to_socket_addrs() {
        Ok(all) => {
            let ipv4 = |end: std::net::SocketAddr| match end.ip() {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            };
            Found::Addresses(all.filter_map(ipv4).collect())
        }
        // The kind says nothing; the texts are those of gai_strerror(3).
        Err(error) if error.to_string().contains("Temporary failure") => Found::Failed,
        Err(_) => Found::Nothing,
    }
}
