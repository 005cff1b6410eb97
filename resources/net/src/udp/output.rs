//! Datagrams to send; those longer than the link takes are cut (RFC 791 section 3.2).

use super::{Udp, UdpSocket};
use crate::packet::OutPacket;
use crate::receipt::{Receipt, Sender};
use crate::shared::labels;
use crate::wire::{Ip, Sum, ipv4, put, udp};
use crate::writer::place_headers;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::tcp::{NetError, SocketAddress};
use gyre_interface::udp::Kind;
use gyre_object::Bytes;

/// Offset of the checksum in a UDP header.
const CHECKSUM_AT: usize = 6;

impl Udp {
    pub(super) fn send_datagram(
        &'static self,
        socket: &Arc<UdpSocket>,
        to: SocketAddress,
        data: Bytes,
    ) -> Result<(), NetError> {
        let source = match socket.local.address {
            [0, 0, 0, 0] => self.shared.source_for(socket.tenant, to.address),
            address => address,
        };
        let total = udp::HEADER_BYTES.checked_add(data.len()).ok_or(NetError::TooLong)?;
        let header = udp::Header {
            source_port: socket.local.port,
            destination_port: to.port,
            total_bytes: total,
            covered_bytes: socket.covered_bytes(total),
            has_checksum: true,
        };
        let protocol = protocol_of(socket.kind);
        let covered_bytes = header.covered_bytes;
        let mut header = header.bytes();
        if !self.shared.is_intact_to(to.address) {
            let covered = data.slice(0, covered_bytes.saturating_sub(udp::HEADER_BYTES));
            let pseudo = Sum::pseudo(source, to.address, protocol, total);
            let checksum = checksum(pseudo, &header, &covered);
            put(&mut header, CHECKSUM_AT, &checksum);
        }
        if ipv4::HEADER_BYTES.saturating_add(total) <= self.shared.packet_bytes_max(to.address) {
            let ip = ipv4::Header::new(source, to.address, protocol, total);
            return self.send_packet(socket, &ip, &header, data);
        }
        self.send_fragments(socket, source, to.address, &header, &data)
    }

    fn send_fragments(
        &'static self,
        socket: &Arc<UdpSocket>,
        source: Ip,
        destination: Ip,
        header: &[u8; udp::HEADER_BYTES],
        data: &Bytes,
    ) -> Result<(), NetError> {
        let room = self.shared.packet_bytes_max(destination).saturating_sub(ipv4::HEADER_BYTES);
        // every fragment but the last is full, and so many times eight bytes long
        let room = room.saturating_sub(room % 8);
        if room <= udp::HEADER_BYTES {
            return Err(NetError::TooLong);
        }
        let identification = self.identification.fetch_add(1, Ordering::Relaxed);
        let total = udp::HEADER_BYTES.saturating_add(data.len());
        for offset in (0..total).step_by(room) {
            let end = offset.saturating_add(room).min(total);
            let transport = if offset == 0 { &header[..] } else { &[] };
            let of_data = |at: usize| at.saturating_sub(udp::HEADER_BYTES);
            let ip = ipv4::Header {
                identification,
                fragment_offset: offset,
                more_fragments: end < total,
                whole_only: false,
                ..ipv4::Header::new(source, destination, protocol_of(socket.kind), end.saturating_sub(offset))
            };
            self.send_packet(socket, &ip, transport, data.slice(of_data(offset), of_data(end)))?;
        }
        Ok(())
    }

    fn send_packet(
        &'static self,
        socket: &Arc<UdpSocket>,
        ip: &ipv4::Header,
        transport: &[u8],
        data: Bytes,
    ) -> Result<(), NetError> {
        let ports = self.shared.ports.get().ok_or(NetError::Gone)?;
        let head = place_headers(socket.tenant, ip, transport)?;
        let payload = if data.is_empty() { Vec::new() } else { alloc::vec![data] };
        let packet = OutPacket {
            tenant: socket.tenant,
            source: ip.source,
            destination: ip.destination,
            head,
            payload,
            checksum: None,
            segment: None,
            label: socket.label,
            receipt: Receipt::take(self.shared, socket.tenant, Sender::Datagrams(socket.clone()), ip.total_bytes),
        };
        drop(ports.net_write.labelled(labels(socket.label)).send(packet));
        Ok(())
    }
}

fn protocol_of(kind: Kind) -> u8 {
    match kind {
        Kind::Udp => ipv4::PROTOCOL_UDP,
        Kind::Lite => ipv4::PROTOCOL_UDP_LITE,
    }
}

fn checksum(mut sum: Sum, header: &[u8], data: &Bytes) -> [u8; 2] {
    sum.add(header);
    sum.add(data.as_slice());
    // zero means that there is none (RFC 768)
    match sum.finish() {
        [0, 0] => [0xff, 0xff],
        checksum => checksum,
    }
}
