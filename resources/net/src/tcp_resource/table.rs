//! Who is there: sockets by name, connections and remembered ends by their two ends. Sharded, so that no lock is global.

use super::{Connection, Listener};
use crate::flow::{Flow, Hashed};
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

/// What belongs to two ends.
pub(crate) enum Found {
    Connection(Arc<Connection>),
    TimeWait(TimeWait),
    Nothing,
}

#[derive(Default)]
struct Shard {
    connections: HashMap<Flow, Arc<Connection>, Hashed>,
    time_waits: HashMap<Flow, Remembered, Hashed>,
    /// The order in which ends will be forgotten; entries of ends forgotten earlier are skipped.
    order: VecDeque<(u64, Flow)>,
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
    fn shard(&self, flow: &Flow) -> &SpinLock<Shard> {
        &self.shards[(flow.label >> 32) as usize % SHARDS]
    }

    fn names(&self, id: SocketId) -> &SpinLock<HashMap<u64, Handle, Hashed>> {
        &self.names[id.0 as usize % SHARDS]
    }

    /// A name that was never used. Spread over all bits, as the map wants its keys.
    pub(crate) fn new_id(&self) -> SocketId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        SocketId(count.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn find(&self, flow: &Flow, now_ns: u64) -> Found {
        let shard = self.shard(flow).lock();
        if let Some(connection) = shard.connections.get(flow) {
            return Found::Connection(connection.clone());
        }
        match shard.time_waits.get(flow) {
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

    /// Enters a connection; false where its ends are in use.
    pub(crate) fn insert(&self, connection: &Arc<Connection>) -> bool {
        let mut shard = self.shard(&connection.flow).lock();
        if shard.connections.contains_key(&connection.flow) {
            return false;
        }
        shard.forget(&connection.flow);
        shard.connections.insert(connection.flow, connection.clone());
        true
    }

    /// True where two ends are neither connected nor remembered.
    pub(crate) fn is_free(&self, flow: &Flow, now_ns: u64) -> bool {
        matches!(self.find(flow, now_ns), Found::Nothing)
    }

    /// Removes a connection; what is left of it is remembered where `end` is given.
    pub(crate) fn remove(&self, connection: &Connection, end: Option<TimeWait>, now_ns: u64) {
        let mut shard = self.shard(&connection.flow).lock();
        let gone = shard.connections.remove(&connection.flow);
        if let (Some(end), true) = (end, gone.is_some()) {
            shard.remember(connection, end, now_ns);
        }
        drop(shard);
        drop(gone);
    }

    /// Forgets an end: a new connection takes its place.
    pub(crate) fn forget(&self, flow: &Flow) {
        self.shard(flow).lock().forget(flow);
    }

    /// Connections, sockets and remembered ends.
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

impl Shard {
    fn remember(&mut self, connection: &Connection, end: TimeWait, now_ns: u64) {
        self.expire(now_ns);
        let tenant = connection.tenant;
        if tenant.time_waits.fetch_add(1, Ordering::Relaxed) >= tenant.limits.time_waits_max {
            tenant.time_waits.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let until_ns = now_ns.saturating_add(TIME_WAIT_NS);
        self.time_waits.insert(connection.flow, Remembered { end, until_ns, tenant });
        self.order.push_back((until_ns, connection.flow));
    }

    fn expire(&mut self, now_ns: u64) {
        while let Some((until_ns, flow)) = self.order.front().copied() {
            if until_ns > now_ns && self.order.len() < TIME_WAITS_MAX {
                return;
            }
            self.order.pop_front();
            // an end that was reopened and ended again has a later entry
            if self.time_waits.get(&flow).is_some_and(|known| known.until_ns == until_ns) {
                self.forget(&flow);
            }
        }
    }

    fn forget(&mut self, flow: &Flow) {
        if let Some(known) = self.time_waits.remove(flow) {
            known.tenant.time_waits.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
