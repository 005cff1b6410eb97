//! Contents of a file that no write-back could bring to the disk: somebody is told, once, and the count of such words tells it to all others that
//! have the file open. More losses before somebody is told are one (Linux: lib/errseq.c).

use core::sync::atomic::{AtomicU32, Ordering};
use gyre_interface::files::FileError;

/// Added while a loss was told to nobody; twice the count of those told lies above it.
const UNTOLD: u32 = 1;

/// The losses of a file since it came into memory.
#[derive(Default)]
pub(crate) struct Losses(AtomicU32);

impl Losses {
    /// Notes a loss.
    pub(crate) fn note(&self) {
        self.0.fetch_or(UNTOLD, Ordering::AcqRel);
    }

    /// Tells a loss that nobody was told.
    ///
    /// # Errors
    /// [`FileError::Io`] if there is one: it counts as told from here on.
    pub(crate) fn tell(&self) -> Result<(), FileError> {
        let tell = |losses: u32| (losses & UNTOLD != 0).then_some(losses.wrapping_add(UNTOLD));
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, tell) {
            Ok(_) => Err(FileError::Io),
            Err(_) => Ok(()),
        }
    }

    /// Returns how many were told.
    pub(crate) fn told(&self) -> u32 {
        self.0.load(Ordering::Acquire) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_before_somebody_is_told_are_one_and_the_next_is_another() {
        let losses = Losses::default();
        assert_eq!((losses.tell(), losses.told()), (Ok(()), 0));
        losses.note();
        losses.note();
        assert_eq!(losses.told(), 0, "who opens the file now will be told, too");
        assert_eq!((losses.tell(), losses.told(), losses.tell()), (Err(FileError::Io), 1, Ok(())));
        losses.note();
        assert_eq!((losses.tell(), losses.told()), (Err(FileError::Io), 2));
    }
}
