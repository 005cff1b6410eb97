//! Frames of IPv4 over Ethernet: reading, changing and making those that the way out needs (RFC 791, 768, 793, 792).
//!
//! * [`View::of`] reads a frame and believes no length that the frame does not have.
//! * [`View::redirect`] writes other ends into a segment and corrects its checksums by the difference, so that one that was wrong stays
//!   wrong.
//! * [`View::reset`], [`View::unreachable`] and [`View::answer`] make frames back to the sender.
//!
//! Nothing here panics, whatever the bytes are.

use std::net::{Ipv4Addr, SocketAddrV4};

use gyre_contract::address;

const ETHERNET: usize = 14;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// Bytes of a packet that an error quotes beside its IP header.
const QUOTED: usize = 8;
const TYPE_IPV4: [u8; 2] = [8, 0];
/// Bits of TCP's flags.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// The longest payload of a datagram that fits into one frame.
pub const DATAGRAM_MAX: usize = 1500 - IP_HEADER - UDP_HEADER;

/// ICMP's protocol number.
pub const ICMP: u8 = 1;
/// TCP's protocol number.
pub const TCP: u8 = 6;
/// UDP's protocol number.
pub const UDP: u8 = 17;
/// No host there (RFC 792).
pub const HOST_UNREACHABLE: u8 = 1;
/// No socket there.
pub const PORT_UNREACHABLE: u8 = 3;
/// Forbidden on purpose (RFC 1812 section 5.2.7.1).
pub const PROHIBITED: u8 = 13;

/// The facts of a frame that holds a whole IPv4 packet, or the first part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The sender; port 0 for other protocols than TCP and UDP.
    pub from: SocketAddrV4,
    /// The receiver.
    pub to: SocketAddrV4,
    /// The protocol's number.
    pub protocol: u8,
    /// True for a part of a packet.
    pub is_fragment: bool,
    /// The protocol's header begins here.
    at: usize,
    /// The packet ends here.
    end: usize,
}

impl View {
    /// Reads a frame; `None` if it is no IPv4 packet in order.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ETHERNET..)?;
        let header = usize::from(ip.first()? & 15) * 4;
        let length = usize::from(word(ip, 2)?);
        if frame.get(12..14)? != TYPE_IPV4
            || ip[0] >> 4 != 4
            || header < IP_HEADER
            || !(header..=ip.len()).contains(&length)
        {
            return None;
        }
        let protocol = *ip.get(9)?;
        let is_fragment = word(ip, 6)? & 0x3fff != 0;
        let ports = match protocol {
            TCP | UDP if word(ip, 6)? & 0x1fff == 0 => (word(ip, header)?, word(ip, header + 2)?),
            _ => (0, 0),
        };
        let least = match protocol {
            TCP => TCP_HEADER,
            UDP => UDP_HEADER,
            _ => 0,
        };
        let is_whole = is_fragment || length >= header + least;
        is_whole.then_some(Self {
            from: SocketAddrV4::new(quad(ip, 12)?, ports.0),
            to: SocketAddrV4::new(quad(ip, 16)?, ports.1),
            protocol,
            is_fragment,
            at: ETHERNET + header,
            end: ETHERNET + length,
        })
    }

    /// Returns whether it opens a connection.
    pub fn opens(&self, frame: &[u8]) -> bool {
        self.flags(frame) & (SYN | ACK | RST | FIN) == SYN
    }

    /// Returns whether it resets a connection.
    pub fn resets(&self, frame: &[u8]) -> bool {
        self.flags(frame) & RST != 0
    }

    fn flags(&self, frame: &[u8]) -> u8 {
        frame.get(self.at + 13).copied().unwrap_or(0)
    }

    /// Returns the payload of a datagram; `None` if its length is a lie.
    pub fn datagram<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::from(word(frame, self.at + 4)?);
        let end = self.at.checked_add(length).filter(|end| *end <= self.end)?;
        frame.get(self.at + UDP_HEADER..end)
    }

    /// Writes other ends into a TCP frame, with the checksums that follow (RFC 1624).
    pub fn redirect(&self, frame: &mut [u8], from: SocketAddrV4, to: SocketAddrV4) {
        let old = [address_words(self.from), address_words(self.to)].concat();
        let new = [address_words(from), address_words(to)].concat();
        update(frame, ETHERNET + 10, &old, &new);
        let with_port = |words: Vec<u16>| [words, vec![self.from.port(), self.to.port()]].concat();
        let new = [new, vec![from.port(), to.port()]].concat();
        update(frame, self.at + 16, &with_port(old), &new);
        put(frame, ETHERNET + 12, &from.ip().octets());
        put(frame, ETHERNET + 16, &to.ip().octets());
        put(frame, self.at, &from.port().to_be_bytes());
        put(frame, self.at + 2, &to.port().to_be_bytes());
    }

    /// Returns the answer that refuses a connection: RST for its SYN, or for a segment of none.
    pub fn reset(&self, frame: &[u8]) -> Vec<u8> {
        let part = frame.get(self.at..self.end).unwrap_or_default();
        let (sequence, acknowledged) = (long(part, 4), long(part, 8));
        let header = usize::from(part.get(12).copied().unwrap_or(0) >> 4) * 4;
        let flags = self.flags(frame);
        let counted =
            part.len().saturating_sub(header) as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let mut tcp = [self.to.port().to_be_bytes(), self.from.port().to_be_bytes()].concat();
        // RFC 793 page 36: if the segment says what it expects, the reset has that; else it acknowledges the segment.
        match flags & ACK {
            0 => tcp.extend([[0; 4], sequence.wrapping_add(counted).to_be_bytes()].concat()),
            _ => tcp.extend([acknowledged.to_be_bytes(), [0; 4]].concat()),
        }
        tcp.extend([0x50, if flags & ACK == 0 { RST | ACK } else { RST }, 0, 0, 0, 0, 0, 0]);
        let sum = pseudo_sum(*self.to.ip(), *self.from.ip(), TCP, &tcp);
        put(&mut tcp, 16, &sum);
        packet(frame, *self.to.ip(), *self.from.ip(), TCP, &tcp)
    }

    /// Returns the message that a packet could not be delivered, from `by`.
    pub fn unreachable(&self, frame: &[u8], by: Ipv4Addr, code: u8) -> Vec<u8> {
        let mut icmp = vec![3, code, 0, 0, 0, 0, 0, 0];
        let quoted = frame.get(ETHERNET..self.end.min(self.at + QUOTED)).unwrap_or_default();
        icmp.extend_from_slice(quoted);
        let sum = sum_of(&icmp, 0);
        put(&mut icmp, 2, &sum);
        debug_assert!(icmp.len() >= ICMP_HEADER);
        packet(frame, by, *self.from.ip(), ICMP, &icmp)
    }

    /// Returns a datagram that answers the sender of a frame, as from the frame's receiver.
    pub fn answer(&self, frame: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = (UDP_HEADER + payload.len()) as u16;
        let head = [self.to.port(), self.from.port(), length, 0].map(u16::to_be_bytes).concat();
        let mut udp = [&head[..], payload].concat();
        let sum = match pseudo_sum(*self.to.ip(), *self.from.ip(), UDP, &udp) {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        };
        put(&mut udp, 6, &sum);
        packet(frame, *self.to.ip(), *self.from.ip(), UDP, &udp)
    }
}

/// Returns a frame to the sender of another, with an IPv4 packet.
fn packet(to: &[u8], source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend(((IP_HEADER + body.len()) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    ip.extend(source.octets());
    ip.extend(destination.octets());
    let sum = sum_of(&ip, 0);
    put(&mut ip, 10, &sum);
    let mac = to.get(6..12).unwrap_or(&[0; 6]);
    [mac, &address::GATEWAY_MAC, &TYPE_IPV4, &ip, body].concat()
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn quad(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(four))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

fn address_words(end: SocketAddrV4) -> Vec<u16> {
    let [a, b, c, d] = end.ip().octets();
    vec![u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the checksum of bytes (RFC 1071), to which `start` is added.
fn sum_of(bytes: &[u8], start: u64) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    (!fold(words.sum::<u64>() + start)).to_be_bytes()
}

fn pseudo_sum(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, body: &[u8]) -> [u8; 2] {
    let ends = [source.octets(), destination.octets()].concat();
    let words: u64 = ends.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    sum_of(body, words + u64::from(protocol) + body.len() as u64)
}

/// Changes a checksum for words that change.
fn update(frame: &mut [u8], at: usize, old: &[u16], new: &[u16]) {
    let Some(sum) = word(frame, at) else { return };
    let removed: u64 = old.iter().map(|word| u64::from(!*word)).sum();
    let added: u64 = new.iter().map(|word| u64::from(*word)).sum();
    let sum = !fold(u64::from(!sum) + removed + added);
    put(frame, at, &sum.to_be_bytes());
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const TENANT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 11), 4000);
    pub const FAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), 443);

    /// Returns a frame of the tenant.
    pub fn frame(to: SocketAddrV4, protocol: u8, body: &[u8]) -> Vec<u8> {
        let from = [&[0; 6][..], &[2, 0, 0, 0, 0, 9]].concat();
        let mut made = packet(&from, *TENANT.ip(), *to.ip(), protocol, body);
        made[..6].copy_from_slice(&address::GATEWAY_MAC);
        made[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        made
    }

    pub fn syn(to: SocketAddrV4) -> Vec<u8> {
        let mut tcp = [TENANT.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        tcp.extend([0, 0, 0, 7, 0, 0, 0, 0, 0x50, SYN, 0, 9, 0, 0, 0, 0]);
        let sum = pseudo_sum(*TENANT.ip(), *to.ip(), TCP, &tcp);
        put(&mut tcp, 16, &sum);
        frame(to, TCP, &tcp)
    }

    pub fn datagram(to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
        let length = (UDP_HEADER + payload.len()) as u16;
        let head = [TENANT.port(), to.port(), length, 0].map(u16::to_be_bytes).concat();
        frame(to, UDP, &[&head[..], payload].concat())
    }

    fn is_intact(frame: &[u8]) -> bool {
        let view = View::of(frame).unwrap();
        let body = &frame[view.at..view.end];
        sum_of(&frame[ETHERNET..view.at], 0) == [0, 0]
            && match view.protocol {
                ICMP => sum_of(body, 0) == [0, 0],
                protocol => pseudo_sum(*view.from.ip(), *view.to.ip(), protocol, body) == [0, 0],
            }
    }

    #[test]
    fn redirected_frames_keep_their_checksums() {
        let mut one = syn(FAR);
        assert!(is_intact(&one));
        let view = View::of(&one).unwrap();
        let (from, to) =
            (SocketAddrV4::new(*TENANT.ip(), 1025), SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 65_000));
        view.redirect(&mut one, from, to);
        let changed = View::of(&one).unwrap();
        assert_eq!((changed.from, changed.to), (from, to));
        assert!(is_intact(&one) && changed.opens(&one));
        changed.redirect(&mut one, TENANT, FAR);
        assert_eq!(one, syn(FAR));
    }

    #[test]
    fn refusals_name_what_they_refuse() {
        let one = syn(FAR);
        let view = View::of(&one).unwrap();
        let reset = view.reset(&one);
        let of_reset = View::of(&reset).unwrap();
        assert_eq!((of_reset.from, of_reset.to), (FAR, TENANT));
        assert!(is_intact(&reset) && of_reset.resets(&reset));
        assert_eq!(long(&reset, of_reset.at + 8), 8, "it acknowledges the SYN");
        let prohibited = view.unreachable(&one, Ipv4Addr::from(address::GATEWAY), PROHIBITED);
        let of_icmp = View::of(&prohibited).unwrap();
        assert!(is_intact(&prohibited) && of_icmp.protocol == ICMP);
        assert_eq!(&prohibited[of_icmp.at + 8..], &one[ETHERNET..ETHERNET + 28]);
    }

    #[test]
    fn answers_go_back_to_who_asked() {
        let asked = datagram(FAR, b"question");
        let view = View::of(&asked).unwrap();
        assert_eq!(view.datagram(&asked), Some(&b"question"[..]));
        let answer = view.answer(&asked, b"odd");
        let back = View::of(&answer).unwrap();
        assert_eq!((back.from, back.to, back.datagram(&answer)), (FAR, TENANT, Some(&b"odd"[..])));
        assert!(is_intact(&answer));
        assert_eq!(&answer[..6], &[2, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn nonsense_is_no_packet() {
        let good = datagram(FAR, b"question");
        for length in 0..good.len() {
            assert_eq!(View::of(&good[..length]), None, "{length}");
        }
        let mut short = good.clone();
        short[ETHERNET] = 0x44;
        assert_eq!(View::of(&short), None);
        let mut lie = good.clone();
        put(&mut lie, 14 + 20 + 4, &500_u16.to_be_bytes());
        assert_eq!(View::of(&lie).unwrap().datagram(&lie), None);
    }
}
