//! Memory calls: mmap, brk and their family.
//!
//! Each call checks its arguments as Linux does, turns protections and flags into [`gyre_address_space`]'s words, and
//! calls that. So the rules of Linux are here, and the pages are there. A mapping comes from one of three providers:
//! zeroes, a file (through its file system), or memory of the kernel that programs share (rings of io_uring, shmget).
//!
//! Called by the table of system calls, by the thread itself. Long calls give the core back on the way; a signal may
//! end them early only if they have done nothing.
//!
//! Left out: swap (mlock only makes pages resident), userfaultfd, protection keys, and NUMA calls.

mod lock;
pub mod policy;
mod process_copy;
mod remove;
mod residency;
mod segment_locks;
pub mod segments;

pub use lock::{mlock, mlock2, mlockall, munlock, munlockall};
pub use process_copy::{process_vm_readv, process_vm_writev};
pub use residency::mincore;

use crate::file::losses;
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_address_space::{
    AddressSpace, MapRequest, MappedFile, Move, Options, PageIndex, Place, Populate, Provider, Refusal, Unneeded,
};
use gyre_address_space::{Rights, SharedMemory, SpaceError, Wish};
use gyre_interface::Position;
use gyre_machine::{PAGE_BYTES, USER_END};
use linux_raw_sys::general as raw;

const PAGE: u64 = PAGE_BYTES as u64;

/// Rights by PROT_ bits. Unknown bits are refused but for those that stacks use.
fn rights(protection: u32) -> Result<Rights, Errno> {
    let known = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
    if protection & !(known | raw::PROT_GROWSDOWN | raw::PROT_GROWSUP | raw::PROT_SEM) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut rights = Rights::empty();
    rights.set(Rights::READ, protection & raw::PROT_READ != 0);
    rights.set(Rights::WRITE, protection & raw::PROT_WRITE != 0);
    rights.set(Rights::EXECUTE, protection & raw::PROT_EXEC != 0);
    Ok(rights)
}

fn place(address: u64, flags: u32) -> Place {
    match (flags & raw::MAP_FIXED_NOREPLACE != 0, flags & raw::MAP_FIXED != 0) {
        (true, _) => Place::FixedNew(address),
        (_, true) => Place::Fixed(address),
        _ => Place::Anywhere(address),
    }
}

fn options(flags: u32, shared: bool) -> Options {
    let mut options = Options::empty();
    options.set(Options::SHARED, shared);
    options.set(Options::GROWS_DOWN, flags & raw::MAP_GROWSDOWN != 0);
    options.set(Options::STACK, flags & raw::MAP_STACK != 0);
    options.set(Options::LOCKED, flags & raw::MAP_LOCKED != 0);
    options.set(Options::NO_RESERVE, flags & raw::MAP_NORESERVE != 0);
    options
}

/// `mmap(address, bytes, protection, flags, descriptor, offset)`.
pub async fn mmap(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (flags, offset) = (a.unsigned(3), a.word(5));
    let rights = rights(a.unsigned(2))?;
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let shared = match flags & raw::MAP_TYPE {
        raw::MAP_PRIVATE => false,
        raw::MAP_SHARED | raw::MAP_SHARED_VALIDATE => true,
        _ => return Err(Errno::EINVAL),
    };
    if flags & raw::MAP_HUGETLB != 0 {
        return Err(Errno::EINVAL);
    }
    if a.word(1) > USER_END {
        return Err(Errno::ENOMEM);
    }
    let ring = (flags & raw::MAP_ANONYMOUS == 0 && shared).then(|| ring_pages(thread, a.int(4), offset, a.word(1)));
    let (provider, rights_max, first_index) = match (flags & raw::MAP_ANONYMOUS != 0, shared, ring.flatten()) {
        (true, false, _) => (Provider::Anonymous, Rights::all(), PageIndex::FIRST),
        (true, true, _) => (
            Provider::Memory(Arc::new(SharedMemory::counted(&thread.tenant().shared_pages))),
            Rights::all(),
            PageIndex::FIRST,
        ),
        (false, _, Some(found)) => {
            let (memory, first) = found?;
            (Provider::Memory(memory), Rights::READ | Rights::WRITE, PageIndex::FIRST.plus(first).ok_or(Errno::EINVAL)?)
        }
        (false, _, None) => {
            let (provider, rights_max) = file_provider(thread, a.int(4), rights, shared)?;
            // As on Linux a file ends at the last position; a mapping may show later bytes when the file grows.
            Position::new(offset).and_then(|at| at.plus(a.word(1))).ok_or(Errno::EOVERFLOW)?;
            (provider, rights_max, PageIndex::holding(offset))
        }
    };
    if flags & raw::MAP_LOCKED != 0 {
        lock::check(thread)?;
    }
    let request = MapRequest {
        place: place(a.word(0), flags),
        bytes: a.word(1),
        rights,
        rights_max,
        options: options(flags, shared),
        provider,
        first_index,
    };
    let space = thread.space();
    let start = space.map(request).await?;
    if flags & (raw::MAP_POPULATE | raw::MAP_LOCKED) != 0 {
        // Linux ignores failures here too: missing pages come by faults.
        let _ = space.populate(start, a.word(1), Populate::Own).await;
    }
    Ok(start)
}

/// Returns the memory of a ring of io_uring, if the descriptor is one, and the page of it that the offset names.
fn ring_pages(
    thread: &Thread,
    descriptor: i32,
    offset: u64,
    bytes: u64,
) -> Option<Result<(Arc<SharedMemory>, u64), Errno>> {
    let file = thread.process().files().table().get(descriptor).ok()?;
    let Object::Ring(ring) = file.object() else { return None };
    let found = ring.memory.mapping(offset);
    let fits = |first: u64| bytes <= ring.memory.bytes_from(first);
    Some(found.and_then(|(memory, first)| if fits(first) { Ok((memory, first)) } else { Err(Errno::EINVAL) }))
}

fn file_provider(thread: &Thread, descriptor: i32, rights: Rights, shared: bool) -> Result<(Provider, Rights), Errno> {
    let file = thread.process().files().mapping(descriptor)?;
    if !file.readable {
        return Err(Errno::EACCES);
    }
    let mut rights_max = Rights::all();
    if shared && !file.writable {
        rights_max.remove(Rights::WRITE);
    }
    if !rights_max.contains(rights) {
        return Err(Errno::EACCES);
    }
    let files = thread.process().files();
    let open = files.table().get(descriptor)?;
    let place = open.place().ok_or(Errno::ENODEV)?;
    let known = &files.tenant().mapped;
    let (size, entry) = known.enter(place, file.keep);
    let mapped = MappedFile::new(file.client, file.node, size, file.path, file.passage, Some(entry));
    if place.mount.is_in_memory() {
        mapped.set_in_memory();
    }
    Ok((Provider::File(mapped), rights_max))
}

/// `munmap(address, bytes)`.
pub async fn munmap(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.space().unmap(a.word(0), a.word(1)).await?;
    Ok(0)
}

/// `mprotect(address, bytes, protection)`.
pub async fn mprotect(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let rights = rights(a.unsigned(2))?;
    if !a.word(0).is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let result = thread.space().protect(a.word(0), a.word(1), rights).await;
    match result {
        Err(SpaceError::Invalid) => Err(Errno::ENOMEM),
        other => Ok(other.map(|()| 0)?),
    }
}

/// `mremap(address, old_bytes, new_bytes, flags, new_address)`.
pub async fn mremap(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(3);
    let target = match (flags & raw::MREMAP_MAYMOVE != 0, flags & raw::MREMAP_FIXED != 0) {
        _ if flags & !(raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED) != 0 => return Err(Errno::EINVAL),
        (false, true) => return Err(Errno::EINVAL),
        (true, true) => Move::To(a.word(4)),
        (true, false) => Move::IfNeeded,
        (false, false) => Move::Never,
    };
    Ok(thread.space().remap(a.word(0), a.word(1), a.word(2), target).await?)
}

/// `brk(address)`.
pub async fn brk(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    Ok(thread.space().set_break(a.word(0)).await)
}

async fn populate(space: &AddressSpace, address: u64, bytes: u64, want: Populate) -> Result<(), Errno> {
    space.populate(address, bytes, want).await.map_err(|_| Errno::ENOMEM)
}

/// Takes a hint: pages of files are fetched; a page that cannot be had comes later by a fault. Holes are an error.
async fn will_need(space: &AddressSpace, address: u64, bytes: u64) -> Result<(), Errno> {
    space.set_options(address, bytes, Options::empty(), Options::empty())?;
    let _ = space.populate(address, bytes, Populate::Files).await;
    Ok(())
}

/// `madvise(address, bytes, advice)`.
pub async fn madvise(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (address, bytes) = (a.word(0), a.word(1));
    bytes.checked_next_multiple_of(PAGE).and_then(|bytes| address.checked_add(bytes)).ok_or(Errno::EINVAL)?;
    let space = thread.space();
    let set = |set, clear| space.hint(address, bytes, set, clear);
    match a.unsigned(2) {
        raw::MADV_DONTNEED | raw::MADV_FREE | raw::MADV_DONTNEED_LOCKED => space.discard(address, bytes).await?,
        raw::MADV_WILLNEED => will_need(&space, address, bytes).await?,
        raw::MADV_COLD => space.give_up(address, bytes, Unneeded::Later).await?,
        raw::MADV_PAGEOUT => space.give_up(address, bytes, Unneeded::Now).await?,
        raw::MADV_REMOVE => remove::remove(thread, address, bytes).await?,
        raw::MADV_POPULATE_READ => populate(&space, address, bytes, Populate::Read).await?,
        raw::MADV_POPULATE_WRITE => populate(&space, address, bytes, Populate::Write).await?,
        raw::MADV_DONTFORK => set(Options::NOT_INHERITED, Options::empty())?,
        raw::MADV_DOFORK => set(Options::empty(), Options::NOT_INHERITED)?,
        raw::MADV_WIPEONFORK => set(Options::WIPED, Options::empty())?,
        raw::MADV_KEEPONFORK => set(Options::empty(), Options::WIPED)?,
        raw::MADV_HUGEPAGE => {
            set(Options::HUGE, Options::NO_HUGE)?;
            gather(&space, address, bytes, Wish::None).await?;
        }
        raw::MADV_COLLAPSE => gather(&space, address, bytes, Wish::Now).await?,
        raw::MADV_NOHUGEPAGE => set(Options::NO_HUGE, Options::HUGE)?,
        raw::MADV_NORMAL => set(Options::empty(), Options::RANDOM | Options::SEQUENTIAL)?,
        raw::MADV_RANDOM => set(Options::RANDOM, Options::SEQUENTIAL)?,
        raw::MADV_SEQUENTIAL => set(Options::SEQUENTIAL, Options::RANDOM)?,
        raw::MADV_MERGEABLE | raw::MADV_UNMERGEABLE | raw::MADV_DONTDUMP | raw::MADV_DODUMP => {
            set(Options::empty(), Options::empty())?
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Makes huge pages of single ones.
async fn gather(space: &AddressSpace, address: u64, bytes: u64, wish: Wish) -> Result<(), Errno> {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
    alloc::boxed::Box::pin(space.gather_range(address, bytes, wish)).await.map_err(|refusal| match refusal {
        Refusal::Unfit => Errno::EINVAL,
        Refusal::Busy => Errno::EAGAIN,
        Refusal::NoMemory | Refusal::NotMapped => Errno::ENOMEM,
    })
}

/// `msync(address, bytes, flags)`.
pub async fn msync(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(2);
    let both = raw::MS_ASYNC | raw::MS_SYNC;
    if flags & !(both | raw::MS_INVALIDATE) != 0 || flags & both == both {
        return Err(Errno::EINVAL);
    }
    let (address, bytes) = (a.word(0), a.word(1));
    let is_invalidating = flags & raw::MS_INVALIDATE != 0;
    if is_invalidating && let Some(locked) = thread.space().first_locked(address, bytes)? {
        return sync_before(thread, address, locked, flags).await;
    }
    if flags & raw::MS_SYNC != 0 {
        losses::sync_mappings(thread, address, bytes).await?;
    } else {
        // Nothing is to be begun: what is dirty goes by its age (Linux since 2.6.19).
        thread.space().set_options(address, bytes, Options::empty(), Options::empty())?;
    }
    Ok(0)
}

/// Refuses what is locked, once what lies before it is synced; holes before it do not matter (Linux: mm/msync.c).
///
/// # Errors
/// EBUSY, always, unless contents were lost: EIO.
async fn sync_before(thread: &Thread, address: u64, locked: u64, flags: u32) -> Outcome {
    if flags & raw::MS_SYNC != 0 {
        match losses::sync_mappings(thread, address, locked.saturating_sub(address)).await {
            Ok(()) | Err(Errno::ENOMEM) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EBUSY)
}
