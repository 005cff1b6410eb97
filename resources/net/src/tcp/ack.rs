//! Handling an acknowledgment: window, progress, losses (RFC 9293 section 3.10.7.4 step 5, RFC 5681, RFC 6582, RFC
//! 6675).
//!
//! Order of [`Machine::on_ack`]: is it acceptable, window, selective acknowledgments, progress (queue, round trip,
//! congestion), loss. It answers false if the segment must be dropped.
//!
//! * Two ways to a loss: three duplicates or SACK ([`Machine::lost_edge`]), and the timer, which is elsewhere.
//! * Bytes on the way are counted by [`Machine::pipe`]: sent, not held by the peer, not lost, and repeated.
//! * A round trip is measured on segments sent once; timestamps help during repetitions (Karn).
//!
//! Pure: no clock, no allocation beyond the queues, nothing is sent. The resource asks for the next segment
//! afterwards.

use super::machine::{AckDue, Cause, Recovery};
use super::{Machine, Seq, State};
use crate::wire::tcp::{Flags, Header};

/// Duplicate acknowledgments that mean a loss (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

impl Machine {
    /// Takes the acknowledgment of an acceptable segment; false if the segment must be dropped.
    pub(super) fn on_ack(&mut self, header: &Header, is_empty: bool, now_ns: u64) -> bool {
        let ack = header.acknowledgment;
        if ack.after(self.send.nxt) {
            self.challenge(now_ns);
            return false;
        }
        // RFC 5961 section 5.2
        if ack.before(self.send.una - self.send.window_max.max(1)) {
            self.challenge(now_ns);
            return false;
        }
        let same_window = self.update_window(header);
        let told_more = self.take_sack(header);
        if ack.after(self.send.una) {
            self.advance(header, now_ns);
        } else if ack == self.send.una
            && is_empty
            && same_window
            && self.flight() > 0
            && !header.flags.contains(Flags::FIN)
            && (told_more || !self.receive.sack)
        {
            self.send.duplicates = self.send.duplicates.saturating_add(1);
        }
        self.detect_loss();
        if self.send.window > 0 {
            self.timers.persist = None;
        } else {
            // a peer that answers probes with a closed window is alive (RFC 9293 section 3.8.6.1)
            self.send.retries = 0;
        }
        true
    }

    /// Takes the window of a newer segment only (section 3.10.7.4). Returns whether the window stayed as it was.
    fn update_window(&mut self, header: &Header) -> bool {
        let newer = self.send.wl1.before(header.sequence)
            || (self.send.wl1 == header.sequence && self.send.wl2.until(header.acknowledgment));
        if !newer || header.acknowledgment.before(self.send.una) {
            return true;
        }
        let window = u32::from(header.window) << self.send.scale;
        let same = window == self.send.window;
        self.send.window = window;
        self.send.window_max = self.send.window_max.max(window);
        self.send.wl1 = header.sequence;
        self.send.wl2 = header.acknowledgment;
        same
    }

    /// Notes ranges that lie in sent data; returns whether they say something new.
    fn take_sack(&mut self, header: &Header) -> bool {
        if !self.receive.sack {
            return false;
        }
        let mut told_more = false;
        for (start, end) in header.options.sack_blocks() {
            let inside = start.after(self.send.una) && end.until(self.send.nxt) && start.before(*end);
            // a block at or below the acknowledgment reports a duplicate (RFC 2883): nothing to note
            told_more |= inside && start.after(header.acknowledgment) && self.scoreboard.insert(*start, *end);
        }
        told_more
    }

    /// Takes note that new data is acknowledged.
    fn advance(&mut self, header: &Header, now_ns: u64) {
        let ack = header.acknowledgment;
        let flight = self.flight();
        let bytes = ack.since(self.send.una);
        // SYN and FIN are numbers without data
        let data = ack.min(self.data_end()).since(self.send.start);
        self.send.queue.advance(data as usize);
        self.send.start = self.send.start + data;
        self.send.una = ack;
        self.send.retries = 0;
        self.send.duplicates = 0;
        self.send.repeated = self.send.repeated.max(ack);
        self.send.timeout_edge = self.send.timeout_edge.max(ack);
        self.scoreboard.advance(ack);
        self.measure(header, now_ns);
        self.round_trip.progressed();
        self.progress_congestion(bytes, flight, now_ns);
        self.timers.retransmit = (self.send.una != self.send.nxt).then(|| self.retransmit_at(now_ns));
        self.send.tail_point = self.send.tail_point.filter(|point| ack.before(*point));
        self.arm_tail(now_ns);
        self.on_fin_acknowledged(now_ns);
    }

    /// Measures the round trip from segments sent once, timed by our clock; timestamps help while segments are
    /// repeated (Karn's rule).
    fn measure(&mut self, header: &Header, now_ns: u64) {
        if let Some((end, sent_ns)) = self.send.timed {
            if end.until(header.acknowledgment) {
                self.send.timed = None;
                self.round_trip.measured(now_ns.saturating_sub(sent_ns).max(1));
            }
            return;
        }
        let echo = header.options.timestamps.map(|stamps| stamps.1).filter(|echo| *echo != 0);
        if let (Some(echo), true) = (echo, self.receive.stamps.is_some()) {
            let age_ms = self.stamp(now_ns).wrapping_sub(echo);
            if self.send.recovery.is_some() && age_ms < 60_000 {
                self.round_trip.measured(u64::from(age_ms.max(1)) * 1_000_000);
            }
        }
    }

    fn progress_congestion(&mut self, bytes: u32, flight: u32, now_ns: u64) {
        let recovery = self.send.recovery;
        if recovery.is_some_and(|recovery| recovery.point.until(self.send.una)) {
            self.send.recovery = None;
        }
        // RFC 7661: a window that was not used says nothing about the path
        let limited = flight.saturating_add(self.send.segment_bytes_max.saturating_mul(2)) >= self.congestion.window()
            || self.congestion.window() < self.congestion.threshold()
                && flight.saturating_mul(2) > self.congestion.window();
        match recovery {
            Some(Recovery { cause: Cause::Acknowledgments, .. }) => {
                // partial acknowledgment without SACK: the next hole is lost too (RFC 6582)
                self.send.repeat_now |= self.send.recovery.is_some() && !self.receive.sack;
            }
            _ if limited => self.congestion.acknowledged(bytes, self.round_trip.smoothed_ns(), now_ns),
            _ => {}
        }
    }

    /// States that our FIN's acknowledgment ends.
    fn on_fin_acknowledged(&mut self, now_ns: u64) {
        if !self.send.fin_sent || self.send.una != self.send.nxt {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphaned {
                    self.timers.end = Some(now_ns.saturating_add(super::input::TIME_WAIT_NS));
                }
            }
            State::Closing => self.enter_time_wait(now_ns),
            State::LastAck => self.enter_closed(),
            _ => {}
        }
    }

    /// Enters fast recovery if a loss is certain enough.
    fn detect_loss(&mut self) {
        if self.send.recovery.is_some() || self.flight() == 0 {
            return;
        }
        let by_count = self.send.duplicates >= DUPLICATES;
        let by_ranges = self.sack_lost_edge().after(self.send.una);
        if !(by_count && !self.receive.sack || by_ranges) {
            return;
        }
        self.figures.recoveries = self.figures.recoveries.saturating_add(1);
        self.send.recovery = Some(Recovery { point: self.send.nxt, cause: Cause::Acknowledgments });
        self.congestion.lost(self.flight());
        self.send.repeated = self.send.una;
        self.send.repeat_now = true;
    }

    fn sack_lost_edge(&self) -> Seq {
        let by_count = self.scoreboard.lost_edge(self.send.una, self.payload_bytes_max());
        // the repeated last segment has arrived: data sent before it and still missing was sent two round trips ago
        let by_tail = self.send.tail_point.and_then(|point| self.scoreboard.start_of(point - 1));
        by_tail.map_or(by_count, |start| by_count.max(start))
    }

    /// Returns the number below which everything that the peer does not hold is lost.
    pub(super) fn lost_edge(&self) -> Seq {
        let by_timer = self.send.timeout_edge.max(self.send.una);
        let by_acknowledgments = match self.send.recovery {
            Some(_) if self.receive.sack => self.sack_lost_edge(),
            Some(Recovery { cause: Cause::Acknowledgments, .. }) => self.send.una + self.payload_bytes_max(),
            _ => self.send.una,
        };
        by_timer.max(by_acknowledgments).min(self.send.nxt)
    }

    /// Returns the bytes on the way (RFC 6675 "pipe"): sent, not held by the peer, not lost, plus what was repeated.
    pub(super) fn pipe(&self) -> u32 {
        let held = if self.receive.sack {
            self.scoreboard.bytes()
        } else {
            self.send.duplicates.saturating_mul(self.payload_bytes_max())
        };
        let lost = self.lost_edge();
        let missing = self.scoreboard.missing_between(self.send.repeated.max(self.send.una), lost);
        self.flight().saturating_sub(held).saturating_sub(missing)
    }

    /// Returns the payload of a full segment, bytes: the rest beside the options that every segment carries.
    pub(super) fn payload_bytes_max(&self) -> u32 {
        let options = if self.receive.stamps.is_some() { 12 } else { 0 };
        self.send.segment_bytes_max.saturating_sub(options).max(1)
    }

    /// Demands that the peer gets an acknowledgment now.
    pub(super) fn acknowledge_now(&mut self) {
        self.receive.ack_due = AckDue::Now;
    }
}
