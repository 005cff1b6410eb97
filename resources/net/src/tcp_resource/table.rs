//! The tables of sockets by name, and of connections and remembered ends by their two ends. Sharded, so that no lock
//! is global.

use super::{Connection, Listener};
use crate::connection_key::{ConnectionKey, Hashed};
use crate::tcp::time_wait::TimeWait;
use crate::tenant::Tenant;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::tcp::SocketId;
use gyre_object::SpinLock;
use hashbrown::HashMap;

const SHARDS: usize = 64;
/// Most remembered ends in a shard.
const TIME_WAITS_MAX: usize = 512;
/// How long an end is remembered, ns (2 MSL of 30 s).
const TIME_WAIT_NS: u64 = 60_000_000_000;

/// A socket by its name.
#[derive(Clone)]
pub(crate) enum Handle {
    Connection(Arc<Connection>),
    Listener(Arc<Listener>),
}

/// The entry of two ends.
pub(crate) enum Found {
    Connection(Arc<Connection>),
    TimeWait(TimeWait),
    Nothing,
}

#[derive(Default)]
struct Shard {
    connections: HashMap<ConnectionKey, Arc<Connection>, Hashed>,
    time_waits: HashMap<ConnectionKey, Remembered, Hashed>,
    /// The order in which ends will be forgotten; entries of ends forgotten earlier are skipped.
    order: VecDeque<(u64, ConnectionKey)>,
}

struct Remembered {
    end: TimeWait,
    until_ns: u64,
    tenant: &'static Tenant,
}

/// See the module.
pub(crate) struct Table {
    shards: [SpinLock<Shard>; SHARDS],
    names: [SpinLock<HashMap<u64, Handle, Hashed>>; SHARDS],
    next: AtomicU64,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            shards: core::array::from_fn(|_| SpinLock::default()),
            names: core::array::from_fn(|_| SpinLock::default()),
            next: AtomicU64::new(1),
        }
    }
}

impl Table {
    fn shard(&self, key: &ConnectionKey) -> &SpinLock<Shard> {
        &self.shards[(key.label >> 32) as usize % SHARDS]
    }

    fn names(&self, id: SocketId) -> &SpinLock<HashMap<u64, Handle, Hashed>> {
        &self.names[id.0 as usize % SHARDS]
    }

    /// Returns a name that was never used. Spread over all bits, as the map wants its keys.
    pub(crate) fn new_id(&self) -> SocketId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        spread(count)
    }

    pub(crate) fn find(&self, key: &ConnectionKey, now_ns: u64) -> Found {
        let shard = self.shard(key).lock();
        if let Some(connection) = shard.connections.get(key) {
            return Found::Connection(connection.clone());
        }
        match shard.time_waits.get(key) {
            Some(known) if known.until_ns > now_ns => Found::TimeWait(known.end),
            _ => Found::Nothing,
        }
    }

    pub(crate) fn handle(&self, id: SocketId) -> Option<Handle> {
        self.names(id).lock().get(&id.0).cloned()
    }

    pub(crate) fn insert_handle(&self, id: SocketId, handle: Handle) {
        self.names(id).lock().insert(id.0, handle);
    }

    /// Removes a name; true for the one of several at once whose call removed it.
    pub(crate) fn remove_handle(&self, id: SocketId) -> bool {
        let gone = self.names(id).lock().remove(&id.0);
        gone.is_some()
    }

    /// Enters a connection; false if its ends are in use.
    pub(crate) fn insert(&self, connection: &Arc<Connection>) -> bool {
        let mut shard = self.shard(&connection.key).lock();
        if shard.connections.contains_key(&connection.key) {
            return false;
        }
        shard.forget(&connection.key);
        shard.connections.insert(connection.key, connection.clone());
        true
    }

    /// Returns whether two ends are neither connected nor remembered.
    pub(crate) fn is_free(&self, key: &ConnectionKey, now_ns: u64) -> bool {
        matches!(self.find(key, now_ns), Found::Nothing)
    }

    /// Removes a connection; its facts are remembered if `end` is given.
    pub(crate) fn remove(&self, connection: &Connection, end: Option<TimeWait>, now_ns: u64) {
        let mut shard = self.shard(&connection.key).lock();
        let gone = shard.connections.remove(&connection.key);
        if let (Some(end), true) = (end, gone.is_some()) {
            shard.remember(connection, end, now_ns);
        }
        drop(shard);
        drop(gone);
    }

    /// Forgets an end: a new connection takes its place.
    pub(crate) fn forget(&self, key: &ConnectionKey) {
        self.shard(key).lock().forget(key);
    }

    /// Returns the numbers of connections, sockets and remembered ends.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        let mut sizes = (0_usize, 0, 0_usize);
        for shard in &self.shards {
            let shard = shard.lock();
            sizes.0 = shard.connections.len().saturating_add(sizes.0);
            sizes.2 = shard.time_waits.len().saturating_add(sizes.2);
        }
        sizes.1 = self.names.iter().map(|names| names.lock().len()).sum();
        sizes
    }
}

/// The name under which the timer knows something of a tenant that is no socket: the numbers of sockets never get so far.
pub(crate) fn reserved_id(tenant: u16) -> SocketId {
    spread(u64::MAX.saturating_sub(u64::from(tenant)))
}

fn spread(count: u64) -> SocketId {
    SocketId(count.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Shard {
    fn remember(&mut self, connection: &Connection, end: TimeWait, now_ns: u64) {
        self.expire(now_ns);
        let tenant = connection.tenant;
        if tenant.time_waits.fetch_add(1, Ordering::Relaxed) >= tenant.limits.time_waits_max {
            tenant.time_waits.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let until_ns = now_ns.saturating_add(TIME_WAIT_NS);
        self.time_waits.insert(connection.key, Remembered { end, until_ns, tenant });
        self.order.push_back((until_ns, connection.key));
    }

    fn expire(&mut self, now_ns: u64) {
        while let Some((until_ns, key)) = self.order.front().copied() {
            if until_ns > now_ns && self.order.len() < TIME_WAITS_MAX {
                return;
            }
            self.order.pop_front();
            // an end that was reopened and ended again has a later entry
            if self.time_waits.get(&key).is_some_and(|known| known.until_ns == until_ns) {
                self.forget(&key);
            }
        }
    }

    fn forget(&mut self, key: &ConnectionKey) {
        if let Some(known) = self.time_waits.remove(key) {
            known.tenant.time_waits.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
