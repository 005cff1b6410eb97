//! Listening and connecting.
//!
//! A listener is entered in its tenant's ports under their lock, a connection in the table under its shard's lock,
//! so that no port and no pair of ends is given twice. A free port is searched from a random one on (RFC 6056).
//! Limits: sockets of the tenant. Closing a listener resets its waiting connections; closing a connection lets the
//! machine send its rest ([`super::output`]). Nothing here waits for the peer.
//!
//! A loopback address speaks to loopback addresses and to the tenant's own. 0.0.0.0 as remote means this machine, as
//! on Linux.

use super::connection::Measures;
use super::listener::ListenerState;
use super::table::Handle;
use super::{Connection, Listener, Tcp};
use crate::connection_key::ConnectionKey;
use crate::door::Approach;
use crate::limits::BACKLOG_MAX;
use crate::shared::{is_loopback, now_ns};
use crate::tcp::{Algorithm, Close, Machine, Seq, Settings};
use crate::tenant::Tenant;
use crate::wire::Ip;
use alloc::sync::Arc;
use gyre_interface::tcp::{NetError, Socket, SocketAddress};
use gyre_interface::{Readiness, Ready};
use gyre_object::SpinLock;

/// Ports that a connection may get when its user does not choose (as Linux).
const EPHEMERAL: (u16, u16) = (32768, 60999);
/// Ports tried before there is none.
const TRIES_MAX: usize = 2048;
/// How many they are.
const PORTS: usize = (EPHEMERAL.1 - EPHEMERAL.0) as usize + 1;

impl Tcp {
    pub(super) fn open_listener(
        &'static self,
        local: SocketAddress,
        backlog: u32,
        shares_port: bool,
    ) -> Result<Socket, NetError> {
        let tenant = self.shared.current_tenant()?;
        check_local(tenant, local.address)?;
        tenant.take_socket()?;
        let opened = self.enter_listener(tenant, local, backlog, shares_port);
        if opened.is_err() {
            tenant.give_socket();
        }
        opened.map(|listener| {
            self.table.insert_handle(listener.id, Handle::Listener(listener.clone()));
            listener.socket()
        })
    }

    fn enter_listener(
        &self,
        tenant: &'static Tenant,
        local: SocketAddress,
        backlog: u32,
        shares_port: bool,
    ) -> Result<Arc<Listener>, NetError> {
        let mut ports = tenant.ports.lock();
        let port = match local.port {
            0 => free_port(self.start(), |port| !ports.listeners.contains_key(&port)).ok_or(NetError::InUse)?,
            port => port,
        };
        let local = SocketAddress { port, ..local };
        let others = ports.listeners.entry(port).or_default();
        let clash = |other: &Arc<Listener>| other.takes(local.address) || local.address == [0; 4];
        if others.iter().any(|other| clash(other) && !(shares_port && other.shares_port)) {
            return Err(NetError::InUse);
        }
        let id = self.table.new_id();
        let listener = Arc::new(Listener {
            id,
            tenant,
            local,
            backlog: backlog.clamp(1, BACKLOG_MAX) as usize,
            shares_port,
            label: self.shared.label([id.0, 0]),
            readiness: Readiness::new(Ready::empty()),
            state: SpinLock::new(ListenerState::default()),
            alarm: Arc::default(),
        });
        others.push(listener.clone());
        Ok(listener)
    }

    pub(super) fn open_connection(
        &'static self,
        local: SocketAddress,
        remote: SocketAddress,
    ) -> Result<Socket, NetError> {
        let tenant = self.shared.current_tenant()?;
        check_local(tenant, local.address)?;
        let remote = self.real_remote(tenant, remote)?;
        let address = match local.address {
            [0, 0, 0, 0] => self.shared.source_for(tenant, remote.address),
            address => address,
        };
        // a loopback address speaks to loopback addresses and to the tenant's own only
        if is_loopback(address) != is_loopback(remote.address) && remote.address != tenant.address {
            return Err(NetError::Invalid);
        }
        if !self.shared.has_way(tenant, remote.address, Approach::Call) {
            return Err(NetError::Unreachable);
        }
        tenant.take_socket()?;
        match self.enter_connection(tenant, SocketAddress { address, ..local }, remote) {
            Some(connection) => {
                self.table.insert_handle(connection.id, Handle::Connection(connection.clone()));
                self.after(&connection, Ready::empty());
                Ok(connection.socket())
            }
            None => {
                tenant.give_socket();
                Err(if local.port == 0 { NetError::NotAvailable } else { NetError::InUse })
            }
        }
    }

    /// Returns the real remote address: 0.0.0.0 means this machine (as on Linux); groups cannot be connected to.
    fn real_remote(&self, tenant: &Tenant, remote: SocketAddress) -> Result<SocketAddress, NetError> {
        let address = if remote.address == [0; 4] { tenant.address } else { remote.address };
        if address[0] >= 224 || remote.port == 0 || self.shared.is_broadcast(address) {
            return Err(NetError::Unreachable);
        }
        Ok(SocketAddress { address, ..remote })
    }

    fn enter_connection(
        &self,
        tenant: &'static Tenant,
        local: SocketAddress,
        remote: SocketAddress,
    ) -> Option<Arc<Connection>> {
        let now = now_ns();
        let key_of = |port| self.connection_key(tenant, SocketAddress { port, ..local }, remote);
        let port = match local.port {
            0 => free_port(self.start(), |port| {
                self.table.is_free(&key_of(port), now) && !tenant.ports.lock().listeners.contains_key(&port)
            })?,
            port => port,
        };
        let key: ConnectionKey = key_of(port);
        let settings = self.settings(tenant, remote.address, self.first_number(&key, now), self.stamp_offset(&key));
        let local = SocketAddress { port, ..local };
        let (machine, none) = (Machine::connecting(settings), Measures::default());
        let connection = Connection::new(self.table.new_id(), key, tenant, local, remote, machine, none);
        self.table.insert(&connection).then_some(connection)
    }

    /// Returns a random port to begin the search with (RFC 6056).
    fn start(&self) -> u32 {
        let mut bytes = [0; 4];
        gyre_machine::fill_random(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn settings(&self, tenant: &Tenant, remote: Ip, first: Seq, stamp_offset: u32) -> Settings {
        // segments of the largest packet need no cutting
        let is_whole = self.shared.is_intact_to(remote);
        Settings {
            first,
            stamp_offset,
            segment_bytes_max: self.shared.segment_bytes_max(remote),
            offload_bytes_max: if is_whole { 0 } else { self.shared.cards.last().properties.segmentation_bytes_max },
            receive_bytes_max: tenant.limits.receive_bytes,
            send_bytes_max: tenant.limits.send_bytes,
            algorithm: Algorithm::Cubic,
        }
    }

    /// Ends a listener: waiting connections are reset.
    pub(super) fn close_listener(&'static self, listener: &Arc<Listener>) {
        {
            let mut ports = listener.tenant.ports.lock();
            let port = listener.local.port;
            if let Some(others) = ports.listeners.get_mut(&port) {
                others.retain(|other| !Arc::ptr_eq(other, listener));
                if others.is_empty() {
                    ports.listeners.remove(&port);
                }
            }
        }
        let waiting = {
            let mut state = listener.state.lock();
            state.is_closed = true;
            state.half_open.clear();
            core::mem::take(&mut state.ready)
        };
        for connection in waiting {
            self.close_connection(&connection, Close::Reset);
        }
        if self.table.remove_handle(listener.id) {
            listener.tenant.give_socket();
        }
        if let Some(ports) = self.shared.ports.get() {
            drop(ports.tcp_timer.disarm(listener.id));
        }
        listener.readiness.set(Ready::HANG_UP);
    }

    pub(super) fn close_connection(&'static self, connection: &Arc<Connection>, how: Close) {
        use core::sync::atomic::Ordering;
        if connection.is_orphan.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(visit) = &connection.visit {
            visit.guard.leave();
        }
        let how = if connection.resets.load(Ordering::Relaxed) { Close::Reset } else { how };
        connection.machine.lock().close(how, now_ns());
        self.after(connection, Ready::empty());
    }
}

/// Checks that the address is the tenant's own, a loopback address, or any.
pub(crate) fn check_local(tenant: &Tenant, address: Ip) -> Result<(), NetError> {
    let own = address == [0; 4] || address == tenant.address || is_loopback(address);
    own.then_some(()).ok_or(NetError::NotAvailable)
}

/// Searches from a random port on.
pub(crate) fn free_port(start: u32, mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
    let ports = EPHEMERAL.0..=EPHEMERAL.1;
    let first = start as usize % PORTS;
    ports.cycle().skip(first).take(TRIES_MAX).find(|port| is_free(*port))
}
