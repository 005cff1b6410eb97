//! Why a program ends by a fault, in words: for the kernel's console, for the tenant's log (`gyre logs`) and for syslog(2).
//!
//! Only of faults that no handler takes (Linux: show_unhandled_signals). A tenant says at most [`LINES_MAX`] lines in [`PERIOD_NS`]; the
//! next line says how many were left out.

use super::{SignalInfo, action, number};
use crate::Thread;
use crate::task::messages;
use crate::time::{NS_PER_S, monotonic_ns};
use alloc::format;
use alloc::string::String;
use core::fmt;
use gyre_address_space::FaultError;
use gyre_contract::monitor::signal_name;
use gyre_machine::Access;

/// Lines of a tenant in a period.
const LINES_MAX: u32 = 10;
const PERIOD_NS: u64 = 10 * NS_PER_S;

/// An instruction's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// It touched an address in vain.
    Page { address: u64, access: Access, error: FaultError },
    /// The processor refused it, with this exception.
    Exception(u8),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::Page { address, access, .. } => write!(f, "{} {address:#x}", touch(access)),
            Cause::Exception(vector) => f.write_str(refusal(vector)),
        }
    }
}

impl Cause {
    /// Says why an address could not be touched.
    fn reason(self) -> &'static str {
        match self {
            Cause::Page { error: FaultError::NotMapped, .. } => ": nothing is mapped there",
            Cause::Page { error: FaultError::Denied, .. } => ": its mapping does not allow that",
            Cause::Page { error: FaultError::BeyondEnd, .. } => ": the file ends before it",
            Cause::Page { error: FaultError::Io, .. } => ": the file cannot be read",
            Cause::Page { error: FaultError::OutOfMemory, .. } => ": there is no memory for it",
            Cause::Exception(_) => "",
        }
    }
}

fn touch(access: Access) -> &'static str {
    match access {
        Access::Read => "read of",
        Access::Write => "write to",
        Access::Execute => "jump to",
    }
}

/// Names an exception (SDM vol. 3, table 6-1).
fn refusal(vector: u8) -> &'static str {
    match vector {
        0 => "division by zero or too large a quotient",
        4 => "overflow",
        5 => "bound exceeded",
        6 => "no valid instruction",
        12 => "stack segment fault",
        13 => "general protection fault",
        16 | 19 => "floating-point exception",
        17 => "access that is not aligned",
        _ => "exception",
    }
}

/// How much a tenant has said of its faults.
#[derive(Default)]
pub(crate) struct Told {
    since_ns: u64,
    lines: u32,
    left_out: u64,
}

impl Told {
    /// Takes note of a fault; answers how many were left out before it, or `None` if it is left out too.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns.saturating_sub(self.since_ns) >= PERIOD_NS {
            (self.since_ns, self.lines) = (now_ns, 0);
        }
        if self.lines >= LINES_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines = self.lines.saturating_add(1);
        Some(core::mem::take(&mut self.left_out))
    }
}

/// Says that a thread's instruction at `rip` brings a signal, if that ends the process. To be called before the signal is there.
pub(crate) fn tell(thread: &Thread, info: &SignalInfo, rip: u64, cause: Cause) {
    // A tracer decides what becomes of it.
    if info.signal == number::SIGTRAP || is_handled(thread, info.signal) || thread.tracee.is_on() {
        return;
    }
    let Some(left_out) = thread.tenant().told_faults.lock().admit(monotonic_ns()) else { return };
    if left_out > 0 {
        messages::publish(thread, &format!("{left_out} more processes ended by faults"));
    }
    messages::publish(thread, &line(&thread.process().name(), thread.process().id(), info.signal, (rip, cause)));
}

/// Returns whether the program has a handler that may run now.
fn is_handled(thread: &Thread, signal: i32) -> bool {
    let handler = thread.process().signals.lock().actions.get(signal).handler;
    handler != action::SIG_DFL && handler != action::SIG_IGN && !thread.signals.lock().blocked.has(signal)
}

fn line(name: &[u8], process: i32, signal: i32, (rip, cause): (u64, Cause)) -> String {
    let name = messages::plain(name);
    let signal = u8::try_from(signal).ok().and_then(signal_name).unwrap_or("a signal");
    format!("{name}[{process}] got {signal}: {cause} at rip {rip:#x}{}", cause.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_where_and_why() {
        let cause = Cause::Page { address: 0x10, access: Access::Read, error: FaultError::NotMapped };
        let text = line(b"nginx", 12, number::SIGSEGV, (0x0040_1234, cause));
        assert_eq!(text, "nginx[12] got SIGSEGV: read of 0x10 at rip 0x401234: nothing is mapped there");
        let text = line(b"a\x1b[H\n", 1, number::SIGILL, (0x1000, Cause::Exception(6)));
        assert_eq!(text, "a?[H?[1] got SIGILL: no valid instruction at rip 0x1000");
    }

    #[test]
    fn a_tenant_says_so_many_lines_and_then_how_many_more_there_were() {
        let mut told = Told::default();
        let said = (0..100).filter(|_| told.admit(PERIOD_NS).is_some()).count();
        assert_eq!(said, LINES_MAX as usize);
        assert_eq!(told.admit(PERIOD_NS * 2 - 1), None);
        assert_eq!((told.admit(PERIOD_NS * 2), told.admit(PERIOD_NS * 2)), (Some(91), Some(0)));
    }
}
