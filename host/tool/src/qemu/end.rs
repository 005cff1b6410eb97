//! How a machine has ended, in a sentence: docs/guide/when-something-fails.md lists them.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use gyre_contract::native;

/// How QEMU, and the machine with it, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In order, all file systems written back.
    Orderly,
    /// In order, but a file system could not be written back.
    NotWritten,
    /// The kernel has switched the machine off.
    SwitchedOff,
    /// The kernel panicked.
    Panicked,
    /// A core hung in the kernel.
    Hung,
    /// The kernel said what it lacks.
    NotStarted,
    /// The kernel ended with a code of its own.
    Code(u8),
    /// QEMU ended the machine: a reset or triple fault of it, or a signal to QEMU.
    Reset,
    /// QEMU itself failed.
    Qemu(i32),
    /// A signal has ended QEMU.
    Killed(i32),
}

/// The kernel's code 101, as of a Rust program that panicked.
const CODE_PANIC: i32 = 101;
/// The kernel's code if a core did not come back from a piece of work.
const CODE_HUNG: i32 = 102;
/// The kernel's code if it says on the console what it lacks.
const CODE_NO_START: i32 = 3;

impl End {
    /// Reads QEMU's status. The debug-exit device makes QEMU end with twice the kernel's code plus one; QEMU's own failures end with 1, and with words.
    pub fn of(status: ExitStatus, said: &str) -> Self {
        if let Some(signal) = status.signal() {
            return Self::Killed(signal);
        }
        let code = status.code().unwrap_or(1);
        match (code, (code - 1) / 2) {
            (0, _) => Self::Reset,
            (1, _) if !said.trim().is_empty() => Self::Qemu(code),
            (1, _) => Self::SwitchedOff,
            (_, CODE_PANIC) if code % 2 == 1 => Self::Panicked,
            (_, CODE_HUNG) if code % 2 == 1 => Self::Hung,
            (_, CODE_NO_START) if code % 2 == 1 => Self::NotStarted,
            (_, own) if code % 2 == 1 => match u8::try_from(own).unwrap_or(u8::MAX) {
                native::EXIT_ENDED => Self::Orderly,
                native::EXIT_NOT_WRITTEN => Self::NotWritten,
                own => Self::Code(own),
            },
            _ => Self::Qemu(code),
        }
    }

    /// Returns the end as a sentence without a dot.
    pub fn sentence(self) -> String {
        match self {
            Self::Orderly => "the machine has ended in order".into(),
            Self::NotWritten => "the machine has ended, but a file system could not be written back".into(),
            Self::SwitchedOff => "the machine switched itself off".into(),
            Self::Panicked => "the machine's kernel panicked".into(),
            Self::Hung => "a core hung in the machine's kernel for seconds; the console says where".into(),
            Self::NotStarted => "the machine's kernel could not start".into(),
            Self::Code(code) => format!("the machine's kernel ended with code {code}"),
            Self::Reset => "the machine was reset (a triple fault), or QEMU was asked to end it".into(),
            Self::Qemu(code) => format!("QEMU failed with code {code}"),
            Self::Killed(signal) => format!("QEMU was killed by signal {signal}, the machine with it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_kills_and_every_end_has_a_sentence_of_its_own() {
        let exit = |code: i32, said: &str| End::of(ExitStatus::from_raw(code << 8), said);
        let ends = [
            (exit(9, ""), End::Orderly),
            (exit(11, ""), End::NotWritten),
            (exit(1, ""), End::SwitchedOff),
            (exit(1, "cannot open"), End::Qemu(1)),
            (exit(203, ""), End::Panicked),
            (exit(205, ""), End::Hung),
            (exit(7, ""), End::NotStarted),
            (exit(13, ""), End::Code(6)),
            (exit(0, ""), End::Reset),
            (End::of(ExitStatus::from_raw(9), ""), End::Killed(9)),
        ];
        let mut sentences: Vec<String> = ends.iter().map(|(end, _)| end.sentence()).collect();
        ends.iter().for_each(|(end, wanted)| assert_eq!(end, wanted));
        assert_eq!(sentences.iter().filter(|text| text.contains("killed")).count(), 1);
        sentences.sort();
        sentences.dedup();
        assert_eq!(sentences.len(), ends.len());
    }
}
