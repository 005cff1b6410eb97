//! Sockets for users.

use super::table::Handle;
use super::{Connection, Listener, Tcp};
use crate::shared::now_ns;
use crate::tcp::Close;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_interface::Ready;
use gyre_interface::tcp::tcp::Server;
use gyre_interface::tcp::{Direction, NetError, Socket, SocketAddress, SocketId, TcpOption, TcpStatus};
use gyre_object::Bytes;

impl Tcp {
    /// Returns a socket of the current tenant. Others' sockets do not exist for it.
    fn socket(&self, id: SocketId) -> Result<Handle, NetError> {
        let tenant = self.shared.current_tenant()?;
        let owner = |handle: &Handle| match handle {
            Handle::Connection(connection) => (connection.tenant.index, connection.is_orphan.load(Ordering::Acquire)),
            Handle::Listener(listener) => (listener.tenant.index, false),
        };
        self.table.handle(id).filter(|handle| owner(handle) == (tenant.index, false)).ok_or(NetError::Unknown)
    }

    fn connection(&self, id: SocketId) -> Result<Arc<Connection>, NetError> {
        match self.socket(id)? {
            Handle::Connection(connection) => Ok(connection),
            Handle::Listener(_) => Err(NetError::NotConnected),
        }
    }

    fn listener(&self, id: SocketId) -> Result<Arc<Listener>, NetError> {
        match self.socket(id)? {
            Handle::Listener(listener) => Ok(listener),
            Handle::Connection(_) => Err(NetError::Invalid),
        }
    }
}

impl Server for Tcp {
    async fn listen(&'static self, local: SocketAddress, backlog: u32, share_port: bool) -> Result<Socket, NetError> {
        self.open_listener(local, backlog, share_port)
    }

    async fn accept(&'static self, listener: SocketId) -> Result<Socket, NetError> {
        let listener = self.listener(listener)?;
        let mut state = listener.state.lock();
        let next = state.ready.pop_front();
        if state.ready.is_empty() {
            listener.readiness.clear(Ready::READ);
        }
        drop(state);
        let connection = next.ok_or(NetError::WouldBlock)?;
        if let Some(visit) = &connection.visit {
            visit.on_accept(now_ns());
        }
        Ok(connection.socket())
    }

    async fn connect(&'static self, local: SocketAddress, remote: SocketAddress) -> Result<Socket, NetError> {
        self.open_connection(local, remote)
    }

    async fn send(&'static self, socket: SocketId, data: Vec<Bytes>) -> Result<usize, NetError> {
        let connection = self.connection(socket)?;
        let taken = connection.machine.lock().send(data);
        if let (Some(visit), Ok(1..)) = (&connection.visit, &taken) {
            visit.on_answer(now_ns());
        }
        if let (Some(question), Ok(1..)) = (&connection.question, &taken) {
            question.on_answer(now_ns);
        }
        self.after(&connection, Ready::empty());
        taken
    }

    async fn receive(&'static self, socket: SocketId, bytes_max: usize) -> Result<Vec<Bytes>, NetError> {
        let connection = self.connection(socket)?;
        let taken = connection.machine.lock().receive(bytes_max);
        self.after(&connection, Ready::empty());
        taken
    }

    async fn peek(&'static self, socket: SocketId, bytes_max: usize) -> Result<Vec<Bytes>, NetError> {
        let connection = self.connection(socket)?;
        let mut machine = connection.machine.lock();
        let seen = machine.peek(bytes_max);
        connection.untell(&machine);
        seen
    }

    async fn shut_down(&'static self, socket: SocketId, direction: Direction) -> Result<(), NetError> {
        let connection = self.connection(socket)?;
        let done = connection.machine.lock().shut_down(direction);
        self.after(&connection, Ready::empty());
        done
    }

    async fn close(&'static self, socket: SocketId) -> Result<(), NetError> {
        // The sockets of an activity that was ended at once are closed by the infrastructure, without an end in
        // order.
        let is_left_behind = gyre_account::current_activity() == ActivityId::INFRASTRUCTURE;
        let handle = match is_left_behind {
            true => self.table.handle(socket).ok_or(NetError::Unknown)?,
            false => self.socket(socket)?,
        };
        match handle {
            Handle::Connection(connection) => {
                self.close_connection(&connection, if is_left_behind { Close::Reset } else { Close::InOrder })
            }
            Handle::Listener(listener) => self.close_listener(&listener),
        }
        Ok(())
    }

    async fn set_option(&'static self, socket: SocketId, option: TcpOption) -> Result<(), NetError> {
        let handle = self.socket(socket)?;
        let Handle::Connection(connection) = handle else {
            // options of a listener are those of connections yet to come; the personality sets them there
            return Ok(());
        };
        if let TcpOption::Linger(seconds) = option {
            connection.resets.store(seconds == Some(0), Ordering::Relaxed);
            return Ok(());
        }
        let done = connection.machine.lock().set_option(option, now_ns());
        // an option that only holds data back has nothing to send
        if !matches!(option, TcpOption::Cork(true) | TcpOption::NoDelay(false)) {
            self.after(&connection, Ready::empty());
        }
        done
    }

    async fn take_error(&'static self, socket: SocketId) -> Result<Option<NetError>, NetError> {
        match self.socket(socket)? {
            Handle::Connection(connection) => {
                let mut machine = connection.machine.lock();
                let error = machine.take_error();
                connection.untell(&machine);
                Ok(error)
            }
            Handle::Listener(_) => Ok(None),
        }
    }

    async fn status(&'static self, socket: SocketId) -> Result<TcpStatus, NetError> {
        match self.socket(socket)? {
            Handle::Connection(connection) => Ok(connection.machine.lock().status()),
            Handle::Listener(listener) => Ok(TcpStatus {
                state: 10,
                receive_queued_bytes: listener.state.lock().ready.len(),
                ..TcpStatus::default()
            }),
        }
    }
}
