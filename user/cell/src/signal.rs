//! Signals of a program in a cell: who handles them, and the frame on its stack, laid out as Linux does.
//!
//! * A signal that a thread sends to another one of the process stays here.
//! * A signal that a thread causes itself, such as SIGSEGV, goes to that thread; others go to the one that runs next and lets them in.
//! * A call that the kernel has given up is made again after a handler with `SA_RESTART`.
//! * Signals without a handler are the kernel's affair.
//!
//! The kernel says which signals have come; the runtime calls the program's handler when it returns to the thread that runs.

mod frame;

use linux_raw_sys::general as nr;

pub use frame::{FRAME_BYTES, Frame};

use crate::{
    error::Errno,
    fiber::{FIBERS_MAX, FiberId, State},
    machine::Machine,
    runtime::Runtime,
};

/// Signals, numbered from 1.
pub const SIGNALS: usize = 64;
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

/// The wishes for all signals, and those that wait.
#[derive(Debug)]
pub struct Signals {
    actions: [Action; SIGNALS],
    pending: u64,
}

impl Default for Signals {
    fn default() -> Self {
        Self { actions: [Action::default(); SIGNALS], pending: 0 }
    }
}

/// The bit of a signal; none for a number that is none.
pub fn bit(signal: u32) -> u64 {
    signal.checked_sub(1).and_then(|index| 1u64.checked_shl(index)).unwrap_or(0)
}

impl Signals {
    /// The wish for a signal.
    pub fn action(&self, signal: u32) -> Option<Action> {
        self.actions.get((signal as usize).checked_sub(1)?).copied()
    }

    /// Changes it.
    pub fn set_action(&mut self, signal: u32, action: Action) {
        if let Some(place) = (signal as usize).checked_sub(1).and_then(|index| self.actions.get_mut(index)) {
            *place = action;
        }
    }

    /// Adds signals to those that wait.
    pub fn add(&mut self, bits: u64) {
        self.pending |= bits;
    }

    /// Takes the first signal that waits, is not held back and has a handler.
    fn take(&mut self, blocked: u64) -> Option<u32> {
        loop {
            let index = (self.pending & !blocked).trailing_zeros();
            let action = self.actions.get(index as usize)?;
            self.pending &= !(1 << index);
            // Others are done with by the kernel: it knows the wishes too.
            if action.is_handled() {
                return Some(index + 1);
            }
        }
    }

    fn is_waiting(&self, blocked: u64) -> bool {
        let waiting = self.pending & !blocked;
        (0..SIGNALS).any(|index| waiting >> index & 1 == 1 && self.actions[index].is_handled())
    }
}

impl<M: Machine> Runtime<M> {
    /// Calls the handlers of signals that wait, in the thread that runs.
    pub fn deliver(&mut self) {
        self.give_back();
        let come = self.machine.take_signals();
        self.signals.add(come);
        let blocked = self.fiber().blocked;
        if let Some(signal) = self.signals.take(blocked)
            && self.call_handler(signal, 0).is_err()
        {
            self.machine.die(nr::SIGSEGV);
        }
    }

    /// Calls the handler of a signal that the thread itself has caused; answers whether there is one that may be called.
    pub fn deliver_trap(&mut self, signal: u32, address: u64) -> bool {
        let is_handled = self.signals.action(signal).is_some_and(Action::is_handled);
        is_handled && self.fiber().blocked & bit(signal) == 0 && self.call_handler(signal, address).is_ok()
    }

    /// Returns whether a handler is to be called that a thread lets in.
    pub fn has_signal_for(&mut self, id: FiberId) -> bool {
        let come = self.machine.take_signals();
        self.signals.add(come);
        self.signals.is_waiting(self.fibers[id].blocked)
    }

    /// Takes a thread out of its sleep because a signal waits for it.
    pub fn interrupted(&mut self) -> Option<FiberId> {
        let come = self.machine.take_signals();
        self.signals.add(come);
        let sleeps = |state: State| matches!(state, State::Asleep(_) | State::Word { .. } | State::Card(_));
        let id = (0..FIBERS_MAX)
            .find(|id| sleeps(self.fibers[*id].state) && self.signals.is_waiting(self.fibers[*id].blocked))?;
        self.fibers[id].registers.rax = Errno::INTR.result().cast_unsigned();
        self.fibers[id].state = State::Ready;
        Some(id)
    }

    /// Lets the thread that runs begin the handler of a signal.
    fn call_handler(&mut self, signal: u32, address: u64) -> Result<(), Errno> {
        let action = self.signals.action(signal).ok_or(Errno::INVAL)?;
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
        let frame = Frame { signal, address, mask, action, registers: fiber.registers, stack: fiber.signal_stack };
        let extended = fiber.extended.0;
        self.write(place.extended, &extended)?;
        self.write(place.frame, &frame.bytes(place.extended))?;
        self.begin(frame, place.frame);
        Ok(())
    }

    fn begin(&mut self, frame: Frame, at: u64) {
        let Frame { signal, action, mask, .. } = frame;
        let fiber = self.fiber();
        let registers = &mut fiber.registers;
        [registers.rdi, registers.rsi, registers.rdx] = frame::arguments(signal, at);
        (registers.rip, registers.rsp, registers.rax) = (action.handler, at, 0);
        registers.rflags &= !frame::DIRECTION;
        fiber.blocked = mask | action.mask | if action.has(nr::SA_NODEFER) { 0 } else { bit(signal) };
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
        (fiber.registers, fiber.blocked, fiber.extended.0) = (back.registers, back.mask, extended);
        self.machine.load_extended(&mut self.fibers[current]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_are_held_back_wait_and_others_without_a_handler_go() {
        let mut signals = Signals::default();
        for signal in [10, 12] {
            signals.set_action(signal, Action { handler: 0x1000, ..Action::default() });
        }
        signals.add(bit(12) | bit(10) | bit(17));
        assert_eq!(signals.take(bit(10)), Some(12));
        assert_eq!(signals.take(bit(10)), None);
        assert_eq!(signals.take(0), Some(10));
        assert_eq!((signals.take(0), signals.pending), (None, 0));
    }

    #[test]
    fn numbers_that_are_no_signals_have_no_bit() {
        assert_eq!([bit(0), bit(1), bit(64), bit(65)], [0, 1, 1 << 63, 0]);
        assert_eq!(Signals::default().action(0), None);
        assert_eq!(Signals::default().action(65), None);
    }
}
