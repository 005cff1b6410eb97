//! The next segment to send (RFC 9293 sections 3.7 to 3.10).
//!
//! [`Machine::next_segment`] answers, in this order: (1) a reply to a bad segment; (2) SYN or its acknowledgment; (3)
//! repetition of lost data, the oldest first; (4) new data and FIN, as far as windows and the rules against small
//! segments allow; (5) a probe of a silent peer; (6) a bare acknowledgment. The caller asks until it answers `None`,
//! and only while there is room on the way to the device.
//!
//! Each answer counts as sent: numbers, timers and windows move on. Left out: headers below TCP's, which the resource
//! adds.

use super::machine::AckDue;
use super::{Machine, Seq, State};
use crate::wire::tcp::{Flags, Options};
use alloc::vec::Vec;
use gyre_object::Bytes;

/// Longest that a cork or Nagle's rule by cork holds a partial segment, ns (as Linux documents for TCP_CORK).
const CORK_NS: u64 = 200_000_000;
/// Full segments that wait with a corked end behind them.
const CORKED_SEGMENTS: u32 = 6;
/// Most pieces of payload in a segment; more are copied together. A device's descriptors are few.
const PIECES_MAX: usize = 6;

/// A segment to send, without ports, checksum and the headers below.
#[derive(Clone)]
pub struct Outgoing {
    /// Number of the first byte.
    pub sequence: Seq,
    /// The next number expected.
    pub acknowledgment: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window as it stands in the header.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Payload by reference.
    pub payload: Vec<Bytes>,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Payload bytes per segment, if the device must cut it; 0 otherwise.
    pub cut_bytes: usize,
}

impl Outgoing {
    /// Returns a segment without payload.
    pub fn empty(options: Options) -> Outgoing {
        Outgoing {
            sequence: Seq(0),
            acknowledgment: Seq(0),
            flags: Flags::empty(),
            window: 0,
            options,
            payload: Vec::new(),
            payload_bytes: 0,
            cut_bytes: 0,
        }
    }
}

impl Machine {
    /// Returns the next segment to send now, if there is one. Call until it answers `None`, or until the way down is full.
    pub fn next_segment(&mut self, now_ns: u64) -> Option<Outgoing> {
        if let Some(reply) = self.reply.take() {
            return Some(reply);
        }
        match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.next_syn(now_ns),
            _ => self
                .next_repetition(now_ns)
                .or_else(|| self.next_tail(now_ns))
                .or_else(|| self.next_data(now_ns))
                .or_else(|| self.next_probe(now_ns))
                .or_else(|| self.next_ack(now_ns)),
        }
    }

    fn next_syn(&mut self, now_ns: u64) -> Option<Outgoing> {
        if self.syn_sent {
            return self.next_ack(now_ns);
        }
        self.syn_sent = true;
        let options = Options {
            segment_bytes_max: Some(self.settings.segment_bytes_max),
            window_scale: self.offer_scale.then(|| super::machine::scale_for(self.settings.receive_bytes_max)),
            sack_permitted: self.state == State::SynSent || self.receive.sack,
            timestamps: self.stamp_option(now_ns),
            ..Options::default()
        };
        let mut segment = Outgoing::empty(options);
        segment.sequence = self.settings.first;
        segment.window = self.syn_window() as u16;
        segment.flags = Flags::SYN;
        if self.state == State::SynReceived {
            segment.flags |= Flags::ACK;
            segment.acknowledgment = self.receive.nxt;
            self.receive.ack_due = AckDue::No;
            self.receive.acked = self.receive.nxt;
        }
        let first_time = self.send.retries == 0;
        self.send.nxt = self.settings.first + 1;
        self.send.timed = first_time.then_some((self.send.nxt, now_ns));
        self.arm_retransmit(now_ns);
        Some(segment)
    }

    /// Returns the timestamp option: offered in our SYN, used if the peer offered it too.
    fn stamp_option(&self, now_ns: u64) -> Option<(u32, u32)> {
        match (self.receive.stamps, self.state) {
            (Some(stamps), _) => Some((self.stamp(now_ns), stamps.recent)),
            (None, State::SynSent) => Some((self.stamp(now_ns), 0)),
            _ => None,
        }
    }

    fn options(&self, now_ns: u64) -> Options {
        Options { timestamps: self.stamp_option(now_ns), ..Options::default() }
    }

    /// Repeats lost data, the oldest first, as far as the congestion window allows.
    fn next_repetition(&mut self, now_ns: u64) -> Option<Outgoing> {
        if self.send.una == self.send.nxt {
            self.send.repeat_now = false;
            return None;
        }
        let from = self.send.repeated.max(self.send.una);
        let (start, end) = self.scoreboard.hole(from, self.lost_edge())?;
        let length = end.since(start).min(self.payload_bytes_max());
        let room = self.congestion.window().saturating_sub(self.pipe());
        if !core::mem::take(&mut self.send.repeat_now) && room < length {
            return None;
        }
        self.send.repeated = start + length;
        self.send.timed = None;
        self.figures.retransmissions = self.figures.retransmissions.saturating_add(1);
        let segment = self.segment(start, length, now_ns);
        self.arm_retransmit(now_ns);
        Some(segment)
    }

    /// Repeats the last segment (see `on_tail`).
    fn next_tail(&mut self, now_ns: u64) -> Option<Outgoing> {
        if !core::mem::take(&mut self.send.tail_due) || self.flight() == 0 {
            return None;
        }
        let length = self.flight().min(self.payload_bytes_max());
        self.send.timed = None;
        self.figures.retransmissions = self.figures.retransmissions.saturating_add(1);
        let start = self.send.nxt - length;
        let segment = self.segment(start, length, now_ns);
        self.arm_retransmit(now_ns);
        Some(segment)
    }

    /// Sends new data or FIN.
    fn next_data(&mut self, now_ns: u64) -> Option<Outgoing> {
        if self.send.fin_sent {
            return None;
        }
        self.restart_after_idle(now_ns);
        let unsent = self.data_end().since(self.send.nxt);
        self.send.push &= unsent > 0;
        let length = self.sendable(unsent, now_ns);
        let fin = self.send.fin_queued && length == unsent;
        if length == 0 && !fin {
            return None;
        }
        let start = self.send.nxt;
        let payload_max = self.payload_bytes_max();
        self.send.nxt = start + length;
        if fin {
            self.send.fin_sent = true;
            self.send.nxt = self.send.nxt + 1;
        }
        if !length.is_multiple_of(payload_max) {
            self.send.small_end = self.send.nxt;
        }
        self.send.push = false;
        self.timers.cork = None;
        self.send.timed.get_or_insert((self.send.nxt, now_ns));
        let mut segment = self.segment(start, length.saturating_add(u32::from(fin)), now_ns);
        if length > payload_max {
            segment.cut_bytes = payload_max as usize;
        }
        self.arm_retransmit(now_ns);
        self.arm_tail(now_ns);
        Some(segment)
    }

    /// Returns the bytes of `unsent` that may be sent now; zero if windows or the rules against small segments say
    /// wait.
    fn sendable(&mut self, unsent: u32, now_ns: u64) -> u32 {
        let segment = self.payload_bytes_max();
        let window = (self.send.una + self.send.window).since(self.send.nxt);
        let congestion = self.congestion.window().saturating_sub(self.pipe());
        // rounded up, so that the room of a turn does not leave a large segment and a small frame
        let whole = full_segments(self.send.burst_bytes.saturating_add(segment).saturating_sub(1), segment);
        let burst = whole.min(full_segments(self.settings.offload_bytes_max as u32, segment)).max(segment);
        let wanted = unsent.min(burst);
        let length = wanted.min(window).min(congestion);
        if length < unsent.min(segment) {
            if congestion < window {
                return 0;
            }
            // silly window (RFC 9293 section 3.8.6.2.1): a partial segment only if it is half of the peer's largest
            // offer
            let enough = length > 0 && (self.send.push || length >= self.send.window_max.div_ceil(2));
            if !enough {
                self.arm_persist(now_ns);
                return 0;
            }
            return length;
        }
        if length == unsent {
            if length.is_multiple_of(segment) || self.may_send_small(now_ns) {
                return length;
            }
            // a corked end and the full segments before it go together: they are one when the cork is drawn, as it is soon
            let is_short = length <= CORKED_SEGMENTS.saturating_mul(segment);
            return if self.send.cork && is_short { 0 } else { full_segments(length, segment) };
        }
        full_segments(length, segment)
    }

    /// Nagle's rule (RFC 9293 section 3.7.4) in Minshall's form, TCP_NODELAY and TCP_CORK, for the last partial segment.
    fn may_send_small(&mut self, now_ns: u64) -> bool {
        if self.send.fin_queued || self.send.push {
            return true;
        }
        if self.send.cork {
            self.timers.cork.get_or_insert(now_ns.saturating_add(CORK_NS));
            return false;
        }
        self.send.no_delay || self.send.small_end.until(self.send.una)
    }

    fn restart_after_idle(&mut self, now_ns: u64) {
        let idle_ns = now_ns.saturating_sub(self.send.sent_at_ns);
        if self.flight() == 0 && self.send.sent_at_ns != 0 && idle_ns > self.round_trip.timeout_ns() {
            self.congestion.idled();
            self.send.sent_at_ns = now_ns;
        }
    }

    /// Returns a segment with a number that the peer has seen, which it answers (window probe, keep-alive), if one is
    /// due.
    fn next_probe(&mut self, now_ns: u64) -> Option<Outgoing> {
        if !core::mem::take(&mut self.send.probe_due) {
            return None;
        }
        let mut segment = self.bare(now_ns);
        segment.sequence = self.send.una - 1;
        Some(segment)
    }

    fn next_ack(&mut self, now_ns: u64) -> Option<Outgoing> {
        (self.receive.ack_due == AckDue::Now).then(|| self.bare(now_ns))
    }

    /// Returns an acknowledgment, with the ranges received out of order.
    fn bare(&mut self, now_ns: u64) -> Outgoing {
        let mut options = self.options(now_ns);
        if self.receive.sack && !self.receive.reassembly.is_empty() {
            options.sack_count = self.receive.reassembly.blocks(&mut options.sack);
        }
        let mut segment = Outgoing::empty(options);
        segment.sequence = self.send.nxt;
        segment.flags = Flags::ACK;
        self.acknowledge(&mut segment);
        segment
    }

    /// Returns a segment of `length` numbers from `start`, the FIN included if it lies there.
    fn segment(&mut self, start: Seq, length: u32, now_ns: u64) -> Outgoing {
        let data = (start + length).min(self.data_end()).since(start);
        let payload = self.send.queue.view(start.since(self.send.start) as usize, data as usize);
        let mut segment = Outgoing::empty(self.options(now_ns));
        segment.sequence = start;
        segment.flags = Flags::ACK;
        segment.payload_bytes = payload.iter().map(Bytes::len).sum();
        // a segment that is cut below may have any number of pieces
        segment.payload = if data > self.payload_bytes_max() { payload } else { gathered(payload) };
        if self.send.fin_sent && length > data {
            segment.flags |= Flags::FIN;
        }
        if segment.payload_bytes > 0 && start + data == self.data_end() {
            segment.flags |= Flags::PSH;
        }
        self.send.sent_at_ns = now_ns;
        self.acknowledge(&mut segment);
        segment
    }

    /// Puts acknowledgment and window into a segment; nothing else need be acknowledged then.
    fn acknowledge(&mut self, segment: &mut Outgoing) {
        let receive = &mut self.receive;
        segment.acknowledgment = receive.nxt;
        let shown = receive.window_to_show();
        // rounded down: rounding up at each acknowledgment would promise more than there is; an earlier promise is
        // still kept
        let field = (shown >> receive.scale).min(0xffff);
        segment.window = field as u16;
        receive.edge = receive.edge.max(receive.nxt + (field << receive.scale));
        receive.acked = receive.nxt;
        receive.ack_due = AckDue::No;
        self.timers.delayed_ack = None;
    }

    pub(super) fn arm_retransmit(&mut self, now_ns: u64) {
        self.timers.persist = None;
        let at_ns = self.retransmit_at(now_ns);
        self.timers.retransmit.get_or_insert(at_ns);
    }

    fn arm_persist(&mut self, now_ns: u64) {
        if self.flight() == 0 {
            let at_ns = self.retransmit_at(now_ns);
            self.timers.persist.get_or_insert(at_ns);
        }
    }
}

impl super::machine::Receiver {
    /// Returns the bytes from the next number to the right edge that we want to announce. The edge never moves back, and forward only by
    /// a segment's worth or half of the buffer (RFC 9293 section 3.8.6.2.2).
    pub(super) fn window_to_show(&self) -> u32 {
        let announced = self.edge.since(self.nxt);
        let free = self.bytes_max.saturating_sub(self.queue.len());
        let free = u32::try_from(free).unwrap_or(u32::MAX).min(0xffff << self.scale);
        let free = free >> self.scale << self.scale;
        let step = (self.bytes_max as u32 / 2).min(2048);
        if free >= announced.saturating_add(step) { free } else { announced }
    }
}

/// Returns the bytes of the full segments in so many bytes.
fn full_segments(bytes: u32, segment: u32) -> u32 {
    bytes.saturating_sub(bytes.checked_rem(segment).unwrap_or(bytes))
}

/// Joins pieces if there are more than a device likes; copies only then.
fn gathered(payload: Vec<Bytes>) -> Vec<Bytes> {
    if payload.len() <= PIECES_MAX {
        return payload;
    }
    let mut flat = Vec::with_capacity(payload.iter().map(Bytes::len).sum());
    payload.iter().for_each(|piece| flat.extend_from_slice(piece.as_slice()));
    Bytes::copy_from(&flat).map_or(payload, |joined| alloc::vec![joined])
}
