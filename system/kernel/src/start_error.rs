//! Why a tenant cannot start, in words for the console and the tool.

use gyre_interface::files::FileError;
use gyre_linux::Errno;
use gyre_volumes::VolumeError;

/// Why a tenant could not start.
pub enum StartError {
    /// Its disk could not be started.
    NoDisk,
    /// Its partition cannot be opened.
    Volume(VolumeError),
    /// Its file systems cannot be made or mounted.
    Files(FileError),
    /// Its program's working directory cannot be entered.
    NoDirectory,
    /// Its program cannot start.
    Linux(Errno),
    /// There is not enough memory for it.
    OutOfMemory,
    /// The machine ends.
    Ending,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StartError::NoDisk => f.write_str("its disk is not there"),
            StartError::Volume(error) => write!(f, "its partition cannot be opened ({error:?})"),
            StartError::Files(error) => write!(f, "its disk holds no ext2 file system that can be mounted ({error:?})"),
            StartError::NoDirectory => f.write_str("its working directory is not there"),
            StartError::Linux(Errno::ENOENT) => f.write_str("its program is not there (ENOENT)"),
            StartError::Linux(Errno::EACCES) => f.write_str("its program is not executable (EACCES)"),
            StartError::Linux(Errno::ENOEXEC) => f.write_str("its program is not one that can run here (ENOEXEC)"),
            StartError::Linux(error) => write!(f, "its program cannot start ({error:?})"),
            StartError::Ending => f.write_str("the machine ends"),
            StartError::OutOfMemory => f.write_str("there is not enough memory for it"),
        }
    }
}

impl From<FileError> for StartError {
    fn from(error: FileError) -> StartError {
        StartError::Files(error)
    }
}

impl From<Errno> for StartError {
    fn from(error: Errno) -> StartError {
        StartError::Linux(error)
    }
}
