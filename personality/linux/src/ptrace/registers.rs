//! The registers of a tracee that halts, as debuggers know them (arch/x86/include/uapi/asm/ptrace.h, sys/user.h).
//!
//! An [`Image`] is taken when the tracee halts and given back when it goes on; requests look at the image alone.

use super::debug_registers::DebugRegisters;
use crate::run::Running;
use crate::signal::frame::checked_flags;
use crate::{Errno, Thread};
use alloc::vec;
use alloc::vec::Vec;
use gyre_machine::{Registers, USER_END};

/// Words of `struct user_regs_struct`.
pub(super) const WORDS: usize = 27;
/// The length of `struct user`, bytes: what PEEKUSER may look at.
pub(super) const USER_BYTES: u64 = 912;
/// The place of the debug registers in it, in words.
pub(super) const DEBUG_REGISTERS: usize = 848 / 8;
/// The length of `struct user_fpregs_struct`, bytes: the area that FXSAVE knows.
pub(super) const LEGACY_BYTES: usize = 512;
/// The place in that area where a debugger finds the components that are on.
const COMPONENTS_OFFSET: usize = 464;
/// Components in the header behind that area (XSTATE_BV).
const X87: u8 = 1;
const SSE: u8 = 2;
const ORIGINAL_RAX: usize = 15;
const RIP: usize = 16;
const FLAGS: usize = 18;
const USER_CS: u64 = 0x33;
const USER_SS: u64 = 0x2b;

/// No call: the word of a tracee that is in none.
pub(crate) const NO_CALL: u64 = u64::MAX;

/// The registers of a tracee that halts.
pub(super) struct Image {
    registers: Registers,
    /// The number of the call that it is in or that is to be repeated (`orig_rax`), or [`NO_CALL`].
    pub(super) call: u64,
    extended: Vec<u8>,
    is_extended_changed: bool,
    pub(super) debug: DebugRegisters,
}

impl Image {
    /// Takes an image of a thread that halts. A trap that the tracer wanted is not shown.
    pub(super) fn of(running: &mut Running) -> Image {
        running.end_step();
        let interrupted = running.interrupted.map_or(NO_CALL, |(number, _)| number);
        let call = running.ptraced.call.unwrap_or(interrupted);
        let mut extended = vec![0; running.context.extended_bytes()];
        running.context.read_extended(&mut extended);
        let components = running.context.extended_components();
        if let Some(place) = extended.get_mut(COMPONENTS_OFFSET..COMPONENTS_OFFSET + 8) {
            place.copy_from_slice(&components.to_le_bytes());
        }
        let debug = core::mem::take(&mut running.ptraced.debug);
        Image { registers: running.context.registers, call, extended, is_extended_changed: false, debug }
    }

    /// Gives the image back to the thread, which goes on with it.
    pub(super) fn apply(self, thread: &Thread, running: &mut Running) {
        running.context.registers = self.registers;
        if self.is_extended_changed {
            running.context.write_extended(&self.extended);
        }
        if let Some(call) = &mut running.ptraced.call {
            *call = self.call;
        }
        running.interrupted = self.interrupted();
        running.context.set_breakpoints(self.debug.breakpoints());
        running.ptraced.debug = self.debug;
        if thread.tracee.go() == super::bond::Go::Step {
            running.begin_step();
        }
    }

    /// Returns the call that is to be repeated, as the registers say it: a tracer may have its tracee do something else meanwhile, and put them back
    /// (Linux, `arch_do_signal_or_restart`).
    fn interrupted(&self) -> Option<(u64, Errno)> {
        let restarts = [Errno::ERESTARTSYS, Errno::ERESTARTNOINTR, Errno::ERESTARTNOHAND, Errno::ERESTART_RESTARTBLOCK];
        let error = restarts.into_iter().find(|error| error.negated() == self.result())?;
        (self.call as i64 >= 0).then_some((self.call, error))
    }

    /// Returns all of `struct user_regs_struct`.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let r = &self.registers;
        [
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi, r.rdi,
            self.call, r.rip, USER_CS, r.rflags, r.rsp, USER_SS, r.fs_base, r.gs_base, 0, 0, 0, 0,
        ]
    }

    /// Changes one word of it; selectors stay as they are.
    ///
    /// # Errors
    /// EIO for a base that is no address of a program.
    pub(super) fn set_word(&mut self, index: usize, value: u64) -> Result<(), Errno> {
        let r = &mut self.registers;
        let place = match index {
            0 => &mut r.r15,
            1 => &mut r.r14,
            2 => &mut r.r13,
            3 => &mut r.r12,
            4 => &mut r.rbp,
            5 => &mut r.rbx,
            6 => &mut r.r11,
            7 => &mut r.r10,
            8 => &mut r.r9,
            9 => &mut r.r8,
            10 => &mut r.rax,
            11 => &mut r.rcx,
            12 => &mut r.rdx,
            13 => &mut r.rsi,
            14 => &mut r.rdi,
            ORIGINAL_RAX => &mut self.call,
            RIP => &mut r.rip,
            19 => &mut r.rsp,
            21 | 22 if value >= USER_END => return Err(Errno::EIO),
            21 => &mut r.fs_base,
            22 => &mut r.gs_base,
            FLAGS => {
                r.rflags = checked_flags(value);
                return Ok(());
            }
            _ => return Ok(()),
        };
        *place = value;
        Ok(())
    }

    /// Changes all of it, from whole words at the beginning of `bytes`.
    ///
    /// # Errors
    /// As [`Image::set_word`]: those before are changed.
    pub(super) fn set_words(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        words.take(WORDS).enumerate().try_for_each(|(index, word)| self.set_word(index, word))
    }

    /// Returns the extended state in XSAVE's layout.
    pub(super) fn extended(&self) -> &[u8] {
        &self.extended
    }

    /// Changes the extended state from its beginning on. What it may not say is cleared when the tracee goes on.
    pub(super) fn set_extended(&mut self, from: &[u8]) {
        let count = from.len().min(self.extended.len());
        if let (Some(to), Some(from)) = (self.extended.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
            self.is_extended_changed = true;
        }
    }

    /// Changes the area that FXSAVE knows. Its two components are in use from then on, also if they were not.
    pub(super) fn set_legacy(&mut self, from: &[u8]) {
        self.set_extended(from.get(..LEGACY_BYTES).unwrap_or(from));
        if let Some(components) = self.extended.get_mut(LEGACY_BYTES) {
            *components |= X87 | SSE;
        }
    }

    /// Returns the place of the next instruction and the stack pointer.
    pub(super) fn places(&self) -> [u64; 2] {
        [self.registers.rip, self.registers.rsp]
    }

    /// Returns the result of a call that has been made.
    pub(super) fn result(&self) -> i64 {
        self.registers.rax as i64
    }
}
