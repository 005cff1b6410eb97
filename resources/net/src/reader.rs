//! The network device read resource: it finds the owner of each frame, and decides nothing else (paper section IV-B,
//! adversaries 1).
//!
//! Work before the owner is known is infrastructure; from then on the owner pays, and the frame is one of a bounded
//! number that may wait for the owner's protocols.
//!
//! Steps for a frame: (1) check the Ethernet header; (2) answer or learn from ARP; (3) check the IP header and find
//! the tenant of the destination address; (4) admit the packet, or drop and count it for that tenant; (5) give it the
//! label of its connection, joined with others of that connection in a row, and send it to its protocol. No answer is
//! awaited.

use crate::door::{Approach, Door};
use crate::links::{LinkId, Port};
use crate::neighbours::Asked;
use crate::packet::{Admission, Origin, Packet};
use crate::shared::{NetPorts, Shared, is_loopback, labels, now_ns};
use crate::statistics::{DropReason, add};
use crate::tenant::Tenant;
use crate::wire::{BROADCAST_MAC, arp, be16, ethernet, ipv4};
use alloc::vec::Vec;
use gyre_account::set_current_activity;
use gyre_interface::link::{FrameStream, LinkError, OutFrame, ReceivedFrame};
use gyre_object::Bytes;

/// Frames sorted before other work of the core may run.
const TURN_FRAMES: usize = 32;

impl Shared {
    /// Reads the card's frames: a task of the infrastructure. Ends when the device is gone.
    pub(crate) async fn read_frames(&'static self, device: &'static impl FrameStream) {
        self.read(device, |frame| self.sort(frame)).await;
    }

    /// Reads a link's frames: a task of the infrastructure. Ends when its device is gone.
    pub(crate) async fn read_link(&'static self, id: LinkId, device: &'static impl FrameStream) {
        if let Some(port) = self.links.port(id) {
            self.read(device, |frame| self.sort_of(port, frame)).await;
        }
    }

    async fn read<D: FrameStream>(&'static self, device: &'static D, sort: impl Fn(D::Frame) -> Option<Packet>) {
        let (mut turn, mut batch) = (0, Batch::default());
        loop {
            match device.next().await {
                Ok(frames) => {
                    turn = frames.len().saturating_add(turn);
                    self.on_frames(frames, &mut batch, &sort);
                    // under a flood there is always another frame: other work must run, too
                    if turn >= TURN_FRAMES {
                        turn = 0;
                        gyre_message::yield_now().await;
                    }
                }
                Err(LinkError::Gone) => return,
                // the driver resets the device; trying again at once would spin
                Err(_) => gyre_message::sleep_ns(10_000_000).await,
            }
        }
    }

    /// Finds the owners of frames and hands them on.
    fn on_frames<F>(&'static self, frames: Vec<F>, batch: &mut Batch, sort: &impl Fn(F) -> Option<Packet>) {
        let before = gyre_account::current_activity();
        for frame in frames {
            // its owner is not known yet
            set_current_activity(before);
            if let Some(packet) = sort(frame) {
                batch.add(packet);
            }
        }
        match self.ports.get() {
            Some(ports) => batch.dispatch(&ports),
            None => batch.packets.clear(),
        }
        set_current_activity(before);
    }

    /// Returns a frame's packet, if it is for an owner's protocols.
    pub(crate) fn sort(&'static self, frame: impl ReceivedFrame) -> Option<Packet> {
        let (frame, _) = frame.into_pieces();
        let data = frame.as_slice();
        let header = ethernet::Header::read(data);
        let own = self.cards.last().properties.mac;
        let others = header.as_ref().filter(|header| header.destination != own);
        if others.is_some_and(|header| self.pass_to_guests(header, &frame)) {
            return None;
        }
        let for_us = header.filter(|header| header.destination == own || header.destination == BROADCAST_MAC);
        let Some(header) = for_us else {
            self.drop_unowned(DropReason::Unowned);
            return None;
        };
        match header.kind {
            ethernet::TYPE_IPV4 => return self.on_link_packet(frame.slice(ethernet::HEADER_BYTES, frame.len())),
            ethernet::TYPE_ARP => self.on_arp(data.get(ethernet::HEADER_BYTES..).unwrap_or(&[])),
            _ => self.drop_unowned(DropReason::Unknown),
        }
        None
    }

    pub(crate) fn drop_unowned(&self, reason: DropReason) {
        set_current_activity(self.unowned.activity);
        self.unowned.counters.drop(reason);
    }

    fn on_link_packet(&'static self, packet: Bytes) -> Option<Packet> {
        let Some(header) = ipv4::Header::read(packet.as_slice()) else {
            self.drop_unowned(DropReason::Malformed);
            return None;
        };
        let Some(tenant) = self.owner_of(header.destination) else {
            self.drop_unowned(DropReason::Unowned);
            return None;
        };
        set_current_activity(tenant.activity);
        let body = packet.slice(header.header_bytes, header.total_bytes);
        // our own addresses do not arrive from outside (LAND), nor do those behind other links; groups do not send (RFC 1122 section
        // 3.2.1.3)
        let source = header.source;
        let is_spoofed = self.is_local(source) || source[0] >= 224 || source[0] == 0 || self.is_broadcast(source);
        if is_spoofed || self.links.to(source).is_some() {
            tenant.counters.drop(DropReason::Spoofed);
            return None;
        }
        self.admitted(tenant, header, body, Vec::new(), Origin::Wire)
    }

    /// Returns the packet of a frame that came by a link to one neighbour. It speaks for its own addresses only, and IP only.
    fn sort_of(&'static self, port: &'static Port, frame: impl ReceivedFrame) -> Option<Packet> {
        let (head, more) = frame.into_pieces();
        let header = ethernet::Header::read(head.as_slice());
        if header.as_ref().is_some_and(|header| header.destination != port.config.properties.mac) {
            return self.sort_bridged(port, head, more);
        }
        let kind = header.map(|header| header.kind);
        if kind != Some(ethernet::TYPE_IPV4) {
            self.drop_unowned(DropReason::Unknown);
            return None;
        }
        let packet = head.slice(ethernet::HEADER_BYTES, head.len());
        let beside = more.iter().map(Bytes::len).sum();
        let Some(header) = ipv4::Header::read_beside(packet.as_slice(), beside) else {
            self.drop_unowned(DropReason::Malformed);
            return None;
        };
        let Some(tenant) = self.owner_of(header.destination) else {
            self.drop_unowned(DropReason::Unowned);
            return None;
        };
        set_current_activity(tenant.activity);
        if !self.links.to(header.source).is_some_and(|owner| core::ptr::eq(owner, port)) {
            tenant.counters.drop(DropReason::Spoofed);
            return None;
        }
        add(&port.counters.received_packets, 1);
        add(&port.counters.received_bytes, header.total_bytes as u64);
        let body = packet.slice(header.header_bytes, packet.len());
        self.admitted(tenant, header, body, more, Origin::Neighbour)
    }

    /// Queues a packet for its owner's protocols, if there is room. The owner is the current activity.
    pub(crate) fn admit(
        &'static self,
        tenant: &'static Tenant,
        header: ipv4::Header,
        body: Bytes,
        more: Vec<Bytes>,
        origin: Origin,
    ) {
        if let (Some(packet), Some(ports)) = (self.admitted(tenant, header, body, more, origin), self.ports.get()) {
            dispatch(&ports, packet, Vec::new());
        }
    }

    /// Returns the packet with a place among those that wait; `None` if there are too many, which is counted.
    fn admitted(
        &'static self,
        tenant: &'static Tenant,
        header: ipv4::Header,
        body: Bytes,
        more: Vec<Bytes>,
        origin: Origin,
    ) -> Option<Packet> {
        if !self.may_enter(tenant, &header, body.as_slice()) {
            tenant.counters.drop(DropReason::NotAllowed);
            return None;
        }
        if tenant.is_refused(&header, body.as_slice()) {
            tenant.counters.drop(DropReason::Overloaded);
            return None;
        }
        let Some(admission) = Admission::take(tenant) else {
            tenant.counters.drop(DropReason::Overload);
            return None;
        };
        add(&tenant.counters.received_packets, 1);
        add(&tenant.counters.received_bytes, header.total_bytes as u64);
        let label = self.label_of(tenant, &header, body.as_slice());
        Some(Packet { tenant, header, body, more, origin, label, came_ns: 0, admission })
    }

    /// Returns whether a packet is not from a neighbour that may not reach the tenant.
    fn may_enter(&self, tenant: &Tenant, header: &ipv4::Header, body: &[u8]) -> bool {
        tenant.door == Door::Open
            || !self.is_neighbour(tenant, header.source)
            || tenant.door.lets_in(header.source, Approach::of(header, body))
    }

    /// Returns the label of the connection or socket that a packet belongs to.
    fn label_of(&self, tenant: &Tenant, header: &ipv4::Header, body: &[u8]) -> u64 {
        let ports = be16(body, 0).zip(be16(body, 2)).unwrap_or_default();
        match header.protocol {
            ipv4::PROTOCOL_TCP if !header.is_fragment() => {
                self.label(crate::connection_key::words(tenant, header.destination, ports.1, header.source, ports.0))
            }
            ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_UDP_LITE if !header.is_fragment() => {
                self.label(crate::connection_key::words(tenant, [0; 4], ports.1, [0; 4], 0))
            }
            _ => 0,
        }
    }

    fn on_arp(&'static self, data: &[u8]) {
        let Some(packet) = arp::Packet::read(data) else {
            return self.drop_unowned(DropReason::Malformed);
        };
        let owner = self.owner_of(packet.target);
        set_current_activity(owner.map_or(self.unowned.activity, |owner| owner.activity));
        // no other host may speak for our addresses
        let honest = self.owner_of(packet.sender).is_none() && !is_loopback(packet.sender) && packet.sender != [0; 4];
        let asked = if owner.is_some() { Asked::OfUs } else { Asked::OfOthers };
        if honest && self.neighbours.table.lock().learn(packet.sender, packet.sender_mac, asked, now_ns()) {
            self.neighbours.answered.wake_all();
        }
        match owner {
            Some(owner) if packet.operation == arp::REQUEST => self.answer_arp(owner, &packet),
            Some(_) => {}
            None => self.unowned.counters.drop(DropReason::Unowned),
        }
    }

    fn answer_arp(&'static self, owner: &'static Tenant, request: &arp::Packet) {
        if !owner.may_send(self) || !owner.may_complain(now_ns()) {
            return owner.counters.drop(DropReason::SendFull);
        }
        let mac = self.cards.last().properties.mac;
        let reply = arp::Packet {
            operation: arp::REPLY,
            sender_mac: mac,
            sender: owner.address,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        self.send_arp(owner, request.sender_mac, &reply);
    }

    /// Tells the segment the hardware address of all tenants' addresses.
    pub(crate) fn announce(&'static self) {
        let (before, mac) = (gyre_account::current_activity(), self.cards.last().properties.mac);
        for tenant in self.tenants() {
            set_current_activity(tenant.activity);
            let (sender, target) = (tenant.address, tenant.address);
            let words = arp::Packet { operation: arp::REQUEST, sender_mac: mac, sender, target_mac: [0; 6], target };
            self.send_arp(tenant, BROADCAST_MAC, &words);
        }
        set_current_activity(before);
    }

    /// Sends an ARP packet without waiting for it.
    pub(crate) fn send_arp(&'static self, tenant: &'static Tenant, to: crate::wire::Mac, packet: &arp::Packet) {
        let header =
            ethernet::Header { destination: to, source: self.cards.last().properties.mac, kind: ethernet::TYPE_ARP };
        let mut bytes = [0; ethernet::HEADER_BYTES + arp::PACKET_BYTES];
        crate::wire::put(&mut bytes, 0, &header.bytes());
        crate::wire::put(&mut bytes, ethernet::HEADER_BYTES, &packet.bytes());
        match tenant.header(&bytes) {
            Some(frame) => drop(self.write_to(to).transmit(OutFrame {
                pieces: alloc::vec![frame],
                checksum: None,
                segment: None,
                receipt: None,
            })),
            None => tenant.counters.drop(DropReason::OutOfMemory),
        }
    }
}

/// Packets that arrived together: those of a connection become one request.
#[derive(Default)]
struct Batch {
    packets: Vec<Option<Packet>>,
}

impl Batch {
    fn add(&mut self, packet: Packet) {
        self.packets.push(Some(packet));
    }

    /// Hands all of them on, each connection's in order, and leaves room for the next batch.
    fn dispatch(&mut self, ports: &NetPorts) {
        let now = if self.packets.is_empty() { 0 } else { now_ns() };
        self.packets.iter_mut().flatten().for_each(|packet| packet.came_ns = now);
        for index in 0..self.packets.len() {
            let (_, rest) = self.packets.split_at_mut(index);
            let Some((first, rest)) = rest.split_first_mut() else {
                break;
            };
            let Some(first) = first.take() else {
                continue;
            };
            let mut more = Vec::new();
            if first.header.protocol == ipv4::PROTOCOL_TCP && !first.header.is_fragment() {
                let same = |place: &mut Option<Packet>| place.take_if(|packet| packet.goes_with(&first));
                more.extend(rest.iter_mut().filter_map(same));
            }
            set_current_activity(first.tenant.activity);
            dispatch(ports, first, more);
        }
        self.packets.clear();
    }
}

/// Hands a packet to its protocol, with more of its connection, without waiting for the answers.
fn dispatch(ports: &NetPorts, packet: Packet, more: Vec<Packet>) {
    let labels = labels(packet.label);
    if packet.header.is_fragment() {
        return drop(ports.icmp_input.fragment(packet));
    }
    match packet.header.protocol {
        ipv4::PROTOCOL_TCP => drop(ports.tcp_input.labelled(labels).segments(packet, more)),
        ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_UDP_LITE => {
            drop(ports.udp_input.labelled(labels).datagram(packet));
        }
        ipv4::PROTOCOL_ICMP => drop(ports.icmp_input.message(packet)),
        _ => packet.tenant.counters.drop(DropReason::Unknown),
    }
}
