//! Errors of the crate.

use std::{fmt, io};

/// The reason for which something could not be done; nothing has changed then.
#[derive(Debug)]
pub enum Error {
    /// Called outside of a thread of [`crate::run`].
    Outside,
    /// More threads than [`crate::THREADS_MAX`], or virtual cores than there may be, or none.
    TooMany,
    /// A tick or limit that the kernel does not know; see `gyre_contract::pulse`.
    Time,
    /// A change of the number of virtual cores is under way.
    Busy,
    /// The kernel's error.
    Kernel(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Outside => f.write_str("this is no thread of a scheduler of one's own"),
            Error::TooMany => f.write_str("there are too many threads or virtual cores, or none"),
            Error::Time => f.write_str("a tick is 50 us to 10 s, a limit up to a minute"),
            Error::Busy => f.write_str("the number of virtual cores is being changed"),
            Error::Kernel(error) => write!(f, "the kernel: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Kernel(error)
    }
}
