//! The system call table as data: number, name, handler. One line a call.
//!
//! A handler is `async fn(&Arc<Thread>, Arguments) -> Outcome` (`waits`) or the same without `async` (`plain`). The few
//! that change the caller's registers are in [`crate::run`]; those on descriptors in [`crate::file::table`].

use crate::{Errno, Thread};

/// What a handler answers: rax, or the error.
pub type Outcome = Result<u64, Errno>;

/// The six arguments of a call, as the program left them in its registers.
#[derive(Clone, Copy, Debug)]
pub struct Arguments(pub [u64; 6]);

impl Arguments {
    /// An address or any 64-bit value.
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// A signed 64-bit value (an offset).
    pub fn signed(&self, index: usize) -> i64 {
        self.word(index) as i64
    }

    /// A length in bytes.
    pub fn size(&self, index: usize) -> usize {
        self.word(index) as usize
    }

    /// A C `int`: the upper half of the register does not count.
    pub fn int(&self, index: usize) -> i32 {
        self.word(index) as i32
    }

    /// A C `unsigned`: flags, modes, ids.
    pub fn unsigned(&self, index: usize) -> u32 {
        self.word(index) as u32
    }
}

/// Declares a part of the table: yields `dispatch`, which answers `None` for numbers it does not know, and `CALLS`.
#[macro_export]
macro_rules! system_calls {
    ($($number:literal $name:ident $kind:ident $($path:ident)::+;)*) => {
        /// Runs the call of this number, or answers `None` where this part of the table does not hold it.
        #[allow(unused_variables, reason = "a part may be empty")]
        pub async fn dispatch(
            thread: &alloc::sync::Arc<$crate::Thread>,
            number: u64,
            arguments: $crate::Arguments,
        ) -> Option<$crate::Outcome> {
            match number {
                $($number => Some($crate::system_calls!(@$kind $($path)::+, thread, arguments)),)*
                _ => None,
            }
        }

        /// Numbers and names of the calls in this part of the table.
        pub const CALLS: &[(u64, &str)] = &[$(($number, stringify!($name))),*];
    };
    (@waits $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments).await };
    (@plain $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments) };
}

/// The name of a system call, for reports.
pub fn name_of(number: u64) -> &'static str {
    usize::try_from(number)
        .ok()
        .and_then(syscalls::Sysno::new)
        .map_or("unknown", |call| call.name())
}

/// Reports a call that is missing, once per tenant and number.
pub(crate) fn report_missing(thread: &Thread, number: u64) -> Outcome {
    if thread.tenant().first_miss(number) {
        log::warn!(
            "{}: system call {} ({number}) is missing: ENOSYS",
            thread.tenant().name(),
            name_of(number)
        );
    }
    Err(Errno::ENOSYS)
}

mod calls {
    use crate::task::identity;
    crate::system_calls! {
        39 getpid plain identity::getpid;
    }
}
pub use calls::{CALLS, dispatch};
