//! Events: bits that interrupts set for the core's loop.

/// A set of events that interrupts posted on a core since it last looked.
///
/// Bit 0 is the timer, bit 1 a wake-up from another core, bit 2 input on the console, bit 3 the wish for a report, bit 4 a bell that another
/// instance rang, bit 5 that a link to another instance has something; bits 8 to 63 are interrupt lines of devices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(pub u64);

impl Events {
    /// The one-shot timer of this core expired.
    pub const TIMER: u64 = 1 << 0;
    /// Another core asked this one to look at its inbox.
    pub const WAKE: u64 = 1 << 1;
    /// The console received bytes.
    pub const CONSOLE: u64 = 1 << 2;
    /// The machine's runner wants to know this core's work and the tasks that wait here.
    pub const REPORT: u64 = 1 << 3;
    /// Another instance, which shares a page with this one, has something to say.
    pub const BELL: u64 = 1 << 4;
    /// Another instance has sent something by a link to this one.
    pub const LINK: u64 = 1 << 5;
    /// The first bit that stands for a device's interrupt line.
    pub const FIRST_LINE: u32 = 8;

    /// True if nothing happened.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// The interrupt lines of devices in this set, lowest first.
    pub fn lines(self) -> impl Iterator<Item = u32> {
        (Self::FIRST_LINE..64).filter(move |line| self.0 >> line & 1 == 1)
    }
}
