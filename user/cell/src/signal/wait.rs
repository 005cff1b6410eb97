//! Waits of threads that end for a signal, and the mask that all threads have in common.
//!
//! A signal for one thread ends the wait of that one. A signal for the process ends one wait, of a thread that lets it in, unless somebody
//! who goes on anyway does. A call under way in the kernel is given up there, and ends as by a signal, with what it has done.

use super::{CALL_BYTES, Come, Deed, bit};
use crate::{
    call,
    error::Errno,
    fiber::{FiberId, NEVER, State},
    lines::Withdrawal,
    machine::Machine,
    runtime::Runtime,
};

impl<M: Machine> Runtime<M> {
    /// Begins with the signals that the process holds back.
    pub fn begin_holding(&mut self, held: u64) {
        (self.fiber().blocked, self.signals.held) = (held, held);
    }

    /// Says which signals all threads hold back: after each change of a mask.
    pub fn hold(&mut self) {
        let live = self.fibers.iter().take(self.fibers_end).filter(|fiber| fiber.state != State::Free);
        let held = live.fold(u64::MAX, |held, fiber| held & fiber.blocked);
        if core::mem::replace(&mut self.signals.held, held) != held {
            self.machine.hold_signals(held);
        }
    }

    /// Takes signals that wait outside, as far as there is a place for each.
    pub(super) fn collect_signals(&mut self) {
        while let Some(come) = self.machine.take_signal(!self.signals.pending()) {
            self.signals.add(come);
        }
    }

    /// Takes the next signal that a thread lets in and has a handler for. One that ends the process does so.
    pub(super) fn take_for(&mut self, id: FiberId) -> Option<Come> {
        loop {
            let come = self.take_among(id, !self.fibers[id].blocked)?;
            match self.signals.deed(come.signal) {
                Deed::Handle => return Some(come),
                Deed::Nothing => {}
                Deed::End => self.machine.die(come.signal),
            }
        }
    }

    /// Takes one of these that waits for a thread, its own ones first.
    pub fn take_among(&mut self, id: FiberId, wanted: u64) -> Option<Come> {
        let own = self.fibers[id].pending & wanted;
        if own == 0 {
            return self.signals.take(wanted);
        }
        self.fibers[id].pending &= !(own & own.wrapping_neg());
        Some(Come { signal: own.trailing_zeros() + 1, info: self.signals.own })
    }

    /// Returns whether one of these would be acted on.
    fn has_deed(&self, bits: u64) -> bool {
        bits != 0 && (1..=64).any(|signal| bits & bit(signal) != 0 && self.signals.deed(signal) != Deed::Nothing)
    }

    fn lets_in(&self, id: FiberId, bits: u64) -> bool {
        self.has_deed(bits & !self.fibers[id].blocked)
    }

    /// Returns whether a signal is to be acted on that a thread lets in.
    pub fn has_signal_for(&mut self, id: FiberId) -> bool {
        self.collect_signals();
        self.lets_in(id, self.fibers[id].pending | self.signals.pending())
    }

    /// Ends the wait of a thread for the sake of a signal, if there is one that somebody lets in who waits.
    pub fn rouse(&mut self) {
        self.collect_signals();
        let ids = 0..self.fibers_end;
        let own = ids.clone().find(|id| self.can_end_wait(*id) && self.lets_in(*id, self.fibers[*id].pending));
        if let Some(id) = own.or_else(|| self.taker(self.signals.pending())) {
            self.end_wait(id);
        }
    }

    /// The thread whose wait ends for the sake of signals of the process; none if nobody lets them in, or somebody who goes on anyway does.
    fn taker(&self, come: u64) -> Option<FiberId> {
        let first = |is_so: fn(State) -> bool| {
            let mut ids = 0..self.fibers_end;
            ids.find(|id| is_so(self.fibers[*id].state) && self.lets_in(*id, come))
        };
        if come == 0 || first(|state| state == State::Ready).is_some() {
            return None;
        }
        let here = first(|state| matches!(state, State::Asleep(_) | State::Word { .. } | State::Card(_)));
        // One is enough, also if it is asked to end already.
        let in_kernel = || first(|state| matches!(state, State::Line(_))).filter(|id| self.can_end_wait(*id));
        here.or_else(in_kernel)
    }

    fn can_end_wait(&self, id: FiberId) -> bool {
        match self.fibers[id].state {
            State::Asleep(_) | State::Word { .. } | State::Card(_) => true,
            State::Line(line) => !self.calls.is_given_up(line),
            State::Free | State::Ready | State::Disk => false,
        }
    }

    /// Ends the wait of a thread: its call answers `EINTR`, now or as soon as the kernel has given it up.
    fn end_wait(&mut self, id: FiberId) {
        match self.fibers[id].state {
            State::Asleep(_) | State::Word { .. } | State::Card(_) => {
                // A wait for a word without a limit begins anew after a handler that wishes so (futex(2)).
                let until = self.fibers[id].state;
                self.fibers[id].is_interrupted = matches!(until, State::Word { until: NEVER, .. });
                self.wake(id, Errno::INTR.result());
            }
            State::Line(line) => self.give_up(id, line),
            State::Ready if id != self.current => {
                if let Some(core) = self.core_of(id) {
                    self.machine.interrupt(core);
                }
            }
            State::Free | State::Ready | State::Disk => {}
        }
    }

    /// Does not wait for a thread's line any longer.
    fn give_up(&mut self, id: FiberId, line: usize) {
        let fiber = &self.fibers[id];
        let (is_one_of_two, is_masked) = (fiber.then.is_some(), fiber.blocked_before.is_some());
        if is_one_of_two || self.files.under.is_some() {
            // It reads a file or moves in it: it is answered soon, and the runtime has done its part already.
            return;
        }
        match self.calls.give_up(line) {
            Withdrawal::TakenBack if is_masked => self.take_answer(id, Errno::INTR.result()),
            Withdrawal::TakenBack => self.make_again(id),
            Withdrawal::Asked => self.bell_is_due(),
            Withdrawal::Late => {}
        }
    }

    /// The signal has come before the call of a thread: its registers are as they were.
    fn make_again(&mut self, id: FiberId) {
        let fiber = &mut self.fibers[id];
        fiber.registers.rip = fiber.registers.rip.wrapping_sub(CALL_BYTES);
        fiber.state = State::Ready;
        self.add(id);
    }

    /// Ends the wait that the thread that runs has begun, if a signal is to be acted on first.
    pub fn end_own_wait(&mut self) {
        let current = self.current;
        if self.has_signal_for(current) {
            self.end_wait(current);
        }
    }

    /// Sends a signal to one thread, which acts on it if it lets it in, or waits for it.
    pub fn signal_thread(&mut self, id: FiberId, signal: u32) {
        self.fibers[id].pending |= bit(signal);
        if self.lets_in(id, bit(signal)) || call::signals::awaits(self, id, bit(signal)) {
            self.end_wait(id);
        }
    }

    /// Forgets signals that wait and are ignored from now on.
    pub fn forget_signals(&mut self, bits: u64) {
        self.signals.forget(bits);
        self.fibers.iter_mut().for_each(|fiber| fiber.pending &= !bits);
    }
}
