//! The runtime at ring 0 of a cell.
//!
//! * [`area`]: what each core has for itself.
//! * [`entry`]: the code at which calls and faults of the program arrive.
//! * [`descriptors`]: segments, stacks and gates of the cell's core.
//! * [`exit`]: the ways out to the kernel.
//!
//! Signals that the kernel tells of are taken away from it by a line, one after the other: until then it gives up calls for them. The runtime
//! waits for that, for it needs to know why each came.
//!
//! Nothing here may fault before the gates are loaded: the launcher touches all its pages before it enters.

mod area;
mod descriptors;
mod entry;
mod exit;

use core::{
    arch::asm,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

use gyre_cell_abi::{CellPage, asks};
use linux_raw_sys::general as nr;

pub use area::make as make_areas;
pub use entry::{FAILED, begin, has_room};
pub use exit::enter;

use super::{Machine, Wanted};
use crate::{
    error::Errno,
    fiber::{Call, Fiber},
    lines::Lines,
    memory::{Change, PAGE_BYTES, Rights, Window},
    signal::{Come, Info, bit},
};

const NANOSECONDS: u128 = 1_000_000_000;
/// Waits for the kernel to end the process, of ten milliseconds each.
const END_WAITS: u32 = 100;
const END_WAIT_NANOSECONDS: u64 = 10_000_000;

/// The signals of which a call of the runtime takes one away from the kernel.
static SET: AtomicU64 = AtomicU64::new(0);
/// The kernel's words about it: a `siginfo_t`.
static INFO: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
/// It does not wait for them.
static NO_TIME: [u64; 2] = [0; 2];

/// Clocks of Linux at one time stamp.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Clocks {
    /// The time stamp.
    pub stamp: u64,
    /// Nanoseconds since 1970.
    pub wall: u64,
    /// Nanoseconds on the monotonic clock.
    pub monotonic: u64,
}

/// The ground.
pub struct Privileged {
    page: *mut CellPage,
    lines: u32,
    clocks: Clocks,
    lots: u32,
    window: u64,
    stamps_in_a_second: u64,
    cores: u32,
    /// Translations have changed that other cores may remember.
    is_stale: bool,
    /// Signals that the program holds back.
    held: u64,
    /// Signals may wait in the kernel for being taken, though it has not asked for that again.
    is_due: bool,
}

/// The time stamp counter.
pub fn stamp() -> u64 {
    // SAFETY: it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Cores of a cell, and lines of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Cores.
    pub cores: u32,
    /// Lines.
    pub lines: u32,
}

impl Privileged {
    /// Describes the ground of a process that will be a cell, with its page at an address.
    pub fn new(page: u64, shape: Shape, clocks: Clocks) -> Self {
        let Shape { cores, lines } = shape;
        Self {
            page: page as *mut CellPage,
            lines,
            clocks,
            lots: 0,
            window: 0,
            stamps_in_a_second: 1,
            cores,
            is_stale: false,
            held: 0,
            is_due: false,
        }
    }

    /// Returns true if other cores are to forget translations, once.
    pub fn takes_flush(&mut self) -> bool {
        core::mem::take(&mut self.is_stale)
    }

    /// The page that the kernel shares.
    fn page(&self) -> &CellPage {
        // SAFETY: the kernel has put it there, and changes only words that are atomic or that it is asked to change.
        unsafe { &*self.page }
    }

    /// Reads what the kernel has said of this cell. Calls `add` for each lot.
    pub fn begin(&mut self, add: &mut dyn FnMut(u64)) {
        self.window = self.page().window;
        self.stamps_in_a_second = self.page().tsc_hz.max(1);
        self.add_lots(add);
    }

    /// The first physical address that the kernel does not use.
    pub fn free_from(&self) -> u64 {
        self.page().free
    }

    /// Says which table is the cell's.
    pub fn set_root(&self, root: u64) {
        self.page().root.store(root, Ordering::Release);
    }

    fn add_lots(&mut self, add: &mut dyn FnMut(u64)) {
        // SAFETY: as in `page`; the kernel may append lots at each exit.
        let count = unsafe { (&raw const (*self.page).lots).read_volatile() };
        for index in self.lots..count {
            if (index as usize) < gyre_cell_abi::LOTS_MAX {
                // SAFETY: as above; the index lies in the list.
                add(unsafe { (&raw const (*self.page).lot_list[index as usize]).read_volatile() });
            }
        }
        self.lots = count.max(self.lots);
    }

    fn place(&self, physical: u64) -> *mut u64 {
        self.window.wrapping_add(physical) as *mut u64
    }

    fn since(&self, clock: u64) -> u64 {
        let stamps = stamp().saturating_sub(self.clocks.stamp);
        let nanoseconds = u128::from(stamps) * NANOSECONDS / u128::from(self.stamps_in_a_second);
        clock.saturating_add(nanoseconds as u64)
    }

    /// The signals that the process holds back when it becomes a cell.
    pub fn held_at_first(&mut self) -> u64 {
        self.held = self.page().held.load(Ordering::Acquire);
        self.held
    }

    /// The first line of the core that is here.
    fn first_line(&self) -> usize {
        area::words().number.load(Ordering::Relaxed) as usize * self.lines as usize
    }

    /// Makes a call of the runtime's own that the kernel answers at once; `None` without a line for it.
    fn call_at_once(&mut self, call: &Call) -> Option<i64> {
        let lines = self.lines();
        let line = lines.ask_any(call, self.first_line())?;
        self.bell();
        loop {
            if let Some(result) = lines.take(line) {
                return Some(result);
            }
            self.end_if_asked();
            self.idle(END_WAIT_NANOSECONDS);
        }
    }

    /// Takes one of these signals away from the kernel.
    fn take_among(&mut self, signals: u64) -> Option<Come> {
        SET.store(signals, Ordering::Release);
        let arguments = [SET.as_ptr() as u64, INFO.as_ptr() as u64, NO_TIME.as_ptr() as u64, 8, 0, 0];
        let call = Call { number: nr::__NR_rt_sigtimedwait, arguments, sent: 0 };
        let Some(result) = self.call_at_once(&call) else {
            self.is_due = true;
            return None;
        };
        let signal = u32::try_from(result).ok().filter(|signal| bit(*signal) != 0)?;
        let info = Info::of_words(core::array::from_fn(|place| INFO[place].load(Ordering::Acquire)));
        Some(Come { signal, info })
    }

    fn end_if_asked(&mut self) {
        if self.page().asks.load(Ordering::Acquire) & asks::END != 0 {
            self.exit(128 + u64::from(nr::SIGKILL));
        }
    }
}

impl Window for Privileged {
    fn read(&self, physical: u64) -> u64 {
        // SAFETY: the cell's frames lie in the window.
        unsafe { self.place(physical).read_volatile() }
    }

    fn write(&mut self, physical: u64, word: u64) {
        // SAFETY: as above.
        unsafe { self.place(physical).write_volatile(word) }
    }

    fn clear(&mut self, physical: u64, bytes: u64) {
        // SAFETY: as above.
        unsafe { self.place(physical).write_bytes(0, (bytes / 8) as usize) }
    }

    fn changed(&mut self, address: u64, change: Change) {
        let bytes = match change {
            Change::New(_) => return,
            Change::Other(leaf) => leaf.size.bytes(),
            Change::Gone(bytes) => bytes,
        };
        debug_assert!(bytes >= PAGE_BYTES);
        self.is_stale = true;
        // SAFETY: forgetting a translation changes no memory.
        unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
    }
}

impl Machine for Privileged {
    fn now(&self) -> u64 {
        self.since(0)
    }

    fn wall_clock(&self) -> u64 {
        self.since(self.clocks.wall)
    }

    fn monotonic_clock(&self) -> u64 {
        self.since(self.clocks.monotonic)
    }

    fn lines(&self) -> Lines {
        // SAFETY: they lie behind the page for as long as the cell lives, and its one runtime uses them.
        unsafe { Lines::at(self.page.add(1).cast(), self.lines * self.cores) }
    }

    fn own_lines(&self) -> usize {
        self.lines as usize
    }

    fn bell(&mut self) {
        if self.page().wants_bell.load(Ordering::Acquire) != 0 {
            exit::leave(gyre_cell_abi::exit::BELL, [0; 2]);
        }
    }

    fn ring(&mut self) {
        exit::leave(gyre_cell_abi::exit::BELL, [0; 2]);
    }

    fn call(&mut self, number: u32, arguments: [u64; 6]) -> i64 {
        let lines = self.lines();
        let call = Call { number, arguments, sent: 0 };
        let Some(line) = lines.ask_any(&call, self.first_line()) else {
            return Errno::AGAIN.result();
        };
        self.bell();
        for _ in 0..END_WAITS {
            if let Some(result) = lines.take(line) {
                return result;
            }
            self.idle(END_WAIT_NANOSECONDS);
        }
        Errno::AGAIN.result()
    }

    fn idle(&mut self, nanoseconds: u64) {
        exit::leave(gyre_cell_abi::exit::IDLE, [nanoseconds, 0]);
    }

    fn hold_signals(&mut self, held: u64) {
        let before = core::mem::replace(&mut self.held, held);
        self.page().held.store(held, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // The line that takes it tells the kernel to look at the word.
        self.is_due |= self.page().signals.load(Ordering::SeqCst) & before & !held != 0;
    }

    fn take_signal(&mut self, wanted: u64) -> Option<Come> {
        let asked = self.page().asks.load(Ordering::Acquire);
        if asked == 0 && !self.is_due {
            return None;
        }
        self.end_if_asked();
        if asked & asks::SIGNAL != 0 {
            // Before they are taken: if others wait then, the kernel asks again.
            self.page().asks.fetch_and(!asks::SIGNAL, Ordering::SeqCst);
            self.is_due = true;
        }
        if !self.is_due {
            return None;
        }
        let open = self.page().signals.load(Ordering::Acquire) & !self.held;
        self.is_due = open & !wanted != 0;
        match open & wanted {
            0 => None,
            signals => self.take_among(signals),
        }
    }

    fn interrupt(&mut self, core: usize) {
        exit::leave(gyre_cell_abi::exit::KICK, [core as u64, 1]);
    }

    fn more(&mut self, bytes: u64, add: &mut dyn FnMut(u64)) -> Result<(), Errno> {
        Errno::of_result(exit::leave(gyre_cell_abi::exit::MORE, [bytes, 0]))?;
        self.add_lots(add);
        Ok(())
    }

    fn wanted(&mut self) -> Wanted {
        let page = self.page();
        let asked = page.asks.load(Ordering::Acquire) & (asks::GIVE_BACK | asks::OFFER);
        if asked == 0 {
            return Wanted::default();
        }
        page.asks.fetch_and(!asked, Ordering::AcqRel);
        let parts = |word: &AtomicU32, ask| if asked & ask == 0 { 0 } else { word.load(Ordering::Acquire) };
        let [lots, cores] = [&page.wanted_lots, &page.wanted_cores].map(|word| parts(word, asks::GIVE_BACK));
        Wanted { lots, cores, offered: parts(&page.offered_cores, asks::OFFER) }
    }

    fn give_lot(&mut self, lot: u64) -> Result<(), Errno> {
        Errno::of_result(exit::leave(gyre_cell_abi::exit::GIVE, [lot, 0]))?;
        // The list of lots is one shorter.
        self.lots -= 1;
        Ok(())
    }

    fn fault(&mut self, address: u64, access: Rights) -> Result<Option<u64>, Errno> {
        let write = u64::from(access.contains(Rights::WRITE));
        Errno::of_result(exit::leave(gyre_cell_abi::exit::FAULT, [address, write])).map(Some)
    }

    fn read_user(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        // SAFETY: the caller has made the range present.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn write_user(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: the caller has made the range present for writing; the program is stopped.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    fn copy_out(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno> {
        // SAFETY: the frames lie in the window; the caller has made the range present for writing, and the program is stopped.
        unsafe {
            core::ptr::copy_nonoverlapping(self.place(physical).cast::<u8>(), address as *mut u8, bytes as usize)
        };
        Ok(())
    }

    fn copy_in(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno> {
        // SAFETY: as above, for reading.
        unsafe {
            core::ptr::copy_nonoverlapping(address as *const u8, self.place(physical).cast::<u8>(), bytes as usize)
        };
        Ok(())
    }

    fn switch(&mut self, _: &mut Fiber, to: &mut Fiber) {
        entry::run(to);
    }

    fn set_fs(&mut self, base: u64) {
        descriptors::set_fs(base);
    }

    fn save_extended(&mut self, _: &mut Fiber) {
        // The entry code saves them in the fiber's place.
    }

    fn load_extended(&mut self, _: &mut Fiber) {
        // The entry code loads them from there.
    }

    fn way_out(&self) -> Option<u64> {
        Some(entry::way_out())
    }

    fn cores(&self) -> u32 {
        self.cores
    }

    fn exit(&mut self, status: u64) -> ! {
        exit::end(status)
    }

    fn die(&mut self, signal: u32) -> ! {
        // The kernel ends the process by the signal; if it does not, the status says as a shell does.
        self.hold_signals(self.held & !bit(signal));
        let pid = entry::pid();
        let default = [0u64; 4];
        let arguments = [signal.into(), default.as_ptr() as u64, 0, 8, 0, 0];
        self.call(nr::__NR_rt_sigaction, arguments);
        self.call(nr::__NR_kill, [pid.into(), signal.into(), 0, 0, 0, 0]);
        // A signal that was sent is taken at the next look of the kernel, and an exit may be faster.
        for _ in 0..END_WAITS {
            self.idle(END_WAIT_NANOSECONDS);
        }
        self.exit(128 + u64::from(signal))
    }

    fn say(&mut self, text: &str) {
        self.call(nr::__NR_write, [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    }
}
