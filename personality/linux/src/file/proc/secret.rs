//! Files of /proc that tell what a process may keep from others: its memory, and texts about that.
//!
//! Whoever may look into the process may open one ([`Looker`]). It stays that of the program that ran then: once that has gone, it tells nothing,
//! whoever has the process or its number by then. Of a process that has ended, nothing but its io can be opened.
//!
//! io is another matter, as on Linux: it goes on with the process, and the right to look is asked for at each read.

use super::looker::Looker;
use super::view::ProcessView;
use super::{maps, rollup, smaps};
use crate::process::{Process, Program};
use crate::task::io_figures;
use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_address_space::AddressSpace;

/// The contents of such a file, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// mem: the bytes of the memory, by their addresses.
    Bytes,
    /// maps.
    Maps,
    /// smaps.
    Smaps,
    /// smaps_rollup.
    Rollup,
    /// environ.
    Environment,
    /// auxv.
    Auxiliary,
    /// io, of the process.
    Io,
    /// io, of one thread.
    ThreadIo,
}

/// The secret of a process, as long as it is there.
pub struct Secret {
    told: Told,
    /// The number of the thread, or of the process.
    id: i32,
    process: Weak<Process>,
    program: Weak<Program>,
    /// As Linux keeps it: it stays when the program goes.
    auxiliary: Arc<[u8]>,
    space: Weak<AddressSpace>,
}

impl Secret {
    /// Takes the secret of a process for somebody.
    ///
    /// # Errors
    /// EACCES; ESRCH if it has ended.
    pub(super) fn of(view: &ProcessView, told: Told, looker: Looker<'_>) -> Result<Secret, Errno> {
        let process = Arc::downgrade(view.of.as_ref().ok_or(Errno::ESRCH)?);
        let mut secret = Secret {
            told,
            id: view.thread,
            process,
            program: Weak::new(),
            auxiliary: Arc::default(),
            space: Weak::new(),
        };
        let space = view.space.as_ref().filter(|space| space.users() > 0);
        match (told, space) {
            (Told::Io | Told::ThreadIo, _) | (Told::Maps | Told::Smaps, None) => return Ok(secret),
            (_, None) => return Err(Errno::ESRCH),
            (_, Some(space)) => secret.space = Arc::downgrade(space),
        }
        looker.check(view)?;
        secret.program = Arc::downgrade(&view.program);
        secret.auxiliary = view.program.auxiliary.clone();
        Ok(secret)
    }

    /// Returns what it tells.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Returns the memory, as long as a program lives in it.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.space.upgrade().filter(|space| space.users() > 0)
    }

    /// Returns the process until its parent has asked for its status; nothing after that, also if another one has its number.
    fn process(&self) -> Result<Arc<Process>, Errno> {
        let process = self.process.upgrade().ok_or(Errno::ESRCH)?;
        let known = process.tenant().tree.lock().process(process.id());
        known.filter(|known| Arc::ptr_eq(known, &process)).ok_or(Errno::ESRCH)
    }

    /// Returns at most `bytes` of the text from `offset` on.
    ///
    /// # Errors
    /// ESRCH once the process is gone, for some; EACCES for io; EINVAL for the memory, which is no text.
    pub async fn part(&self, reader: &Thread, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        Ok(match self.told {
            Told::Maps => match self.mapped()? {
                Some(space) => Box::pin(maps::part(&space, offset, bytes)).await,
                None => Vec::new(),
            },
            Told::Smaps => match self.mapped()? {
                Some(space) => Box::pin(smaps::part(space, offset, bytes)).await,
                None => Vec::new(),
            },
            Told::Rollup => {
                let space = self.mapped()?.ok_or(Errno::ESRCH)?;
                cut(&Box::pin(rollup::text(&space)).await, offset, bytes)
            }
            Told::Environment => {
                let program = self.space().and_then(|_| self.program.upgrade());
                program.map(|program| cut(&program.environment, offset, bytes)).unwrap_or_default()
            }
            Told::Auxiliary => cut(&self.auxiliary, offset, bytes),
            Told::Io | Told::ThreadIo => cut(self.io(Looker::Thread(reader))?.as_bytes(), offset, bytes),
            Told::Bytes => return Err(Errno::EINVAL),
        })
    }

    /// Returns the memory for a text that is about the process, too.
    fn mapped(&self) -> Result<Option<Arc<AddressSpace>>, Errno> {
        self.process().map(|_| self.space())
    }

    fn io(&self, looker: Looker<'_>) -> Result<String, Errno> {
        let process = self.process()?;
        let text = match self.told {
            Told::ThreadIo => self.thread(&process)?.io_text(),
            _ => io_figures::text(process.io_figures()),
        };
        looker.may_look_into(&process).then_some(text).ok_or(Errno::EACCES)
    }

    fn thread(&self, process: &Arc<Process>) -> Result<Arc<Thread>, Errno> {
        let thread = process.tenant().tree.lock().thread(self.id);
        thread.filter(|thread| Arc::ptr_eq(thread.process(), process)).ok_or(Errno::ESRCH)
    }
}

/// Returns at most `bytes` of a text from `offset` on.
fn cut(text: &[u8], offset: u64, bytes: usize) -> Vec<u8> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    let end = start.saturating_add(bytes).min(text.len());
    text.get(start..end).unwrap_or_default().to_vec()
}
