//! The things that a guest does without leaving.

use super::permissions::Ports;

/// The taker of the interrupts that arrive while the guest runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// The host: each ends the stay, also if the guest has switched interrupts off.
    Held,
    /// The guest, through its own table, without leaving. Only an NMI ends the stay from outside. It owns the core's interrupt
    /// controller in all but name: whoever takes the core back sets that up anew.
    Direct,
}

/// The effect of HLT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// It ends the stay.
    Leaves,
    /// The core waits inside.
    Stays,
}

/// The things that a guest may do by itself. It is held back from all ports but those listed, and from all model-specific registers but those
/// listed and those that it has for itself.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The taker of interrupts.
    pub interrupts: Interrupts,
    /// The effect of HLT.
    pub halt: Halt,
    /// Ports that it reaches.
    pub ports: &'a [Ports],
    /// Model-specific registers that it reaches. The machine's own cannot be opened: [`super::NoGuest::Forbidden`].
    pub registers: &'a [u32],
}
