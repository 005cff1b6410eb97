//! Timers: retransmission (RFC 6298), persist (RFC 9293 section 3.8.6.1), delayed acknowledgment, keep-alive (3.8.4), cork, end.

use super::machine::{AckDue, Cause, Recovery};
use super::{Machine, State};
use gyre_interface::tcp::NetError;

/// Repetitions of a SYN before the peer counts as absent (63 s with doubling).
pub(super) const SYN_RETRIES_MAX: u32 = 5;
/// Repetitions of data (RFC 1122 R2: at least 100 s; with doubling up to a minute this is some 10 minutes).
const RETRIES_MAX: u32 = 15;
/// Repetitions for a connection whose user has closed.
const ORPHAN_RETRIES_MAX: u32 = 7;
/// Silence before the first keep-alive probe (RFC 1122: at least two hours), ns.
const KEEP_ALIVE_IDLE_NS: u64 = 7_200_000_000_000;
/// Time between probes, ns.
const KEEP_ALIVE_STEP_NS: u64 = 75_000_000_000;
/// Shortest wait before the last segment is repeated: the peer may delay its acknowledgment a little, ns.
const TAIL_NS_MIN: u64 = 20_000_000;
/// Probes before the peer counts as gone.
const KEEP_ALIVE_PROBES_MAX: u32 = 9;

impl Machine {
    /// Handles all timers that have expired; harmless when called early or late.
    pub fn on_timer(&mut self, now_ns: u64) {
        let expired = |timer: &mut Option<u64>| timer.take_if(|deadline| *deadline <= now_ns).is_some();
        if expired(&mut self.timers.delayed_ack) {
            self.receive.ack_due = AckDue::Now;
        }
        if expired(&mut self.timers.cork) {
            self.send.push = true;
        }
        if expired(&mut self.timers.tail) {
            self.on_tail(now_ns);
        }
        if expired(&mut self.timers.retransmit) {
            self.on_retransmit_timeout(now_ns);
        }
        if expired(&mut self.timers.persist) {
            self.on_persist(now_ns);
        }
        if expired(&mut self.timers.keep_alive) {
            self.on_keep_alive(now_ns);
        }
        if expired(&mut self.timers.end) {
            self.enter_closed();
        }
    }

    /// Returns when data or a question sent now is sent again.
    pub(super) fn retransmit_at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.round_trip.timeout_ns())
    }

    fn on_retransmit_timeout(&mut self, now_ns: u64) {
        if self.send.una == self.send.nxt {
            return;
        }
        let retries_max = match self.state {
            State::SynSent | State::SynReceived => SYN_RETRIES_MAX,
            _ if self.orphaned => ORPHAN_RETRIES_MAX,
            _ => RETRIES_MAX,
        };
        self.send.retries = self.send.retries.saturating_add(1);
        if self.send.retries > retries_max {
            self.fail(NetError::TimedOut);
            return;
        }
        self.figures.timeouts = self.figures.timeouts.saturating_add(1);
        self.round_trip.back_off();
        self.send.timed = None;
        self.timers.retransmit = Some(self.retransmit_at(now_ns));
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.syn_sent = false;
            return;
        }
        self.expect_everything_lost();
    }

    /// Takes all unacknowledged data for lost (RFC 5681 section 3.1 and RFC 6675 section 5.1): one segment, then slow
    /// start through the data that the peer does not hold.
    fn expect_everything_lost(&mut self) {
        // a second timeout of the same data does not lower the threshold again
        if self.send.retries == 1 {
            let flight = self.flight();
            self.congestion.timed_out(flight);
        }
        if self.scoreboard.covers(self.send.una) {
            self.scoreboard.clear();
        }
        self.send.recovery = Some(Recovery { point: self.send.nxt, cause: Cause::Timeout });
        self.send.timeout_edge = self.send.nxt;
        self.send.repeated = self.send.una;
        self.send.duplicates = 0;
        self.send.repeat_now = true;
    }

    /// Repeats the last segment. Loss of the last segments leaves nothing behind them that the peer could report; a
    /// repeated last segment makes it report the missing data, well before the timeout (RFC 8985 section 7).
    fn on_tail(&mut self, now_ns: u64) {
        if self.flight() == 0 || self.send.recovery.is_some() || self.send.tail_point.is_some() {
            return;
        }
        self.send.tail_due = true;
        self.send.tail_point = Some(self.send.nxt);
        self.timers.retransmit = Some(self.retransmit_at(now_ns));
    }

    /// Sets the time for it: two round trips and their variation after the last news.
    pub(super) fn arm_tail(&mut self, now_ns: u64) {
        let quiet_ns = self.round_trip.quiet_ns().max(TAIL_NS_MIN);
        let useful = self.receive.sack
            && self.round_trip.smoothed_ns() > 0
            && self.send.recovery.is_none()
            && self.send.tail_point.is_none()
            && self.flight() > self.payload_bytes_max()
            && quiet_ns < self.round_trip.timeout_ns();
        self.timers.tail = useful.then_some(now_ns.saturating_add(quiet_ns));
    }

    fn on_persist(&mut self, now_ns: u64) {
        let waits = !self.send.queue.is_empty() || self.send.fin_queued && !self.send.fin_sent;
        if !waits || self.flight() > 0 {
            return;
        }
        self.send.retries = self.send.retries.saturating_add(1);
        if self.send.retries > RETRIES_MAX {
            self.fail(NetError::TimedOut);
            return;
        }
        if self.send.window > 0 {
            self.send.push = true;
        } else {
            self.send.probe_due = true;
        }
        self.round_trip.back_off();
        self.timers.persist = Some(self.retransmit_at(now_ns));
    }

    fn on_keep_alive(&mut self, now_ns: u64) {
        if !self.keep_alive {
            return;
        }
        if self.flight() > 0 {
            self.timers.keep_alive = Some(now_ns.saturating_add(KEEP_ALIVE_IDLE_NS));
            return;
        }
        self.keep_alive_probes = self.keep_alive_probes.saturating_add(1);
        if self.keep_alive_probes > KEEP_ALIVE_PROBES_MAX {
            self.fail(NetError::TimedOut);
            return;
        }
        self.send.probe_due = true;
        self.timers.keep_alive = Some(now_ns.saturating_add(KEEP_ALIVE_STEP_NS));
    }

    /// Starts keep-alive anew, since the peer was heard.
    pub(super) fn rearm_keep_alive(&mut self, now_ns: u64) {
        self.keep_alive_probes = 0;
        self.timers.keep_alive = self.keep_alive.then_some(now_ns.saturating_add(KEEP_ALIVE_IDLE_NS));
    }
}
