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
use gyre_interface::tcp::{Endpoint, NetError};
use gyre_object::Bytes;

/// Offset of the checksum in a UDP header.
const CHECKSUM_AT: usize = 6;

impl Udp {
    pub(super) fn send_datagram(
        &'static self,
        socket: &Arc<UdpSocket>,
        to: Endpoint,
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
            has_checksum: true,
        };
        let mut header = header.bytes();
        if !self.shared.is_local(to.address) {
            let checksum = checksum(source, to.address, &header, &data);
            put(&mut header, CHECKSUM_AT, &checksum);
        }
        if ipv4::HEADER_BYTES.saturating_add(total) <= self.shared.packet_bytes_max(to.address) {
            let ip = ipv4::Header::new(source, to.address, ipv4::PROTOCOL_UDP, total);
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
                ..ipv4::Header::new(source, destination, ipv4::PROTOCOL_UDP, end.saturating_sub(offset))
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

fn checksum(source: Ip, destination: Ip, header: &[u8], data: &Bytes) -> [u8; 2] {
    let mut sum = Sum::pseudo(source, destination, ipv4::PROTOCOL_UDP, header.len().saturating_add(data.len()));
    sum.add(header);
    sum.add(data.as_slice());
    // zero means that there is none (RFC 768)
    match sum.finish() {
        [0, 0] => [0xff, 0xff],
        checksum => checksum,
    }
}
