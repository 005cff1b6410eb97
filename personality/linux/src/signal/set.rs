//! Sets of signals.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The number of the last signal.
pub const SIGNAL_MAX: i32 = 64;
/// The first real-time signal.
pub const SIGNAL_REALTIME: i32 = 32;

/// A set of signals, as `sigset_t` of the kernel: bit n-1 stands for signal n.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// None.
    pub const EMPTY: SignalSet = SignalSet(0);

    /// Returns the set of one signal; empty for numbers that are none.
    pub const fn of(signal: i32) -> SignalSet {
        match signal {
            1..=SIGNAL_MAX => SignalSet(1u64.wrapping_shl(signal.wrapping_sub(1).cast_unsigned())),
            _ => SignalSet(0),
        }
    }

    /// Returns the set of several.
    pub const fn of_all(signals: &[u32]) -> SignalSet {
        let mut bits = 0;
        let mut index = 0;
        while index < signals.len() {
            bits |= SignalSet::of(signals[index] as i32).0;
            index = index.wrapping_add(1);
        }
        SignalSet(bits)
    }

    /// Returns whether the signal is in it.
    pub const fn has(self, signal: i32) -> bool {
        self.0 & SignalSet::of(signal).0 != 0
    }

    /// Returns the union of both.
    pub const fn and(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 | other.0)
    }

    /// Returns this without the other.
    pub const fn without(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 & !other.0)
    }

    /// Returns the intersection of both.
    pub const fn common(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 & other.0)
    }

    /// Returns whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the lowest signal in it.
    pub fn first(self) -> Option<i32> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() as i32).wrapping_add(1))
    }
}
