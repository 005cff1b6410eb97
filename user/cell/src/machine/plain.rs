//! The runtime in an ordinary process of Linux: for development and tests, and if there is no virtual machine for a cell.
//!
//! * System call user dispatch turns each system call outside of the launcher's code into SIGSYS ([`traps`]).
//! * Lots are leased by the kernel with cores ([`lease`]), or a file in memory; a leaf of the table is a shared mapping of them, so faults and
//!   pagers are real ([`PlainMemory`]).
//! * Threads of the launcher serve the lines ([`server`]) as the kernel's do for a cell.
//!
//! The rest is as in a cell of a machine: the same runtime, tables, policies and lines. Differences: a file's memory is all there from the
//! beginning, the owner's wishes are seen at the next call or fault, the process's own mappings are Linux's affair, and a thread that waits in a call
//! hears of a signal with the call's answer.
//!
//! Linux: Documentation/admin-guide/syscall-user-dispatch.rst (since 5.11).

mod arrivals;
mod context;
mod disk;
mod lease;
mod server;
mod traps;

use gyre_cell_abi::{LOT_BYTES, device::DEVICE_OPEN};
use linux_raw_sys::general as nr;

pub use disk::PlainDisk;
pub use lease::Lease;
pub use server::Shared;
pub use traps::{begin, is_supported};

use super::{Machine, Wanted, raw};
use crate::{
    error::Errno,
    fiber::Fiber,
    lines::Lines,
    memory::{Change, Leaf, Rights, Window},
    signal::Come,
};

/// Lots, all of which a window shows.
#[derive(Debug)]
pub struct PlainMemory {
    /// The address at which physical address 0 would lie.
    pub window: u64,
    /// The kind of the lots.
    pub lots: Lots,
}

/// The kind of the lots.
#[derive(Debug)]
pub enum Lots {
    /// A file, of which a physical address is a place.
    File(u64),
    /// Leased by the kernel.
    Leased(Lease),
}

impl PlainMemory {
    /// Shows the frame of a leaf at an address.
    fn show(&self, address: u64, leaf: &Leaf) -> i64 {
        let shared = u64::from(nr::MAP_SHARED | nr::MAP_FIXED);
        match &self.lots {
            Lots::Leased(_) => lease::show(self.window, address, leaf),
            Lots::File(file) => {
                let rights = leaf.rights.bits().into();
                harmless(nr::__NR_mmap, [address, leaf.size.bytes(), rights, shared, *file, leaf.physical])
            }
        }
    }
}

/// The ground.
pub struct Plain {
    /// The lots.
    pub memory: PlainMemory,
    /// The words that it shares with the threads that serve.
    pub shared: &'static Shared,
    /// The disk, if there is one.
    pub disk: Option<&'static PlainDisk>,
    /// The registers of the thread that runs, as Linux saved them; set while the runtime runs.
    context: context::Context,
    text: [u64; 2],
}

impl Plain {
    /// Makes one.
    pub fn new(memory: PlainMemory, shared: &'static Shared) -> Self {
        Self { memory, shared, disk: None, context: context::Context::none(), text: traps::own_code() }
    }

    fn place(&self, physical: u64) -> *mut u64 {
        (self.memory.window + physical) as *mut u64
    }
}

/// A system call of the runtime's own, which cannot harm it.
fn harmless(number: u32, arguments: [u64; 6]) -> i64 {
    // SAFETY: the callers below name their own memory, or that of the program, which the runtime does not use itself.
    unsafe { raw::call(number.into(), arguments) }
}

fn clock(clock: u32) -> u64 {
    let mut time = [0i64; 2];
    harmless(nr::__NR_clock_gettime, [clock.into(), (&raw mut time) as u64, 0, 0, 0, 0]);
    time[0].cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time[1].cast_unsigned())
}

/// Reads a word of the cell's frames or of its shared page, which others may write.
fn peek(address: u64) -> u64 {
    // SAFETY: the callers name what the window or the kernel has mapped.
    unsafe { (address as *const u64).read_volatile() }
}

impl Window for Plain {
    fn read(&self, physical: u64) -> u64 {
        peek(self.memory.window + physical)
    }

    fn write(&mut self, physical: u64, word: u64) {
        // SAFETY: as above.
        unsafe { self.place(physical).write_volatile(word) }
    }

    fn clear(&mut self, physical: u64, bytes: u64) {
        // SAFETY: as above.
        unsafe { self.place(physical).write_bytes(0, bytes as usize / 8) }
    }

    fn changed(&mut self, address: u64, change: Change) {
        let none = u64::from(nr::MAP_PRIVATE | nr::MAP_FIXED | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE);
        let result = match change {
            Change::New(leaf) | Change::Other(leaf) => self.memory.show(address, &leaf),
            Change::Gone(bytes) => harmless(nr::__NR_mmap, [address, bytes, 0, none, u64::MAX, 0]),
        };
        if result < 0 {
            self.say("gyre-cell: Linux has no place for more mappings (vm.max_map_count); try --pager eager\n");
            self.die(nr::SIGKILL);
        }
    }
}

impl Machine for Plain {
    fn now(&self) -> u64 {
        clock(nr::CLOCK_MONOTONIC)
    }

    fn wall_clock(&self) -> u64 {
        clock(nr::CLOCK_REALTIME)
    }

    fn monotonic_clock(&self) -> u64 {
        clock(nr::CLOCK_MONOTONIC)
    }

    fn lines(&self) -> Lines {
        self.shared.lines()
    }

    fn bell(&mut self) {
        self.shared.ring();
    }

    fn ring(&mut self) {
        if let Some(disk) = self.disk {
            disk.ring();
        }
    }

    fn call(&mut self, number: u32, arguments: [u64; 6]) -> i64 {
        match u64::from(number) {
            DEVICE_OPEN => self.disk.map_or(Errno::NODEV.result(), |disk| disk.open([arguments[0], arguments[1]])),
            _ => harmless(number, arguments),
        }
    }

    fn idle(&mut self, nanoseconds: u64) {
        self.shared.ring();
        traps::with_signals(|| self.shared.wait_for_answers(nanoseconds));
    }

    fn hold_signals(&mut self, held: u64) {
        traps::hold(held);
    }

    fn take_signal(&mut self, wanted: u64) -> Option<Come> {
        if let Lots::Leased(lease) = &self.memory.lots
            && lease.is_to_end()
        {
            self.exit(128 + u64::from(nr::SIGKILL));
        }
        self.shared.signals.take(wanted)
    }

    fn more(&mut self, bytes: u64, add: &mut dyn FnMut(u64)) -> Result<(), Errno> {
        match &mut self.memory.lots {
            Lots::Leased(lease) => lease.more(bytes, add),
            // All memory is there from the beginning.
            Lots::File(_) => Err(Errno::NOMEM),
        }
    }

    fn wanted(&mut self) -> Wanted {
        let lots = match &mut self.memory.lots {
            Lots::Leased(lease) => lease.wanted_lots(),
            // Nobody takes a file's memory back.
            Lots::File(_) => 0,
        };
        // Cores went at once.
        Wanted { lots, ..Wanted::default() }
    }

    fn give_lot(&mut self, lot: u64) -> Result<(), Errno> {
        match &mut self.memory.lots {
            Lots::Leased(lease) => lease.give(lot),
            Lots::File(_) => Err(Errno::INVAL),
        }
    }

    fn fault(&mut self, _: u64, _: Rights) -> Result<Option<u64>, Errno> {
        Ok(None)
    }

    fn read_user(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let own = [bytes.as_mut_ptr() as u64, bytes.len() as u64];
        copy(nr::__NR_process_vm_readv, own, address)
    }

    fn write_user(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let own = [bytes.as_ptr() as u64, bytes.len() as u64];
        copy(nr::__NR_process_vm_writev, own, address)
    }

    fn copy_out(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno> {
        copy(nr::__NR_process_vm_writev, [self.memory.window + physical, bytes], address)
    }

    fn copy_in(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno> {
        copy(nr::__NR_process_vm_readv, [self.memory.window + physical, bytes], address)
    }

    fn switch(&mut self, from: &mut Fiber, to: &mut Fiber) {
        self.save_extended(from);
        self.load_extended(to);
        self.set_fs(to.fs);
    }

    fn set_fs(&mut self, base: u64) {
        const ARCH_SET_FS: u64 = 0x1002;
        harmless(nr::__NR_arch_prctl, [ARCH_SET_FS, base, 0, 0, 0, 0]);
    }

    fn save_extended(&mut self, fiber: &mut Fiber) {
        self.context.save_extended(&mut fiber.extended);
    }

    fn load_extended(&mut self, fiber: &mut Fiber) {
        self.context.load_extended(&fiber.extended);
    }

    fn exit(&mut self, status: u64) -> ! {
        loop {
            harmless(nr::__NR_exit_group, [status, 0, 0, 0, 0, 0]);
        }
    }

    fn die(&mut self, signal: u32) -> ! {
        traps::default_action(signal);
        self.exit(128 + u64::from(signal))
    }

    fn say(&mut self, text: &str) {
        harmless(nr::__NR_write, [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    }
}

/// Copies between memory of the runtime and of the program, in a way that a wrong address makes an error.
fn copy(number: u32, own: [u64; 2], address: u64) -> Result<(), Errno> {
    let program = [address, own[1]];
    let pid = harmless(nr::__NR_getpid, [0; 6]).cast_unsigned();
    let [own, theirs] = [&own, &program].map(|vector| vector.as_ptr() as u64);
    let copied = harmless(number, [pid, own, 1, theirs, 1, 0]);
    if copied.cast_unsigned() == program[1] { Ok(()) } else { Err(Errno::FAULT) }
}

/// Makes a file of lots of so many bytes; a physical address is a place in it, the first lot lies behind one that nobody uses.
///
/// # Errors
/// Linux's.
pub fn make_memory(bytes: u64) -> std::io::Result<PlainMemory> {
    let length = bytes + LOT_BYTES;
    // SAFETY: a new file and a new mapping of it.
    unsafe {
        let file = libc::memfd_create(c"lots".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 || libc::ftruncate(file, length as i64) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        match libc::mmap(std::ptr::null_mut(), length as usize, rights, flags, file, 0) {
            libc::MAP_FAILED => Err(std::io::Error::last_os_error()),
            window => Ok(PlainMemory { window: window as u64, lots: Lots::File(file as u64) }),
        }
    }
}
