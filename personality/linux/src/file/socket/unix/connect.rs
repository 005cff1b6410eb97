//! Listening, accepting and connecting of local sockets.

use super::{Phase, UnixKind, UnixPeer, UnixSocket};
use crate::Errno;
use crate::file::socket::{Address, PeerCredentials, Socket, UnixName};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;

impl UnixSocket {
    /// Does listen(2).
    pub(in crate::file::socket) fn listen(&self, backlog: u32) -> Result<(), Errno> {
        if self.end.kind == UnixKind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let limit = backlog.min(4096) as usize;
        let mut state = self.end.state.lock();
        if state.name == UnixName::Unnamed {
            return Err(Errno::EINVAL);
        }
        match &mut state.phase {
            Phase::Listening { limit: old, .. } => *old = limit,
            Phase::Connected { .. } => return Err(Errno::EINVAL),
            Phase::Fresh => {
                state.phase = Phase::Listening { backlog: VecDeque::new(), limit };
                self.end.readiness.clear(Ready::all());
            }
        }
        Ok(())
    }

    /// Does accept(2).
    pub(in crate::file::socket) fn accept(&self) -> Result<(Socket, Address), Errno> {
        let end = {
            let mut state = self.end.state.lock();
            let shut = state.shut_read;
            let Phase::Listening { backlog, .. } = &mut state.phase else {
                return Err(Errno::EINVAL);
            };
            let end = backlog.pop_front();
            if backlog.is_empty() {
                self.end.readiness.clear(Ready::READ);
            }
            end.ok_or(if shut { Errno::EINVAL } else { Errno::EAGAIN })?
        };
        end.listener.store(0, Ordering::Release);
        self.end.room.wake_all();
        let socket = UnixSocket::of(end, &self.tenant);
        let name = socket.peer_name().unwrap_or_default();
        Ok((Socket::Unix(socket), Address::Unix(name)))
    }

    /// Returns the listener of a name, to wait for room in its backlog.
    pub(in crate::file::socket) fn listener(&self, name: &UnixName) -> Option<Arc<UnixPeer>> {
        self.tenant.unix_names.find(name, self.end.kind).ok()
    }

    /// Does connect(2). A full backlog answers EAGAIN.
    pub(in crate::file::socket) fn connect(&self, name: &UnixName, sender: PeerCredentials) -> Result<(), Errno> {
        let target = self.tenant.unix_names.find(name, self.end.kind)?;
        if target.kind != self.end.kind {
            return Err(Errno::EPROTOTYPE);
        }
        if self.end.kind == UnixKind::Datagram {
            let target_name = target.state.lock().name.clone();
            self.end.join(&target, target_name, sender);
            return Ok(());
        }
        let own_name = {
            let state = self.end.state.lock();
            match state.phase {
                Phase::Fresh => state.name.clone(),
                Phase::Connected { .. } => return Err(Errno::EISCONN),
                Phase::Listening { .. } => return Err(Errno::EINVAL),
            }
        };
        let accepted = UnixPeer::new(self.end.kind);
        accepted.join(&self.end, own_name, sender);
        let listener = enter_backlog(&target, &accepted)?;
        self.end.join(&accepted, listener, sender);
        target.readiness.set(Ready::READ);
        Ok(())
    }
}

/// Puts a new connection into a listener's backlog; answers the listener's name.
fn enter_backlog(target: &Arc<UnixPeer>, accepted: &Arc<UnixPeer>) -> Result<UnixName, Errno> {
    let mut state = target.state.lock();
    let name = state.name.clone();
    let shut = state.shut_read;
    match &mut state.phase {
        Phase::Listening { backlog, limit } if !shut => {
            if backlog.len() > *limit {
                return Err(Errno::EAGAIN);
            }
            accepted.listener.store(Arc::as_ptr(target) as usize, Ordering::Release);
            backlog.push_back(accepted.clone());
            Ok(name)
        }
        _ => Err(Errno::ECONNREFUSED),
    }
}
