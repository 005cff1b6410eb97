//! Handling of an arrived segment (RFC 9293 section 3.10.7).
//!
//! Order of the checks, each in a function: (1) the number lies in the window; timestamps are not old; (2) reset; (3)
//! SYN; (4) acknowledgment ([`super::ack`]); (5) data, which goes to the reader's queue or waits for missing data
//! ([`super::reassembly`]); (6) FIN. A check that fails ends the handling; some answer with an acknowledgment.
//! Nothing is sent here: the fields `reply` and `ack_due` say what [`Machine::next_segment`] must send.
//!
//! Pure: the time is an argument. Payload moves by reference.

use super::machine::{AckDue, Origin, Stamps};
use super::{Machine, Peer, Seq, State, reset_for};
use crate::wire::tcp::{Flags, Header};
use gyre_interface::tcp::NetError;
use gyre_object::Bytes;

/// Longest delay of an acknowledgment, ns (RFC 1122 section 4.2.3.2 allows 500 ms).
const DELAYED_ACK_NS: u64 = 40_000_000;
/// A timestamp older than this is no reason to drop a segment (RFC 7323 section 5.5), ns.
const STAMP_AGE_NS_MAX: u64 = 24 * 86_400 * 1_000_000_000;
/// Answers to senseless segments per second and connection.
const CHALLENGES_MAX: u32 = 10;
/// How long TIME-WAIT lasts (2 MSL of 30 s), ns.
pub(super) const TIME_WAIT_NS: u64 = 60_000_000_000;

impl Machine {
    /// Takes a segment of this connection. The checksum was checked.
    pub fn on_segment(&mut self, header: &Header, payload: &[Bytes], now_ns: u64) {
        match self.state {
            State::Closed => {
                let bytes = payload.iter().map(Bytes::len).sum();
                self.reply = reset_for(header, bytes);
            }
            State::SynSent => self.on_segment_syn_sent(header, now_ns),
            _ => self.on_segment_synchronised(header, payload, now_ns),
        }
    }

    /// Handles a segment in SYN-SENT (section 3.10.7.3).
    fn on_segment_syn_sent(&mut self, header: &Header, now_ns: u64) {
        let has_ack = header.flags.contains(Flags::ACK);
        let ack = header.acknowledgment;
        let acceptable = self.syn_sent && ack.after(self.settings.first) && ack.until(self.send.nxt);
        if has_ack && !acceptable {
            if !header.flags.contains(Flags::RST) {
                self.reply = reset_for(header, 0);
            }
            return;
        }
        if header.flags.contains(Flags::RST) {
            if has_ack {
                self.fail(NetError::Refused);
            }
            return;
        }
        if !header.flags.contains(Flags::SYN) {
            return;
        }
        self.learn(&Peer::from_syn(header.sequence, &header.options), now_ns);
        // the window of a SYN is never scaled (RFC 7323 section 2.2)
        self.send.window = u32::from(header.window);
        self.send.window_max = self.send.window;
        self.send.wl1 = header.sequence;
        self.send.wl2 = ack;
        if has_ack {
            self.syn_acknowledged(ack, now_ns);
            self.receive.ack_due = AckDue::Now;
        } else {
            // simultaneous open: the SYN is sent again, now with an acknowledgment
            self.state = State::SynReceived;
            self.syn_sent = false;
        }
    }

    fn syn_acknowledged(&mut self, ack: Seq, now_ns: u64) {
        self.state = State::Established;
        self.send.una = ack;
        self.send.repeated = ack;
        self.send.retries = 0;
        self.timers.retransmit = None;
        if let Some((_, sent_ns)) = self.send.timed.take() {
            self.round_trip.measured(now_ns.saturating_sub(sent_ns));
        }
        self.round_trip.progressed();
        self.rearm_keep_alive(now_ns);
        if self.send.fin_queued {
            self.state = State::FinWait1;
        }
    }

    /// Handles a segment in a synchronised state, in the order of section 3.10.7.4: number, reset, SYN,
    /// acknowledgment, data, FIN.
    fn on_segment_synchronised(&mut self, header: &Header, payload: &[Bytes], now_ns: u64) {
        let bytes: usize = payload.iter().map(Bytes::len).sum();
        if self.completes_simultaneous_open(header) {
            self.syn_acknowledged(header.acknowledgment, now_ns);
            self.send.window = u32::from(header.window);
            self.send.window_max = self.send.window;
            self.receive.ack_due = AckDue::Now;
            return;
        }
        if !self.is_acceptable(header, bytes as u32) || !self.passes_stamps(header, now_ns) {
            if !header.flags.contains(Flags::RST) {
                self.answer_unacceptable(bytes, header.flags, now_ns);
            }
            return;
        }
        if header.flags.contains(Flags::RST) {
            self.on_reset(header, now_ns);
            return;
        }
        if header.flags.contains(Flags::SYN) {
            // RFC 5961 section 4.2
            self.challenge(now_ns);
            return;
        }
        if !header.flags.contains(Flags::ACK) {
            return;
        }
        self.receive.heard_at_ns = now_ns;
        self.rearm_keep_alive(now_ns);
        if self.state == State::SynReceived {
            let ack = header.acknowledgment;
            if !(ack.after(self.settings.first) && ack.until(self.send.nxt)) {
                self.reply = reset_for(header, bytes);
                return;
            }
            self.syn_acknowledged(ack, now_ns);
            self.send.wl1 = header.sequence;
            self.send.wl2 = ack;
            self.send.window = u32::from(header.window) << self.send.scale;
            self.send.window_max = self.send.window;
        } else if !self.on_ack(header, bytes == 0, now_ns) {
            return;
        }
        if self.state == State::Closed {
            return;
        }
        self.on_data(header, payload, now_ns);
    }

    /// Returns whether a segment is acceptable: RFC 9293 table 6, with SYN and FIN counted.
    fn is_acceptable(&self, header: &Header, bytes: u32) -> bool {
        let (start, nxt) = (header.sequence, self.receive.nxt);
        let length = header.length(bytes);
        let edge = self.receive.edge;
        let inside = |at: Seq| nxt.until(at) && at.before(edge);
        if length == 0 {
            return start == nxt || inside(start);
        }
        // with a closed window, the acknowledgment in a segment that begins at the right place still counts
        inside(start)
            || inside(start + length - 1)
            || (start.before(nxt) && (start + length).after(edge))
            || start == nxt
    }

    /// Checks the timestamp (RFC 7323 section 5.3), and updates the one to echo (section 4.3).
    fn passes_stamps(&mut self, header: &Header, now_ns: u64) -> bool {
        let Some(stamps) = self.receive.stamps else {
            return true;
        };
        let Some((value, _)) = header.options.timestamps else {
            // section 3.2: a segment without one is dropped, a reset is not
            return header.flags.contains(Flags::RST);
        };
        let old = (value.wrapping_sub(stamps.recent) as i32) < 0;
        let fresh = now_ns.saturating_sub(stamps.recent_at_ns) < STAMP_AGE_NS_MAX;
        if old && fresh && !header.flags.contains(Flags::RST) {
            return false;
        }
        if header.sequence.until(self.receive.acked) && !old {
            self.receive.stamps = Some(Stamps { recent: value, recent_at_ns: now_ns });
        }
        true
    }

    fn answer_unacceptable(&mut self, bytes: usize, flags: Flags, now_ns: u64) {
        // a repeated FIN in TIME-WAIT starts the wait again (section 3.10.7.4)
        if self.state == State::TimeWait && flags.contains(Flags::FIN) {
            self.timers.end = Some(now_ns.saturating_add(TIME_WAIT_NS));
        }
        if bytes > 0 || flags.contains(Flags::FIN) {
            self.receive.ack_due = AckDue::Now;
        } else {
            self.challenge(now_ns);
        }
    }

    /// Answers with an acknowledgment, at a limited rate: two peers that both find the other wrong would go on for ever.
    pub(super) fn challenge(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.challenges.since_ns) > 1_000_000_000 {
            self.challenges.since_ns = now_ns;
            self.challenges.count = 0;
        }
        if self.challenges.count < CHALLENGES_MAX {
            self.challenges.count = self.challenges.count.saturating_add(1);
            self.figures.challenges = self.figures.challenges.saturating_add(1);
            self.receive.ack_due = AckDue::Now;
        }
    }

    /// Handles a reset (RFC 5961 section 3.2): only the exact number resets, others in the window are asked to prove
    /// it.
    fn on_reset(&mut self, header: &Header, now_ns: u64) {
        if header.sequence != self.receive.nxt {
            self.challenge(now_ns);
            return;
        }
        match self.state {
            State::SynReceived if self.origin == Origin::Ours => self.fail(NetError::Refused),
            State::TimeWait | State::Closing | State::LastAck => self.enter_closed(),
            _ => self.fail(NetError::Reset),
        }
    }

    /// Returns whether both have sent SYN and this is the peer's second one, which acknowledges ours (RFC 9293 figure
    /// 8).
    fn completes_simultaneous_open(&self, header: &Header) -> bool {
        self.state == State::SynReceived
            && header.flags.contains(Flags::SYN | Flags::ACK)
            && header.sequence + 1 == self.receive.nxt
            && header.acknowledgment == self.settings.first + 1
    }

    fn on_data(&mut self, header: &Header, payload: &[Bytes], now_ns: u64) {
        let mut at = header.sequence;
        for piece in payload {
            self.take_piece(at, piece);
            at = at + piece.len() as u32;
        }
        if header.flags.contains(Flags::FIN) && self.receive.fin_at.is_none() && at.until(self.receive.edge) {
            self.receive.fin_at = Some(at);
            self.receive.ack_due = AckDue::Now;
        }
        if !payload.is_empty() {
            self.schedule_ack(now_ns);
            if self.orphaned && self.receive.nxt.after(self.receive.acked) && self.state != State::TimeWait {
                // data for a user that has closed (RFC 9293 section 3.6.1, RFC 2525 section 2.17)
                self.abort(None);
                return;
            }
        }
        self.take_fin(now_ns);
    }

    /// Puts the part of a piece that lies in the window at its place.
    fn take_piece(&mut self, at: Seq, piece: &Bytes) {
        let receive = &mut self.receive;
        let limit = receive.fin_at.map_or(receive.edge, |fin| fin.min(receive.edge));
        let from = receive.nxt.since(at) as usize;
        let to = limit.since(at) as usize;
        let part = piece.slice(from, to.min(piece.len()));
        if part.is_empty() {
            if !piece.is_empty() {
                receive.ack_due = AckDue::Now;
            }
            return;
        }
        let at = at.max(receive.nxt);
        if at != receive.nxt {
            receive.reassembly.insert(at, part);
            receive.ack_due = AckDue::Now;
            return;
        }
        receive.accept(part);
        if !receive.reassembly.is_empty() {
            receive.ack_due = AckDue::Now;
            while let Some(part) = receive.reassembly.take_at(receive.nxt) {
                receive.accept(part);
            }
        }
        let copied = self.receive.queue.take_copied_bytes();
        self.figures.copied_bytes = self.figures.copied_bytes.saturating_add(copied);
    }

    /// Acknowledges every second full segment at once, others after a while (RFC 5681 section 4.2).
    fn schedule_ack(&mut self, now_ns: u64) {
        let pending = self.receive.nxt.since(self.receive.acked);
        if pending >= self.send.segment_bytes_max.saturating_sub(12).saturating_mul(2) {
            self.receive.ack_due = AckDue::Now;
        }
        if self.receive.ack_due == AckDue::No && pending > 0 {
            self.receive.ack_due = AckDue::Later;
            self.timers.delayed_ack = Some(now_ns.saturating_add(DELAYED_ACK_NS));
        }
    }

    /// Takes the peer's FIN once everything before it is there.
    fn take_fin(&mut self, now_ns: u64) {
        if self.receive.fin_taken || self.receive.fin_at != Some(self.receive.nxt) {
            return;
        }
        self.receive.fin_taken = true;
        self.receive.nxt = self.receive.nxt + 1;
        self.receive.edge = self.receive.edge.max(self.receive.nxt);
        self.receive.ack_due = AckDue::Now;
        self.receive.reassembly.clear();
        match self.state {
            State::SynReceived | State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now_ns),
            _ => {}
        }
    }

    pub(super) fn enter_time_wait(&mut self, now_ns: u64) {
        self.state = State::TimeWait;
        self.timers.retransmit = None;
        self.timers.persist = None;
        self.timers.keep_alive = None;
        self.timers.end = Some(now_ns.saturating_add(TIME_WAIT_NS));
    }
}

impl super::machine::Receiver {
    fn accept(&mut self, part: Bytes) {
        self.nxt = self.nxt + part.len() as u32;
        if !self.closed {
            self.queue.push(part);
        }
    }
}
