//! Saved registers in a program's memory. Nothing in them is believed when they come back: the program may have written them.

use super::vcore::Vcore;
use crate::run::Running;
use crate::signal::frame::checked_flags;
use crate::{Errno, Thread};
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::pulse::{CONTEXT_MAGIC, Context, EXTENDED_BYTES_MAX, EXTENDED_OFFSET};
use gyre_machine::{Registers, USER_END, UserContext};
use zerocopy::{FromBytes, IntoBytes};

/// Contexts begin at multiples of this many bytes.
const ALIGN: u64 = 64;

/// Bytes that a saved context has on this processor.
///
/// # Errors
/// EOPNOTSUPP if the extended state has no room.
pub(super) fn bytes_of(context: &UserContext) -> Result<usize, Errno> {
    match context.extended_bytes() {
        bytes if bytes > EXTENDED_BYTES_MAX => Err(Errno::EOPNOTSUPP),
        bytes => bytes.checked_add(EXTENDED_OFFSET).ok_or(Errno::EOPNOTSUPP),
    }
}

/// # Errors
/// EINVAL: a context does not begin there.
pub(super) fn checked_place(at: u64) -> Result<u64, Errno> {
    let is_place = at != 0 && at.is_multiple_of(ALIGN) && at < USER_END;
    is_place.then_some(at).ok_or(Errno::EINVAL)
}

/// The general registers, with `rax` as the answer that the context will see.
fn head_of(context: &UserContext, rax: u64, extended_bytes: usize) -> Context {
    let r = context.registers;
    Context {
        magic: CONTEXT_MAGIC,
        extended_bytes: extended_bytes as u64,
        low: [rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp],
        high: [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15],
        rip: r.rip,
        rflags: r.rflags,
        reserved: [0; 4],
    }
}

/// The general registers as they are; the program has the rest.
pub(super) fn head(context: &UserContext) -> Context {
    head_of(context, context.registers.rax, 0)
}

/// Fills `room`, of [`bytes_of`] bytes, with the registers.
fn fill(room: &mut [u8], context: &mut UserContext, rax: u64) {
    let head = head_of(context, rax, context.extended_bytes());
    if let Some((first, rest)) = room.split_at_mut_checked(EXTENDED_OFFSET) {
        first.copy_from_slice(head.as_bytes());
        context.read_extended(rest);
    }
}

/// Saves the general registers at `at`; the program has the rest.
///
/// # Errors
/// EFAULT.
pub(super) async fn save_head(thread: &Thread, running: &mut Running, at: u64) -> Result<(), Errno> {
    thread.write_struct(at, &head(&running.context)).await
}

/// Saves the registers at `at`, with `rax` in that register.
///
/// # Errors
/// EFAULT; ENOMEM.
pub(super) async fn save(thread: &Thread, running: &mut Running, at: u64, rax: u64) -> Result<(), Errno> {
    let bytes = bytes_of(&running.context)?;
    // A virtual core has room already: a tick takes no memory.
    match running.pulse.as_deref_mut() {
        Some(Vcore { room, .. }) => {
            fill(room, &mut running.context, rax);
            thread.copy_out(at, room).await
        }
        None => {
            let mut room = vec![0; bytes];
            fill(&mut room, &mut running.context, rax);
            thread.copy_out(at, &room).await
        }
    }
}

/// A context that was read and found right.
pub(super) struct Checked {
    head: Context,
    extended: Vec<u8>,
}

/// Reads a context and checks it.
///
/// # Errors
/// EINVAL: no context, or an address or a size that no registers may hold; EFAULT; ENOMEM.
pub(super) async fn read(thread: &Thread, running: &mut Running, at: u64) -> Result<Checked, Errno> {
    let bytes = bytes_of(&running.context)?;
    let mut room = vec![0; bytes];
    thread.copy_in(checked_place(at)?, room.get_mut(..EXTENDED_OFFSET).unwrap_or_default()).await?;
    let head = room.get(..EXTENDED_OFFSET).and_then(|raw| Context::read_from_bytes(raw).ok()).ok_or(Errno::EINVAL)?;
    let extended_bytes = bytes.saturating_sub(EXTENDED_OFFSET);
    let [.., rsp] = head.low;
    let is_whole = head.extended_bytes == 0 || head.extended_bytes == extended_bytes as u64;
    let is_within = head.rip < USER_END && rsp < USER_END;
    if head.magic != CONTEXT_MAGIC || !is_whole || !is_within || head.reserved != [0; 4] {
        return Err(Errno::EINVAL);
    }
    room.drain(..EXTENDED_OFFSET);
    if head.extended_bytes == 0 {
        room.clear();
    }
    thread.copy_in(at.saturating_add(EXTENDED_OFFSET as u64), &mut room).await?;
    Ok(Checked { head, extended: room })
}

impl Checked {
    /// Makes it the registers of the thread; the segment bases stay.
    pub(super) fn restore(&self, context: &mut UserContext) {
        match self.extended.is_empty() {
            true => context.reset_extended(),
            false => context.write_extended(&self.extended),
        }
        let r = &mut context.registers;
        let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp] = self.head.low;
        let [r8, r9, r10, r11, r12, r13, r14, r15] = self.head.high;
        let (rip, rflags) = (self.head.rip, checked_flags(self.head.rflags));
        let (fs_base, gs_base) = (r.fs_base, r.gs_base);
        *r = Registers {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
            rflags,
            fs_base,
            gs_base,
        };
    }

    /// The answer that the program sees in rax.
    pub(super) fn answer(&self) -> u64 {
        self.head.low[0]
    }
}
