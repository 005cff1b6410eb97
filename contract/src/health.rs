//! Health checks of tenants: the host describes them, the agent makes them.
//!
//! They come as JSON in the boot module ([`PATH`]) and, while the machine runs, by `POST /health` of the agent. The
//! kernel knows nothing of them: the agent puts [`crate::monitor::State::Unhealthy`] in place of a state that says
//! that the program runs.

use crate::address::Address;
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// The file of the system tenant that holds all checks.
pub const PATH: &str = "/health.json";

/// One tenant's check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The tenant's name.
    pub tenant: String,
    /// Its address.
    pub address: Address,
    /// The try.
    pub probe: Probe,
    /// Pause between two tries, ms.
    pub interval_ms: u64,
    /// The time that a try may take, ms.
    pub timeout_ms: u64,
    /// Failures in a row after which the tenant is unhealthy.
    pub retries: u32,
    /// Time after its start in which failures do not count, ms.
    pub grace_ms: u64,
    /// An unhealthy tenant is started again.
    pub restarts: bool,
}

/// A way to find out whether a tenant is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// A program of the tenant ends with code 0: the absolute path, and arguments.
    Command(Vec<String>),
    /// A TCP port lets a connection in.
    Tcp(u16),
    /// A page is answered with a status of 200 to 399.
    Http {
        /// The TCP port.
        port: u16,
        /// The page's path.
        path: String,
    },
}
