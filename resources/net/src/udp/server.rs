//! Sockets for users.

use super::{Look, Udp, UdpSocket};
use crate::door::Approach;
use crate::tcp_resource::{check_local, free_port};
use crate::wire::udp::HEADER_BYTES;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, Socket, SocketAddress, SocketId};
use gyre_interface::udp::udp::Server;
use gyre_interface::udp::{Binding, Coverage, DATAGRAM_BYTES_MAX, Kind, PortUse};
use gyre_object::Bytes;

impl Udp {
    /// Returns a socket of the current tenant. Others' sockets do not exist for it.
    fn socket(&self, id: SocketId) -> Result<Arc<UdpSocket>, NetError> {
        let tenant = self.shared.current_tenant()?;
        self.find(id).filter(|socket| socket.tenant.index == tenant.index).ok_or(NetError::Unknown)
    }

    fn enter(&self, wanted: Binding) -> Result<Arc<UdpSocket>, NetError> {
        let Binding { local, kind, port_use } = wanted;
        let tenant = self.shared.current_tenant()?;
        check_local(tenant, local.address)?;
        let mut ports = tenant.ports.lock();
        let mut start = [0; 4];
        gyre_machine::fill_random(&mut start);
        let port = match local.port {
            0 => free_port(u32::from_le_bytes(start), |port| !ports.datagrams.contains_key(&(kind, port)))
                .ok_or(NetError::InUse)?,
            port => port,
        };
        let local = SocketAddress { port, ..local };
        let clash = |other: &Arc<UdpSocket>| other.takes(local.address) || local.address == [0; 4];
        let others = ports.datagrams.get(&(kind, port)).into_iter().flatten();
        let shares = |use_of: PortUse| use_of == PortUse::Shared;
        if others.filter(|other| clash(other)).any(|other| !(shares(port_use) && shares(other.port_use))) {
            return Err(NetError::InUse);
        }
        tenant.take_socket()?;
        let id = SocketId(self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // the same label as that of the datagrams that arrive for the port
        let label = self.shared.label(crate::connection_key::words(tenant, [0; 4], port, [0; 4], 0));
        let socket = Arc::new(UdpSocket::new(id, tenant, Binding { local, ..wanted }, label));
        ports.datagrams.entry((kind, port)).or_default().push(socket.clone());
        Ok(socket)
    }
}

impl Server for Udp {
    async fn bind(&'static self, wanted: Binding) -> Result<Socket, NetError> {
        let socket = self.enter(wanted)?;
        self.sockets.lock().insert(socket.id.0, socket.clone());
        Ok(socket.socket())
    }

    async fn cover(&'static self, socket: SocketId, coverage: Coverage) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        let is_short = |bytes: u16| bytes != 0 && usize::from(bytes) < HEADER_BYTES;
        if socket.kind != Kind::Lite || is_short(coverage.sent_bytes) {
            return Err(NetError::Invalid);
        }
        *socket.coverage.lock() = coverage;
        Ok(())
    }

    async fn send(&'static self, socket: SocketId, to: SocketAddress, data: Bytes) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        if data.len() > DATAGRAM_BYTES_MAX {
            return Err(NetError::TooLong);
        }
        if to.port == 0 {
            return Err(NetError::Invalid);
        }
        let address = if to.address == [0; 4] { socket.tenant.address } else { to.address };
        let reachable = self.shared.cards.is_up() && self.shared.is_broadcast(address)
            || self.shared.has_way(socket.tenant, address, Approach::Answer);
        if !reachable || (224..240).contains(&address[0]) {
            return Err(NetError::Unreachable);
        }
        if !socket.may_send(self.shared) {
            return Err(NetError::WouldBlock);
        }
        self.send_datagram(&socket, SocketAddress { address, ..to }, data)
    }

    async fn receive(&'static self, socket: SocketId) -> Result<(SocketAddress, Bytes), NetError> {
        self.socket(socket)?.next(Look::Take)
    }

    async fn peek(&'static self, socket: SocketId) -> Result<(SocketAddress, Bytes), NetError> {
        self.socket(socket)?.next(Look::Peek)
    }

    async fn close(&'static self, socket: SocketId) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        if self.sockets.lock().remove(&socket.id.0).is_none() {
            return Err(NetError::Unknown);
        }
        let mut ports = socket.tenant.ports.lock();
        let name = (socket.kind, socket.local.port);
        if let Some(others) = ports.datagrams.get_mut(&name) {
            others.retain(|other| !Arc::ptr_eq(other, &socket));
            if others.is_empty() {
                ports.datagrams.remove(&name);
            }
        }
        drop(ports);
        socket.tenant.give_socket();
        socket.readiness.set(Ready::HANG_UP);
        Ok(())
    }
}
