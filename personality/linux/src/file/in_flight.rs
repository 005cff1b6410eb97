//! Open files that lie in local sockets, sent and not received (SCM_RIGHTS).
//!
//! An inbox has a ticket for the files of a message; the files are here. So no socket owns another one: a socket that is closed leaves
//! its tickets behind and the files are let go of in a loop (`remains`), and sockets in flight that only one another
//! hold are found by looking through this table alone, as Linux' collector does (net/unix/garbage.c).

use super::object::Object;
use super::open_file::OpenFile;
use super::remains::Remain;
use super::socket::Socket;
use super::socket::unix::UnixPeer;
use super::tenant_files::TenantFiles;
use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_object::TenantLock;

mod rings;

/// Open files of a tenant that lie in sockets, sent and not received.
pub const IN_FLIGHT_MAX: usize = 4096;

/// The files of one message.
struct Message {
    /// The peer whose inbox holds its ticket.
    to: Weak<UnixPeer>,
    files: Vec<Arc<OpenFile>>,
}

#[derive(Default)]
struct Table {
    messages: BTreeMap<u64, Message>,
    next: u64,
    files: usize,
    /// Local sockets among them: only they can hold others.
    sockets: usize,
}

/// All files of a tenant that are in flight.
#[derive(Default)]
pub struct InFlight {
    table: TenantLock<Table>,
    /// True while a search for rings has been asked for.
    wanted: AtomicBool,
    /// How often rings were looked for.
    #[cfg(test)]
    pub(super) searches: core::sync::atomic::AtomicUsize,
}

/// Stands for the files of a message, until it is received or dropped.
pub struct Ticket {
    tenant: Arc<TenantFiles>,
    number: u64,
}

impl InFlight {
    /// Returns how many files are in flight.
    pub fn count(&self) -> usize {
        self.table.lock().files
    }

    /// Returns whether a socket is in flight and no search for rings has been asked for; from now on one has.
    pub(super) fn wants_rings(&self) -> bool {
        self.table.lock().sockets > 0 && !self.wanted.swap(true, Ordering::AcqRel)
    }

    fn send(&self, to: &Arc<UnixPeer>, files: Vec<Arc<OpenFile>>) -> Result<u64, (Errno, Vec<Arc<OpenFile>>)> {
        let mut table = self.table.lock();
        match table.files.checked_add(files.len()) {
            Some(sum) if sum <= IN_FLIGHT_MAX => table.files = sum,
            _ => return Err((Errno::ETOOMANYREFS, files)),
        }
        table.sockets = table.sockets.saturating_add(sockets_among(&files));
        let number = table.next;
        table.next = table.next.wrapping_add(1);
        table.messages.insert(number, Message { to: Arc::downgrade(to), files });
        Ok(number)
    }
}

impl Table {
    fn take(&mut self, number: u64) -> Vec<Arc<OpenFile>> {
        let files = self.messages.remove(&number).map(|message| message.files).unwrap_or_default();
        self.files = self.files.saturating_sub(files.len());
        self.sockets = self.sockets.saturating_sub(sockets_among(&files));
        files
    }
}

fn sockets_among(files: &[Arc<OpenFile>]) -> usize {
    files.iter().filter(|file| unix_peer_of(file).is_some()).count()
}

/// Returns the endpoint of a local socket.
fn unix_peer_of(file: &OpenFile) -> Option<&Arc<UnixPeer>> {
    match file.object() {
        Object::Socket(Socket::Unix(socket)) => Some(socket.peer_part()),
        _ => None,
    }
}

impl TenantFiles {
    /// Puts the files of a message in flight to `to`; `None` if it has none.
    ///
    /// # Errors
    /// ETOOMANYREFS beyond [`IN_FLIGHT_MAX`].
    pub(super) fn send_files(
        self: &Arc<Self>,
        to: &Arc<UnixPeer>,
        files: Vec<Arc<OpenFile>>,
    ) -> Result<Option<Ticket>, Errno> {
        if files.is_empty() {
            return Ok(None);
        }
        let number = match self.in_flight.send(to, files) {
            // Unreachable rings may fill the table.
            Err((_, files)) => {
                self.free_rings();
                self.in_flight.send(to, files)
            }
            number => number,
        };
        let number = number.map_err(|(error, _files)| error)?;
        Ok(Some(Ticket { tenant: self.clone(), number }))
    }

    /// Does the search that was asked for ([`InFlight::wants_rings`]).
    pub(super) fn answer_for_rings(self: &Arc<Self>) {
        self.in_flight.wanted.store(false, Ordering::Release);
        self.free_rings();
    }

    /// Lets go of sockets in flight that no process can receive. A search that was asked for stays asked for: otherwise each message that finds no
    /// room would have one more queued.
    fn free_rings(self: &Arc<Self>) {
        #[cfg(test)]
        self.in_flight.searches.fetch_add(1, Ordering::Relaxed);
        let files = {
            let mut table = self.in_flight.table.lock();
            let lost = rings::lost(&table);
            lost.into_iter().flat_map(|number| table.take(number)).collect::<Vec<_>>()
        };
        if !files.is_empty() {
            self.leave_behind(Remain::Files(files));
        }
    }
}

/// The files that are in flight at a moment, by their addresses.
pub(super) struct FilesInFlight(Vec<usize>);

impl FilesInFlight {
    /// Returns whether a file is among them.
    pub(super) fn have(&self, file: &Arc<OpenFile>) -> bool {
        self.0.binary_search(&(Arc::as_ptr(file) as usize)).is_ok()
    }
}

impl TenantFiles {
    /// Returns the files that are in flight now: at most [`IN_FLIGHT_MAX`].
    pub(super) fn files_in_flight(&self) -> FilesInFlight {
        let table = self.in_flight.table.lock();
        let files = table.messages.values().flat_map(|message| &message.files);
        let mut addresses: Vec<usize> = files.map(|file| Arc::as_ptr(file) as usize).collect();
        drop(table);
        addresses.sort_unstable();
        FilesInFlight(addresses)
    }
}

impl Ticket {
    /// Returns the files, received.
    pub fn take(self) -> Vec<Arc<OpenFile>> {
        self.tenant.in_flight.table.lock().take(self.number)
    }

    /// Returns the files, as a look at the message gives them (MSG_PEEK).
    pub fn look(&self) -> Vec<Arc<OpenFile>> {
        let table = self.tenant.in_flight.table.lock();
        table.messages.get(&self.number).map(|message| message.files.clone()).unwrap_or_default()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let files = self.tenant.in_flight.table.lock().take(self.number);
        if !files.is_empty() {
            self.tenant.leave_behind(Remain::Files(files));
        }
    }
}
