//! The network path.

use crate::assembly::System;
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;

/// What tenants get of it.
#[derive(Clone, Copy)]
pub struct Network {
    /// TCP.
    pub tcp: tcp::Client,
    /// UDP.
    pub udp: udp::Client,
}

/// Starts the network device, if there is one.
pub fn start(_system: &'static System) -> Option<Network> {
    None
}
