//! The lot of split disks as this kernel maps it, at whichever end.

use core::sync::atomic::AtomicU64;
use gyre_contract::zones::LOT_BYTES;
use gyre_machine::Pa;
use gyre_object::Page;
use gyre_split_disk::{CONTROL_PAGES, PAGES, Window};
use gyre_x86_64::{ShareError, SharedLot};

const _: () = assert!(PAGES == SharedLot::PAGES);

/// How the other end is interrupted.
#[derive(Clone, Copy)]
pub enum Peer {
    /// A core of an instance with this hardware id.
    Core(u32),
    /// The supervisor, through this zone's wall.
    Supervisor,
}

/// A lot.
pub struct DiskWindow {
    lot: SharedLot,
    peer: Peer,
}

impl DiskWindow {
    /// Maps a lot that the supervisor holds for this.
    ///
    /// # Errors
    /// [`ShareError`].
    pub fn map(lot: u64, peer: Peer) -> Result<DiskWindow, ShareError> {
        let start = Pa(lot.saturating_mul(LOT_BYTES));
        Ok(DiskWindow { lot: gyre_x86_64::share_lot(start)?, peer })
    }
}

impl Window for DiskWindow {
    fn control(&self) -> &[AtomicU64] {
        self.lot.words(CONTROL_PAGES)
    }

    fn page(&self, page: usize) -> Option<Page> {
        self.lot.frame(page).map(Page::of)
    }

    fn interrupt_peer(&self) {
        match self.peer {
            Peer::Core(id) => gyre_x86_64::ring_link(id),
            Peer::Supervisor => gyre_x86_64::ring_supervisor(),
        }
    }
}
