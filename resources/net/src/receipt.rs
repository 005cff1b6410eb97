//! Back-pressure: the frames that a sender has handed down and the device has not taken yet.
//!
//! A frame carries a receipt. Dropping it, for any reason, gives the room back and wakes the sender that waits for
//! it: nothing is lost, nothing spins, and a frame killed on the way leaves nothing behind.

use crate::limits::FRAME_COST_BYTES;
use crate::shared::{Shared, now_ns};
use crate::tcp_resource::Connection;
use crate::tenant::Tenant;
use crate::udp::UdpSocket;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// The sender to tell.
pub(crate) enum Sender {
    /// None: resets, echo replies.
    Nobody,
    /// A connection.
    Connection(Arc<Connection>),
    /// A UDP socket.
    Datagrams(Arc<UdpSocket>),
}

/// Room taken on the way to the device.
pub struct Receipt {
    shared: &'static Shared,
    tenant: &'static Tenant,
    sender: Sender,
    bytes: usize,
    way: Way,
}

/// Whose pace the room tells of when it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The card's, if it did not stay in this instance.
    Card,
    /// Another link's: the card is no faster for it.
    Other,
}

impl Receipt {
    /// Takes room for `bytes`, whether there is any or not; ask [`Tenant::may_send`] before.
    pub(crate) fn take(shared: &'static Shared, tenant: &'static Tenant, sender: Sender, bytes: usize) -> Receipt {
        // small frames fill queues too
        let bytes = bytes.max(FRAME_COST_BYTES);
        tenant.outstanding.fetch_add(bytes, Ordering::AcqRel);
        match &sender {
            Sender::Nobody => {}
            Sender::Connection(connection) => {
                connection.outstanding.fetch_add(bytes, Ordering::AcqRel);
                connection.spend_send_room(bytes);
            }
            Sender::Datagrams(socket) => _ = socket.outstanding.fetch_add(bytes, Ordering::AcqRel),
        }
        Receipt { shared, tenant, sender, bytes, way: Way::Card }
    }

    /// Notes that its frame goes by another link than the card.
    pub(crate) fn note_other_way(&mut self) {
        self.way = Way::Other;
    }

    /// Returns whether no sender waits for the room.
    pub(crate) fn is_nobodys(&self) -> bool {
        matches!(self.sender, Sender::Nobody)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.tenant.outstanding.fetch_sub(self.bytes, Ordering::AcqRel);
        if self.way == Way::Card {
            self.shared.pace.on_taken(self.bytes, now_ns());
        }
        match &self.sender {
            Sender::Nobody => {}
            Sender::Connection(connection) => {
                connection.outstanding.fetch_sub(self.bytes, Ordering::AcqRel);
                connection.on_room(self.shared);
            }
            Sender::Datagrams(socket) => {
                socket.outstanding.fetch_sub(self.bytes, Ordering::AcqRel);
                socket.on_room();
            }
        }
        self.tenant.on_room(self.shared);
    }
}
