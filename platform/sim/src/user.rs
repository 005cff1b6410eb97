//! User programs on a host are scripts: a queue of traps that the "program" runs into.

use gyre_platform::{Breakpoints, Exit, Registers, Trap};
use std::collections::VecDeque;

/// The state of a thread that does not run: integer registers and the extended state (FPU, SSE, AVX).
pub struct UserContext {
    /// Integer registers, segment bases included.
    pub registers: Registers,
    /// The traps this pretended program will run into, each with the cycles it computes before.
    pub script: VecDeque<(u64, Trap)>,
    breakpoints: Breakpoints,
}

impl Default for UserContext {
    fn default() -> UserContext {
        UserContext { registers: Registers::default(), script: VecDeque::new(), breakpoints: Breakpoints::NONE }
    }
}

/// True if programs may have breakpoints of the processor.
pub fn has_breakpoints() -> bool {
    true
}

impl UserContext {
    /// Makes a context with all registers zero and the extended state as after reset.
    ///
    /// # Errors
    /// [`gyre_platform::OutOfMemory`].
    pub fn new() -> Result<UserContext, gyre_platform::OutOfMemory> {
        Ok(UserContext::default())
    }

    /// A copy with the same extended state and no breakpoints (fork, clone).
    ///
    /// # Errors
    /// [`gyre_platform::OutOfMemory`].
    pub fn duplicate(&self) -> Result<UserContext, gyre_platform::OutOfMemory> {
        Ok(UserContext { registers: self.registers, script: self.script.clone(), breakpoints: Breakpoints::NONE })
    }

    /// The breakpoints that the program has. None of them is ever hit.
    pub fn breakpoints(&self) -> Breakpoints {
        self.breakpoints
    }

    /// Gives the program these breakpoints instead of those that it has.
    pub fn set_breakpoints(&mut self, breakpoints: Breakpoints) {
        self.breakpoints = breakpoints;
    }

    /// Saves the extended state from this core's registers if it lies there. Must be called before the thread leaves the core.
    pub fn park(&mut self) {}

    /// Resets the extended state (execve).
    pub fn reset_extended(&mut self) {}

    /// Length in bytes of the extended state in the layout of XSAVE, for signal frames.
    pub fn extended_bytes(&self) -> usize {
        0
    }

    /// Components of the extended state that are on, a bit each (XCR0).
    pub fn extended_components(&self) -> u64 {
        0
    }

    /// Copies the extended state out (XSAVE standard layout).
    pub fn read_extended(&mut self, _into: &mut [u8]) {}

    /// Replaces the extended state; reserved bits are cleared, so that any bytes are safe.
    pub fn write_extended(&mut self, _from: &[u8]) {}
}

/// Runs a program until it traps: computes for the cycles of the script's first entry, cut short by this core's timer and by events
/// that are pending. An empty script computes until it is interrupted.
pub fn enter_user(context: &mut UserContext, _table: &crate::TableRoot) -> Exit {
    let core = crate::core_index();
    let now = crate::now();
    let until_timer = crate::armed_timer(core).map_or(u64::MAX, |at| at.saturating_sub(now));
    let budget = if crate::events_pending(core) { 0 } else { until_timer };
    let trap = match context.script.front_mut() {
        Some((cycles, _)) if *cycles > budget => {
            *cycles -= budget;
            crate::advance(budget);
            Trap::Interrupt
        }
        Some(_) => {
            let (cycles, trap) = context.script.pop_front().unwrap_or((0, Trap::Interrupt));
            crate::advance(cycles);
            trap
        }
        None => {
            // Without a timer nothing would ever interrupt it: a test that forgot one still ends.
            crate::advance(if budget == u64::MAX { 0 } else { budget });
            Trap::Interrupt
        }
    };
    let entered_at_cycles = crate::now();
    crate::mark_work(entered_at_cycles);
    Exit { trap, entered_at_cycles }
}
