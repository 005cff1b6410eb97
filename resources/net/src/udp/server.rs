//! Sockets for users.

use super::{Udp, UdpSocket};
use crate::tcp_resource::{check_local, free_port};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::tcp::{Endpoint, NetError, Socket, SocketId};
use gyre_interface::udp::DATAGRAM_BYTES_MAX;
use gyre_interface::udp::udp::Server;
use gyre_object::Bytes;

impl Udp {
    /// A socket of the current tenant. Others' sockets do not exist for it.
    fn socket(&self, id: SocketId) -> Result<Arc<UdpSocket>, NetError> {
        let tenant = self.shared.current_tenant()?;
        self.find(id).filter(|socket| socket.tenant.index == tenant.index).ok_or(NetError::Unknown)
    }

    fn enter(&self, local: Endpoint, shares_port: bool) -> Result<Arc<UdpSocket>, NetError> {
        let tenant = self.shared.current_tenant()?;
        check_local(tenant, local.address)?;
        let mut ports = tenant.ports.lock();
        let mut start = [0; 4];
        gyre_machine::fill_random(&mut start);
        let port = match local.port {
            0 => free_port(u32::from_le_bytes(start), |port| !ports.datagrams.contains_key(&port))
                .ok_or(NetError::InUse)?,
            port => port,
        };
        let local = Endpoint { port, ..local };
        let clash = |other: &Arc<UdpSocket>| other.takes(local.address) || local.address == [0; 4];
        let others = ports.datagrams.get(&port).into_iter().flatten();
        if others.filter(|other| clash(other)).any(|other| !(shares_port && other.shares_port)) {
            return Err(NetError::InUse);
        }
        tenant.take_socket()?;
        let id = SocketId(self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // the same label as that of the datagrams that arrive for the port
        let label = self.shared.label(crate::flow::words(tenant, [0; 4], port, [0; 4], 0));
        let socket = Arc::new(UdpSocket::new(id, tenant, local, shares_port, label));
        ports.datagrams.entry(port).or_default().push(socket.clone());
        Ok(socket)
    }
}

impl Server for Udp {
    async fn bind(&'static self, local: Endpoint, share_port: bool) -> Result<Socket, NetError> {
        let socket = self.enter(local, share_port)?;
        self.sockets.lock().insert(socket.id.0, socket.clone());
        Ok(socket.socket())
    }

    async fn send(&'static self, socket: SocketId, to: Endpoint, data: Bytes) -> Result<(), NetError> {
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
        let reachable = self.shared.is_local(address)
            || self.shared.is_broadcast(address)
            || self.shared.next_hop(address).is_some();
        if !reachable || (224..240).contains(&address[0]) {
            return Err(NetError::Unreachable);
        }
        if !socket.may_send(self.shared) {
            return Err(NetError::WouldBlock);
        }
        self.send_datagram(&socket, Endpoint { address, ..to }, data)
    }

    async fn receive(&'static self, socket: SocketId) -> Result<(Endpoint, Bytes), NetError> {
        self.socket(socket)?.next(true)
    }

    async fn peek(&'static self, socket: SocketId) -> Result<(Endpoint, Bytes), NetError> {
        self.socket(socket)?.next(false)
    }

    async fn close(&'static self, socket: SocketId) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        if self.sockets.lock().remove(&socket.id.0).is_none() {
            return Err(NetError::Unknown);
        }
        let mut ports = socket.tenant.ports.lock();
        if let Some(others) = ports.datagrams.get_mut(&socket.local.port) {
            others.retain(|other| !Arc::ptr_eq(other, &socket));
            if others.is_empty() {
                ports.datagrams.remove(&socket.local.port);
            }
        }
        drop(ports);
        socket.tenant.give_socket();
        socket.readiness.set(Ready::HANG_UP);
        Ok(())
    }
}
