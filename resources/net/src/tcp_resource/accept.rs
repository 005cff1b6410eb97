//! The passive half of the handshake: bounded half-open connections, cookies under a flood.

use super::input::Segment;
use super::listener::{COOKIE_NS, HalfOpen, ListenerState, RETRY_NS};
use super::output::Ends;
use super::table::{Found, Handle};
use super::{Connection, Listener, Tcp};
use crate::alarm::NEVER;
use crate::flow::Flow;
use crate::shared::now_ns;
use crate::statistics::{DropReason, add};
use crate::tcp::{Machine, Peer, Seq, cookie};
use crate::wire::tcp::{Flags, Header};
use alloc::sync::Arc;
use gyre_interface::Ready;

/// What an acknowledgment for a listener is.
enum Completion {
    /// The third segment of this handshake.
    Of(HalfOpen),
    /// Of nothing: it is answered with a reset.
    Strange,
    /// Perhaps of something: it is dropped.
    Unsure,
}

impl Tcp {
    /// A segment for a port, not for a connection. `first` is given where numbers must lie above those of an earlier connection.
    pub(super) fn on_listener_segment(&'static self, flow: &Flow, segment: Segment, first: Option<Seq>, now: u64) {
        let Some(listener) = self.listener_for(&segment.ends) else {
            return self.refuse(&segment, now);
        };
        let flags = segment.header.flags;
        if flags.contains(Flags::RST) {
            return forget_half_open(&listener, flow, &segment.header);
        }
        match (flags.contains(Flags::SYN), flags.contains(Flags::ACK)) {
            (true, false) => self.on_syn(&listener, flow, &segment, first, now),
            (false, true) => self.on_completion(&listener, flow, segment, now),
            _ => self.refuse(&segment, now),
        }
    }

    /// Who listens at an end; several that share a port divide its connections.
    fn listener_for(&self, ends: &Ends) -> Option<Arc<Listener>> {
        let ports = ends.tenant.ports.lock();
        let listeners = ports.listeners.get(&ends.local.port)?;
        let fits = |listener: &&Arc<Listener>| listener.takes(ends.local.address);
        let count = listeners.iter().filter(fits).count();
        let chosen = (ends.label as usize).checked_rem(count)?;
        listeners.iter().filter(fits).nth(chosen).cloned()
    }

    fn on_syn(&'static self, listener: &Arc<Listener>, flow: &Flow, segment: &Segment, first: Option<Seq>, now: u64) {
        let peer = Peer::from_syn(segment.header.sequence, &segment.header.options);
        let mut state = listener.state.lock();
        if state.is_closed || state.ready.len() >= listener.backlog {
            drop(state);
            // the peer asks again; by then somebody may have accepted
            return segment.ends.tenant.counters.drop(DropReason::SocketFull);
        }
        let half = match state.half_open.get(flow).filter(|half| half.peer.first == peer.first) {
            Some(half) => *half,
            None if state.half_open.len() < listener.tenant.limits.half_open_max => {
                let first = first.unwrap_or_else(|| self.first_number(flow, now));
                let half =
                    HalfOpen::new(first, peer, self.stamp_offset(flow), segment.ends.local, segment.ends.remote, now);
                state.half_open.insert(*flow, half);
                half
            }
            None => {
                state.overflowed_ns = Some(now);
                self.cookie(flow, peer, &segment.ends, now)
            }
        };
        // else the old connection's end would answer the rest of the handshake, with a reset
        self.table.forget(flow);
        let is_early = listener.alarm.set_earlier(now.saturating_add(RETRY_NS));
        drop(state);
        if is_early {
            self.arm(listener.id, listener.label, &listener.alarm);
        }
        self.answer(&segment.ends, &half, now);
    }

    /// A half-open connection that is forgotten at once: the acknowledgment brings everything back.
    fn cookie(&self, flow: &Flow, peer: Peer, ends: &Ends, now: u64) -> HalfOpen {
        add(&ends.tenant.counters.cookies, 1);
        let first = cookie::issue(&self.shared.key, flow.words, &peer, now);
        let clock = self.stamp_offset(flow).wrapping_add((now / 1_000_000) as u32);
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

    /// The third segment of the handshake, with or without data.
    fn on_completion(&'static self, listener: &Arc<Listener>, flow: &Flow, segment: Segment, now: u64) {
        let mut state = listener.state.lock();
        // the segment before this one may have completed it on another core since the look-up
        if let Found::Connection(connection) = self.table.find(flow, now) {
            drop(state);
            return self.on_connection_segment(&connection, &segment, now);
        }
        let half = match self.completed(&state, flow, &segment, now) {
            Completion::Of(half) => half,
            Completion::Strange => {
                drop(state);
                return self.refuse(&segment, now);
            }
            Completion::Unsure => return,
        };
        if state.is_closed || state.ready.len() >= listener.backlog || listener.tenant.take_socket().is_err() {
            drop(state);
            return segment.ends.tenant.counters.drop(DropReason::SocketFull);
        }
        let connection = self.open_accepted(flow, &half, &segment, now);
        if !self.table.insert(&connection) {
            drop(state);
            return listener.tenant.give_socket();
        }
        self.table.insert_handle(connection.id, Handle::Connection(connection.clone()));
        state.half_open.remove(flow);
        state.ready.push_back(connection.clone());
        drop(state);
        self.on_connection_segment(&connection, &segment, now);
        listener.readiness.set(Ready::READ);
    }

    /// The half-open connection that a segment completes, from memory or from its cookie.
    fn completed(&self, state: &ListenerState, flow: &Flow, segment: &Segment, now: u64) -> Completion {
        let header = &segment.header;
        if let Some(half) = state.half_open.get(flow) {
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
        cookie::check(&self.shared.key, flow.words, header.sequence - 1, first, &header.options, now).map_or(
            Completion::Unsure,
            |peer| {
                let offset = self.stamp_offset(flow);
                Completion::Of(HalfOpen::new(first, peer, offset, segment.ends.local, segment.ends.remote, now))
            },
        )
    }

    fn open_accepted(&self, flow: &Flow, half: &HalfOpen, segment: &Segment, now: u64) -> Arc<Connection> {
        let settings = self.settings(segment.ends.tenant, half.remote.address, half.first, half.stamp_offset);
        let mut machine = Machine::accepted(settings, half.peer, segment.header.window, now);
        if let Some(ns) = half.round_trip_ns(now) {
            machine.handshake_took(ns);
        }
        Connection::new(self.table.new_id(), *flow, segment.ends.tenant, half.local, half.remote, machine)
    }

    /// Repeats answers that were not acknowledged.
    pub(super) fn repeat_answers(&'static self, listener: &Arc<Listener>) {
        let now = now_ns();
        let (due, is_early) = {
            let mut state = listener.state.lock();
            let due = state.due(now);
            (due, listener.alarm.set(state.deadline_ns().unwrap_or(NEVER)))
        };
        for (flow, half) in due {
            let ends = Ends { tenant: listener.tenant, local: half.local, remote: half.remote, label: flow.label };
            self.answer(&ends, &half, now);
        }
        if is_early {
            self.arm(listener.id, listener.label, &listener.alarm);
        }
    }

    /// RFC 6528: a clock of 4 us plus a keyed hash of the ends.
    pub(super) fn first_number(&self, flow: &Flow, now: u64) -> Seq {
        let hash = self.shared.key.hash(&[flow.words[0], flow.words[1], 1]);
        Seq((hash as u32).wrapping_add((now / 4000) as u32))
    }

    /// What is added to our clock in the timestamps of a connection.
    pub(super) fn stamp_offset(&self, flow: &Flow) -> u32 {
        self.shared.key.hash(&[flow.words[0], flow.words[1], 2]) as u32
    }
}

/// A reset with the right number ends a half-open connection.
fn forget_half_open(listener: &Listener, flow: &Flow, header: &Header) {
    let mut state = listener.state.lock();
    let exact = state.half_open.get(flow).is_some_and(|half| header.sequence == half.peer.first + 1);
    if exact {
        state.half_open.remove(flow);
    }
}
