//! The state of one connection.
//!
//! [`Machine`] is split by its halves: `send` (numbers, queue, window, recovery), `receive` (numbers, queue, window,
//! acknowledgment due) and the timers' deadlines. Its events are in files of their own: [`super::input`],
//! [`super::ack`], [`super::expire`], [`super::output`], `user.rs`.
//!
//! States are those of RFC 9293 from SYN-SENT and SYN-RECEIVED on, except LISTEN, half-open connections and
//! TIME-WAIT, which the resource keeps in a few words. `orphaned` says that the user has closed: then the machine
//! only sends its rest.
//!
//! Called under its connection's lock. It has no clock: `now_ns` is an argument, and [`Machine::deadline_ns`] says
//! when to call [`Machine::on_timer`].

use super::congestion::{Algorithm, Congestion};
use super::reassembly::Reassembly;
use super::rtt::RoundTrip;
use super::scoreboard::Scoreboard;
use super::{Outgoing, Seq, Store};
use crate::wire::tcp::Options;
use gyre_interface::tcp::NetError;

/// RFC 9293 section 3.3.2, without LISTEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received, ours sent (simultaneous open, or a peer on this machine).
    SynReceived,
    /// Open.
    Established,
    /// We have ended our direction; the end is not acknowledged.
    FinWait1,
    /// We have ended our direction, the peer knows.
    FinWait2,
    /// The peer has ended its direction.
    CloseWait,
    /// Both have ended at once.
    Closing,
    /// Both have ended, ours is not acknowledged.
    LastAck,
    /// Both have ended; waits for stragglers.
    TimeWait,
    /// Nothing is left.
    Closed,
}

/// The side whose SYN began a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// Ours: its user waits until it is open.
    Ours,
    /// The peer's: a listener has it, and its user may write before it is open.
    Theirs,
}

/// Numbers with which a connection starts.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// First sequence number of ours.
    pub first: Seq,
    /// The offset added to the clock in timestamps, so that they tell nothing about other connections.
    pub stamp_offset: u32,
    /// Largest segment that our link takes without the headers of IP and TCP, bytes.
    pub segment_bytes_max: u16,
    /// Largest segment handed down at once, if the device cuts it; 0 if it does not.
    pub offload_bytes_max: usize,
    /// Bytes kept for the reader.
    pub receive_bytes_max: usize,
    /// Bytes kept for the sender.
    pub send_bytes_max: usize,
    /// Congestion control.
    pub algorithm: Algorithm,
}

/// The facts of the peer's SYN.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its first sequence number.
    pub first: Seq,
    /// Largest segment that it takes, bytes.
    pub segment_bytes_max: u16,
    /// Its window's shift, if it offered one.
    pub window_scale: Option<u8>,
    /// It understands selective acknowledgments.
    pub sack: bool,
    /// Its timestamp, if it sends them.
    pub stamp: Option<u32>,
}

impl Peer {
    /// Segment size of a peer that does not say (RFC 9293 MUST-15).
    pub const SEGMENT_BYTES_DEFAULT: u16 = 536;
    /// Smallest size believed: a tiny one would make us send a header per byte.
    pub const SEGMENT_BYTES_MIN: u16 = 88;

    /// Reads the facts of a SYN.
    pub fn from_syn(first: Seq, options: &Options) -> Peer {
        Peer {
            first,
            segment_bytes_max: options.segment_bytes_max.unwrap_or(Self::SEGMENT_BYTES_DEFAULT),
            window_scale: options.window_scale,
            sack: options.sack_permitted,
            stamp: options.timestamps.map(|stamps| stamps.0),
        }
    }
}

/// The reason for which the sender repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// Duplicate or selective acknowledgments.
    Acknowledgments,
    /// The timer.
    Timeout,
}

/// The repetition of lost data, until everything sent before the loss was noticed is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    pub point: Seq,
    pub cause: Cause,
}

/// The sending half.
pub(super) struct Sender {
    /// Oldest number not acknowledged.
    pub una: Seq,
    /// Next number to send; never moves back, repetition has its own pointer.
    pub nxt: Seq,
    /// Number of the first byte in `queue`.
    pub start: Seq,
    /// Sent and not acknowledged, then unsent data.
    pub queue: Store,
    pub bytes_max: usize,
    /// The peer's window, bytes; its largest ever; the segment that last changed it.
    pub window: u32,
    pub window_max: u32,
    pub wl1: Seq,
    pub wl2: Seq,
    pub scale: u8,
    /// Largest segment without the headers of IP and TCP, options included.
    pub segment_bytes_max: u32,
    pub fin_queued: bool,
    pub fin_sent: bool,
    pub recovery: Option<Recovery>,
    /// Everything below was repeated in this recovery.
    pub repeated: Seq,
    /// Everything below and not held by the peer is lost, says the timer.
    pub timeout_edge: Seq,
    /// True if one segment must be repeated, beyond the congestion window.
    pub repeat_now: bool,
    pub duplicates: u32,
    /// A number whose acknowledgment is timed, and when it was sent.
    pub timed: Option<(Seq, u64)>,
    /// End of the last segment that was not full (Minshall's variant of Nagle's rule).
    pub small_end: Seq,
    pub sent_at_ns: u64,
    /// Send an empty segment with an old number: the peer must answer with its window.
    pub probe_due: bool,
    pub retries: u32,
    pub no_delay: bool,
    pub cork: bool,
    /// Bytes to send before the cork or window rule applies again (their timers expired).
    pub push: bool,
    /// Most bytes of the next segment, if it is cut below.
    pub burst_bytes: u32,
    /// True if the last segment must be repeated, so that the peer reports missing data before it.
    pub tail_due: bool,
    /// End of the sent data when the last segment was repeated; one such probe per round.
    pub tail_point: Option<Seq>,
}

/// The time within which the peer must hear from us.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum AckDue {
    No,
    Later,
    Now,
}

/// Timestamps of the connection (RFC 7323).
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    pub recent: u32,
    pub recent_at_ns: u64,
}

/// The receiving half.
pub(super) struct Receiver {
    /// Next number expected.
    pub nxt: Seq,
    /// Right edge of the window as the peer knows it.
    pub edge: Seq,
    pub scale: u8,
    pub queue: Store,
    pub reassembly: Reassembly,
    pub bytes_max: usize,
    /// Number of the peer's FIN, once seen.
    pub fin_at: Option<Seq>,
    pub fin_taken: bool,
    pub ack_due: AckDue,
    /// The acknowledgment sent last.
    pub acked: Seq,
    pub stamps: Option<Stamps>,
    pub sack: bool,
    /// The user reads no more: data is dropped.
    pub closed: bool,
    pub heard_at_ns: u64,
}

/// Deadlines, ns of the machine's clock.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timers {
    pub retransmit: Option<u64>,
    pub persist: Option<u64>,
    pub delayed_ack: Option<u64>,
    pub keep_alive: Option<u64>,
    pub cork: Option<u64>,
    pub tail: Option<u64>,
    pub end: Option<u64>,
}

/// The figures of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Segments repeated.
    pub retransmissions: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// Fast recoveries.
    pub recoveries: u32,
    /// Challenge acknowledgments (RFC 5961).
    pub challenges: u32,
    /// Received bytes that were copied.
    pub copied_bytes: u64,
}

/// Limits answers to segments that make no sense (RFC 5961 section 7).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Limiter {
    pub since_ns: u64,
    pub count: u32,
}

/// One connection.
pub struct Machine {
    pub(super) state: State,
    pub(super) origin: Origin,
    pub(super) settings: Settings,
    pub(super) error: Option<NetError>,
    pub(super) send: Sender,
    pub(super) receive: Receiver,
    pub(super) timers: Timers,
    pub(super) round_trip: RoundTrip,
    pub(super) congestion: Congestion,
    pub(super) scoreboard: Scoreboard,
    pub(super) figures: Figures,
    pub(super) challenges: Limiter,
    pub(super) syn_sent: bool,
    pub(super) keep_alive: bool,
    pub(super) keep_alive_probes: u32,
    pub(super) orphaned: bool,
    /// Our offer of a window shift in the SYN.
    pub(super) offer_scale: bool,
    /// A segment that answers a wrong one, or the reset of an abort.
    pub(super) reply: Option<Outgoing>,
}

impl Machine {
    /// Returns a connection that we open: its first segment is the SYN.
    pub fn connecting(settings: Settings) -> Machine {
        Machine::new(State::SynSent, settings, Seq(0))
    }

    /// A connection that a peer opens whose address is no forgery: its first segment answers the peer's SYN, whose window (as in the
    /// header) is `window`.
    pub fn answering(settings: Settings, peer: Peer, window: u16, now_ns: u64) -> Machine {
        let mut machine = Machine::new(State::SynReceived, settings, peer.first);
        machine.origin = Origin::Theirs;
        machine.learn(&peer, now_ns);
        machine.send.window = u32::from(window);
        machine.send.window_max = machine.send.window;
        machine.send.wl1 = peer.first;
        machine
    }

    /// A connection whose handshake a listener has completed: the peer has acknowledged our SYN (`settings.first`) and says that its window is `window` (as in the header).
    pub fn accepted(settings: Settings, peer: Peer, window: u16, now_ns: u64) -> Machine {
        let mut machine = Machine::new(State::Established, settings, peer.first);
        machine.origin = Origin::Theirs;
        machine.syn_sent = true;
        machine.send.una = settings.first + 1;
        machine.send.nxt = machine.send.una;
        machine.send.repeated = machine.send.una;
        machine.learn(&peer, now_ns);
        machine.send.window = u32::from(window) << machine.send.scale;
        machine.send.window_max = machine.send.window;
        machine.send.wl1 = peer.first + 1;
        machine.send.wl2 = machine.send.una;
        // the window that the listener's SYN offered, unscaled
        machine.receive.edge = machine.receive.nxt + machine.syn_window();
        machine.receive.acked = machine.receive.nxt;
        machine
    }

    fn new(state: State, settings: Settings, peer_first: Seq) -> Machine {
        let first = settings.first;
        let segment = u32::from(settings.segment_bytes_max);
        Machine {
            state,
            origin: Origin::Ours,
            settings,
            error: None,
            send: Sender {
                burst_bytes: settings.offload_bytes_max as u32,
                ..Sender::new(first, segment, settings.send_bytes_max)
            },
            receive: Receiver::new(peer_first + 1, settings.receive_bytes_max),
            timers: Timers::default(),
            round_trip: RoundTrip::default(),
            congestion: Congestion::new(settings.algorithm, segment),
            scoreboard: Scoreboard::default(),
            figures: Figures::default(),
            challenges: Limiter::default(),
            syn_sent: false,
            keep_alive: false,
            keep_alive_probes: 0,
            orphaned: false,
            offer_scale: true,
            reply: None,
        }
    }

    /// Takes over the facts of the peer's SYN; options that it did not offer are not used.
    pub(super) fn learn(&mut self, peer: &Peer, now_ns: u64) {
        let theirs = peer.segment_bytes_max.max(Peer::SEGMENT_BYTES_MIN);
        let segment = u32::from(theirs.min(self.settings.segment_bytes_max));
        self.send.segment_bytes_max = segment;
        self.receive.nxt = peer.first + 1;
        self.receive.edge = self.receive.nxt + self.syn_window();
        self.receive.sack = peer.sack;
        self.receive.heard_at_ns = now_ns;
        self.receive.stamps = peer.stamp.map(|recent| Stamps { recent, recent_at_ns: now_ns });
        self.offer_scale = peer.window_scale.is_some();
        (self.send.scale, self.receive.scale) = match peer.window_scale {
            Some(shift) => (shift.min(14), scale_for(self.settings.receive_bytes_max)),
            None => (0, 0),
        };
        let payload = segment.saturating_sub(if peer.stamp.is_some() { 12 } else { 0 });
        self.congestion = Congestion::new(self.settings.algorithm, payload);
    }

    /// Returns the window of our SYN, which is never scaled, bytes.
    pub(super) fn syn_window(&self) -> u32 {
        u32::try_from(self.receive.bytes_max).unwrap_or(u32::MAX).min(0xffff)
    }

    /// Returns the window's shift that goes with a receive buffer, for the answer to a SYN.
    pub fn window_scale(receive_bytes: usize) -> u8 {
        scale_for(receive_bytes)
    }

    /// Takes the time of the handshake's second half, ns, as the first measurement of the path.
    pub fn handshake_took(&mut self, ns: u64) {
        self.round_trip.measured(ns.max(1));
    }

    /// Sets the room on the way down, bytes: no segment that is cut below is longer.
    pub fn limit_burst(&mut self, bytes: usize) {
        self.send.burst_bytes = bytes.min(self.settings.offload_bytes_max) as u32;
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the figures.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Returns when to call [`Machine::on_timer`], ns; `None` if nothing is due.
    pub fn deadline_ns(&self) -> Option<u64> {
        let timers = &self.timers;
        [timers.retransmit, timers.persist, timers.delayed_ack, timers.keep_alive, timers.cork, timers.tail, timers.end]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the number of the first byte behind the queued data: the number of our FIN.
    pub(super) fn data_end(&self) -> Seq {
        self.send.start + self.send.queue.len() as u32
    }

    /// Returns the bytes sent and not acknowledged.
    pub(super) fn flight(&self) -> u32 {
        self.send.nxt.since(self.send.una)
    }

    /// Returns our timestamp now.
    pub(super) fn stamp(&self, now_ns: u64) -> u32 {
        self.settings.stamp_offset.wrapping_add((now_ns / 1_000_000) as u32)
    }

    /// Ends the connection with an error for the user; queues are dropped, received data can still be read.
    pub(super) fn fail(&mut self, error: NetError) {
        self.error.get_or_insert(error);
        self.enter_closed();
    }

    pub(super) fn enter_closed(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::default();
        self.send.queue.clear();
        self.receive.reassembly.clear();
        self.receive.ack_due = AckDue::No;
        self.scoreboard.clear();
    }
}

impl Sender {
    fn new(first: Seq, segment: u32, bytes_max: usize) -> Sender {
        Sender {
            una: first,
            nxt: first,
            start: first + 1,
            queue: Store::default(),
            bytes_max,
            window: 0,
            window_max: 0,
            wl1: Seq(0),
            wl2: first,
            scale: 0,
            segment_bytes_max: segment,
            fin_queued: false,
            fin_sent: false,
            recovery: None,
            repeated: first,
            timeout_edge: first,
            repeat_now: false,
            duplicates: 0,
            timed: None,
            small_end: first,
            sent_at_ns: 0,
            probe_due: false,
            retries: 0,
            no_delay: false,
            cork: false,
            push: false,
            burst_bytes: 0,
            tail_due: false,
            tail_point: None,
        }
    }
}

impl Receiver {
    fn new(nxt: Seq, bytes_max: usize) -> Receiver {
        Receiver {
            nxt,
            edge: nxt,
            scale: 0,
            queue: Store::default(),
            reassembly: Reassembly::default(),
            bytes_max,
            fin_at: None,
            fin_taken: false,
            ack_due: AckDue::No,
            acked: nxt,
            stamps: None,
            sack: false,
            closed: false,
            heard_at_ns: 0,
        }
    }
}

/// Returns the shift with which a buffer of `bytes` can be announced; at least 7, so that a buffer may grow later.
pub(super) fn scale_for(bytes: usize) -> u8 {
    (7..14).find(|shift| bytes >> shift <= 0xffff).unwrap_or(14)
}
