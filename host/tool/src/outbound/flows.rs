//! The connections and flows of datagrams that are on the way out.
//!
//! A connection is `Opening` until its destination has answered, `Held` until the far end's kernel has taken the tenant's half, `Open`
//! until both halves have ended, and `Ended` for a while, so that the last segments find their way.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an ended connection is remembered, and how long one may be held.
const LINGER: Duration = Duration::from_secs(75);
/// The first port that the far end sees: one for each connection of a tenant.
const FIRST_PORT: u16 = 1024;

/// Flows that the far end began and that are remembered.
const OUTSIDE_MAX: usize = 4096;

/// The ends of a flow as the tenant sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The tenant's end.
    pub from: SocketAddrV4,
    /// The destination.
    pub to: SocketAddrV4,
}

/// A connection's state.
pub enum State {
    /// The destination is asked.
    Opening,
    /// The destination has answered; its half waits for the tenant's.
    Held(TcpStream),
    /// Both halves are there.
    Open,
    /// Both have ended.
    Ended,
}

/// A connection.
pub struct Connection {
    /// Its state.
    pub state: State,
    /// The port by which the far end knows it.
    pub port: u16,
    since: Instant,
}

/// All flows of all tenants.
#[derive(Default)]
pub struct Flows {
    connections: HashMap<Key, Connection>,
    by_port: HashMap<(Ipv4Addr, u16), Key>,
    datagrams: HashMap<Key, Option<Arc<UdpSocket>>>,
    next: HashMap<Ipv4Addr, u16>,
    /// Flows that the far end began, and when it sent last.
    begun_outside: HashMap<Key, Instant>,
}

impl Flows {
    /// Returns a connection.
    pub fn connection(&self, key: &Key) -> Option<&Connection> {
        self.connections.get(key)
    }

    /// Returns the connection that the far end knows by an address and a port.
    pub fn at(&self, end: SocketAddrV4) -> Option<Key> {
        self.by_port.get(&(*end.ip(), end.port())).copied()
    }

    /// Enters a connection to be opened; false if the tenant has `max` already or no port is left.
    pub fn begin(&mut self, key: Key, max: usize) -> bool {
        self.sweep();
        let tenant = *key.from.ip();
        let lives =
            |(other, one): &(&Key, &Connection)| *other.from.ip() == tenant && !matches!(one.state, State::Ended);
        if self.connections.iter().filter(lives).count() >= max {
            return false;
        }
        let Some(port) = self.free_port(tenant) else { return false };
        self.by_port.insert((tenant, port), key);
        self.connections.insert(key, Connection { state: State::Opening, port, since: Instant::now() });
        true
    }

    fn free_port(&mut self, tenant: Ipv4Addr) -> Option<u16> {
        let next = self.next.entry(tenant).or_insert(FIRST_PORT);
        for _ in FIRST_PORT..u16::MAX {
            let port = *next;
            *next = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.by_port.contains_key(&(tenant, port)) {
                return Some(port);
            }
        }
        None
    }

    /// Changes a connection's state; its port, if there is such a connection.
    pub fn change(&mut self, key: &Key, state: State) -> Option<u16> {
        let one = self.connections.get_mut(key)?;
        (one.state, one.since) = (state, Instant::now());
        Some(one.port)
    }

    /// Takes the destination's half of a connection whose other half has come.
    pub fn take_held(&mut self, key: &Key) -> Option<TcpStream> {
        let one = self.connections.get_mut(key).filter(|one| matches!(one.state, State::Held(_)))?;
        one.since = Instant::now();
        match std::mem::replace(&mut one.state, State::Open) {
            State::Held(stream) => Some(stream),
            _ => None,
        }
    }

    /// Forgets a connection.
    pub fn forget(&mut self, key: &Key) {
        if let Some(one) = self.connections.remove(key) {
            self.by_port.remove(&(*key.from.ip(), one.port));
        }
    }

    /// Forgets what has ended, and what was never taken.
    fn sweep(&mut self) {
        let is_old =
            |one: &Connection| !matches!(one.state, State::Opening | State::Open) && one.since.elapsed() > LINGER;
        let old: Vec<Key> = self.connections.iter().filter(|(_, one)| is_old(one)).map(|(key, _)| *key).collect();
        old.iter().for_each(|key| self.forget(key));
    }

    /// Returns the socket of a flow of datagrams: `Some(None)` while it is being made.
    pub fn datagrams(&self, key: &Key) -> Option<Option<Arc<UdpSocket>>> {
        self.datagrams.get(key).cloned()
    }

    /// Enters a flow of datagrams; false if the tenant has `max` already.
    pub fn begin_datagrams(&mut self, key: Key, max: usize) -> bool {
        let is_free = self.datagrams.keys().filter(|other| other.from.ip() == key.from.ip()).count() < max;
        if is_free {
            self.datagrams.insert(key, None);
        }
        is_free
    }

    /// Enters the socket of a flow of datagrams.
    pub fn open_datagrams(&mut self, key: Key, socket: Arc<UdpSocket>) {
        self.datagrams.insert(key, Some(socket));
    }

    /// Takes note of a datagram of the far end to a tenant: its answers are not on the way out.
    pub fn note_outside(&mut self, key: Key) {
        if self.begun_outside.len() >= OUTSIDE_MAX {
            self.begun_outside.retain(|_, when| when.elapsed() < LINGER);
        }
        if self.begun_outside.len() < OUTSIDE_MAX {
            self.begun_outside.insert(key, Instant::now());
        }
    }

    /// Returns whether a datagram answers one of the far end.
    pub fn is_answer(&self, key: &Key) -> bool {
        self.begun_outside.get(key).is_some_and(|when| when.elapsed() < LINGER)
    }

    /// Forgets a flow of datagrams.
    pub fn forget_datagrams(&mut self, key: &Key) {
        self.datagrams.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        Key {
            from: SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 11), port),
            to: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), 443),
        }
    }

    #[test]
    fn a_tenant_has_so_many_connections_and_no_more() {
        let mut flows = Flows::default();
        assert!(flows.begin(key(1), 2) && flows.begin(key(2), 2) && !flows.begin(key(3), 2));
        flows.change(&key(1), State::Ended);
        assert!(flows.begin(key(3), 2), "an ended one takes no place");
        let port = flows.connection(&key(3)).unwrap().port;
        assert_eq!(flows.at(SocketAddrV4::new(*key(3).from.ip(), port)), Some(key(3)));
        flows.forget(&key(3));
        assert_eq!(flows.at(SocketAddrV4::new(*key(3).from.ip(), port)), None);
    }

    #[test]
    fn only_a_held_connection_can_be_taken() {
        let mut flows = Flows::default();
        assert!(flows.begin(key(1), 2));
        assert!(flows.take_held(&key(1)).is_none() && flows.take_held(&key(9)).is_none());
    }

    #[test]
    fn answers_to_the_far_end_are_told_from_questions() {
        let mut flows = Flows::default();
        flows.note_outside(key(1));
        assert!(flows.is_answer(&key(1)) && !flows.is_answer(&key(2)));
    }

    #[test]
    fn flows_of_datagrams_are_bounded_too() {
        let mut flows = Flows::default();
        assert!(flows.begin_datagrams(key(1), 1) && !flows.begin_datagrams(key(2), 1));
        assert!(flows.datagrams(&key(1)).unwrap().is_none());
        flows.forget_datagrams(&key(1));
        assert!(flows.begin_datagrams(key(2), 1));
    }
}
