//! Signals that wait for the process, what is known of each, and the program's wishes.

use linux_raw_sys::general as nr;

use super::{Action, DEFAULT, IGNORE, bit};

/// Signals, numbered from 1.
pub const SIGNALS: usize = 64;

/// `si_code` of a signal that was sent to a thread (asm-generic/siginfo.h).
const SI_TKILL: i32 = -6;
/// `si_code` of a signal of the kernel's.
const SI_KERNEL: i32 = 0x80;

/// Why a signal came: `si_code`, and the words of `siginfo_t` that depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Info {
    /// Its reason.
    pub code: i32,
    /// Sender and user, or the address of a fault; then status or value.
    pub details: [u64; 3],
}

impl Info {
    /// A thread of the program has sent it.
    pub fn of_thread(pid: u32, user: u32) -> Self {
        Self { code: SI_TKILL, details: [u64::from(pid) | u64::from(user) << 32, 0, 0] }
    }

    /// The thread has caused it itself, by an address.
    pub fn of_fault(code: i32, address: u64) -> Self {
        Self { code, details: [address, 0, 0] }
    }

    /// The thread has caused it itself; nothing else is known.
    pub fn of_kernel() -> Self {
        Self::of_fault(SI_KERNEL, 0)
    }

    /// Reads it from the words of a `siginfo_t`.
    pub fn of_words([_, code, first, second, third]: [u64; INFO_WORDS]) -> Self {
        Self { code: code as u32 as i32, details: [first, second, third] }
    }
}

/// Words of a `siginfo_t` that are kept.
pub const INFO_WORDS: usize = 5;

/// A signal that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Come {
    /// Its number.
    pub signal: u32,
    /// Its reason and sender.
    pub info: Info,
}

impl Come {
    /// The first words of its `siginfo_t`; the others are zeros.
    pub fn words(self) -> [u64; INFO_WORDS] {
        let [first, second, third] = self.info.details;
        [self.signal.into(), self.info.code.cast_unsigned().into(), first, second, third]
    }
}

/// The deed for a signal that is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// The program's handler runs.
    Handle,
    /// The process ends.
    End,
    /// Nothing. A cell is not stopped.
    Nothing,
}

/// The wishes for all signals, and those that wait for any thread that lets them in.
#[derive(Debug)]
pub struct Signals {
    actions: [Action; SIGNALS],
    pending: u64,
    infos: [Info; SIGNALS],
    /// The reason and sender of a signal that a thread of the program sends.
    pub own: Info,
    /// Signals that all threads hold back, as the ground knows.
    pub held: u64,
}

impl Signals {
    /// None wait. Signals of the program's own come from this process and user.
    pub fn new(pid: u32, user: u32) -> Self {
        let own = Info::of_thread(pid, user);
        Self { actions: [Action::default(); SIGNALS], pending: 0, infos: [Info::default(); SIGNALS], own, held: 0 }
    }

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

    /// The deed for a signal, as the program wishes, or as Linux does by itself (signal(7)).
    pub fn deed(&self, signal: u32) -> Deed {
        match (self.action(signal).unwrap_or_default().handler, signal) {
            (IGNORE, _) => Deed::Nothing,
            (DEFAULT, nr::SIGCHLD | nr::SIGURG | nr::SIGWINCH | nr::SIGCONT) => Deed::Nothing,
            (DEFAULT, nr::SIGSTOP | nr::SIGTSTP | nr::SIGTTIN | nr::SIGTTOU) => Deed::Nothing,
            (DEFAULT, _) => Deed::End,
            _ => Deed::Handle,
        }
    }

    /// Signals that wait.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Adds one to those that wait.
    pub fn add(&mut self, come: Come) {
        if let Some(place) = (come.signal as usize).checked_sub(1).and_then(|index| self.infos.get_mut(index)) {
            *place = come.info;
            self.pending |= bit(come.signal);
        }
    }

    /// Takes the first one of these that waits.
    pub fn take(&mut self, wanted: u64) -> Option<Come> {
        let index = (self.pending & wanted).trailing_zeros();
        let info = *self.infos.get(index as usize)?;
        self.pending &= !(1 << index);
        Some(Come { signal: index + 1, info })
    }

    /// Forgets signals: they are ignored from now on.
    pub fn forget(&mut self, bits: u64) {
        self.pending &= !bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(signal: u32) -> Come {
        Come { signal, info: Info { code: -2, details: [signal.into(), 7, 8] } }
    }

    #[test]
    fn signals_wait_until_they_are_wanted_with_what_is_known_of_them() {
        let mut signals = Signals::new(5, 6);
        [12, 10, 64, 65, 0].into_iter().for_each(|signal| signals.add(come(signal)));
        assert_eq!(signals.take(!bit(10)), Some(come(12)));
        assert_eq!(signals.take(bit(12)), None);
        assert_eq!(signals.pending(), bit(10) | bit(64));
        signals.forget(bit(10));
        assert_eq!([signals.take(u64::MAX), signals.take(u64::MAX)], [Some(come(64)), None]);
        let words = come(10).words();
        assert_eq!((words[0], Info::of_words(words)), (10, come(10).info));
    }

    #[test]
    fn a_signal_without_a_wish_does_what_linux_does() {
        let mut signals = Signals::new(0, 0);
        signals.set_action(10, Action { handler: 0x1000, ..Action::default() });
        signals.set_action(12, Action { handler: IGNORE, ..Action::default() });
        let deeds = [10, 12, 15, 17, 19, 34].map(|signal| signals.deed(signal));
        let (end, nothing) = (Deed::End, Deed::Nothing);
        assert_eq!(deeds, [Deed::Handle, nothing, end, nothing, nothing, end]);
    }
}
