//! The page that a cell and its kernel share; the pages of call lines lie behind it.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The value of [`CellPage::version`] that this crate describes.
pub const PAGE_VERSION: u32 = 1;
/// Lots that a cell can have.
pub const LOTS_MAX: usize = 256;

/// Bits of [`CellPage::asks`].
pub mod asks {
    /// The kernel wants cores or memory back: see [`super::CellPage::wanted_lots`]. The cell takes the bit away when it has seen it.
    pub const GIVE_BACK: u32 = 1;
    /// A signal waits that is not held back, see [`super::CellPage::signals`]. The cell takes the bit away, and then the signals by a line
    /// (rt_sigtimedwait): it is asked again as long as some wait.
    pub const SIGNAL: u32 = 2;
    /// All is wanted back: the process shall end.
    pub const END: u32 = 4;
    /// The owner offers cores in the place of those that were given back: see [`super::CellPage::offered_cores`]. The cell takes the bit away when it
    /// has seen it.
    pub const OFFER: u32 = 8;
}

/// The shared page. The cell writes `root` and `held` and takes bits of `asks` away; the kernel writes the rest, and believes nothing that it reads.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct CellPage {
    /// [`PAGE_VERSION`].
    pub version: u32,
    /// Cores.
    pub cores: u32,
    /// Lines for each core; those of core `n` begin at line `n * lines`.
    pub lines: u32,
    /// Lots in the list.
    pub lots: u32,
    /// The virtual address at which physical address 0 would lie.
    pub window: u64,
    /// The physical address of the root of the cell's page table: by it the kernel finds the memory that lines name.
    pub root: AtomicU64,
    /// Not 0: the kernel does not look at the lines by itself, ring [`crate::exit::BELL`] after a new one.
    pub wants_bell: AtomicU32,
    /// Bits of [`asks`].
    pub asks: AtomicU32,
    /// Signals that wait, bit `n - 1` for signal `n`, those that are held back too.
    pub signals: AtomicU64,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// Physical addresses of the lots.
    pub lot_list: [u64; LOTS_MAX],
    /// The number of exits so far, for figures.
    pub exits: AtomicU64,
    /// A physical address in the first lot: below it lie the page tables that the kernel made for the start, from it on all lots are free.
    pub free: u64,
    /// Lots that the kernel wants back, of all but the first one.
    pub wanted_lots: AtomicU32,
    /// Cores that it wants back, of all but the first one.
    pub wanted_cores: AtomicU32,
    /// The time stamp at which a cell that has not given them is ended; 0 if nothing is wanted.
    pub wanted_until: AtomicU64,
    /// Signals that all threads of the program hold back: they wait in the kernel, where they end nothing and no call, until somebody reads
    /// them there. At the beginning it is the mask of the process. A cell that takes a bit away looks at `signals` afterwards, and if that one
    /// waits rings [`crate::exit::BELL`]. SIGKILL and SIGSTOP are never held back.
    pub held: AtomicU64,
    /// Cores that the owner offers: the cell gets each by [`crate::exit::GET_CORE`].
    pub offered_cores: AtomicU32,
}

const _: () = assert!(size_of::<CellPage>() == 4096);
