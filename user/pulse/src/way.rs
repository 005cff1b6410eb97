//! The two ways by which ticks come and contexts go on.

use std::io;

use crate::{core::Core, native, signals};

/// The way in which this kernel is asked for ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Native calls of Gyre.
    Native,
    /// Timers and signals.
    Signals,
}

impl Way {
    /// The way that this kernel has; `GYRE_PULSE=signals` asks for signals on Gyre, too.
    pub fn of_kernel() -> Way {
        let is_wanted = std::env::var_os("GYRE_PULSE").is_some_and(|word| word == "signals");
        if is_wanted || !native::is_offered() { Way::Signals } else { Way::Native }
    }

    /// Makes the calling thread a virtual core with a tick each `period_ns`, 0 for none.
    pub(crate) fn begin(self, core: &Core, period_ns: u64, limit_ns: u64) -> io::Result<()> {
        match self {
            Way::Native => native::begin(core, period_ns, limit_ns),
            Way::Signals => signals::begin(core, period_ns, limit_ns),
        }
    }

    /// Makes it an ordinary thread again.
    pub(crate) fn end(self) {
        match self {
            Way::Native => native::end(),
            Way::Signals => signals::end(),
        }
    }

    /// Goes on in a context, and lets ticks in, as one step.
    pub(crate) fn restore(self, core: &Core, context: u64) -> ! {
        match self {
            Way::Native => native::restore(core, context),
            Way::Signals => signals::restore(context),
        }
    }
}
