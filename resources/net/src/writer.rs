//! The network device write resource: finds the next hop of a packet, puts the Ethernet header before it and hands it
//! to the device's queue. The frame carries the sender's receipt, so this ends at the device's scheduler.

use crate::limits::{ANSWER_WAITERS_MAX, NEIGHBOUR_WAITERS_MAX};
use crate::links::Port;
use crate::neighbours::{ASK_EVERY_NS, Caller, Step};
use crate::packet::{Origin, OutPacket};
use crate::protocols::net_write;
use crate::shared::{Shared, is_loopback, labels, now_ns};
use crate::statistics::{DropReason, add};
use crate::tenant::Tenant;
use crate::wire::{BROADCAST_MAC, Ip, Mac, arp, ethernet, ipv4, put};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{set_current_activity, set_current_tenant};
use gyre_interface::link::{self, OutFrame};
use gyre_interface::tcp::NetError;
use gyre_message::select;
use gyre_object::Bytes;

/// Serves [`net_write`].
pub struct Writer {
    pub(crate) shared: &'static Shared,
}

impl net_write::Server for Writer {
    async fn send(&'static self, packet: OutPacket) -> Result<(), NetError> {
        let tenant = packet.tenant;
        let (packets, bytes) = packet.on_link();
        add(&tenant.counters.sent_packets, packets as u64);
        add(&tenant.counters.sent_bytes, bytes as u64);
        if self.shared.is_local(packet.destination) {
            if is_loopback(packet.destination) || packet.destination == tenant.address {
                add(&tenant.counters.local_packets, packets as u64);
                add(&tenant.counters.local_bytes, bytes as u64);
            }
            self.shared.loop_back(packet);
            return Ok(());
        }
        if let Some(port) = self.shared.links.to(packet.destination) {
            return self.shared.transmit_to(port, packet);
        }
        let sent = self.shared.transmit(packet).await;
        if sent.is_err() {
            tenant.counters.drop(DropReason::Unreachable);
        }
        sent
    }
}

impl Shared {
    async fn transmit(&'static self, packet: OutPacket) -> Result<(), NetError> {
        if !self.cards.is_up() {
            return Err(NetError::Unreachable);
        }
        let mac = match self.is_broadcast(packet.destination) {
            true => BROADCAST_MAC,
            false => {
                let hop = self.next_hop(packet.destination).ok_or(NetError::Unreachable)?;
                // answers to strangers must not fill the tenant's room while their invented addresses are asked for
                let waiters_max = if packet.receipt.is_nobodys() { ANSWER_WAITERS_MAX } else { NEIGHBOUR_WAITERS_MAX };
                self.resolve(packet.tenant, hop, waiters_max).await?
            }
        };
        hand_over(self.write_to(mac), packet, mac, self.cards.last().properties.mac);
        Ok(())
    }

    /// Sends a packet by a link that leads to one neighbour: nobody is asked for its hardware address.
    fn transmit_to(&'static self, port: &'static Port, mut packet: OutPacket) -> Result<(), NetError> {
        packet.receipt.note_other_way();
        if !port.is_up() {
            add(&port.counters.dropped_down, 1);
            packet.tenant.counters.drop(DropReason::LinkDown);
            return Err(NetError::Unreachable);
        }
        add(&port.counters.sent_packets, 1);
        add(&port.counters.sent_bytes, packet.bytes() as u64);
        let mac = port.config.properties.mac;
        hand_over(port.config.write, packet, mac, mac);
        Ok(())
    }

    /// Returns the hardware address of a neighbour, asked for if it is not known.
    async fn resolve(&'static self, tenant: &'static Tenant, ip: Ip, waiters_max: usize) -> Result<Mac, NetError> {
        let mut waiter = Waiter { shared: self, ip, caller: Caller::New };
        loop {
            let answer = self.neighbours.answered.wait();
            let step = self.neighbours.table.lock().step(ip, waiter.caller, waiters_max, now_ns());
            if matches!(step, Step::Ask | Step::Wait) {
                waiter.caller = Caller::Waits;
            }
            match step {
                Step::Send(mac) => return Ok(mac),
                Step::Absent => return Err(NetError::Unreachable),
                Step::Ask => self.ask(tenant, ip),
                Step::Wait => {}
            }
            select(answer, gyre_message::sleep_ns(ASK_EVERY_NS)).await;
        }
    }

    fn ask(&'static self, tenant: &'static Tenant, ip: Ip) {
        let question = arp::Packet {
            operation: arp::REQUEST,
            sender_mac: self.cards.last().properties.mac,
            sender: tenant.address,
            target_mac: [0; 6],
            target: ip,
        };
        self.send_arp(tenant, BROADCAST_MAC, &question);
    }

    /// Hands a packet back to the reader, by reference: its checksums were never computed.
    fn loop_back(&'static self, packet: OutPacket) {
        let destination = match is_loopback(packet.destination) {
            true => Some(packet.tenant),
            false => self.owner_of(packet.destination),
        };
        let Some(tenant) = destination else {
            return;
        };
        let bytes = packet.bytes();
        let mut header =
            ipv4::Header::new(packet.source, packet.destination, 0, bytes.saturating_sub(ipv4::HEADER_BYTES));
        let head = packet.head.as_slice();
        let Some(protocol) = head.get(ethernet::HEADER_BYTES + 9) else {
            return;
        };
        header.protocol = *protocol;
        let body = packet.head.slice(ethernet::HEADER_BYTES + ipv4::HEADER_BYTES, packet.head.len());
        let before = set_current_tenant(tenant.activity);
        self.admit(tenant, header, body, packet.payload, Origin::Here);
        set_current_activity(before);
    }
}

/// Puts the Ethernet header before a packet and hands it to a link's queue.
#[inline]
fn hand_over(write: link::link::Client, packet: OutPacket, destination: Mac, source: Mac) {
    let header = ethernet::Header { destination, source, kind: ethernet::TYPE_IPV4 };
    let (page, start) = packet.head.location();
    page.write(start, &header.bytes());
    let mut pieces = Vec::with_capacity(packet.payload.len().saturating_add(1));
    pieces.push(packet.head);
    pieces.extend(packet.payload);
    let receipt: Option<link::Receipt> = Some(Box::new(packet.receipt));
    let frame = OutFrame { pieces, checksum: packet.checksum, segment: packet.segment, receipt };
    // the answer is not awaited: the receipt tells its sender when there is room again
    drop(write.labelled(labels(packet.label)).transmit(frame));
}

/// Leaves the neighbour's waiters when dropped, also by a kill.
struct Waiter {
    shared: &'static Shared,
    ip: Ip,
    caller: Caller,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.caller == Caller::Waits {
            self.shared.neighbours.table.lock().leave(self.ip);
        }
    }
}

/// Returns the headers of IP and transport with room for Ethernet's, placed so that a device can read them.
pub(crate) fn place_headers(tenant: &Tenant, ip: &ipv4::Header, transport: &[u8]) -> Result<Bytes, NetError> {
    let mut bytes = [0; crate::headers::SLOT_BYTES];
    let start = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
    put(&mut bytes, ethernet::HEADER_BYTES, &ip.bytes());
    put(&mut bytes, start, transport);
    let used = bytes.get(..start.saturating_add(transport.len())).unwrap_or(&[]);
    tenant.header(used).filter(|head| head.len() >= start).ok_or(NetError::OutOfMemory)
}
