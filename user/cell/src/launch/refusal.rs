//! The kernel's refusal of a cell, as a sentence for the user: what was wanted, and where to look for what there is.

use std::io;

use super::options::Options;
use crate::error::Errno;

const NO_CELLS: &str = "this kernel keeps no cores and memory for cells (--plain --unleased needs none)";
const NO_RUNTIME: &str = "this launcher is none of the runtimes that the machine file allows";
const WHERE: &str = "(`gyre cell list` shows what is free)";

/// Returns the error for the user; one that is no refusal of these parts is Linux's.
pub fn refused(errno: Errno, options: &Options) -> io::Error {
    let cores = cores(options.cores);
    let memory = format!("{} MiB of memory", options.memory_bytes >> 20);
    match errno {
        Errno::NOSYS => io::Error::new(io::ErrorKind::Unsupported, NO_CELLS),
        Errno::ACCES => io::Error::new(io::ErrorKind::PermissionDenied, NO_RUNTIME),
        Errno::AGAIN => io::Error::other(format!("{cores} for itself: too few are free {WHERE}")),
        Errno::NODEV => {
            io::Error::other(format!("{cores} for itself: this machine never has so many for cells {WHERE}"))
        }
        Errno::NOMEM => {
            let why = "the pool has not so much free, or the tenant may not have so much";
            io::Error::new(io::ErrorKind::OutOfMemory, format!("{memory} for itself: {why} {WHERE}"))
        }
        Errno::INVAL => io::Error::other(format!("the kernel knows no cell of {cores} and {memory}")),
        Errno::BUSY => io::Error::other("this process is a cell already"),
        _ => io::Error::from_raw_os_error(errno.number()),
    }
}

fn cores(count: u32) -> String {
    if count == 1 { "1 core".into() } else { format!("{count} cores") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_wanted() {
        let words = "--cores 7 --memory 128M -- x".split_whitespace().map(Into::into).collect();
        let options = Options::read(words).unwrap();
        for (errno, part) in [
            (Errno::AGAIN, "7 cores for itself: too few are free"),
            (Errno::NODEV, "7 cores for itself: this machine never has so many"),
            (Errno::NOMEM, "128 MiB of memory for itself: the pool has not so much free"),
            (Errno::INVAL, "no cell of 7 cores and 128 MiB"),
            (Errno::BUSY, "a cell already"),
            (Errno::NOSYS, "--unleased"),
            (Errno::ACCES, "none of the runtimes"),
        ] {
            let error = refused(errno, &options).to_string();
            assert!(error.contains(part) && !error.contains("os error"), "{errno:?}: {error}");
        }
        let one = Options { cores: 1, ..options };
        assert!(refused(Errno::AGAIN, &one).to_string().starts_with("1 core for itself"));
        assert_eq!(refused(Errno::INTR, &one).raw_os_error(), Some(libc::EINTR));
    }
}
