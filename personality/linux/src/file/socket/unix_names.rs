//! Names of a tenant's local sockets.

use super::UnixName;
use super::unix::{UnixKind, UnixPeer};
use crate::Errno;
use crate::file::weak_map::WeakMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_object::TenantLock;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(u32, u64),
    /// An abstract name is that of one kind of socket: another kind has its own (Linux, `unix_abstract_hash`).
    Abstract(UnixKind, Vec<u8>),
}

fn key_of(name: &UnixName, kind: UnixKind) -> Option<Key> {
    match name {
        UnixName::Unnamed | UnixName::Path { node: None, .. } => None,
        UnixName::Path { node: Some((mount, node)), .. } => Some(Key::Node(*mount, *node)),
        UnixName::Abstract(name) => Some(Key::Abstract(kind, name.clone())),
    }
}

/// The names of one tenant: no other tenant's sockets can be reached.
#[derive(Default)]
pub struct UnixNames(TenantLock<WeakMap<Key, UnixPeer>>);

impl UnixNames {
    /// Gives a name to a socket.
    ///
    /// # Errors
    /// EADDRINUSE; EINVAL for a path that was not resolved.
    pub fn bind(&self, name: &UnixName, socket: &Arc<UnixPeer>) -> Result<(), Errno> {
        let key = key_of(name, socket.kind).ok_or(Errno::EINVAL)?;
        let mut names = self.0.lock();
        if names.get(&key).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        names.insert(key, socket);
        Ok(())
    }

    /// Chooses a free abstract name of five hexadecimal digits (unix(7), autobind).
    ///
    /// # Errors
    /// EADDRINUSE if all are taken.
    pub fn choose(&self, socket: &Arc<UnixPeer>) -> Result<UnixName, Errno> {
        for number in 0..0x1000u32 {
            let text = alloc::format!("{number:05x}");
            let name = UnixName::Abstract(text.into_bytes());
            if self.bind(&name, socket).is_ok() {
                return Ok(name);
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Returns the socket of a name, for a socket of a kind. That of a path may be of another kind.
    ///
    /// # Errors
    /// ECONNREFUSED.
    pub fn find(&self, name: &UnixName, kind: UnixKind) -> Result<Arc<UnixPeer>, Errno> {
        let key = key_of(name, kind).ok_or(Errno::ECONNREFUSED)?;
        let socket = self.0.lock().get(&key);
        socket.ok_or(Errno::ECONNREFUSED)
    }

    /// Forgets a name of a socket of a kind.
    pub fn release(&self, name: &UnixName, kind: UnixKind) {
        if let Some(key) = key_of(name, kind) {
            self.0.lock().remove(&key);
        }
    }
}
