//! The other end of the wire: it hears the path's segments, answers some, and sends what it wants.

use crate::tcp::Seq;
use crate::tests::hostile::{Datagram, fragment, frame, mutated_frame, syn_to};
use crate::tests::inside::End;
use crate::tests::rig::*;
use crate::tests::streams::at;
use crate::wire::tcp::{Flags, Header, Options};
use crate::wire::{Ip, Sum, arp, ethernet, icmp, ipv4, put};
use gyre_interface::tcp::SocketAddress;
use gyre_mutate::Input;
use std::vec::Vec;

/// Connections that it knows; others have their turn later.
const ENDS_MAX: usize = 8;
/// The ports of the tenants' sockets, and some of nobody.
pub const PORTS: &[u16] = &[80, 81, 53, 7, 0, u16::MAX];
/// Its own ports.
pub const THEIRS: &[u16] = &[4000, 4001, 80, 0, u16::MAX];
const OWNERS: &[Ip] = &[GOLD_IP, BRONZE_IP, GOLD_IP, [10, 0, 0, 55], [10, 0, 0, 255], [127, 0, 0, 1]];
/// Control bits of honest segments, and of some others.
const FLAGS: &[Flags] = &[
    Flags::ACK,
    Flags::ACK.union(Flags::PSH),
    Flags::ACK.union(Flags::FIN),
    Flags::RST,
    Flags::RST.union(Flags::ACK),
    Flags::SYN,
    Flags::SYN.union(Flags::ACK),
    Flags::empty(),
    Flags::ACK.union(Flags::URG),
];
const WINDOWS: &[u16] = &[60_000, 0, 1, 1000, u16::MAX];
const SIZES: &[usize] = &[0, 1, 100, 1448];

/// See the module.
#[derive(Default)]
pub struct Stranger {
    ends: Vec<End>,
    /// The last packet that it heard, for messages about it.
    last: Vec<u8>,
}

impl Stranger {
    /// Sends a frame that nobody asked for.
    pub fn send(&mut self, rig: Rig, input: &mut Input<'_>) {
        let frame = match input.byte() % 12 {
            0 | 1 => self.open(input),
            2 | 3 => self.proper(input),
            4 | 5 => self.end(input).map_or_else(Vec::new, |end| end.hostile(input)),
            6 => mutated_frame(input),
            7 => datagram(input),
            8 => part(input),
            9 => self.message(input),
            10 => question(input),
            _ => (0..input.number() % 2000).map(|_| input.byte()).collect(),
        };
        rig.wire.inject(&frame);
    }

    /// Hears what the path has sent, and answers its segments as a peer does.
    pub fn answer(&mut self, rig: Rig, input: &mut Input<'_>) {
        for frame in rig.sent() {
            self.hear(frame);
        }
        let window = input.one_of(WINDOWS);
        for end in &mut self.ends {
            let flags = if end.next == Seq(0) { Flags::SYN | Flags::ACK } else { Flags::ACK };
            let header = Header { window, ..end.header(flags) };
            rig.wire.inject(&end.segment(&header, b""));
            end.next = end.next + header.length(0);
        }
    }

    fn hear(&mut self, frame: Vec<u8>) {
        let address = |start: usize| frame[start..start + 4].try_into().unwrap_or_default();
        if frame[12..14] != [8, 0] {
            return;
        }
        if frame[23] == ipv4::PROTOCOL_TCP
            && let Some((header, bytes)) = Header::read(&frame[34..])
        {
            let (from, to) = (at(address(30), header.destination_port), at(address(26), header.source_port));
            let ours = header.sequence + header.length((frame.len() - 34 - bytes) as u32);
            let has_next = header.flags.contains(Flags::ACK);
            self.note(End { from, to, next: if has_next { header.acknowledgment } else { Seq(0) }, ours });
        }
        self.last = frame;
    }

    fn note(&mut self, heard: End) {
        self.ends.retain(|end| (end.from, end.to) != (heard.from, heard.to));
        self.ends.push(heard);
        if self.ends.len() > ENDS_MAX {
            self.ends.remove(0);
        }
    }

    fn end(&self, input: &mut Input<'_>) -> Option<&End> {
        let turn = input.below(self.ends.len());
        self.ends.get(turn)
    }

    fn open(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let from = at(PEER_IP, input.one_of(THEIRS));
        syn_to(from, somewhere(input), input.number() as u32)
    }

    /// A segment with the numbers that the path expects.
    fn proper(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let turn = input.below(self.ends.len());
        let Some(end) = self.ends.get_mut(turn) else { return Vec::new() };
        let payload = std::vec![7; input.one_of(SIZES)];
        let mut header = Header { window: input.one_of(WINDOWS), ..end.header(input.one_of(FLAGS)) };
        if input.hits(8) {
            header.options = Options { timestamps: Some((input.number() as u32, 0)), ..Options::default() };
        }
        end.next = end.next + header.length(payload.len() as u32);
        end.segment(&header, &payload)
    }

    /// A message of ICMP: a question, or that a packet of the path could not be delivered.
    fn message(&self, input: &mut Input<'_>) -> Vec<u8> {
        let kind = input.one_of(&[icmp::UNREACHABLE, icmp::UNREACHABLE, icmp::ECHO_REQUEST, icmp::ECHO_REPLY, 11]);
        let mut body = std::vec![kind, input.byte() % 16, 0, 0, 0, 0];
        body.extend((input.number() as u16).to_be_bytes());
        let to = self.last.get(26..30).map_or(GOLD_IP, |source| source.try_into().unwrap_or(GOLD_IP));
        body.extend(self.last.iter().skip(ethernet::HEADER_BYTES).take(usize::from(input.byte())));
        let mut sum = Sum::default();
        sum.add(&body);
        put(&mut body, 2, &sum.finish());
        frame(PEER_IP, to, ipv4::PROTOCOL_ICMP, &body)
    }
}

fn somewhere(input: &mut Input<'_>) -> SocketAddress {
    at(input.one_of(OWNERS), input.one_of(PORTS))
}

fn payload(input: &mut Input<'_>) -> Vec<u8> {
    std::vec![5; input.one_of(&[0, 1, 200, 1400])]
}

fn datagram(input: &mut Input<'_>) -> Vec<u8> {
    let protocol = input.one_of(&[ipv4::PROTOCOL_UDP, ipv4::PROTOCOL_UDP_LITE]);
    let (SocketAddress { address: to, port }, payload) = (somewhere(input), payload(input));
    let covered = if protocol == ipv4::PROTOCOL_UDP { 0 } else { input.number() as u16 };
    let body = Datagram { protocol, to, ports: [input.one_of(THEIRS), port], covered, payload: &payload }.body();
    frame(PEER_IP, to, protocol, &body)
}

/// One of three parts of a datagram, or of one that is like it.
fn part(input: &mut Input<'_>) -> Vec<u8> {
    let protocol = ipv4::PROTOCOL_UDP;
    let body = Datagram { protocol, to: GOLD_IP, ports: [7, 53], covered: 0, payload: &[9; 112] }.body();
    let (part, bytes) = (input.below(4), input.one_of(&[40, 40, 40, 48, 33]));
    let start = (part * 40).min(body.len());
    let end = (start + bytes).min(body.len());
    let header = ipv4::Header {
        fragment_offset: start,
        more_fragments: (end < body.len()) != input.hits(16),
        whole_only: false,
        identification: u16::from(input.byte() % 20),
        ..ipv4::Header::new(PEER_IP, GOLD_IP, protocol, end - start)
    };
    fragment(&header, &body[start..end])
}

/// A question or an answer of ARP.
fn question(input: &mut Input<'_>) -> Vec<u8> {
    let any = [10, 0, 0, input.byte()];
    let packet = arp::Packet {
        operation: input.one_of(&[arp::REQUEST, arp::REPLY, 0]),
        sender_mac: input.one_of(&[PEER_MAC, PEER_MAC, [2, 0, 0, 0, 0, 77], [0xff; 6], [0; 6]]),
        sender: input.one_of(&[PEER_IP, [10, 0, 0, 254], [10, 0, 0, 20], GOLD_IP, any]),
        target_mac: OUR_MAC,
        target: input.one_of(OWNERS),
    };
    let mut frame =
        ethernet::Header { destination: OUR_MAC, source: PEER_MAC, kind: ethernet::TYPE_ARP }.bytes().to_vec();
    frame.extend(packet.bytes());
    frame
}
