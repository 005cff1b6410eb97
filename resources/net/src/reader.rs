//! The network device read resource: whose is this frame? Nothing else is decided here (paper section IV-B, adversaries 1).
//!
//! Work before the answer is known is infrastructure; from then on the owner pays, and the frame is one of a bounded number
//! that may wait for the owner's protocols.

use crate::packet::{Admission, Packet};
use crate::shared::{NetPorts, Shared, is_loopback, labels, now_ns};
use crate::statistics::{DropReason, add};
use crate::tenant::Tenant;
use crate::wire::{BROADCAST_MAC, arp, be16, ethernet, ipv4};
use alloc::vec::Vec;
use gyre_account::set_current_activity;
use gyre_interface::link::{FrameStream, LinkError, OutFrame};
use gyre_object::Bytes;

/// Frames sorted before the core's scheduler is asked who is next.
const TURN_FRAMES: usize = 32;

impl Shared {
    /// Reads frames: a task of the infrastructure. Ends when the device is gone.
    pub(crate) async fn read_frames(&'static self, device: &'static impl FrameStream) {
        let (mut turn, mut batch) = (0, Batch::default());
        loop {
            match device.next().await {
                Ok(frames) => {
                    turn = frames.len().saturating_add(turn);
                    self.on_frames(frames, &mut batch);
                    // under a flood there is always another frame: others get their turn
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
    fn on_frames(&'static self, frames: Vec<Bytes>, batch: &mut Batch) {
        let before = gyre_account::current_activity();
        for frame in &frames {
            // whose it is, is not known yet
            set_current_activity(before);
            if let Some(packet) = self.sort(frame) {
                batch.add(packet);
            }
        }
        match self.ports.get() {
            Some(ports) => batch.dispatch(&ports),
            None => batch.packets.clear(),
        }
        set_current_activity(before);
    }

    /// A frame's packet, if it is for somebody's protocols.
    fn sort(&'static self, frame: &Bytes) -> Option<Packet> {
        let data = frame.as_slice();
        let header = ethernet::Header::read(data);
        let for_us = header
            .filter(|header| header.destination == self.config.properties.mac || header.destination == BROADCAST_MAC);
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

    fn drop_unowned(&self, reason: DropReason) {
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
        // our own addresses do not arrive from outside (LAND), groups do not send (RFC 1122 section 3.2.1.3)
        let source = header.source;
        if self.is_local(source) || source[0] >= 224 || source[0] == 0 || self.is_broadcast(source) {
            tenant.counters.drop(DropReason::Spoofed);
            return None;
        }
        self.admitted(tenant, header, body, Vec::new(), false)
    }

    /// Queues a packet for its owner's protocols, where there is room. The owner is the current activity.
    pub(crate) fn admit(
        &'static self,
        tenant: &'static Tenant,
        header: ipv4::Header,
        body: Bytes,
        more: Vec<Bytes>,
        is_local: bool,
    ) {
        if let (Some(packet), Some(ports)) = (self.admitted(tenant, header, body, more, is_local), self.ports.get()) {
            dispatch(&ports, packet, Vec::new());
        }
    }

    /// The packet with a place among those that wait; `None` where there are too many, which is counted.
    fn admitted(
        &'static self,
        tenant: &'static Tenant,
        header: ipv4::Header,
        body: Bytes,
        more: Vec<Bytes>,
        is_local: bool,
    ) -> Option<Packet> {
        let Some(admission) = Admission::take(tenant) else {
            tenant.counters.drop(DropReason::Overload);
            return None;
        };
        add(&tenant.counters.received_packets, 1);
        add(&tenant.counters.received_bytes, header.total_bytes as u64);
        let label = self.label_of(tenant, &header, body.as_slice());
        Some(Packet { tenant, header, body, more, is_local, label, admission })
    }

    /// The label of the connection or socket that a packet belongs to.
    fn label_of(&self, tenant: &Tenant, header: &ipv4::Header, body: &[u8]) -> u64 {
        let ports = be16(body, 0).zip(be16(body, 2)).unwrap_or_default();
        match header.protocol {
            ipv4::PROTOCOL_TCP if !header.is_fragment() => {
                self.label(crate::flow::words(tenant, header.destination, ports.1, header.source, ports.0))
            }
            ipv4::PROTOCOL_UDP if !header.is_fragment() => {
                self.label(crate::flow::words(tenant, [0; 4], ports.1, [0; 4], 0))
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
        // nobody else may speak for our addresses
        let honest = self.owner_of(packet.sender).is_none() && !is_loopback(packet.sender) && packet.sender != [0; 4];
        if honest && self.neighbours.table.lock().learn(packet.sender, packet.sender_mac, owner.is_some(), now_ns()) {
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
        let mac = self.config.properties.mac;
        let reply = arp::Packet {
            operation: arp::REPLY,
            sender_mac: mac,
            sender: owner.address,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        self.send_arp(owner, request.sender_mac, &reply);
    }

    /// Sends an ARP packet; nobody waits for it.
    pub(crate) fn send_arp(&'static self, tenant: &'static Tenant, to: crate::wire::Mac, packet: &arp::Packet) {
        let header = ethernet::Header { destination: to, source: self.config.properties.mac, kind: ethernet::TYPE_ARP };
        let mut bytes = [0; ethernet::HEADER_BYTES + arp::PACKET_BYTES];
        crate::wire::put(&mut bytes, 0, &header.bytes());
        crate::wire::put(&mut bytes, ethernet::HEADER_BYTES, &packet.bytes());
        match tenant.header(&bytes) {
            Some(frame) => drop(self.config.link_write.transmit(OutFrame {
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

/// Hands a packet to the protocol that it is for, with more of its connection. Nobody waits for the answers.
fn dispatch(ports: &NetPorts, packet: Packet, more: Vec<Packet>) {
    let labels = labels(packet.label);
    if packet.header.is_fragment() {
        return drop(ports.icmp_input.fragment(packet));
    }
    match packet.header.protocol {
        ipv4::PROTOCOL_TCP => drop(ports.tcp_input.labelled(labels).segments(packet, more)),
        ipv4::PROTOCOL_UDP => drop(ports.udp_input.labelled(labels).datagram(packet)),
        ipv4::PROTOCOL_ICMP => drop(ports.icmp_input.message(packet)),
        _ => packet.tenant.counters.drop(DropReason::Unknown),
    }
}
