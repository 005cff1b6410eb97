//! The listeners of an instance, by name.
//!
//! A name is taken for as long as its listener lives. A connection that waits to be accepted is an end as any other: dropping the listener ends
//! it. May be called: by anybody, never waits. Left out: who may listen under which name (the caller compares [`Name::tenant`]).

use crate::ChannelError;
use crate::end::{End, PAGES_MAX};
use crate::name::Name;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use gyre_address_space::SharedMemory;
use gyre_interface::{Readiness, Ready};
use gyre_object::{ObjectLock, SpinLock};

/// Connections that wait to be accepted.
pub const BACKLOG_MAX: usize = 16;

/// The one who waits for connections under a name. The name is free again once it is dropped, and all who wait hear the end.
pub struct Listener {
    tenant: String,
    pages_max: usize,
    backlog: ObjectLock<VecDeque<End>>,
    readiness: Arc<Readiness>,
}

/// All listeners.
#[derive(Default)]
pub struct Channels {
    listeners: SpinLock<BTreeMap<Name, Weak<Listener>>>,
}

impl Channels {
    /// Listens under a name, whose tenant the caller is. Each connection may have up to `pages_max` pages.
    ///
    /// # Errors
    /// [`ChannelError::Invalid`] for too many pages, [`ChannelError::InUse`].
    pub fn listen(&self, name: Name, pages_max: usize) -> Result<Arc<Listener>, ChannelError> {
        if pages_max > PAGES_MAX {
            return Err(ChannelError::Invalid);
        }
        let listener = Arc::new(Listener {
            tenant: name.tenant().into(),
            pages_max,
            backlog: ObjectLock::new(VecDeque::new()),
            readiness: Readiness::new(Ready::empty()),
        });
        let mut listeners = self.listeners.lock();
        listeners.retain(|_, known| known.strong_count() > 0);
        if listeners.contains_key(&name) {
            return Err(ChannelError::InUse);
        }
        listeners.insert(name, Arc::downgrade(&listener));
        Ok(listener)
    }

    /// Connects `tenant` to who listens under a name, with pages that both map. Its messages wait until it is accepted.
    ///
    /// # Errors
    /// [`ChannelError::Refused`]; [`ChannelError::Invalid`] for more pages than the listener grants; [`ChannelError::Again`] if too many wait.
    pub fn connect(&self, name: &Name, tenant: &str, pages: usize) -> Result<End, ChannelError> {
        self.listener(name)?.connect(tenant, pages, Arc::default())
    }

    /// Connects a tenant of another instance, whose pages are these.
    ///
    /// # Errors
    /// As [`Channels::connect`].
    pub fn connect_over(
        &self,
        name: &Name,
        tenant: &str,
        pages: usize,
        memory: Arc<SharedMemory>,
    ) -> Result<End, ChannelError> {
        self.listener(name)?.connect(tenant, pages, memory)
    }

    fn listener(&self, name: &Name) -> Result<Arc<Listener>, ChannelError> {
        self.listeners.lock().get(name).and_then(Weak::upgrade).ok_or(ChannelError::Refused)
    }
}

impl Listener {
    fn connect(&self, tenant: &str, pages: usize, memory: Arc<SharedMemory>) -> Result<End, ChannelError> {
        if pages > self.pages_max {
            return Err(ChannelError::Invalid);
        }
        let [own, theirs] = End::pair_over([tenant, &self.tenant], pages, memory)?;
        {
            let mut backlog = self.backlog.lock();
            if backlog.len() >= BACKLOG_MAX {
                return Err(ChannelError::Again);
            }
            backlog.push_back(theirs);
        }
        self.readiness.set(Ready::READ);
        Ok(own)
    }

    /// Returns its readiness: to read if a connection waits.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Takes the next connection.
    ///
    /// # Errors
    /// [`ChannelError::Again`] if none waits.
    pub fn accept(&self) -> Result<End, ChannelError> {
        let mut backlog = self.backlog.lock();
        let end = backlog.pop_front();
        if backlog.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        end.ok_or(ChannelError::Again)
    }
}
