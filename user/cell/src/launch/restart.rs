//! A program that is started again when it crashes: the launcher stays as its parent.
//!
//! * A crash is an end by a signal that says so, or the runtime's own failure. A program that exits, or was killed, has ended.
//! * Between two starts lies a pause, which doubles up to [`PAUSE_MAX`]; a program that has lived for a while begins anew.
//! * Signals for the launcher go to the program.

use std::{
    io,
    process::ExitCode,
    sync::atomic::{AtomicI32, Ordering},
    time::{Duration, Instant},
};

use crate::machine::privileged::FAILED;

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A program that has lived so long is not one that crashes at its start.
const LIVED: Duration = Duration::from_secs(10);
/// Signals that say that a program did what it must not.
const CRASHES: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS];
/// Signals that are passed on.
const PASSED: [libc::c_int; 7] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT];

/// The process of the program; 0 if there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Its status, as a shell shows it.
    Status(u8),
    /// It crashed, by this signal or by the runtime's failure.
    Crash(u8),
}

/// Returns in a child process each time that the program is to start; in the launcher itself when it has ended for good.
///
/// # Errors
/// Linux's, if there is no process for it.
pub fn children(name: &str) -> io::Result<Option<ExitCode>> {
    pass_signals_on();
    let mut pause = PAUSE_FIRST;
    loop {
        let began = Instant::now();
        // SAFETY: the launcher has one thread, and the child goes on in it.
        let child = unsafe { libc::fork() };
        match child {
            0 => {
                leave_signals();
                return Ok(None);
            }
            child if child < 0 => return Err(io::Error::last_os_error()),
            child => CHILD.store(child, Ordering::SeqCst),
        }
        let status = match wait(child)? {
            End::Status(status) => return Ok(Some(ExitCode::from(status))),
            End::Crash(status) => status,
        };
        CHILD.store(0, Ordering::SeqCst);
        pause = if began.elapsed() >= LIVED { PAUSE_FIRST } else { pause };
        eprintln!("gyre-cell: {name} crashed with status {status}; it starts again in {} ms", pause.as_millis());
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn wait(child: libc::pid_t) -> io::Result<End> {
    let mut status = 0;
    loop {
        // SAFETY: the place for the status is there.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(end_of(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn end_of(status: libc::c_int) -> End {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        let shown = 128 + signal as u8;
        return if CRASHES.contains(&signal) { End::Crash(shown) } else { End::Status(shown) };
    }
    match libc::WEXITSTATUS(status) as u8 {
        code if u64::from(code) == FAILED => End::Crash(code),
        code => End::Status(code),
    }
}

extern "C" fn pass_on(signal: libc::c_int) {
    let child = CHILD.load(Ordering::SeqCst);
    if child > 0 {
        // SAFETY: it sends a signal to a child that was not waited for yet.
        unsafe { libc::kill(child, signal) };
    } else {
        // Between two starts: the launcher ends.
        // SAFETY: it ends the process at once.
        unsafe { libc::_exit(128 + signal) };
    }
}

fn pass_signals_on() {
    for signal in PASSED {
        // SAFETY: the handler does nothing but send a signal, or end.
        unsafe { libc::signal(signal, pass_on as *const () as libc::sighandler_t) };
    }
}

fn leave_signals() {
    for signal in PASSED {
        // SAFETY: it takes the handler away.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_signals_of_faults_and_the_failure_of_the_runtime() {
        assert_eq!(end_of(libc::SIGSEGV), End::Crash(139));
        assert_eq!(end_of(libc::SIGKILL), End::Status(137));
        assert_eq!(end_of(3 << 8), End::Status(3));
        assert_eq!(end_of((FAILED as libc::c_int) << 8), End::Crash(250));
    }
}
