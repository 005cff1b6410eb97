//! Files that one command holds at a time (flock(2)).
//!
//! * A look at who holds a file holds it for an instant itself, and a child that a thread is starting has a copy of every open file until its
//!   program begins. So whoever wants a file tries for a while before it takes it for held.
//! * A file is given back in words and not by closing it alone: such a copy would keep it.

use std::{
    fs::{File, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

/// How long whoever wants a file tries.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A file that nobody else holds, until this is dropped.
pub struct HeldFile(File);

impl HeldFile {
    /// Takes a file; `None` if somebody holds it.
    pub fn take(file: File) -> Option<Self> {
        let end = Instant::now() + PATIENCE;
        while file.try_lock().is_err() {
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        Some(Self(file))
    }

    /// Takes a file once nobody else holds it.
    ///
    /// # Errors
    /// The wait was interrupted, or the file cannot be held.
    pub fn wait(file: File) -> std::io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // Closing it is the second way.
        let _ = self.0.unlock();
    }
}

/// Returns whether somebody holds a file.
pub fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| {
        let tried = file.try_lock();
        if tried.is_ok() {
            let _ = file.unlock();
        }
        matches!(tried, Err(TryLockError::WouldBlock))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_once_and_free_at_once_though_a_copy_of_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_held(&path), "a file that is not there");
        let file = File::create(&path).unwrap();
        // As a child has it between its start and that of its program.
        let copy = file.try_clone().unwrap();
        let held = HeldFile::take(file).unwrap();
        assert!(is_held(&path) && HeldFile::take(File::open(&path).unwrap()).is_none());
        drop(held);
        assert!(!is_held(&path) && HeldFile::take(File::open(&path).unwrap()).is_some());
        drop(copy);
    }

    #[test]
    fn whoever_waits_gets_it_when_it_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = HeldFile::take(File::create(&path).unwrap()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let there = path.clone();
        let waits = std::thread::spawn(move || {
            let held = HeldFile::wait(File::open(&there).unwrap()).unwrap();
            tell.send(()).unwrap();
            drop(held);
        });
        assert!(told.recv_timeout(3 * PAUSE).is_err());
        drop(held);
        waits.join().unwrap();
        assert!(told.recv().is_ok() && !is_held(&path));
    }

    #[test]
    fn a_short_look_refuses_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let look = File::create(&path).unwrap();
        look.lock().unwrap();
        let there = path.clone();
        let wants = std::thread::spawn(move || HeldFile::take(File::open(&there).unwrap()).is_some());
        std::thread::sleep(3 * PAUSE);
        look.unlock().unwrap();
        assert!(wants.join().unwrap());
    }
}
