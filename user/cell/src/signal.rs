//! Signals of a program in a cell: who handles them, and the frame on its stack, laid out as Linux does.
//!
//! * A signal that a thread sends to another one of the process stays here and goes to that thread. If there is but one, and it holds the signal
//!   back, the kernel gets it: there others can read it (signalfd).
//! * A signal that a thread causes itself, such as SIGSEGV, goes to that thread; others go to the one that runs next and lets them in.
//! * A call that was given up is made again after a handler with `SA_RESTART`.
//! * Signals that all threads hold back wait outside ([`Runtime::hold`]); those without a handler are the kernel's affair.
//!
//! The kernel says which signals have come; the runtime calls the program's handler when it returns to the thread that runs.

mod frame;
mod wait;
mod waiting;

use linux_raw_sys::general as nr;

pub use frame::{FRAME_BYTES, Frame};
pub use waiting::{Come, Deed, INFO_WORDS, Info, SIGNALS, Signals};

use crate::{error::Errno, machine::Machine, runtime::Runtime};

/// These signals cannot be held back.
pub const UNBLOCKABLE: u64 = 1 << (nr::SIGKILL - 1) | 1 << (nr::SIGSTOP - 1);
const DEFAULT: u64 = 0;
const IGNORE: u64 = 1;
/// Bytes of the instruction `syscall`.
const CALL_BYTES: u64 = 2;

/// Returns whether a call is made again after a handler that wishes so (signal(7)): all but those that wait for events or a time.
fn goes_on(number: u32) -> bool {
    !matches!(
        number,
        nr::__NR_poll
            | nr::__NR_ppoll
            | nr::__NR_select
            | nr::__NR_pselect6
            | nr::__NR_epoll_wait
            | nr::__NR_epoll_pwait
            | nr::__NR_epoll_pwait2
            | nr::__NR_rt_sigtimedwait
            | nr::__NR_io_getevents
    )
}

/// A program's wish for a signal, as rt_sigaction has it in memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Action {
    /// The handler's address; 0 is what Linux does by itself, 1 nothing.
    pub handler: u64,
    /// Bits `SA_`.
    pub flags: u64,
    /// The code that the handler returns to.
    pub restorer: u64,
    /// Signals that are held back meanwhile.
    pub mask: u64,
}

impl Action {
    /// Reads it.
    pub fn of_words([handler, flags, restorer, mask]: [u64; 4]) -> Self {
        Self { handler, flags, restorer, mask }
    }

    /// Writes it.
    pub fn words(self) -> [u64; 4] {
        [self.handler, self.flags, self.restorer, self.mask]
    }

    /// Returns whether the program has code for it.
    pub fn is_handled(self) -> bool {
        !matches!(self.handler, DEFAULT | IGNORE)
    }

    fn has(self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }
}

/// The bit of a signal; none for a number that is none.
pub fn bit(signal: u32) -> u64 {
    signal.checked_sub(1).and_then(|index| 1u64.checked_shl(index)).unwrap_or(0)
}

impl<M: Machine> Runtime<M> {
    /// Calls the handlers of signals that wait, in the thread that runs. One that another thread lets in ends the wait of that one.
    pub fn deliver(&mut self) {
        self.give_back();
        self.collect_signals();
        while let Some(come) = self.take_for(self.current) {
            if self.call_handler(come).is_err() {
                self.machine.die(nr::SIGSEGV);
            }
        }
        // A wait under another mask is over without a handler.
        if let Some(before) = self.fiber().blocked_before.take() {
            self.fiber().blocked = before;
            self.hold();
        }
        if self.signals.pending() & self.fiber().blocked != 0 {
            self.rouse();
        }
    }

    /// Calls the handler of a signal that the thread itself has caused; answers whether there is one that may be called.
    pub fn deliver_trap(&mut self, come: Come) -> bool {
        let is_handled = self.signals.deed(come.signal) == Deed::Handle;
        is_handled && self.fiber().blocked & bit(come.signal) == 0 && self.call_handler(come).is_ok()
    }

    /// Lets the thread that runs begin the handler of a signal.
    fn call_handler(&mut self, come: Come) -> Result<(), Errno> {
        let action = self.signals.action(come.signal).ok_or(Errno::INVAL)?;
        self.files.drop_bytes();
        let current = self.current;
        self.machine.save_extended(&mut self.fibers[current]);
        let fiber = &mut self.fibers[current];
        if core::mem::take(&mut fiber.is_interrupted) && action.has(nr::SA_RESTART) && goes_on(fiber.call.number) {
            fiber.registers.rip = fiber.registers.rip.wrapping_sub(CALL_BYTES);
            fiber.registers.rax = fiber.call.number.into();
        }
        let place = frame::place(fiber.registers.rsp, fiber.signal_stack, action);
        let mask = fiber.blocked_before.take().unwrap_or(fiber.blocked);
        let frame = Frame { come, mask, action, registers: fiber.registers, stack: fiber.signal_stack };
        let extended = fiber.extended.0;
        self.write(place.extended, &extended)?;
        self.write(place.frame, &frame.bytes(place.extended))?;
        self.begin(frame, place.frame);
        Ok(())
    }

    fn begin(&mut self, frame: Frame, at: u64) {
        let Frame { come: Come { signal, .. }, action, .. } = frame;
        let fiber = self.fiber();
        let registers = &mut fiber.registers;
        [registers.rdi, registers.rsi, registers.rdx] = frame::arguments(signal, at);
        (registers.rip, registers.rsp, registers.rax) = (action.handler, at, 0);
        registers.rflags &= !frame::DIRECTION;
        let own = if action.has(nr::SA_NODEFER) { 0 } else { bit(signal) };
        // Of the mask under which the thread has waited.
        fiber.blocked = (fiber.blocked | action.mask | own) & !UNBLOCKABLE;
        self.hold();
        if action.has(nr::SA_RESETHAND) {
            self.signals.set_action(signal, Action::default());
        }
    }

    /// Goes back to where a handler was called from; the stack pointer stands behind its return address.
    ///
    /// # Errors
    /// `EFAULT` if there is no frame.
    pub fn return_from_handler(&mut self) -> Result<(), Errno> {
        let at = self.fiber().registers.rsp.wrapping_sub(8);
        let bytes = self.read::<FRAME_BYTES>(at)?;
        let back = frame::back(&bytes);
        let extended = self.read(back.extended)?;
        let current = self.current;
        let fiber = &mut self.fibers[current];
        (fiber.registers, fiber.blocked, fiber.extended.0) = (back.registers, back.mask & !UNBLOCKABLE, extended);
        self.hold();
        self.machine.load_extended(&mut self.fibers[current]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_signals_have_no_bit() {
        assert_eq!([bit(0), bit(1), bit(64), bit(65)], [0, 1, 1 << 63, 0]);
        assert_eq!(Signals::new(0, 0).action(0), None);
        assert_eq!(Signals::new(0, 0).action(65), None);
    }
}
