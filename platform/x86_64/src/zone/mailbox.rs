//! The mailbox of a parked core: one word that says for what the core waits, and where it then goes.
//!
//! The word is changed by compare and exchange alone, by the supervisor and by the core, and each change of the supervisor's bears a new
//! number. So a core that looked before a change never acts on what it saw then.

use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a core's mailbox and stack together.
pub(crate) const SLOT_BYTES: usize = 256;
/// Hardware ids that have a slot: those of eight bits, as the processor tells them without x2APIC.
pub(crate) const SLOTS: usize = 256;

/// Elsewhere: in an instance, on its way, or not yet there.
pub(crate) const AWAY: u64 = 0;
/// In the loop, at nobody's disposal but the supervisor's.
pub(crate) const IDLE: u64 = 1;
/// In the loop, waiting at the box of an instance.
pub(crate) const BOXED: u64 = 2;
/// Ordered into a function in 64-bit mode.
pub(crate) const ENTER: u64 = 3;
/// Ordered to the entry of a new instance in 32-bit mode.
pub(crate) const START: u64 = 4;

const STATE: u64 = 63;
const BOX: u64 = 0xffff_ffc0;
const NUMBER: u64 = 1 << 32;

/// For what a parked core waits. It is 64 bytes long.
#[repr(C, align(64))]
pub(crate) struct Mailbox {
    /// State in bits 0 to 5, physical address of the box at which the core waits in bits 6 to 31, number of the supervisor's change above.
    pub(crate) word: AtomicU64,
    /// The page table that it loads, for [`ENTER`].
    pub(crate) root: AtomicU64,
    /// The stack there, for [`ENTER`].
    pub(crate) stack: AtomicU64,
    /// The function, for [`ENTER`]; the entry's physical address, for [`START`].
    pub(crate) entry: AtomicU64,
    /// Its argument: in rdi for [`ENTER`], in ebx for [`START`].
    pub(crate) argument: AtomicU64,
    /// How often the core has come by the trampoline; the core counts.
    pub(crate) starts: AtomicU64,
}

/// The way of a core into an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// The page table that it loads; without a meaning for [`START`].
    pub(crate) root: u64,
    /// Its stack there; without a meaning for [`START`].
    pub(crate) stack: u64,
    /// The code that it enters.
    pub(crate) entry: u64,
    /// Its argument.
    pub(crate) argument: u64,
}

/// The core is not in the state that the order needs; this is its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotSo(pub(crate) u64);

impl Mailbox {
    /// Its state.
    pub(crate) fn state(&self) -> u64 {
        self.word.load(Ordering::Acquire) & STATE
    }

    /// Lets the core, which is idle, wait at the box with this physical address from now on; a multiple of 64 below 4 GiB.
    ///
    /// # Errors
    /// [`NotSo`] if it is not idle.
    pub(crate) fn wait_at(&self, place: u64) -> Result<(), NotSo> {
        self.change(IDLE, |word| next(word) & !BOX | place & BOX | BOXED)
    }

    /// Orders the core, which is idle, to a function in 64-bit mode or (by [`START`]) to a new instance. When it comes back it waits at the box
    /// with this physical address; 0 is none.
    ///
    /// # Errors
    /// [`NotSo`] if it is not idle.
    pub(crate) fn order(&self, order: u64, target: Target, place: u64) -> Result<(), NotSo> {
        let state = self.state();
        if state != IDLE {
            return Err(NotSo(state));
        }
        self.root.store(target.root, Ordering::Relaxed);
        self.stack.store(target.stack, Ordering::Relaxed);
        self.entry.store(target.entry, Ordering::Relaxed);
        self.argument.store(target.argument, Ordering::Relaxed);
        self.change(IDLE, |word| next(word) & !BOX | place & BOX | order)
    }

    /// Takes an order back that the core has not followed yet: it is idle again.
    ///
    /// # Errors
    /// [`NotSo`] if it has gone.
    pub(crate) fn withdraw(&self, order: u64) -> Result<(), NotSo> {
        self.change(order, |word| next(word) & !BOX | IDLE)
    }

    /// Takes the core from the box at which it waits, or will wait when it comes back; returns its state from then on: [`IDLE`] if it was in the
    /// loop, else [`AWAY`].
    pub(crate) fn leave_box(&self) -> u64 {
        let state = |word: u64| if word & STATE == AWAY { AWAY } else { IDLE };
        let update = |word: u64| Some(next(word) & !BOX | state(word));
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            Ok(word) | Err(word) => state(word),
        }
    }

    /// Takes the core from the box at which it waits; an idle one has none.
    ///
    /// # Errors
    /// [`NotSo`] if it does not wait there: it may be on its way.
    pub(crate) fn leave_box_if_there(&self) -> Result<(), NotSo> {
        match self.change(BOXED, |word| next(word) & !BOX | IDLE) {
            Err(NotSo(IDLE)) => Ok(()),
            other => other,
        }
    }

    /// Says that the core is about to be reset, wherever it is. When it comes it is idle.
    pub(crate) fn forget(&self) {
        let update = |word: u64| Some(next(word) & !BOX | AWAY);
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    fn change(&self, from: u64, new: impl Fn(u64) -> u64) -> Result<(), NotSo> {
        let update = |word: u64| (word & STATE == from).then(|| new(word));
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, update)
            .map(drop)
            .map_err(|word| NotSo(word & STATE))
    }
}

/// The word with the next number and no state.
fn next(word: u64) -> u64 {
    word.wrapping_add(NUMBER) & !STATE
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { root: 1, stack: 2, entry: 3, argument: 4 };

    fn mailbox(word: u64) -> Mailbox {
        let zero = || AtomicU64::new(0);
        Mailbox {
            word: AtomicU64::new(word),
            root: zero(),
            stack: zero(),
            entry: zero(),
            argument: zero(),
            starts: zero(),
        }
    }

    #[test]
    fn a_mailbox_and_a_stack_fill_a_slot() {
        assert_eq!(size_of::<Mailbox>(), 64);
        assert_eq!(SLOT_BYTES % 64, 0);
    }

    #[test]
    fn only_an_idle_core_is_given_away() {
        for state in [AWAY, BOXED, ENTER, START] {
            assert_eq!(mailbox(state).wait_at(64), Err(NotSo(state)));
            assert_eq!(mailbox(state).order(ENTER, TARGET, 0), Err(NotSo(state)));
        }
        let idle = mailbox(IDLE);
        assert_eq!(idle.order(START, TARGET, 0x2000_0040), Ok(()));
        assert_eq!(idle.word.load(Ordering::Relaxed), 1 << 32 | 0x2000_0040 | START);
        assert_eq!(idle.argument.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn an_order_that_was_taken_back_is_not_followed_later() {
        let mailbox = mailbox(IDLE);
        assert_eq!(mailbox.order(ENTER, TARGET, 0x1000), Ok(()));
        let seen = mailbox.word.load(Ordering::Relaxed);
        assert_eq!((mailbox.withdraw(ENTER), mailbox.state()), (Ok(()), IDLE));
        let went = mailbox.word.compare_exchange(seen, seen & !STATE, Ordering::Relaxed, Ordering::Relaxed);
        assert!(went.is_err(), "the core follows an order that is no more");
        assert_eq!(mailbox.order(START, TARGET, 0), Ok(()), "it can be called again");
        mailbox.word.fetch_and(!STATE, Ordering::Relaxed);
        assert_eq!(mailbox.withdraw(START), Err(NotSo(AWAY)), "it has gone");
    }

    #[test]
    fn a_core_that_saw_its_box_before_it_was_taken_away_does_not_go() {
        let mailbox = mailbox(IDLE);
        assert_eq!(mailbox.wait_at(0x1000), Ok(()));
        let seen = mailbox.word.load(Ordering::Relaxed);
        assert_eq!(mailbox.leave_box(), IDLE);
        assert_eq!(mailbox.wait_at(0x1000), Ok(()));
        let went = mailbox.word.compare_exchange(seen, seen & !STATE, Ordering::Relaxed, Ordering::Relaxed);
        assert!(went.is_err(), "the core goes to a box of which it knows nothing");
    }

    #[test]
    fn a_core_leaves_its_box_only_from_the_loop() {
        assert_eq!(mailbox(0x1000 | BOXED).leave_box_if_there(), Ok(()));
        assert_eq!(mailbox(IDLE).leave_box_if_there(), Ok(()));
        assert_eq!(mailbox(0x1000 | AWAY).leave_box_if_there(), Err(NotSo(AWAY)));
        assert_eq!(mailbox(0x1000 | START).leave_box_if_there(), Err(NotSo(START)));
    }

    #[test]
    fn a_core_that_is_away_comes_back_idle_once_its_box_is_gone() {
        let mailbox = mailbox(0x1000 | AWAY);
        assert_eq!(mailbox.leave_box(), AWAY);
        assert_eq!(mailbox.word.load(Ordering::Relaxed) & 0xffff_ffff, 0);
    }
}
