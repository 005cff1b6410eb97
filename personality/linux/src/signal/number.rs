//! Signals by name, and their default actions.

use super::set::SignalSet;
use linux_raw_sys::general as raw;

macro_rules! signals {
    ($($name:ident)*) => {
        $(#[allow(missing_docs, reason = "the names are Linux's")] pub const $name: i32 = raw::$name as i32;)*
    };
}

signals! {
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
    SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGSYS
}

/// The effect of a signal for which the program has set no action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// Ends the process. (Linux dumps core for some; Gyre does not, and says so in the wait status.)
    End,
    /// Nothing.
    Ignore,
    /// Stops the process.
    Stop,
    /// Continues it.
    Continue,
}

/// Returns the default action of a signal (signal(7)).
pub fn default_of(signal: i32) -> Default {
    match signal {
        SIGCHLD | SIGURG | SIGWINCH => Default::Ignore,
        SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => Default::Stop,
        SIGCONT => Default::Continue,
        _ => Default::End,
    }
}

/// Those that cannot be blocked, caught or ignored.
pub const UNSTOPPABLE: SignalSet = SignalSet::of_all(&[raw::SIGKILL, raw::SIGSTOP]);
/// Those that stop by default.
pub const STOPPING: SignalSet = SignalSet::of_all(&[raw::SIGSTOP, raw::SIGTSTP, raw::SIGTTIN, raw::SIGTTOU]);
/// Those that the program causes by an instruction; delivered first.
pub const SYNCHRONOUS: SignalSet =
    SignalSet::of_all(&[raw::SIGSEGV, raw::SIGBUS, raw::SIGILL, raw::SIGTRAP, raw::SIGFPE, raw::SIGSYS]);
