//! From the machine to the writer: segments become packets, one request each, as long as there is room on the way down.

use super::{Connection, Tcp};
use crate::alarm::{Alarm, NEVER};
use crate::connection_key::ConnectionKey;
use crate::packet::OutPacket;
use crate::receipt::{Receipt, Sender};
use crate::shared::{labels, now_ns};
use crate::statistics::{DropReason, add};
use crate::tcp::time_wait::TimeWait;
use crate::tcp::{Outgoing, State};
use crate::tenant::Tenant;
use crate::wire::tcp::{HEADER_BYTES_MAX, Header};
use crate::wire::{Sum, ethernet, ipv4, put};
use crate::writer::place_headers;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, SocketAddress, SocketId};

/// Offset of the checksum in a TCP header.
const CHECKSUM_AT: u16 = 16;
/// Most bytes of an IP packet behind its header.
const IP_PAYLOAD_MAX: usize = 0xffff - ipv4::HEADER_BYTES;

/// The two ends of a packet to send.
pub(super) struct Ends {
    pub tenant: &'static Tenant,
    pub local: SocketAddress,
    pub remote: SocketAddress,
    pub label: u64,
}

impl Tcp {
    /// Does the work after any change of a connection: sends, tells its users, sets its timer, clears up after its
    /// end. `again` names bits that are news to users although they were set.
    pub(super) fn after(&'static self, connection: &Arc<Connection>, again: Ready) {
        let now = now_ns();
        while connection.may_send(self.shared) {
            let burst = connection.burst_bytes(self.shared);
            let segment = {
                let mut machine = connection.machine.lock();
                machine.limit_burst(burst);
                machine.next_segment(now)
            };
            let Some(segment) = segment else {
                break;
            };
            self.send_for(connection, segment);
        }
        // those before it in line may have gone without a word
        if connection.blocked.load(Ordering::Acquire) {
            connection.tenant.on_room(self.shared);
        }
        let (ready, is_early, state, is_closed) = {
            let machine = connection.machine.lock();
            connection.untell(&machine);
            let is_early = connection.alarm.set(machine.deadline_ns().unwrap_or(NEVER));
            (machine.ready(), is_early, machine.state(), machine.is_closed())
        };
        connection.tell(ready, again);
        if is_closed || state == State::TimeWait {
            self.finish(connection, now);
        } else if is_early {
            self.arm(connection.id, connection.key.label, &connection.alarm);
        }
    }

    /// Tells the timer of an alarm.
    pub(super) fn arm(&self, socket: SocketId, label: u64, alarm: &Arc<Alarm>) {
        if let Some(ports) = self.shared.ports.get() {
            drop(ports.tcp_timer.labelled(labels(label)).arm(socket, label, alarm.clone()));
        }
    }

    /// Removes an ended connection from the tables, except for the facts that TIME-WAIT must remember.
    fn finish(&self, connection: &Arc<Connection>, now: u64) {
        let is_orphan = connection.is_orphan.load(Ordering::Acquire);
        if !connection.is_over.swap(true, Ordering::AcqRel) {
            let (end, figures) = {
                let machine = connection.machine.lock();
                ((machine.state() == State::TimeWait).then(|| TimeWait::of(&machine)), machine.figures())
            };
            self.table.remove(connection, end, now);
            add(&connection.tenant.counters.retransmissions, u64::from(figures.retransmissions));
            add(&connection.tenant.counters.copied_bytes, figures.copied_bytes);
            if connection.alarm.is_armed()
                && let Some(ports) = self.shared.ports.get()
            {
                drop(ports.tcp_timer.disarm(connection.id));
            }
        }
        // its user and an arriving segment may both come here, on two cores: its place is given back once
        if is_orphan && self.table.remove_handle(connection.id) {
            connection.tenant.give_socket();
        }
    }

    fn send_for(&'static self, connection: &Arc<Connection>, segment: Outgoing) {
        let ends = Ends {
            tenant: connection.tenant,
            local: connection.local,
            remote: connection.remote,
            label: connection.key.label,
        };
        self.send_segment(&ends, segment, Sender::Connection(connection.clone()));
    }

    /// Sends a segment without a waiting sender; dropped if the tenant has too much on the way.
    pub(super) fn send_bare(&'static self, ends: &Ends, segment: Outgoing) {
        if !ends.tenant.may_send(self.shared) {
            return ends.tenant.counters.drop(DropReason::SendFull);
        }
        self.send_segment(ends, segment, Sender::Nobody);
    }

    fn send_segment(&'static self, ends: &Ends, segment: Outgoing, sender: Sender) {
        let Some(ports) = self.shared.ports.get() else {
            return;
        };
        match self.packet(ends, segment, sender) {
            Ok(packet) => drop(ports.net_write.labelled(labels(ends.label)).send(packet)),
            // lost like a packet on the way: TCP repeats it
            Err(_) => ends.tenant.counters.drop(DropReason::OutOfMemory),
        }
    }

    fn packet(&self, ends: &Ends, segment: Outgoing, sender: Sender) -> Result<OutPacket, NetError> {
        let header = Header {
            source_port: ends.local.port,
            destination_port: ends.remote.port,
            sequence: segment.sequence,
            acknowledgment: segment.acknowledgment,
            flags: segment.flags,
            window: segment.window,
            options: segment.options,
        };
        let mut bytes = [0; HEADER_BYTES_MAX];
        let length = header.write(&mut bytes);
        let total = length.checked_add(segment.payload_bytes).ok_or(NetError::TooLong)?;
        if total > IP_PAYLOAD_MAX {
            return Err(NetError::TooLong);
        }
        let (local, remote) = (ends.local.address, ends.remote.address);
        let transport = bytes.get_mut(..length).ok_or(NetError::Invalid)?;
        let checksum = self.fill_checksum(transport, &segment, ends, total);
        let ip = ipv4::Header::new(local, remote, ipv4::PROTOCOL_TCP, total);
        let head = place_headers(ends.tenant, &ip, transport)?;
        let cut = (segment.cut_bytes > 0).then_some((segment.cut_bytes as u16, head.len() as u16));
        Ok(OutPacket {
            tenant: ends.tenant,
            source: local,
            destination: remote,
            head,
            payload: segment.payload,
            checksum,
            segment: cut,
            label: ends.label,
            receipt: Receipt::take(self.shared, ends.tenant, sender, total),
        })
    }

    /// Computes the checksum, or the part of it that an offloading device wants; packets that stay in this machine need none.
    fn fill_checksum(&self, transport: &mut [u8], segment: &Outgoing, ends: &Ends, total: usize) -> Option<(u16, u16)> {
        if self.shared.is_intact_to(ends.remote.address) {
            return None;
        }
        let mut sum = Sum::pseudo(ends.local.address, ends.remote.address, ipv4::PROTOCOL_TCP, total);
        if self.shared.cards.last().properties.checksum_offload {
            put(transport, usize::from(CHECKSUM_AT), &sum.partial());
            return Some(((ethernet::HEADER_BYTES + ipv4::HEADER_BYTES) as u16, CHECKSUM_AT));
        }
        // the cutter of the segment sums its parts
        if segment.cut_bytes > 0 {
            return None;
        }
        sum.add(transport);
        segment.payload.iter().for_each(|piece| sum.add(piece.as_slice()));
        put(transport, usize::from(CHECKSUM_AT), &sum.finish());
        None
    }

    pub(super) fn connection_key(&self, tenant: &Tenant, local: SocketAddress, remote: SocketAddress) -> ConnectionKey {
        let words = crate::connection_key::words(tenant, local.address, local.port, remote.address, remote.port);
        ConnectionKey { words, label: self.shared.label(words) }
    }
}
