//! ICMP: answers echo requests, passes errors to TCP and UDP, reports closed ports (RFC 792, RFC 1122 section 3.2.2); and
//! reassembly of fragments, whose packets then go the way of whole ones.

use crate::connection_key::Hashed;
use crate::fragments::Fragments;
use crate::packet::{Origin, OutPacket, Packet};
use crate::protocols::icmp_input;
use crate::receipt::{Receipt, Sender};
use crate::shared::{Shared, now_ns};
use crate::statistics::DropReason;
use crate::tenant::Tenant;
use crate::udp::UdpSocket;
use crate::wire::icmp::{
    CODE_PORT, CODE_PROTOCOL, CODE_TOO_LONG, ECHO_REPLY, ECHO_REQUEST, HEADER_BYTES, Quoted, UNREACHABLE,
};
use crate::wire::{Ip, Sum, ipv4, put};
use crate::writer::place_headers;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use gyre_interface::tcp::NetError;
use gyre_object::{Bytes, SpinLock};
use hashbrown::HashMap;

/// Bytes of a packet quoted in an error message, beside its IP header (RFC 792).
const QUOTED_BYTES: usize = 8;

/// Serves [`icmp_input`] and `interface::icmp`.
pub struct Icmp {
    pub(crate) shared: &'static Shared,
    pub(crate) sockets: SpinLock<HashMap<u64, Arc<UdpSocket>, Hashed>>,
    pub(crate) next: AtomicU64,
    /// By tenant, so that one cannot push out the fragments of another.
    fragments: SpinLock<BTreeMap<u16, Fragments>>,
}

impl Icmp {
    pub(crate) fn new(shared: &'static Shared) -> Icmp {
        Icmp { shared, sockets: SpinLock::default(), next: AtomicU64::new(1), fragments: SpinLock::default() }
    }

    /// Returns how many packets lack fragments.
    #[cfg(test)]
    pub(crate) fn incomplete(&self) -> usize {
        self.fragments.lock().values().map(Fragments::len).sum()
    }
}

impl icmp_input::Server for Icmp {
    async fn message(&'static self, packet: Packet) -> Result<(), NetError> {
        let counters = &packet.tenant.counters;
        let mut sum = Sum::default();
        sum.add(packet.body.as_slice());
        packet.more.iter().for_each(|piece| sum.add(piece.as_slice()));
        if packet.body.len() < HEADER_BYTES || !(packet.origin.is_unsummed() || sum.is_intact()) {
            counters.drop(DropReason::Checksum);
            return Err(NetError::Invalid);
        }
        self.deliver(&packet);
        let data = packet.body.as_slice();
        match (data.first(), data.get(1)) {
            (Some(&ECHO_REQUEST), _) => self.shared.send_echo(&packet),
            (Some(&UNREACHABLE), Some(code)) => self.on_unreachable(&packet, *code),
            (Some(&ECHO_REPLY), _) => {}
            _ => counters.drop(DropReason::Unknown),
        }
        Ok(())
    }

    async fn fragment(&'static self, packet: Packet) -> Result<(), NetError> {
        let (tenant, header) = (packet.tenant, packet.header);
        let whole = {
            let mut all = self.fragments.lock();
            all.entry(tenant.index).or_default().insert(&header, packet.body.clone(), now_ns())
        };
        drop(packet);
        match whole {
            Ok(Some((header, body))) => self.shared.admit(tenant, header, body, Vec::new(), Origin::Wire),
            Ok(None) => {}
            Err(()) => tenant.counters.drop(DropReason::Fragment),
        }
        Ok(())
    }
}

impl Icmp {
    /// Tells the protocol whose packet could not be delivered.
    fn on_unreachable(&self, packet: &Packet, code: u8) {
        // over the loopback the quotation is a piece of its own
        let quotation = packet.more.first().map_or(packet.body.slice(HEADER_BYTES, packet.body.len()), Bytes::clone);
        let quoted = Quoted::read(quotation.as_slice());
        // a quotation of another sender's packet is no news for this tenant
        let quoted = quoted.filter(|quoted| quoted.source == packet.tenant.address || packet.origin == Origin::Here);
        let (Some(quoted), Some(ports)) = (quoted, self.shared.ports.get()) else {
            return packet.tenant.counters.drop(DropReason::Malformed);
        };
        let error = match code {
            CODE_PORT | CODE_PROTOCOL => NetError::Refused,
            CODE_TOO_LONG => NetError::TooLong,
            _ => NetError::Unreachable,
        };
        match quoted.protocol {
            ipv4::PROTOCOL_TCP if code != CODE_TOO_LONG => drop(ports.tcp_input.unreachable(quoted, error)),
            ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_UDP_LITE => drop(ports.udp_input.unreachable(quoted, error)),
            _ => {}
        }
    }
}

impl Shared {
    /// Answers an echo request with its own bytes.
    fn send_echo(&'static self, packet: &Packet) {
        if !packet.tenant.may_complain(now_ns()) {
            return;
        }
        let mut head = [0; HEADER_BYTES];
        let request = packet.body.as_slice().get(4..HEADER_BYTES).unwrap_or(&[0; 4]);
        put(&mut head, 0, &[ECHO_REPLY, 0]);
        put(&mut head, 4, request);
        let mut payload = alloc::vec![packet.body.slice(HEADER_BYTES, packet.body.len())];
        payload.extend(packet.more.iter().cloned());
        self.send_icmp(packet.tenant, packet.header.destination, packet.header.source, head, payload);
    }

    /// Tells the sender of a packet that no socket takes it. Broadcasts, fragments and errors get no such answer.
    pub(crate) fn send_unreachable(&'static self, packet: &Packet, code: u8) {
        if self.is_broadcast(packet.header.destination) || packet.header.fragment_offset != 0 {
            return;
        }
        let mut head = [0; HEADER_BYTES];
        put(&mut head, 0, &[UNREACHABLE, code]);
        let mut quote = packet.header.bytes().to_vec();
        quote.extend_from_slice(packet.body.slice(0, QUOTED_BYTES).as_slice());
        if let Ok(quote) = Bytes::copy_from(&quote) {
            self.send_icmp(packet.tenant, packet.header.destination, packet.header.source, head, alloc::vec![quote]);
        }
    }

    /// Sends a message that no socket has asked for.
    fn send_icmp(
        &'static self,
        tenant: &'static Tenant,
        from: Ip,
        to: Ip,
        head: [u8; HEADER_BYTES],
        payload: Vec<Bytes>,
    ) {
        if !tenant.may_send(self) {
            return tenant.counters.drop(DropReason::SendFull);
        }
        match self.send_icmp_for(Sender::Nobody, tenant, from, to, head, payload) {
            Ok(()) => {}
            Err(NetError::TooLong) => tenant.counters.drop(DropReason::Fragment),
            Err(_) => tenant.counters.drop(DropReason::OutOfMemory),
        }
    }

    /// Sends a message with its checksum.
    pub(crate) fn send_icmp_for(
        &'static self,
        sender: Sender,
        tenant: &'static Tenant,
        from: Ip,
        to: Ip,
        mut head: [u8; HEADER_BYTES],
        payload: Vec<Bytes>,
    ) -> Result<(), NetError> {
        let ports = self.ports.get().ok_or(NetError::Gone)?;
        let mut sum = Sum::default();
        sum.add(&head);
        payload.iter().for_each(|piece| sum.add(piece.as_slice()));
        put(&mut head, 2, &sum.finish());
        let bytes = HEADER_BYTES.saturating_add(payload.iter().map(Bytes::len).sum());
        if ipv4::HEADER_BYTES.saturating_add(bytes) > self.packet_bytes_max(to) {
            return Err(NetError::TooLong);
        }
        let ip = ipv4::Header::new(from, to, ipv4::PROTOCOL_ICMP, bytes);
        let packet = OutPacket {
            tenant,
            source: from,
            destination: to,
            head: place_headers(tenant, &ip, &head)?,
            payload,
            checksum: None,
            segment: None,
            label: 0,
            receipt: Receipt::take(self, tenant, sender, bytes),
        };
        drop(ports.net_write.send(packet));
        Ok(())
    }
}
