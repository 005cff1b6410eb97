//! The auxiliary scheduler: who waits for a virtual core that was stopped in the scheduler's own critical section lets it run to the section's end.
//!
//! The kernel may take the processor from a virtual core anywhere, also from one that holds a lock of its scheduler. Its own ticks are masked
//! there, so it keeps its number and its section; who needs the section gives the processor away, cooperatively, until it is over.

/// Looks before the processor is given away.
const LOOKS: u32 = 64;

/// A wait for a section of another virtual core.
#[derive(Default)]
pub(crate) struct Wait {
    looks: u32,
}

impl Wait {
    /// Lets a little time pass.
    pub(crate) fn step(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            // SAFETY: takes nothing and touches no memory. By number: the function may be one of ours (`threads`).
            unsafe { libc::syscall(libc::SYS_sched_yield) };
        } else {
            std::hint::spin_loop();
        }
    }
}
