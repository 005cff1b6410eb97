//! Segments, deadlines and news from below.
//!
//! * Segments that arrived together and belong to one connection are dealt with once: [`Tcp::after`] follows the last.
//! * A segment for nobody is answered with a reset, at a limited rate.
//! * Data tells the overload controller and the measure of answers that a question came, with the time when the card's reader saw it.
//! * A deadline is the machine's timer; news from below are errors that routers send.
//!
//! No lock is held while a message is sent.

use super::connection::SendRoom;
use super::output::Ends;
use super::table::{Found, Handle};
use super::{Connection, Tcp};
use crate::connection_key::ConnectionKey;
use crate::packet::Packet;
use crate::protocols::tcp_input;
use crate::shared::now_ns;
use crate::statistics::DropReason;
use crate::tcp::reset_for;
use crate::tcp::time_wait::Verdict;
use crate::wire::icmp::Quoted;
use crate::wire::tcp::{Flags, Header};
use crate::wire::{Sum, ipv4};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, SocketAddress, SocketId};
use gyre_object::Bytes;

/// A segment taken apart.
pub(super) struct Segment {
    pub ends: Ends,
    pub header: Header,
    pub payload: Vec<Bytes>,
    pub bytes: usize,
    /// When it came from a device, ns; 0 of one that came another way.
    pub came_ns: u64,
}

impl Segment {
    fn connection_key(&self) -> ConnectionKey {
        let (local, remote) = (self.ends.local, self.ends.remote);
        let words =
            crate::connection_key::words(self.ends.tenant, local.address, local.port, remote.address, remote.port);
        ConnectionKey { words, label: self.ends.label }
    }

    /// Tells the overload controller and the measure of answers of a question, if there are some.
    fn ask(&self, connection: &Connection, now: u64) {
        if let (Some(visit), 1..) = (&connection.visit, self.bytes) {
            visit.on_question(now);
        }
        if let (Some(question), 1..) = (&connection.question, self.bytes) {
            question.on_segment(if self.came_ns == 0 { now } else { self.came_ns });
        }
    }

    /// Returns the bits that are news to a reader although they were set before.
    fn news(&self) -> Ready {
        let is_news = self.bytes > 0 || self.header.flags.contains(Flags::FIN);
        if is_news { Ready::READ } else { Ready::empty() }
    }
}

impl tcp_input::Server for Tcp {
    async fn segments(&'static self, first: Packet, more: Vec<Packet>) -> Result<(), NetError> {
        let now = now_ns();
        // the connection that was last found: it is dealt with once for all that arrived together
        let mut found: Option<(Arc<Connection>, Ready)> = None;
        for packet in core::iter::once(first).chain(more) {
            if let Some(segment) = checked(packet) {
                self.on_segment(segment, &mut found, now);
            }
        }
        if let Some((connection, news)) = found {
            self.after(&connection, news);
        }
        Ok(())
    }

    async fn expired(&'static self, socket: SocketId) -> Result<(), NetError> {
        match self.table.handle(socket) {
            Some(Handle::Connection(connection)) => {
                connection.machine.lock().on_timer(now_ns());
                self.after(&connection, Ready::empty());
            }
            Some(Handle::Listener(listener)) => self.repeat_answers(&listener),
            None => self.look_at_load(socket),
        }
        Ok(())
    }

    async fn resume(&'static self, room: SendRoom) -> Result<(), NetError> {
        let Some(connection) = room.begin() else {
            return Ok(());
        };
        if !connection.is_over.load(Ordering::Acquire) {
            self.after(&connection, Ready::empty());
        }
        // room that it had no use for is the next one's: no frame need follow that would give any back
        connection.end_send_room();
        connection.tenant.on_room(self.shared);
        Ok(())
    }

    async fn unreachable(&'static self, quoted: Quoted, error: NetError) -> Result<(), NetError> {
        let tenant = self.shared.current_tenant()?;
        let local = SocketAddress { address: quoted.source, port: quoted.ports.0 };
        let remote = SocketAddress { address: quoted.destination, port: quoted.ports.1 };
        if let Found::Connection(connection) = self.table.find(&self.connection_key(tenant, local, remote), now_ns()) {
            connection.machine.lock().on_unreachable(error);
            self.after(&connection, Ready::empty());
        }
        Ok(())
    }
}

impl Tcp {
    fn on_segment(&'static self, segment: Segment, found: &mut Option<(Arc<Connection>, Ready)>, now: u64) {
        let key = segment.connection_key();
        if let Some((connection, news)) = found.take_if(|(connection, _)| connection.key != key) {
            self.after(&connection, news);
        }
        if found.is_none() {
            match self.table.find(&key, now) {
                Found::Connection(connection) => *found = Some((connection, Ready::empty())),
                Found::TimeWait(end) => match end.on_segment(&segment.header, segment.bytes, now) {
                    Verdict::Ignore => {}
                    Verdict::Answer(answer) => self.send_bare(&segment.ends, answer),
                    Verdict::Reopen => {
                        return self.on_listener_segment(&key, segment, Some(end.first_of_next()), now);
                    }
                },
                Found::Nothing => return self.on_listener_segment(&key, segment, None, now),
            }
        }
        let Some((connection, news)) = found else { return };
        *news |= segment.news();
        segment.ask(connection, now);
        let must_answer = {
            let mut machine = connection.machine.lock();
            machine.on_segment(&segment.header, &segment.payload, now);
            machine.must_answer()
        };
        if must_answer && let Some((connection, news)) = found.take() {
            self.after(&connection, news);
        }
    }

    pub(super) fn on_connection_segment(&'static self, connection: &Arc<Connection>, segment: &Segment, now: u64) {
        segment.ask(connection, now);
        connection.machine.lock().on_segment(&segment.header, &segment.payload, now);
        self.after(connection, segment.news());
    }

    /// Answers a segment that belongs to nothing, at a limited rate.
    pub(super) fn refuse(&'static self, segment: &Segment, now: u64) {
        segment.ends.tenant.counters.drop(DropReason::NoSocket);
        self.reset(segment, now);
    }

    /// Answers with a reset, at a limited rate.
    pub(super) fn reset(&'static self, segment: &Segment, now: u64) {
        if let Some(reset) = reset_for(&segment.header, segment.bytes)
            && segment.ends.tenant.may_complain(now)
        {
            self.send_bare(&segment.ends, reset);
        }
    }
}

fn is_intact(packet: &Packet) -> bool {
    let mut sum = Sum::pseudo(packet.header.source, packet.header.destination, ipv4::PROTOCOL_TCP, packet.body_bytes());
    sum.add(packet.body.as_slice());
    packet.more.iter().for_each(|piece| sum.add(piece.as_slice()));
    sum.is_intact()
}

/// Returns a packet taken apart; `None` if it is damaged or makes no sense, which is counted.
fn checked(packet: Packet) -> Option<Segment> {
    let counters = &packet.tenant.counters;
    if !packet.origin.is_unsummed() && !is_intact(&packet) {
        counters.drop(DropReason::Checksum);
        return None;
    }
    let segment = take_apart(packet);
    if segment.is_none() {
        counters.drop(DropReason::Malformed);
    }
    segment
}

/// Returns header and payload of a packet. Its place among the waiting ones is given back here.
fn take_apart(packet: Packet) -> Option<Segment> {
    let (header, header_bytes) = Header::read(packet.body.as_slice())?;
    let first = packet.body.slice(header_bytes, packet.body.len());
    let mut payload = Vec::with_capacity(packet.more.len().saturating_add(usize::from(!first.is_empty())));
    if !first.is_empty() {
        payload.push(first);
    }
    payload.extend(packet.more);
    let bytes = payload.iter().map(Bytes::len).sum();
    let ends = Ends {
        tenant: packet.tenant,
        local: SocketAddress { address: packet.header.destination, port: header.destination_port },
        remote: SocketAddress { address: packet.header.source, port: header.source_port },
        label: packet.label,
    };
    Some(Segment { ends, header, payload, bytes, came_ns: packet.came_ns })
}
