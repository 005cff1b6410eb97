//! The passive half of the handshake: bounded half-open connections, cookies under a flood. A peer on this machine cannot forge its
//! address, so its connection stands in line from its SYN on.
//!
//! Path of a connection: SYN, half-open (an entry of the listener, or a cookie alone if there are too many), third
//! segment, connection in line, accepted.
//!
//! * A half-open connection is bounded per listener and has no queue or buffer. Its answer is repeated by the
//!   listener's alarm.
//! * A cookie holds all that is needed in the first number (RFC 4987); it is only believed while cookies are about.
//! * [`Completion::Strange`] is answered with a reset, [`Completion::Unsure`] dropped, since a reset could end a good
//!   handshake.
//! * First numbers follow RFC 6528, offsets of timestamps are keyed by the ends.

use super::connection::Measures;
use super::input::Segment;
use super::listener::{COOKIE_NS, HalfOpen, ListenerState, RETRY_NS};
use super::output::Ends;
use super::table::{Found, Handle};
use super::{Connection, Listener, Tcp};
use crate::alarm::NEVER;
use crate::connection_key::ConnectionKey;
use crate::shared::now_ns;
use crate::statistics::{DropReason, add};
use crate::tcp::{Machine, Peer, Seq, cookie};
use crate::wire::tcp::{Flags, Header};
use alloc::sync::Arc;
use gyre_interface::Ready;
use gyre_object::LockGuard;

/// The outcome of an acknowledgment for a listener.
enum Completion {
    /// The third segment of this handshake.
    Of(HalfOpen),
    /// It belongs to no handshake: it is answered with a reset.
    Strange,
    /// Perhaps of something: it is dropped.
    Unsure,
}

impl Tcp {
    /// Handles a segment for a port, not for a connection. `first` is given if numbers must lie above those of an
    /// earlier connection.
    pub(super) fn on_listener_segment(
        &'static self,
        key: &ConnectionKey,
        segment: Segment,
        first: Option<Seq>,
        now: u64,
    ) {
        let Some(listener) = self.listener_for(&segment.ends) else {
            return self.refuse(&segment, now);
        };
        let flags = segment.header.flags;
        if flags.contains(Flags::RST) {
            return forget_half_open(&listener, key, &segment.header);
        }
        match (flags.contains(Flags::SYN), flags.contains(Flags::ACK)) {
            (true, false) if self.turns_away(&listener, key, &segment, now) => {}
            (true, false) if self.shared.is_local(segment.ends.remote.address) => {
                self.on_local_syn(&listener, key, &segment, first, now);
            }
            (true, false) => self.on_syn(&listener, key, &segment, first, now),
            (false, true) => self.on_completion(&listener, key, segment, now),
            _ => self.refuse(&segment, now),
        }
    }

    /// Returns the listener at an end; several that share a port divide its connections.
    fn listener_for(&self, ends: &Ends) -> Option<Arc<Listener>> {
        let ports = ends.tenant.ports.lock();
        let listeners = ports.listeners.get(&ends.local.port)?;
        let fits = |listener: &&Arc<Listener>| listener.takes(ends.local.address);
        let count = listeners.iter().filter(fits).count();
        let chosen = (ends.label as usize).checked_rem(count)?;
        listeners.iter().filter(fits).nth(chosen).cloned()
    }

    fn on_syn(
        &'static self,
        listener: &Arc<Listener>,
        key: &ConnectionKey,
        segment: &Segment,
        first: Option<Seq>,
        now: u64,
    ) {
        let peer = Peer::from_syn(segment.header.sequence, &segment.header.options);
        let mut state = listener.state.lock();
        if state.is_closed || state.ready.len() >= listener.backlog {
            drop(state);
            // the peer asks again; by then there may be room
            return segment.ends.tenant.counters.drop(DropReason::SocketFull);
        }
        let half = match state.half_open.get(key).filter(|half| half.peer.first == peer.first) {
            Some(half) => *half,
            None if state.half_open.len() < listener.tenant.limits.half_open_max => {
                let first = first.unwrap_or_else(|| self.first_number(key, now));
                let half =
                    HalfOpen::new(first, peer, self.stamp_offset(key), segment.ends.local, segment.ends.remote, now);
                state.half_open.insert(*key, half);
                half
            }
            None => {
                state.overflowed_ns = Some(now);
                self.cookie(key, peer, &segment.ends, now)
            }
        };
        // else the old connection's end would answer the rest of the handshake, with a reset
        self.table.forget(key);
        let is_early = listener.alarm.set_earlier(now.saturating_add(RETRY_NS));
        drop(state);
        if is_early {
            self.arm(listener.id, listener.label, &listener.alarm);
        }
        self.answer(&segment.ends, &half, now);
    }

    /// Opens a connection within this machine. Its place in line is that of its SYN, so two connections that were made one after the other are
    /// accepted in that order, as on Linux. Two cores take the last segments of the two handshakes, in any order.
    fn on_local_syn(
        &'static self,
        listener: &Arc<Listener>,
        key: &ConnectionKey,
        segment: &Segment,
        first: Option<Seq>,
        now: u64,
    ) {
        let open = || {
            let (header, ends) = (&segment.header, &segment.ends);
            let first = first.unwrap_or_else(|| self.first_number(key, now));
            let settings = self.settings(ends.tenant, ends.remote.address, first, self.stamp_offset(key));
            let peer = Peer::from_syn(header.sequence, &header.options);
            let machine = Machine::answering(settings, peer, header.window, now);
            let measures = Measures::of(ends.tenant, ends.remote.address, now);
            Connection::new(self.table.new_id(), *key, ends.tenant, ends.local, ends.remote, machine, measures)
        };
        let state = listener.state.lock();
        if let Some(connection) = self.stand_in_line(listener, state, open) {
            self.count_in(&connection, now);
            self.after(&connection, Ready::empty());
            listener.readiness.set(Ready::READ);
        }
    }

    /// Opens a connection and puts it at the end of a listener's line and into the tables; `None` if there is no room, which is counted,
    /// or if its ends are in use.
    fn stand_in_line(
        &self,
        listener: &Listener,
        mut state: LockGuard<'_, ListenerState>,
        open: impl FnOnce() -> Arc<Connection>,
    ) -> Option<Arc<Connection>> {
        if state.is_closed || state.ready.len() >= listener.backlog || listener.tenant.take_socket().is_err() {
            drop(state);
            // the peer asks again; by then there may be room
            listener.tenant.counters.drop(DropReason::SocketFull);
            return None;
        }
        let connection = open();
        if !self.table.insert(&connection) {
            drop(state);
            listener.tenant.give_socket();
            return None;
        }
        self.table.insert_handle(connection.id, Handle::Connection(connection.clone()));
        state.half_open.remove(&connection.key);
        state.ready.push_back(connection.clone());
        Some(connection)
    }

    /// A half-open connection that is forgotten at once: the acknowledgment brings everything back.
    fn cookie(&self, key: &ConnectionKey, peer: Peer, ends: &Ends, now: u64) -> HalfOpen {
        add(&ends.tenant.counters.cookies, 1);
        let first = cookie::issue(&self.shared.key, key.words, &peer, now);
        let clock = self.stamp_offset(key).wrapping_add((now / 1_000_000) as u32);
        let offset = cookie::stamp(clock, &peer).wrapping_sub((now / 1_000_000) as u32);
        HalfOpen::new(first, peer, offset, ends.local, ends.remote, now)
    }

    fn answer(&'static self, ends: &Ends, half: &HalfOpen, now: u64) {
        let limits = &ends.tenant.limits;
        let window = limits.receive_bytes.min(0xffff) as u16;
        let scale = Machine::window_scale(limits.receive_bytes);
        let segment_bytes_max = self.shared.segment_bytes_max(ends.remote.address);
        self.send_bare(ends, half.answer(segment_bytes_max, window, scale, now));
    }

    /// Handles the third segment of the handshake, with or without data.
    fn on_completion(&'static self, listener: &Arc<Listener>, key: &ConnectionKey, segment: Segment, now: u64) {
        let state = listener.state.lock();
        // the segment before this one may have completed it on another core since the look-up
        if let Found::Connection(connection) = self.table.find(key, now) {
            drop(state);
            return self.on_connection_segment(&connection, &segment, now);
        }
        let half = match self.completed(&state, key, &segment, now) {
            Completion::Of(half) => half,
            Completion::Strange => {
                drop(state);
                return self.refuse(&segment, now);
            }
            Completion::Unsure => return,
        };
        if !listener.admits(segment.ends.remote.address) {
            drop(state);
            // those before it have taken the room since its SYN
            self.turns_away(listener, key, &segment, now);
            return;
        }
        let open = || self.open_accepted(key, &half, &segment, now);
        if let Some(connection) = self.stand_in_line(listener, state, open) {
            self.count_in(&connection, now);
            self.on_connection_segment(&connection, &segment, now);
            listener.readiness.set(Ready::READ);
        }
    }

    /// Returns the half-open connection that a segment completes, from memory or from its cookie.
    fn completed(&self, state: &ListenerState, key: &ConnectionKey, segment: &Segment, now: u64) -> Completion {
        let header = &segment.header;
        if let Some(half) = state.half_open.get(key) {
            if header.acknowledgment != half.first + 1 {
                return Completion::Strange;
            }
            // data may overtake the third segment of the handshake: any number in the window completes it
            let ahead = header.sequence.0.wrapping_sub((half.peer.first + 1).0);
            let inside = ahead < 0xffff;
            return if inside { Completion::Of(*half) } else { Completion::Unsure };
        }
        if state.overflowed_ns.is_none_or(|at| now.saturating_sub(at) >= COOKIE_NS) {
            return Completion::Strange;
        }
        let first = header.acknowledgment - 1;
        // the third segment may be behind this one: no reset while cookies are about
        cookie::check(&self.shared.key, key.words, header.sequence - 1, first, &header.options, now).map_or(
            Completion::Unsure,
            |peer| {
                let offset = self.stamp_offset(key);
                Completion::Of(HalfOpen::new(first, peer, offset, segment.ends.local, segment.ends.remote, now))
            },
        )
    }

    fn open_accepted(&self, key: &ConnectionKey, half: &HalfOpen, segment: &Segment, now: u64) -> Arc<Connection> {
        let settings = self.settings(segment.ends.tenant, half.remote.address, half.first, half.stamp_offset);
        let mut machine = Machine::accepted(settings, half.peer, segment.header.window, now);
        if let Some(ns) = half.round_trip_ns(now) {
            machine.handshake_took(ns);
        }
        let tenant = segment.ends.tenant;
        let measures = Measures::of(tenant, half.remote.address, now);
        Connection::new(self.table.new_id(), *key, tenant, half.local, half.remote, machine, measures)
    }

    /// Repeats answers that were not acknowledged.
    pub(super) fn repeat_answers(&'static self, listener: &Arc<Listener>) {
        let now = now_ns();
        let (due, is_early) = {
            let mut state = listener.state.lock();
            let due = state.due(now);
            (due, listener.alarm.set(state.deadline_ns().unwrap_or(NEVER)))
        };
        for (key, half) in due {
            let ends = Ends { tenant: listener.tenant, local: half.local, remote: half.remote, label: key.label };
            self.answer(&ends, &half, now);
        }
        if is_early {
            self.arm(listener.id, listener.label, &listener.alarm);
        }
    }

    /// Returns the first number of a connection (RFC 6528): a clock of 4 us plus a keyed hash of the ends.
    pub(super) fn first_number(&self, key: &ConnectionKey, now: u64) -> Seq {
        let hash = self.shared.key.hash(&[key.words[0], key.words[1], 1]);
        Seq((hash as u32).wrapping_add((now / 4000) as u32))
    }

    /// Returns the offset that is added to our clock in the timestamps of a connection.
    pub(super) fn stamp_offset(&self, key: &ConnectionKey) -> u32 {
        self.shared.key.hash(&[key.words[0], key.words[1], 2]) as u32
    }
}

/// Forgets a half-open connection if a reset has the right number.
fn forget_half_open(listener: &Listener, key: &ConnectionKey, header: &Header) {
    let mut state = listener.state.lock();
    let exact = state.half_open.get(key).is_some_and(|half| header.sequence == half.peer.first + 1);
    if exact {
        state.half_open.remove(key);
    }
}
