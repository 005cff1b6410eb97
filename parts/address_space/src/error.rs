//! Why an address space refuses.

use gyre_interface::files::FileError;
use gyre_machine::{MapError, OutOfMemory};

/// Why a page cannot be made resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// Nothing is mapped there (SIGSEGV, SEGV_MAPERR).
    NotMapped,
    /// The mapping does not allow that (SIGSEGV, SEGV_ACCERR).
    Denied,
    /// The file ends before this page (SIGBUS, BUS_ADRERR).
    BeyondEnd,
    /// The provider failed (SIGBUS).
    Io,
    /// The payer may have no more memory.
    OutOfMemory,
}

impl From<OutOfMemory> for FaultError {
    fn from(_: OutOfMemory) -> FaultError {
        FaultError::OutOfMemory
    }
}

impl From<MapError> for FaultError {
    fn from(error: MapError) -> FaultError {
        match error {
            MapError::OutOfMemory => FaultError::OutOfMemory,
            MapError::Occupied | MapError::BadAddress => FaultError::NotMapped,
        }
    }
}

impl From<FileError> for FaultError {
    fn from(error: FileError) -> FaultError {
        match error {
            FileError::OutOfMemory => FaultError::OutOfMemory,
            _ => FaultError::Io,
        }
    }
}

/// Why a change of mappings was refused; nothing changed then unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceError {
    /// Arguments that make no sense.
    Invalid,
    /// No room in the address space, or a limit is reached.
    NoMemory,
    /// Something is mapped there and must not be replaced.
    Exists,
    /// The file was not opened for that.
    Denied,
    /// Below the lowest address that programs may map.
    Permission,
    /// A part of the range is not mapped.
    NotMapped,
    /// The address cannot be used as asked.
    Fault,
    /// The provider failed.
    Io,
    /// More would be locked than may be.
    LockedTooMuch,
    /// A file has no byte so far from its start.
    TooFar,
}

impl From<OutOfMemory> for SpaceError {
    fn from(_: OutOfMemory) -> SpaceError {
        SpaceError::NoMemory
    }
}

impl From<MapError> for SpaceError {
    fn from(_: MapError) -> SpaceError {
        SpaceError::NoMemory
    }
}
