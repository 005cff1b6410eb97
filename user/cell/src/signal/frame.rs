//! The frame of a signal on a program's stack: `struct rt_sigframe` of Linux for x86-64.
//!
//! Return address; `ucontext` (flags, link, stack, registers, mask); `siginfo`. The extended registers lie above.

use linux_raw_sys::general::{SA_ONSTACK, SIGBUS, SIGSEGV};

use super::{Action, Come, INFO_WORDS};
use crate::fiber::{Extended, Registers};

/// Bytes of a frame: return address 8, ucontext 304, siginfo 128.
pub const FRAME_BYTES: usize = 8 + UCONTEXT_BYTES + 128;
const UCONTEXT_BYTES: usize = 304;
/// Bytes below the stack pointer that are a function's own.
const RED_ZONE: u64 = 128;
/// The direction flag: clear when a function begins.
pub const DIRECTION: u64 = 1 << 10;
/// Flags that a program may set for itself.
const FLAGS: u64 = 0x4_4dd5;
const INTERRUPTS: u64 = 0x202;

// Words of the frame.
const STACK: usize = 3;
const REGISTERS: usize = 6;
const EXTENDED: usize = REGISTERS + 23;
const MASK: usize = REGISTERS + 32;
const SIGINFO: usize = 1 + UCONTEXT_BYTES / 8;
const WORDS: usize = FRAME_BYTES / 8;

/// The contents of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The signal.
    pub come: Come,
    /// The mask to come back to.
    pub mask: u64,
    /// The program's wish.
    pub action: Action,
    /// The thread's registers when the signal came.
    pub registers: Registers,
    /// Its stack for signals.
    pub stack: [u64; 2],
}

/// The place of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The address of the frame; the stack pointer of the handler.
    pub frame: u64,
    /// The address of the extended registers.
    pub extended: u64,
}

/// The state that a thread goes back to.
pub struct Back {
    /// Its registers.
    pub registers: Registers,
    /// Its mask.
    pub mask: u64,
    /// The address of its extended registers.
    pub extended: u64,
}

/// Finds the place: on the stack for signals if there is one, it is wanted, and the thread is not on it.
pub fn place(stack_pointer: u64, [start, bytes]: [u64; 2], action: Action) -> Placed {
    let is_on_it = stack_pointer.wrapping_sub(start) < bytes;
    let top = match action.has(SA_ONSTACK) && bytes > 0 && !is_on_it {
        true => start.wrapping_add(bytes),
        false => stack_pointer.wrapping_sub(RED_ZONE),
    };
    let extended = top.wrapping_sub(size_of::<Extended>() as u64) & !63;
    // A function begins with a stack pointer 8 below a multiple of 16.
    let frame = (extended.wrapping_sub(FRAME_BYTES as u64) & !15).wrapping_sub(8);
    Placed { frame, extended }
}

/// The arguments of a handler: signal, siginfo, ucontext.
pub fn arguments(signal: u32, frame: u64) -> [u64; 3] {
    [signal.into(), frame.wrapping_add(8 * SIGINFO as u64), frame.wrapping_add(8)]
}

impl Frame {
    /// The address that the processor tells of a missing page.
    fn fault_address(&self) -> u64 {
        match self.come.signal {
            SIGSEGV | SIGBUS => self.come.info.details[0],
            _ => 0,
        }
    }

    /// Writes it.
    pub fn bytes(&self, extended: u64) -> [u8; FRAME_BYTES] {
        let mut words = [0u64; WORDS];
        words[0] = self.action.restorer;
        [words[STACK], words[STACK + 2]] = self.stack;
        words[REGISTERS..REGISTERS + 18].copy_from_slice(&in_order(&self.registers));
        // Segments as Linux reports them: cs 0x33, ss 0x2b.
        words[REGISTERS + 18] = 0x002b_0000_0000_0033;
        words[REGISTERS + 22] = self.fault_address();
        words[EXTENDED] = extended;
        words[MASK] = self.mask;
        words[SIGINFO..SIGINFO + INFO_WORDS].copy_from_slice(&self.come.words());
        let mut bytes = [0; FRAME_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Reads where to go back to. The program may have written anything there; flags that are not its own stay as they are.
pub fn back(bytes: &[u8; FRAME_BYTES]) -> Back {
    let mut words = [0u64; WORDS];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = place.try_into().map_or(0, u64::from_le_bytes);
    }
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags] =
        core::array::from_fn(|index| words[REGISTERS + index]);
    let rflags = flags & FLAGS | INTERRUPTS;
    let registers =
        Registers { r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rcx, rdx, rsi, rdi, rax, rip, rflags, rsp };
    Back { registers, mask: words[MASK], extended: words[EXTENDED] }
}

/// General registers in the order of `struct sigcontext`.
fn in_order(r: &Registers) -> [u64; 18] {
    [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp,
        r.rip, r.rflags,
    ]
}

#[cfg(test)]
mod tests {
    use super::{super::Info, *};

    #[test]
    fn the_frame_is_as_libc_has_it() {
        let registers = Registers { r8: 1, rsp: 2, rip: 3, rflags: 0x202, ..Registers::ZERO };
        let come = Come { signal: 11, info: Info::of_fault(2, 0x7000) };
        let frame = Frame { come, mask: 5, action: Action::default(), registers, stack: [0; 2] };
        let bytes = frame.bytes(0x9000);
        let sent = Frame { come: Come { signal: 10, info: Info::of_thread(77, 8) }, ..frame }.bytes(0x9000);
        let [base, base_sent] = [&bytes, &sent].map(|bytes| bytes.as_ptr().wrapping_add(8));
        // SAFETY: a frame holds a whole context and a whole siginfo; each value of their fields is one. That of a fault has an address, that of
        // a signal that was sent a sender.
        let (context, info, address, sender) = unsafe {
            let [info, sent] = [base, base_sent]
                .map(|base| base.wrapping_add(UCONTEXT_BYTES).cast::<libc::siginfo_t>().read_unaligned());
            let sender = (sent.si_code, sent.si_pid(), sent.si_uid());
            (base.cast::<[libc::greg_t; 38]>().read_unaligned(), info, info.si_addr() as u64, sender)
        };
        let greg = |index: i32| context[5 + index as usize];
        assert_eq!(std::mem::offset_of!(libc::ucontext_t, uc_mcontext), 40);
        assert_eq!(std::mem::offset_of!(libc::ucontext_t, uc_sigmask) / 8 + 1, MASK);
        assert_eq!([greg(libc::REG_R8), greg(libc::REG_RSP), greg(libc::REG_RIP)], [1, 2, 3]);
        assert_eq!((greg(libc::REG_CR2), info.si_signo, info.si_code), (0x7000, 11, 2));
        assert_eq!((address, sender), (0x7000, (libc::SI_TKILL, 77, 8)));
        let back = back(&bytes);
        assert_eq!((back.registers, back.mask, back.extended), (registers, 5, 0x9000));
    }

    #[test]
    fn a_handler_has_the_stack_it_wants_aligned_as_a_function() {
        let own = [0x10_0000, 0x4000];
        let on_stack = u64::from(SA_ONSTACK);
        for (pointer, flags, top) in
            [(0x7f_fff8, 0, 0x7f_fff8 - 128), (0x7f_fff8, on_stack, 0x10_4000), (0x10_2000, on_stack, 0x10_2000 - 128)]
        {
            let placed = place(pointer, own, Action { flags, ..Action::default() });
            assert_eq!((placed.frame + 8) % 16, 0);
            assert!(placed.extended + 4096 <= top && placed.frame + (FRAME_BYTES as u64) <= placed.extended);
        }
    }
}
