//! The frame of a signal handler on the program's stack, as Linux x86-64 lays it out (arch/x86/include/uapi/asm/sigcontext.h).
//!
//! ```text
//! rsp -> return address (restorer) | ucontext (304) | siginfo (128) | ... | XSAVE area, 64-byte aligned | magic2
//! ```
//!
//! `push` writes a frame and enters the handler; `pop` (rt_sigreturn) takes the state back. The program owns its
//! stack, so nothing in a frame is believed: flags are masked, the address must lie in user memory, and the platform
//! cleans the extended state.
//!
//! The frame lies below the red zone of leaf functions, or at the top of the alternate stack if the action asks for it
//! and the thread is not on it. A stack that is too small is EFAULT, which ends the process by SIGSEGV.

use super::info::SignalInfo;
use super::{Action, AltStack, SS_AUTODISARM, SS_ONSTACK, SignalSet};
use crate::run::Running;
use crate::{Errno, Outcome, Thread};
use alloc::vec;
use alloc::vec::Vec;
use gyre_machine::{Registers, USER_END};
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes below the stack pointer that leaf functions use (System V ABI, 3.2.2).
const RED_ZONE_BYTES: u64 = 128;
/// The extended state is in XSAVE's format (UC_FP_XSTATE), and ss is saved (UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS).
const CONTEXT_FLAGS: u64 = 7;
/// Flags that a program may change: CF PF AF ZF SF TF DF OF RF AC.
const FLAGS_OF_USER: u64 = 0x5_0dd5;
/// IF and the bit that is always 1.
const FLAGS_FIXED: u64 = 0x202;
/// TF, DF and RF are clear in a handler.
const FLAGS_CLEARED: u64 = 1 << 8 | 1 << 10 | 1 << 16;
const USER_CS: u16 = 0x33;
const USER_SS: u16 = 0x2b;
/// Bytes of the area that FXSAVE knows.
const LEGACY_BYTES: usize = 512;
/// The offset in it of software's notes.
const SOFTWARE_OFFSET: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;

/// `struct sigcontext_64`.
#[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SavedRegisters {
    r8_to_r15: [u64; 8],
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    rflags: u64,
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    error: u64,
    trap: u64,
    old_mask: u64,
    fault_address: u64,
    extended: u64,
    reserved: [u64; 8],
}

/// `struct ucontext`.
#[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct UserFrame {
    flags: u64,
    link: u64,
    stack: AltStack,
    registers: SavedRegisters,
    mask: SignalSet,
}

/// The whole frame.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Frame {
    restorer: u64,
    user: UserFrame,
    info: SignalInfo,
}

const _: () = assert!(size_of::<SavedRegisters>() == 256 && size_of::<UserFrame>() == 304);
const _: () = assert!(size_of::<Frame>() == 440);

/// The last fault of a thread, for its handler.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultNote {
    /// The exception's number.
    pub trap: u64,
    /// Its error code; 0 for general protection, whose code may carry bits of kernel memory in some emulators.
    pub error: u64,
    /// The address of a page fault.
    pub address: u64,
}

/// Least size of a stack for handlers: the frame and the extended state (AT_MINSIGSTKSZ).
pub fn stack_bytes_min(extended_bytes: usize) -> u64 {
    (extended_bytes as u64).saturating_add(const { size_of::<Frame>() as u64 + 64 + 16 + RED_ZONE_BYTES })
}

/// Puts a frame on the stack and makes the handler the next thing to run.
pub(crate) async fn push(
    thread: &Thread,
    running: &mut Running,
    info: &SignalInfo,
    action: &Action,
    mask: SignalSet,
) -> Result<(), Errno> {
    let stack = thread.signals.lock().stack;
    let rsp = running.context.registers.rsp;
    let wanted = action.has(raw::SA_ONSTACK) && stack.flags & super::SS_DISABLE == 0;
    let top = match wanted && !stack.holds(rsp) {
        true => stack.address.checked_add(stack.bytes).ok_or(Errno::EFAULT)?,
        false => rsp.checked_sub(RED_ZONE_BYTES).ok_or(Errno::EFAULT)?,
    };
    let (extended, extended_at) = save_extended(running, top)?;
    let below = if extended.is_empty() { top } else { extended_at };
    let at = below.checked_sub(size_of::<Frame>() as u64).ok_or(Errno::EFAULT)?;
    let at = (at & !15).checked_sub(8).ok_or(Errno::EFAULT)?;
    if wanted && at < stack.address {
        return Err(Errno::EFAULT);
    }
    let frame = Frame {
        restorer: action.restorer,
        user: UserFrame {
            flags: CONTEXT_FLAGS,
            link: 0,
            stack: AltStack { flags: stack.flags & !SS_ONSTACK, ..stack },
            registers: save(
                &running.context.registers,
                &running.fault,
                mask,
                if extended.is_empty() { 0 } else { extended_at },
            ),
            mask,
        },
        info: *info,
    };
    thread.copy_out(extended_at, &extended).await?;
    thread.write_struct(at, &frame).await?;
    if wanted && stack.flags & SS_AUTODISARM != 0 {
        thread.signals.lock().stack = AltStack::default();
    }
    enter_handler(&mut running.context.registers, at, info.signal, action.handler);
    Ok(())
}

fn enter_handler(registers: &mut Registers, frame: u64, signal: i32, handler: u64) {
    let user = frame.wrapping_add(core::mem::offset_of!(Frame, user) as u64);
    registers.rip = handler;
    registers.rsp = frame;
    registers.rdi = signal as u64;
    registers.rsi = frame.wrapping_add(core::mem::offset_of!(Frame, info) as u64);
    registers.rdx = user;
    registers.rax = 0;
    registers.rflags = (registers.rflags & !FLAGS_CLEARED) | FLAGS_FIXED;
}

/// Has a function be the next thing to run, on an empty stack that ends at `stack`; its two arguments are words.
pub(crate) fn enter_call(registers: &mut Registers, entry: u64, stack: u64, arguments: [u64; 2]) {
    registers.rip = entry;
    // As after a call (System V ABI, 3.2.2).
    registers.rsp = (stack & !15).wrapping_sub(8);
    [registers.rdi, registers.rsi] = arguments;
    registers.rbp = 0;
    registers.rflags = (registers.rflags & !FLAGS_CLEARED) | FLAGS_FIXED;
}

/// Returns flags as a program may set them.
pub(crate) fn checked_flags(flags: u64) -> u64 {
    flags & FLAGS_OF_USER | FLAGS_FIXED
}

/// Returns the extended state with the notes that tell a program its size, and its address below `top`.
fn save_extended(running: &mut Running, top: u64) -> Result<(Vec<u8>, u64), Errno> {
    let bytes = running.context.extended_bytes();
    if bytes < LEGACY_BYTES + 64 {
        return Ok((Vec::new(), top));
    }
    let mut area = vec![0; bytes.checked_add(4).ok_or(Errno::EFAULT)?];
    running.context.read_extended(area.get_mut(..bytes).unwrap_or_default());
    let features = area.get(LEGACY_BYTES..LEGACY_BYTES + 8).and_then(|raw| u64::read_from_bytes(raw).ok());
    let mut note = Vec::with_capacity(48);
    note.extend_from_slice(&MAGIC1.to_le_bytes());
    note.extend_from_slice(&(area.len() as u32).to_le_bytes());
    note.extend_from_slice(&features.unwrap_or(3).to_le_bytes());
    note.extend_from_slice(&(bytes as u32).to_le_bytes());
    note.resize(48, 0);
    if let Some(place) = area.get_mut(SOFTWARE_OFFSET..LEGACY_BYTES) {
        place.copy_from_slice(&note);
    }
    if let Some(place) = area.get_mut(bytes..) {
        place.copy_from_slice(&MAGIC2.to_le_bytes());
    }
    let at = top.checked_sub(area.len() as u64).ok_or(Errno::EFAULT)? & !63;
    Ok((area, at))
}

fn save(r: &Registers, fault: &FaultNote, mask: SignalSet, extended: u64) -> SavedRegisters {
    SavedRegisters {
        r8_to_r15: [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15],
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip: r.rip,
        rflags: r.rflags,
        cs: USER_CS,
        gs: 0,
        fs: 0,
        ss: USER_SS,
        error: fault.error,
        trap: fault.trap,
        old_mask: mask.0,
        fault_address: fault.address,
        extended,
        reserved: [0; 8],
    }
}

/// `rt_sigreturn()`: takes the state back from the frame. Nothing in it is believed: the program may have written it.
///
/// # Errors
/// EFAULT: the frame cannot be read or would run at an address outside of user memory; the process gets SIGSEGV.
pub(crate) async fn pop(thread: &Thread, running: &mut Running) -> Outcome {
    let user: UserFrame = thread.read_struct(running.context.registers.rsp).await?;
    if user.registers.rip >= USER_END {
        return Err(Errno::EFAULT);
    }
    restore_extended(thread, running, user.registers.extended).await?;
    restore(&mut running.context.registers, &user.registers);
    let stack = user.stack;
    if stack.flags & !(super::SS_DISABLE | SS_ONSTACK | SS_AUTODISARM) == 0 {
        thread.signals.lock().stack = AltStack::new(stack.address, stack.bytes, stack.flags & !SS_ONSTACK);
    }
    thread.set_blocked(user.mask);
    Ok(running.context.registers.rax)
}

fn restore(r: &mut Registers, saved: &SavedRegisters) {
    [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15] = saved.r8_to_r15;
    r.rdi = saved.rdi;
    r.rsi = saved.rsi;
    r.rbp = saved.rbp;
    r.rbx = saved.rbx;
    r.rdx = saved.rdx;
    r.rax = saved.rax;
    r.rcx = saved.rcx;
    r.rsp = saved.rsp;
    r.rip = saved.rip;
    r.rflags = checked_flags(saved.rflags);
}

async fn restore_extended(thread: &Thread, running: &mut Running, at: u64) -> Result<(), Errno> {
    let bytes = running.context.extended_bytes();
    if at == 0 || bytes < LEGACY_BYTES + 64 {
        return Ok(());
    }
    let mut area = vec![0; bytes];
    let legacy = area.get_mut(..LEGACY_BYTES).unwrap_or_default();
    thread.copy_in(at, legacy).await?;
    let magic = legacy.get(SOFTWARE_OFFSET..SOFTWARE_OFFSET + 4);
    let whole = magic.and_then(|raw| u32::read_from_bytes(raw).ok()) == Some(MAGIC1);
    if whole {
        let rest = area.get_mut(LEGACY_BYTES..).unwrap_or_default();
        thread.copy_in(at.checked_add(LEGACY_BYTES as u64).ok_or(Errno::EFAULT)?, rest).await?;
    } else if let Some(features) = area.get_mut(LEGACY_BYTES) {
        // Only x87 and SSE are there.
        *features = 3;
    }
    running.context.write_extended(&area);
    Ok(())
}
