//! Advice about pages, writing them back, and their residency.
//!
//! Here are the halves of madvise, mlock, msync, mincore and futex that concern pages. Long ranges go in pieces, with
//! the lock free and other tasks running in between; removed pages are flushed and freed by
//! [`AddressSpace::flush_and_free`]. A word's name ([`WordName`]) is by its provider if it is shared, else by its
//! space.
//!
//! * A range with a hole is done as far as it is mapped, then answers `NotMapped`, as Linux does.
//! * Each function may meet a range that changes while it waits; it looks the region up again after each wait.
//! * Pages of files that are dirty are told to their file system before they go.
//!
//! The personality calls this in the thread of the program. Nothing here is called in an interrupt.

use crate::map::tell;
use crate::page_index::PageIndex;
use crate::pages::PIECE_BYTES;
use crate::region::{MappedFile, Options, PAGE, Provider, Region, Rights, SharedMemory};
use crate::space::{State, Withdrawn};
use crate::{AddressSpace, FaultError, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{Access, USER_END};

/// Files that a program may write through its mappings.
pub struct WrittenFiles {
    /// The files; one may be there twice.
    pub files: Vec<Arc<MappedFile>>,
    /// Whether the range has no hole.
    pub is_whole: bool,
}

impl AddressSpace {
    /// Forgets the pages of a range: private memory reads as zeroes or as its file afterwards (MADV_DONTNEED, MADV_FREE).
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole; the parts before and behind it are done.
    pub async fn discard(&self, address: u64, bytes: u64) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let rest = self.thin_out(start, end).await;
        let covered = self.discard_piece(rest, end).await;
        let covered = covered && self.state.lock().regions.covers(start, end);
        covered.then_some(()).ok_or(SpaceError::NotMapped)
    }

    /// Forgets the pages of a range in pieces, except the last piece, so that no lock is held and no core kept for as
    /// long as the program chooses. Returns the beginning of the last piece.
    pub(crate) async fn thin_out(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        while end.saturating_sub(at) > PIECE_BYTES {
            let Some(border) = self.state.lock().pages.end_of_piece(at, end) else { break };
            self.discard_piece(at, border).await;
            at = border;
            gyre_message::yield_now().await;
        }
        at
    }

    /// Forgets the pages of a range; false if it has a hole.
    async fn discard_piece(&self, start: u64, end: u64) -> bool {
        let mut withdrawn = Withdrawn::default();
        let (covered, dirtied) = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            let dirtied = state.dirty_pages(start, end).unwrap_or_default();
            state.evict_range(start, end, &mut withdrawn);
            (state.regions.covers(start, end), dirtied)
        };
        self.flush_and_free(withdrawn).await;
        tell(dirtied).await;
        covered
    }

    /// Sets and clears options of all that is mapped in a range (madvise).
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole; the parts before and behind it have them all the same. [`SpaceError::Invalid`] as
    /// [`AddressSpace::set_options`].
    pub fn hint(&self, address: u64, bytes: u64, set: Options, clear: Options) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let mut state = self.state.lock();
        state.may_change(start, end, clear)?;
        state.regions.change(start, end, |region| region.options = region.options.union(set).difference(clear));
        state.regions.covers(start, end).then_some(()).ok_or(SpaceError::NotMapped)
    }

    /// Sets or clears an option of all mappings in the range.
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole, [`SpaceError::Invalid`] for memory of the kernel's that no child may inherit (Linux: madvise(2),
    /// `VM_IO`).
    pub fn set_options(&self, address: u64, bytes: u64, set: Options, clear: Options) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let mut state = self.state.lock();
        state.may_change(start, end, clear)?;
        state.set_options(start, end, |options| options.union(set).difference(clear))
    }

    /// Returns the files that a program may write through shared mappings in a range, in the order of their addresses (msync). A file learns of
    /// each write before it happens, so the pages need not be looked at.
    ///
    /// # Errors
    /// [`SpaceError::Invalid`], and [`SpaceError::NotMapped`] for what is no user memory.
    pub fn written_files(&self, address: u64, bytes: u64) -> Result<WrittenFiles, SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let state = self.state.lock();
        let may_write = |region: &Region| region.is_shared() && region.rights_max.contains(Rights::WRITE);
        let parts = state.regions.parts(start, end);
        let mut files: Vec<_> = parts
            .iter()
            .filter_map(|(_, _, region)| match &region.provider {
                Provider::File(file) if may_write(region) => Some(file.clone()),
                _ => None,
            })
            .collect();
        files.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Ok(WrittenFiles { files, is_whole: state.regions.covers(start, end) })
    }

    /// Returns the address of the first locked page in a range.
    ///
    /// # Errors
    /// [`SpaceError::Invalid`], and [`SpaceError::NotMapped`] for what is no user memory.
    pub fn first_locked(&self, address: u64, bytes: u64) -> Result<Option<u64>, SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let parts = self.state.lock().regions.parts(start, end);
        let locked = parts.into_iter().find(|(_, _, region)| region.options.contains(Options::LOCKED));
        Ok(locked.map(|(from, _, _)| from))
    }

    /// Returns the shared memory whose beginning is mapped at `address`.
    pub fn shared_memory_at(&self, address: u64) -> Option<Arc<SharedMemory>> {
        let state = self.state.lock();
        let (start, region) = state.regions.find(address)?;
        match &region.provider {
            Provider::Memory(memory) if start == address && region.index_of(start, address) == PageIndex::FIRST => {
                Some(memory.clone())
            }
            _ => None,
        }
    }

    /// Unmaps the parts of a range that show `memory`, and leaves later mappings over it.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn unmap_shared(&self, address: u64, bytes: u64, memory: &Arc<SharedMemory>) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let parts = self.state.lock().regions.parts(start, end);
        for (from, to, region) in parts {
            if matches!(&region.provider, Provider::Memory(shown) if Arc::ptr_eq(shown, memory)) {
                self.unmap(from, to.saturating_sub(from)).await?;
            }
        }
        Ok(())
    }

    /// Returns whether the whole range is mapped.
    pub fn is_mapped(&self, address: u64, bytes: u64) -> bool {
        checked(address, bytes).is_ok_and(|(start, end)| self.state.lock().regions.covers(start, end))
    }

    /// Returns the word at an address if its page is resident; its bytes may come from two different times.
    pub fn peek_u32(&self, address: u64) -> Option<u32> {
        let mut word = [0; 4];
        let read = self.with_present(address, Access::Read, |page, offset, _| page.read(offset, &mut word))?;
        (read == word.len()).then(|| u32::from_le_bytes(word))
    }

    /// Replaces the word at an address in one step, also against the program's own instructions; returns its value
    /// before.
    ///
    /// # Errors
    /// [`FaultError`]; [`FaultError::Denied`] for an address that is not aligned.
    pub async fn update_u32(&self, address: u64, change: impl Fn(u32) -> u32) -> Result<u32, FaultError> {
        loop {
            let done = self.with_present(address, Access::Write, |page, offset, _| {
                let mut word = [0; 4];
                page.read(offset, &mut word);
                let old = u32::from_le_bytes(word);
                page.compare_exchange_u32(offset, old, change(old))
            });
            match done {
                Some(Some(Ok(old))) => return Ok(old),
                Some(Some(Err(_))) => {}
                Some(None) => return Err(FaultError::Denied),
                None => self.fault(address, Access::Write).await?,
            }
        }
    }

    /// Returns the name of a word of memory among all programs that can reach it, so that waiting for it works across
    /// programs (futex).
    pub fn word_name(&self, address: u64) -> Option<WordName> {
        let state = self.state.lock();
        let (start, region) = state.regions.find(address)?;
        Some(name_word(self, start, region, address))
    }

    /// Returns the name of a word that only this program can mean.
    pub fn private_word_name(&self, address: u64) -> WordName {
        WordName { object: core::ptr::from_ref(self).addr() as u64, extra: 0, offset: address }
    }
}

impl State {
    /// Changes the options of all mappings in the range.
    pub(crate) fn set_options(
        &mut self,
        start: u64,
        end: u64,
        change: impl Fn(Options) -> Options,
    ) -> Result<(), SpaceError> {
        if !self.regions.covers(start, end) {
            return Err(SpaceError::NotMapped);
        }
        self.regions.change(start, end, |region| region.options = change(region.options));
        Ok(())
    }

    /// Refuses to clear options that a range must keep: children never get the kernel's memory that is not for them.
    fn may_change(&self, start: u64, end: u64, clear: Options) -> Result<(), SpaceError> {
        let is_kept = |region: &Region| {
            let is_the_kernels = matches!(&region.provider, Provider::Memory(memory) if memory.is_the_kernels());
            is_the_kernels && region.options.contains(Options::NOT_INHERITED)
        };
        let would_give = clear.contains(Options::NOT_INHERITED)
            && self.regions.parts(start, end).iter().any(|(_, _, region)| is_kept(region));
        if would_give { Err(SpaceError::Invalid) } else { Ok(()) }
    }
}

/// Names a word of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WordName {
    /// Which object: an address space, shared memory or file system.
    object: u64,
    /// The file's node in its file system; 0 for others.
    extra: u64,
    /// The byte in the object.
    offset: u64,
}

fn name_word(space: &AddressSpace, start: u64, region: &Region, address: u64) -> WordName {
    let offset = region.index_of(start, address).offset_bytes() | (address % PAGE);
    match (&region.provider, region.is_shared()) {
        (Provider::Memory(memory), true) => WordName { object: Arc::as_ptr(memory).addr() as u64, extra: 0, offset },
        (Provider::File(file), true) => WordName { object: file.client.server() as u64, extra: file.node.0, offset },
        _ => space.private_word_name(address),
    }
}

/// A range of whole pages inside user memory.
pub(crate) fn checked(address: u64, bytes: u64) -> Result<(u64, u64), SpaceError> {
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(SpaceError::NotMapped)?;
    let end = address.checked_add(bytes).ok_or(SpaceError::NotMapped)?;
    match (address.is_multiple_of(PAGE), end <= USER_END) {
        (false, _) => Err(SpaceError::Invalid),
        (_, false) => Err(SpaceError::NotMapped),
        _ => Ok((address, end)),
    }
}
