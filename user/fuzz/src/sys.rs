//! The system call instruction, and memory that calls may write: the only unsafe code of this program.

use std::{arch::asm, sync::atomic::AtomicU64};

/// Makes a call; a negative answer is an error's number.
pub fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let answer: i64;
    // SAFETY: addresses that are made up lie in the scratch memory, in the playground or nowhere, without Rust objects; calls that
    // end or cripple their caller are made in a child. A caller that dies in spite of that is a worker, which its leader replaces.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => answer, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// Makes a call with fewer arguments.
pub fn short<const N: usize>(number: u64, arguments: [u64; N]) -> i64 {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(slot, value)| *slot = value);
    call(number, all)
}

/// Maps memory; answers its address.
pub fn map(address: u64, bytes: u64, flags: i32) -> Option<u64> {
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let answer =
        call(libc::SYS_mmap as u64, [address, bytes, rights, (flags | libc::MAP_ANONYMOUS) as u64, u64::MAX, 0]);
    u64::try_from(answer).ok()
}

/// Maps words that all children share.
pub fn shared_words(count: usize) -> Option<&'static [AtomicU64]> {
    let address = map(0, 8 * count as u64, libc::MAP_SHARED)?;
    // SAFETY: just mapped for this slice alone, full of zeros, never unmapped; the calls that are made never get its address.
    Some(unsafe { std::slice::from_raw_parts(address as *const AtomicU64, count) })
}

/// Memory of one thread that calls read and write, with a hole behind it.
#[derive(Clone, Copy)]
pub struct Scratch {
    base: u64,
}

/// Its length.
pub const SCRATCH_BYTES: u64 = 1 << 18;
/// The hole behind it: lengths up to that reach nothing else.
const HOLE_BYTES: u64 = 1 << 33;

impl Scratch {
    /// Maps it.
    pub fn map() -> Option<Self> {
        let no_reserve = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let whole = [0, SCRATCH_BYTES + HOLE_BYTES, 0, (no_reserve | libc::MAP_ANONYMOUS) as u64, u64::MAX, 0];
        let base = u64::try_from(call(libc::SYS_mmap as u64, whole)).ok()?;
        map(base, SCRATCH_BYTES, libc::MAP_PRIVATE | libc::MAP_FIXED).map(|base| Self { base })
    }

    /// Returns its address.
    pub fn base(self) -> u64 {
        self.base
    }

    /// Writes the lower `bytes` bytes of a value; what does not fit is left out.
    pub fn write(self, address: u64, value: u64, bytes: u64) {
        if !self.holds(address, bytes.min(8)) {
            return;
        }
        for (index, byte) in (0..bytes.min(8)).zip(value.to_le_bytes()) {
            // SAFETY: inside this mapping, which is never unmapped and holds no Rust object; volatile, as calls read it.
            unsafe { std::ptr::write_volatile((address + index) as *mut u8, byte) };
        }
    }

    /// Reads so many bytes as a number, 0 outside of it.
    pub fn read(self, address: u64, bytes: u64) -> u64 {
        if !self.holds(address, bytes) {
            return 0;
        }
        // SAFETY: as for `write`.
        let byte = |index| u64::from(unsafe { std::ptr::read_volatile((address + index) as *const u8) });
        (0..bytes.min(8)).rev().fold(0, |value, index| value << 8 | byte(index))
    }

    /// Writes a text and a NUL.
    pub fn text(self, address: u64, text: &[u8]) {
        (address..).zip(text.iter().chain([&0])).for_each(|(address, byte)| self.write(address, (*byte).into(), 1));
    }

    fn holds(self, address: u64, bytes: u64) -> bool {
        address >= self.base && address.saturating_add(bytes) <= self.base + SCRATCH_BYTES
    }
}

/// Touches memory that may not be there; the caller is a child that may die of it.
pub fn touch(address: u64, value: u64) -> u64 {
    let word = (address & !7) as *mut u64;
    // SAFETY: the address is of the playground, which holds no Rust object; a fault ends the child.
    unsafe {
        let old = std::ptr::read_volatile(word);
        std::ptr::write_volatile(word, value);
        old
    }
}

/// Words that the kernel shares with us.
#[derive(Clone, Copy)]
pub struct Window {
    base: u64,
    bytes: u64,
}

impl Window {
    /// Takes the answer of `mmap`.
    pub fn new(base: u64, bytes: u64) -> Self {
        Self { base, bytes }
    }

    /// Writes a word of 4 bytes; what does not fit is left out.
    pub fn write(self, offset: u64, value: u32) {
        if offset.saturating_add(4) <= self.bytes {
            // SAFETY: inside the mapping of a ring, which only the end of the process unmaps.
            unsafe { std::ptr::write_volatile((self.base + (offset & !3)) as *mut u32, value) };
        }
    }

    /// Reads a word of 4 bytes, 0 outside of it.
    pub fn read(self, offset: u64) -> u32 {
        if offset.saturating_add(4) > self.bytes {
            return 0;
        }
        // SAFETY: as for `write`.
        unsafe { std::ptr::read_volatile((self.base + (offset & !3)) as *const u32) }
    }
}

/// Returns the function by which the C library's wrapper returns from a handler: the third word of the kernel's struct sigaction.
pub fn restorer(scratch: Scratch) -> u64 {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing; the structure is filled.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(POKE, &action, std::ptr::null_mut());
    }
    short(libc::SYS_rt_sigaction as u64, [POKE as u64, 0, scratch.base(), 8]);
    scratch.read(scratch.base() + 16, 8)
}

/// Returns the address of a handler that does nothing, and counts as one that is installed.
pub fn handler(scratch: Scratch) -> u64 {
    short(libc::SYS_rt_sigaction as u64, [POKE as u64, 0, scratch.base(), 8]);
    scratch.read(scratch.base(), 8)
}

/// The signal that gets a thread out of a call that waits.
pub const POKE: i32 = libc::SIGUSR1;
