//! One mapping: a range with one set of rights and one provider.
//!
//! A [`Region`] has no start of its own; it is kept by its start in [`crate::regions`]. Rights that the program has
//! now are apart from the most that it may get (`rights_max`). Neighbours that continue each other can be joined
//! ([`Region::is_continued_by`]). [`Region::flags`] turns rights into those of the page table.
//!
//! * A private page is writable in the page table only while it is unshared; a write to another one faults and copies.
//! * A page of a shared file becomes writable by a fault, so that its file system learns that it is dirty.
//! * [`MappedFile`] keeps the size as it was last asked. The fault handler asks again before it refuses an access.
//!
//! The fault handler, `map`, `protect` and fork read regions under the space's lock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_interface::files::{NodeId, Pattern, files};
use gyre_interface::io_stream::io_stream;
use gyre_machine::{Access, MapFlags, PAGE_BYTES};
use gyre_object::{Page, TenantLock};

use crate::misses::Misses;
use crate::page_index::PageIndex;
use crate::pages::PageMap;

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

bitflags::bitflags! {
    /// The rights of a program to a mapping. No right at all keeps the range reserved.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rights: u32 {
        /// May be read.
        const READ = 1;
        /// May be written.
        const WRITE = 2;
        /// May be executed.
        const EXECUTE = 4;
    }
}

bitflags::bitflags! {
    /// The other properties of a mapping.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Options: u32 {
        /// Written pages are seen by all programs that map the same object.
        const SHARED = 1;
        /// Grows downwards when touched just below (stacks).
        const GROWS_DOWN = 2;
        /// A new process does not get it (MADV_DONTFORK).
        const NOT_INHERITED = 4;
        /// A new process gets zeroes (MADV_WIPEONFORK).
        const WIPED = 8;
        /// Its pages stay resident (mlock): those of files, too, if memory is short. Other pages are never given
        /// back.
        const LOCKED = 16;
        /// It is the heap of brk, for /proc.
        const HEAP = 32;
        /// It is a stack, for /proc.
        const STACK = 64;
        /// No huge pages (MADV_NOHUGEPAGE).
        const NO_HUGE = 128;
        /// Huge pages at any size of the region (MADV_HUGEPAGE).
        const HUGE = 256;
        /// The vDSO, for /proc.
        const VDSO = 512;
        /// It may be larger than all memory: its program knows that not all of it can be had (MAP_NORESERVE).
        const NO_RESERVE = 1024;
        /// Its program goes here and there in it (MADV_RANDOM): no page of its file is read ahead.
        const RANDOM = 2048;
        /// Its program goes from page to page (MADV_SEQUENTIAL): an absent page of its file is read with those behind it.
        const SEQUENTIAL = 4096;
    }
}

impl Options {
    /// Returns the way in which its program says that it goes through a mapping.
    pub(crate) fn pattern(self) -> Pattern {
        if self.contains(Options::RANDOM) {
            Pattern::Random
        } else if self.contains(Options::SEQUENTIAL) {
            Pattern::Sequential
        } else {
            Pattern::Usual
        }
    }
}

/// Pages that several address spaces share without a file.
#[derive(Default)]
pub struct SharedMemory {
    pub(crate) pages: TenantLock<PageMap>,
    /// Counts its pages and those of others of the same tenant.
    count: Option<Arc<AtomicU64>>,
    is_the_kernels: bool,
    /// It is dropped with the last mapping and holder.
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl SharedMemory {
    /// Makes memory without pages, which adds its pages to `count` as long as it holds them.
    pub fn counted(count: &Arc<AtomicU64>) -> SharedMemory {
        let mut memory = SharedMemory::default();
        memory.count = Some(count.clone());
        memory
    }

    /// Returns whether the kernel made it, of its own pages.
    pub(crate) fn is_the_kernels(&self) -> bool {
        self.is_the_kernels
    }

    /// Returns the count of its tenant's pages.
    pub(crate) fn count(&self) -> Option<&AtomicU64> {
        self.count.as_deref()
    }

    /// Notes that it has one page more.
    pub(crate) fn note_page(&self) {
        if let Some(count) = &self.count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes memory of the kernel's pages, in order.
    pub fn of_pages(pages: impl IntoIterator<Item = Page>) -> SharedMemory {
        let mut memory = SharedMemory::default();
        memory.is_the_kernels = true;
        {
            let mut held = memory.pages.lock();
            for (page, at) in pages.into_iter().zip((0..).step_by(PAGE_BYTES)) {
                held.insert(at, page);
            }
        }
        memory
    }

    /// Makes memory of the kernel's pages, which come and go while it is mapped: [`SharedMemory::put`], [`SharedMemory::remove`]. `keep` is dropped
    /// with it.
    pub fn of_comings(keep: Arc<dyn Any + Send + Sync>) -> SharedMemory {
        let mut memory = SharedMemory::default();
        (memory.is_the_kernels, memory._keep) = (true, Some(keep));
        memory
    }

    /// Adds pages in order, from a byte on.
    pub fn put(&self, from: u64, pages: impl IntoIterator<Item = Page>) {
        let mut held = self.pages.lock();
        for (page, at) in pages.into_iter().zip((from..).step_by(PAGE_BYTES)) {
            held.insert(at, page);
        }
    }

    /// Makes memory that begins with this page, for a page that the kernel writes and programs read.
    pub fn of_page(page: Page) -> SharedMemory {
        SharedMemory::of_pages([page])
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.fetch_sub(self.pages.lock().len() as u64, Ordering::Relaxed);
        }
    }
}

/// The size of a file when it was last asked; all mappings of the file may share it. It is asked again before an access beyond it is refused.
#[derive(Default)]
pub struct MappedSize(AtomicU64);

impl MappedSize {
    /// Makes a size as far as it is known.
    pub fn new(bytes: u64) -> Arc<MappedSize> {
        Arc::new(MappedSize(AtomicU64::new(bytes)))
    }

    /// Notes the size. The pages that mappings show are not touched: see [`crate::space::AddressSpace::shorten`].
    pub fn note(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A file as mappings of it know it.
pub struct MappedFile {
    pub(crate) client: files::Client,
    pub(crate) node: NodeId,
    pub(crate) size: Arc<MappedSize>,
    pub(crate) path: Vec<u8>,
    /// Of all faults of its mappings.
    pub(crate) misses: Misses,
    passage: Option<io_stream::Client>,
    is_in_memory: AtomicBool,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl MappedFile {
    /// Makes a file by its file system and node. `passage` counts the bytes that
    /// mappings move, if the I/O stream resource has a gate; `keep` holds the file open.
    pub fn new(
        client: files::Client,
        node: NodeId,
        size: Arc<MappedSize>,
        path: Vec<u8>,
        passage: Option<io_stream::Client>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Arc<MappedFile> {
        let (misses, is_in_memory) = (Misses::default(), AtomicBool::new(false));
        Arc::new(MappedFile { client, node, size, path, misses, passage, is_in_memory, keep })
    }

    /// Notes that its file system has no disk: what programs show of it counts as shared memory.
    pub fn set_in_memory(&self) {
        self.is_in_memory.store(true, Ordering::Relaxed);
    }

    /// Returns whether its file system has no disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.is_in_memory.load(Ordering::Relaxed)
    }

    /// Counts pages that a mapping of it has moved; waits until the scheduler grants them.
    pub(crate) async fn count(&self, pages: usize) {
        let Some(passage) = &self.passage else { return };
        let bytes = pages.saturating_mul(PAGE_BYTES);
        if passage.visit(|meter| meter.passed(bytes)).is_none() {
            // A resource that is gone counts for no one.
            let _ = Box::pin(passage.pass(bytes)).await;
        }
    }

    /// Returns whether the file has bytes in this page, by the known size.
    pub(crate) fn reaches(&self, index: PageIndex) -> bool {
        index.offset_bytes() < self.size.0.load(Ordering::Relaxed)
    }

    /// Returns how many pages the file has, by the known size.
    pub(crate) fn pages(&self) -> u64 {
        self.size.0.load(Ordering::Relaxed).div_ceil(PAGE)
    }

    /// Returns what keeps it open.
    pub fn kept(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.keep.as_deref()
    }

    /// Returns the file's path.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the file system that it is in.
    pub fn client(&self) -> files::Client {
        self.client
    }

    /// Returns the file's node.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

/// The provider of a mapping's pages.
#[derive(Clone)]
pub enum Provider {
    /// Zeroes.
    Anonymous,
    /// Memory shared without a file.
    Memory(Arc<SharedMemory>),
    /// A file's pages, by the files protocol.
    File(Arc<MappedFile>),
}

impl Provider {
    fn same(&self, other: &Provider) -> bool {
        match (self, other) {
            (Provider::Anonymous, Provider::Anonymous) => true,
            (Provider::Memory(a), Provider::Memory(b)) => Arc::ptr_eq(a, b),
            (Provider::File(a), Provider::File(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A mapping; its start is its key in the map of regions.
#[derive(Clone)]
pub struct Region {
    /// First address behind it.
    pub end: u64,
    /// The program's rights.
    pub rights: Rights,
    /// The most rights that it may get later: a file opened for reading only cannot be mapped shared and writable.
    pub rights_max: Rights,
    /// Its other properties.
    pub options: Options,
    /// The provider of its pages.
    pub provider: Provider,
    /// The provider's page that the first page shows. All pages of a region have an index: its maker and every growth
    /// check that.
    pub first_index: PageIndex,
}

impl Region {
    /// Returns whether it is a `MAP_SHARED` mapping.
    pub fn is_shared(&self) -> bool {
        self.options.contains(Options::SHARED)
    }

    /// Returns whether its program counts on having all of it: no more of it than there could ever be may be asked for. As Linux does it without
    /// a setting (mm/util.c, `__vm_enough_memory`).
    pub(crate) fn is_data(&self) -> bool {
        self.is_data_with(self.rights)
    }

    /// Returns whether it would do so with other rights.
    pub(crate) fn is_data_with(&self, rights: Rights) -> bool {
        !self.is_shared() && rights.contains(Rights::WRITE) && !self.options.contains(Options::NO_RESERVE)
    }

    /// Returns whether the access is allowed. All that may be written or executed may be read, as the hardware has it.
    pub fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => !self.rights.is_empty(),
            Access::Write => self.rights.contains(Rights::WRITE),
            Access::Execute => self.rights.contains(Rights::EXECUTE),
        }
    }

    /// Returns the provider's page at an address of the region that starts at `start`.
    pub(crate) fn index_of(&self, start: u64, address: u64) -> PageIndex {
        self.first_index.plus(address.saturating_sub(start) / PAGE).unwrap_or(PageIndex::LAST)
    }

    /// Returns the hardware rights for a page of it, or `None` for no access at all. A private page that may be
    /// written is noted as the program's own: no file could give its contents again.
    pub(crate) fn flags(&self, page: &Page) -> Option<MapFlags> {
        if self.rights.is_empty() {
            return None;
        }
        let mut flags = MapFlags::USER;
        flags.set(MapFlags::EXECUTE, self.rights.contains(Rights::EXECUTE));
        let may_write = self.may_write_in_place(page);
        if may_write && !self.is_shared() {
            page.note_own();
        }
        flags.set(MapFlags::WRITE, may_write);
        Some(flags)
    }

    /// Returns whether a program may write to this very page: private pages only while they are unshared. Pages of
    /// shared files become writable by a fault, so that the file system learns of it.
    fn may_write_in_place(&self, page: &Page) -> bool {
        let owned = match (&self.provider, self.is_shared()) {
            (Provider::File(_), true) => false,
            (_, true) => true,
            (_, false) => !page.is_shared(),
        };
        self.rights.contains(Rights::WRITE) && owned
    }

    /// Returns whether `next`, which starts at this region's end, only continues it.
    pub(crate) fn is_continued_by(&self, start: u64, next: &Region) -> bool {
        let index = self.index_of(start, self.end);
        let contiguous = matches!(self.provider, Provider::Anonymous) || index == next.first_index;
        self.rights == next.rights
            && self.rights_max == next.rights_max
            && self.options == next.options
            && self.provider.same(&next.provider)
            && contiguous
    }
}
