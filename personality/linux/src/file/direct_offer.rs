//! The offer of a file system to transfer past the cache for O_DIRECT: asked for once for each open file, when it is
//! first needed.

use super::mount::Place;
use crate::Errno;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use gyre_interface::files::FileError;

const UNASKED: u8 = 0;
const OFFERED: u8 = 1;
const REFUSED: u8 = 2;

/// The known answer of an open file's file system. It does not change while the file is open.
#[derive(Default)]
pub struct DirectOffer(AtomicU8);

impl DirectOffer {
    /// Returns whether the file system was asked, and cannot.
    pub fn is_refused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == REFUSED
    }

    /// Returns the answer of the file system; `None` before it has answered.
    #[inline]
    pub fn known(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            UNASKED => None,
            known => Some(known == OFFERED),
        }
    }

    /// Asks the file system.
    ///
    /// # Errors
    /// Those of the file system; the next call asks again.
    pub async fn ask(&self, place: &Place) -> Result<bool, Errno> {
        let is_offered = is_offered(place).await?;
        self.0.store(if is_offered { OFFERED } else { REFUSED }, Ordering::Relaxed);
        Ok(is_offered)
    }
}

/// Asks the file system of a node.
///
/// # Errors
/// Those of the file system.
pub async fn is_offered(place: &Place) -> Result<bool, Errno> {
    match place.system().read_direct(place.node, 0, Vec::new()).await {
        Err(FileError::Unsupported) => Ok(false),
        answer => answer.map(|_| true).map_err(Errno::from),
    }
}
