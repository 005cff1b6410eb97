//! A machine's memory that can be looked at from outside, also after the machine's end.

use std::{fs::File, os::fd::AsRawFd as _, path::PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::failure::{Context as _, Result};

/// A file in the host's memory; it is gone with this process.
pub struct Picture {
    /// The path by which QEMU and other programs of this user find it.
    pub path: PathBuf,
    /// It lives as long as somebody has it open.
    _file: File,
}

impl Picture {
    /// Makes an empty one, which grows as it is written.
    ///
    /// # Errors
    /// When the host has no descriptors left.
    pub fn new() -> Result<Self> {
        let made = memfd_create("gyre-memory", MemfdFlags::CLOEXEC).map_err(std::io::Error::from);
        let file = File::from(made.context(|| "cannot make a file for the machine's memory".into())?);
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        Ok(Self { path, _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_finds_what_was_written() {
        let picture = Picture::new().unwrap();
        std::fs::write(&picture.path, "seen").unwrap();
        let said = std::process::Command::new("cat").arg(&picture.path).output().unwrap();
        assert_eq!(said.stdout, b"seen");
    }
}
