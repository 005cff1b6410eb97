//! The calls of a connection's user (RFC 9293 sections 3.10.2 to 3.10.6): send, receive, shut down, close, abort,
//! options, status.
//!
//! None waits: a call without data or room answers `WouldBlock`, and [`Machine::ready`] says what the user may try.
//! Each call may leave something to send; the resource asks [`Machine::next_segment`] afterwards. After
//! [`Machine::close`] only the queue and the FIN are still sent.
//!
//! States matter here as follows: before the handshake data is queued; after a FIN of the peer reads reach the end;
//! after a reset each call answers the error, once. Called under the connection's lock.

use super::machine::{AckDue, Origin};
use super::{Machine, Outgoing, State};
use crate::wire::tcp::{Flags, Options};
use alloc::vec::Vec;
use gyre_interface::Ready;
use gyre_interface::tcp::{Direction, NetError, TcpOption, TcpStatus};
use gyre_object::Bytes;

/// Smallest and largest buffer that a user may set, bytes.
const BUFFER_BYTES: (usize, usize) = (4096, 4 << 20);

/// How a user closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// Queued data is still sent, then the FIN.
    InOrder,
    /// The peer gets a reset.
    Reset,
}

impl Machine {
    /// Queues data by reference and returns how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; `Closed` behind the end; the connection's error.
    pub fn send(&mut self, data: Vec<Bytes>) -> Result<usize, NetError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match self.state {
            State::SynSent | State::SynReceived | State::Established | State::CloseWait if !self.send.fin_queued => {}
            _ => return Err(NetError::Closed),
        }
        let mut room = self.send.bytes_max.saturating_sub(self.send.queue.len());
        if room == 0 && data.iter().any(|piece| !piece.is_empty()) {
            return Err(NetError::WouldBlock);
        }
        let before = room;
        for piece in data {
            let part = piece.slice(0, room);
            room = room.saturating_sub(part.len());
            self.send.queue.push(part);
        }
        Ok(before.saturating_sub(room))
    }

    /// Takes up to `bytes_max` received bytes; nothing at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet; the connection's error once the queue is empty.
    pub fn receive(&mut self, bytes_max: usize) -> Result<Vec<Bytes>, NetError> {
        self.check_readable()?;
        let data = self.receive.queue.take(bytes_max);
        self.offer_window();
        Ok(data)
    }

    /// Looks at up to `bytes_max` received bytes.
    ///
    /// # Errors
    /// As [`Machine::receive`].
    pub fn peek(&mut self, bytes_max: usize) -> Result<Vec<Bytes>, NetError> {
        self.check_readable()?;
        Ok(self.receive.queue.view(0, bytes_max))
    }

    fn check_readable(&mut self) -> Result<(), NetError> {
        if !self.receive.queue.is_empty() {
            return Ok(());
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let ended = self.receive.fin_taken || self.receive.closed || self.state == State::Closed;
        if ended { Ok(()) } else { Err(NetError::WouldBlock) }
    }

    /// Tells the peer of new room if that is worth a segment.
    fn offer_window(&mut self) {
        let open = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        let shown = self.receive.edge.since(self.receive.nxt);
        let wanted = self.receive.window_to_show();
        let step = (self.receive.bytes_max as u32 / 4).min(self.payload_bytes_max().saturating_mul(2));
        if open && wanted >= shown.saturating_add(step.max(1)) {
            self.acknowledge_now();
        }
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// `NotConnected` before the handshake is done and after the end.
    pub fn shut_down(&mut self, direction: Direction) -> Result<(), NetError> {
        if matches!(self.state, State::SynSent | State::Closed) {
            return Err(NetError::NotConnected);
        }
        if direction != Direction::Send {
            self.receive.closed = true;
            self.receive.queue.clear();
        }
        if direction != Direction::Receive {
            self.end_sending();
        }
        Ok(())
    }

    fn end_sending(&mut self) {
        self.send.fin_queued = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            state => state,
        };
    }

    /// Closes for the user: queued data is still sent; unread data or [`Close::Reset`] ends the connection at once (RFC 2525
    /// section 2.17).
    pub fn close(&mut self, how: Close, now_ns: u64) {
        self.orphaned = true;
        match self.state {
            State::SynSent => self.enter_closed(),
            State::Closed => {}
            _ if how == Close::Reset || !self.receive.queue.is_empty() => self.abort(None),
            state => {
                self.receive.closed = true;
                self.end_sending();
                if state == State::FinWait2 {
                    self.timers.end = Some(now_ns.saturating_add(super::input::TIME_WAIT_NS));
                }
            }
        }
    }

    /// Ends the connection with a reset to the peer.
    pub fn abort(&mut self, error: Option<NetError>) {
        let tell = !matches!(self.state, State::SynSent | State::Closed | State::TimeWait);
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
        self.enter_closed();
        if tell {
            self.reply = Some(Outgoing {
                sequence: self.send.nxt,
                acknowledgment: self.receive.nxt,
                flags: Flags::RST | Flags::ACK,
                ..Outgoing::empty(Options::default())
            });
        }
    }

    /// Takes a report that the peer cannot be reached. Fatal while connecting, else only a hint (RFC 5461, RFC 5927).
    pub fn on_unreachable(&mut self, error: NetError) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.fail(error);
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `Invalid` for options that a connection does not know.
    pub fn set_option(&mut self, option: TcpOption, now_ns: u64) -> Result<(), NetError> {
        match option {
            TcpOption::NoDelay(on) => {
                self.send.no_delay = on;
                self.send.push |= on && !self.send.cork;
            }
            TcpOption::Cork(on) => {
                self.send.cork = on;
                self.send.push |= !on;
                self.timers.cork = self.timers.cork.filter(|_| on);
            }
            TcpOption::KeepAlive(on) => {
                self.keep_alive = on;
                self.rearm_keep_alive(now_ns);
            }
            TcpOption::ReceiveBuffer(bytes) => self.receive.bytes_max = bytes.clamp(BUFFER_BYTES.0, BUFFER_BYTES.1),
            TcpOption::SendBuffer(bytes) => self.send.bytes_max = bytes.clamp(BUFFER_BYTES.0, BUFFER_BYTES.1),
            TcpOption::Linger(_) => return Err(NetError::Invalid),
        }
        Ok(())
    }

    /// Returns the events that the connection is ready for.
    pub fn ready(&self) -> Ready {
        let mut ready = Ready::empty();
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        let open = !opening || self.origin == Origin::Theirs;
        let ended = self.receive.fin_taken || self.receive.closed || self.state == State::Closed;
        ready.set(Ready::READ, ended || !self.receive.queue.is_empty());
        ready.set(Ready::READ_HANG_UP, ended);
        // a third of the buffer free: a writer woken for less would come back at once
        let room = self.send.queue.len() <= (self.send.bytes_max / 3).saturating_mul(2);
        let closed = self.state == State::Closed;
        ready.set(Ready::WRITE, open && (room || self.send.fin_queued || closed));
        ready.set(Ready::ERROR, self.error.is_some());
        ready.set(Ready::HANG_UP, closed || ended && self.send.fin_queued);
        ready
    }

    /// Takes the pending error.
    pub fn take_error(&mut self) -> Option<NetError> {
        self.error.take()
    }

    /// Returns state and figures.
    pub fn status(&self) -> TcpStatus {
        TcpStatus {
            state: self.state.number(),
            receive_queued_bytes: self.receive.queue.len(),
            send_queued_bytes: self.send.queue.len(),
            send_room_bytes: self.send.bytes_max.saturating_sub(self.send.queue.len()),
            round_trip_us: (self.round_trip.smoothed_ns() / 1000) as u32,
            congestion_window_bytes: self.congestion.window(),
            retransmissions: self.figures.retransmissions,
            segment_bytes_max: self.payload_bytes_max() as u16,
        }
    }

    /// Returns whether nothing need be sent or waited for any more.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed && self.reply.is_none()
    }

    /// Returns whether the segment just taken must be answered or dealt with before the next one: it ended the
    /// connection, made no sense, or lies behind missing data (each such segment is told, RFC 5681 section 4.2).
    pub fn must_answer(&self) -> bool {
        let is_over = matches!(self.state, State::Closed | State::TimeWait);
        is_over || self.reply.is_some() || self.receive.ack_due == AckDue::Now && !self.receive.reassembly.is_empty()
    }

    /// Returns whether an acknowledgment or data could be due: for tests and invariants.
    pub fn is_quiet(&self) -> bool {
        self.receive.ack_due == AckDue::No && self.send.una == self.send.nxt
    }
}

impl State {
    /// Returns its number in Linux's enumeration, which TCP_INFO shows.
    pub fn number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Closing => 11,
        }
    }
}
