//! Debuggers: a process, the tracer, looks at threads of its tenant, the tracees, and steers them (ptrace(2); strace, gdb).
//!
//! * [`bond`] is what ties a tracee to its tracer: from TRACEME, ATTACH or SEIZE to DETACH or one's end.
//! * [`halt`] has a tracee halt, with an image of its registers, until the tracer has it go on. Its own task waits there, so its death ends that as
//!   any other wait.
//! * [`tracees`] are the threads that a process traces, and what wait tells of them.
//! * [`calls`] serves the requests; [`registers`], [`debug_registers`] and [`memory`] are what they look at.
//!
//! ```text
//!   tracee: runs --signal, call, event, interrupt--> halted (told to wait once) --CONT, SYSCALL, SINGLESTEP, DETACH--> runs
//!                                                       | LISTEN                          ^
//!                                                       '-> listens --SIGCONT, INTERRUPT--' (halts anew)
//! ```
//! A thread without a tracer reads one flag for all this where it acts on signals, and the word of [`crate::task::dispatch`] at its calls.
//!
//! Differences from Linux: any thread of the tracer's process may ask and wait; the parent of a tracee that ended is told at once, not after the tracer
//! has waited. No SINGLEBLOCK and SYSEMU (EIO), no filters of seccomp.
//!
//! Lock order: the guard of new programs ([`crate::exec::guard`]), tree, process' signals, thread's signals, tracee, tracees of a process.
//!
//! Source: ptrace(2); Linux kernel/ptrace.c, kernel/signal.c.

pub(crate) mod access;
pub(crate) mod bond;
pub mod calls;
mod debug_registers;
pub(crate) mod halt;
mod memory;
mod registers;
pub(crate) mod serve;
pub(crate) mod tracees;

pub(crate) use bond::Tracee;
pub(crate) use tracees::Tracees;

use linux_raw_sys::ptrace as raw;

bitflags::bitflags! {
    /// The wishes of a tracer for a tracee (PTRACE_O_*).
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub(crate) struct Options: u32 {
        /// Halts at calls have bit 7 in their signal.
        const MARKED_CALLS = raw::PTRACE_O_TRACESYSGOOD;
        /// A child of fork is traced too.
        const FORK = raw::PTRACE_O_TRACEFORK;
        /// A child of vfork is.
        const VFORK = raw::PTRACE_O_TRACEVFORK;
        /// A child of clone is.
        const CLONE = raw::PTRACE_O_TRACECLONE;
        /// It halts in a new program.
        const EXEC = raw::PTRACE_O_TRACEEXEC;
        /// It halts when a child of vfork has left its memory.
        const VFORK_DONE = raw::PTRACE_O_TRACEVFORKDONE;
        /// It halts before its end.
        const EXIT = raw::PTRACE_O_TRACEEXIT;
        /// It halts at a filter's word: there are no filters.
        const SECCOMP = raw::PTRACE_O_TRACESECCOMP;
        /// It is killed if its tracer ends.
        const KILLED_WITH_TRACER = raw::PTRACE_O_EXITKILL;
    }
}

/// An event at which a tracee halts (PTRACE_EVENT_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It has made a child by fork.
    Fork,
    /// By vfork.
    Vfork,
    /// By clone.
    Clone,
    /// It has a new program.
    Exec,
    /// Its child of vfork has left its memory.
    VforkDone,
    /// It is about to end.
    Exit,
}

impl Event {
    /// Returns its number in the status of wait.
    pub(crate) fn number(self) -> u32 {
        match self {
            Event::Fork => raw::PTRACE_EVENT_FORK,
            Event::Vfork => raw::PTRACE_EVENT_VFORK,
            Event::Clone => raw::PTRACE_EVENT_CLONE,
            Event::Exec => raw::PTRACE_EVENT_EXEC,
            Event::VforkDone => raw::PTRACE_EVENT_VFORK_DONE,
            Event::Exit => raw::PTRACE_EVENT_EXIT,
        }
    }

    /// Returns the option by which a tracer wants it.
    pub(crate) fn option(self) -> Options {
        match self {
            Event::Fork => Options::FORK,
            Event::Vfork => Options::VFORK,
            Event::Clone => Options::CLONE,
            Event::Exec => Options::EXEC,
            Event::VforkDone => Options::VFORK_DONE,
            Event::Exit => Options::EXIT,
        }
    }
}
