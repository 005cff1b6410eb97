//! UDP as a resource: sockets with bounded queues (`interface::udp`), datagrams from demultiplexing, packets to the writer.

mod input;
mod output;
mod server;
mod socket;

pub(crate) use socket::{Look, UdpSocket};

use crate::connection_key::Hashed;
use crate::shared::Shared;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU16, AtomicU64};
use gyre_interface::tcp::SocketId;
use gyre_object::SpinLock;
use hashbrown::HashMap;

/// Serves `interface::udp` and [`crate::protocols::udp_input`].
pub struct Udp {
    pub(crate) shared: &'static Shared,
    sockets: SpinLock<HashMap<u64, Arc<UdpSocket>, Hashed>>,
    next: AtomicU64,
    /// Names packets that must be cut.
    identification: AtomicU16,
}

impl Udp {
    pub(crate) fn new(shared: &'static Shared) -> Udp {
        Udp {
            shared,
            sockets: SpinLock::default(),
            next: AtomicU64::new(1),
            identification: AtomicU16::new(shared.key.0 as u16),
        }
    }

    /// Returns how many sockets there are.
    #[cfg(test)]
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.lock().len()
    }

    fn find(&self, id: SocketId) -> Option<Arc<UdpSocket>> {
        self.sockets.lock().get(&id.0).cloned()
    }
}
