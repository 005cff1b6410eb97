//! The registers of a thread as Linux saves them for a signal handler.

use crate::fiber::{Extended, Registers};

/// The words of the frame that say how much it holds; they stay Linux's.
const SOFTWARE: std::ops::Range<usize> = 464..512;
const MAGIC: u32 = 0x4650_5853;
/// The part that is always there.
const LEGACY_BYTES: usize = 512;

/// A thread's registers by the address of its `ucontext`.
#[derive(Clone, Copy, Debug)]
pub struct Context(*mut libc::ucontext_t);

impl Context {
    /// It belongs to no fiber.
    pub fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Names those that a handler was given.
    ///
    /// # Safety
    /// The address is the third argument of a handler that has not returned when this value is used last.
    pub unsafe fn of_handler(address: *mut libc::c_void) -> Self {
        Self(address.cast())
    }

    fn general(&mut self) -> &mut [libc::greg_t; 23] {
        // SAFETY: the handler has not returned, and only this thread runs on its stack.
        unsafe { &mut (*self.0).uc_mcontext.gregs }
    }

    /// Why a fault was: the error code of the processor.
    pub fn fault_code(&mut self) -> u64 {
        self.general()[libc::REG_ERR as usize].cast_unsigned()
    }

    /// Reads the general registers.
    pub fn read(&mut self) -> Registers {
        let general = *self.general();
        let get = |index: i32| general[index as usize].cast_unsigned();
        Registers {
            r15: get(libc::REG_R15),
            r14: get(libc::REG_R14),
            r13: get(libc::REG_R13),
            r12: get(libc::REG_R12),
            rbp: get(libc::REG_RBP),
            rbx: get(libc::REG_RBX),
            r11: get(libc::REG_R11),
            r10: get(libc::REG_R10),
            r9: get(libc::REG_R9),
            r8: get(libc::REG_R8),
            rcx: get(libc::REG_RCX),
            rdx: get(libc::REG_RDX),
            rsi: get(libc::REG_RSI),
            rdi: get(libc::REG_RDI),
            rax: get(libc::REG_RAX),
            rip: get(libc::REG_RIP),
            rflags: get(libc::REG_EFL),
            rsp: get(libc::REG_RSP),
        }
    }

    /// Writes them.
    pub fn write(&mut self, r: &Registers) {
        let general = self.general();
        let mut set = |index: i32, value: u64| general[index as usize] = value.cast_signed();
        set(libc::REG_R15, r.r15);
        set(libc::REG_R14, r.r14);
        set(libc::REG_R13, r.r13);
        set(libc::REG_R12, r.r12);
        set(libc::REG_RBP, r.rbp);
        set(libc::REG_RBX, r.rbx);
        set(libc::REG_R11, r.r11);
        set(libc::REG_R10, r.r10);
        set(libc::REG_R9, r.r9);
        set(libc::REG_R8, r.r8);
        set(libc::REG_RCX, r.rcx);
        set(libc::REG_RDX, r.rdx);
        set(libc::REG_RSI, r.rsi);
        set(libc::REG_RDI, r.rdi);
        set(libc::REG_RAX, r.rax);
        set(libc::REG_RIP, r.rip);
        set(libc::REG_EFL, r.rflags);
        set(libc::REG_RSP, r.rsp);
    }

    /// Sets the signals that the thread holds back when it goes on.
    pub fn set_mask(&mut self, mask: u64) {
        // SAFETY: as in `general`; Linux has a mask of one word, and reads that.
        unsafe { (&raw mut (*self.0).uc_sigmask).cast::<u64>().write(mask) };
    }

    /// The extended registers as bytes.
    fn extended(&mut self) -> &mut [u8] {
        // SAFETY: Linux has put the address there, and says in the words of its own how many bytes follow the first 512.
        unsafe {
            // The word behind the general registers is the address; libraries name it in different ways.
            let start = *(&raw const (*self.0).uc_mcontext).cast::<[u64; 24]>().cast::<*mut u8>().add(23);
            let words: *const u32 = start.add(SOFTWARE.start).cast();
            let bytes = if words.read() == MAGIC { words.add(4).read() as usize } else { LEGACY_BYTES };
            std::slice::from_raw_parts_mut(start, bytes.clamp(LEGACY_BYTES, size_of::<Extended>()))
        }
    }

    /// Copies the extended registers out.
    pub fn save_extended(&mut self, place: &mut Extended) {
        let from = self.extended();
        place.0[..from.len()].copy_from_slice(from);
    }

    /// Copies them in, but for the words that are Linux's.
    pub fn load_extended(&mut self, place: &Extended) {
        let to = self.extended();
        to[..SOFTWARE.start].copy_from_slice(&place.0[..SOFTWARE.start]);
        let bytes = to.len();
        to[SOFTWARE.end..].copy_from_slice(&place.0[SOFTWARE.end..bytes]);
    }
}
