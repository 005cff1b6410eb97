//! Making a core leave its guest, whoever takes interrupts there: by an NMI.

use crate::apic;
use crate::core_local::{block_of, this_core};
use core::sync::atomic::Ordering;

/// In the core's word: it is to leave its guest, or not to enter one. Bit 0, which the way in looks at.
const LEAVE: u64 = 1;
/// In the core's word: an NMI is on its way for that.
const NMI_SENT: u64 = 2;

/// Makes a core leave its guest by [`super::Exit::Nmi`]. A core that is in none does so when it enters one next; two exits may come of
/// one request.
pub fn stop(core: usize) {
    block_of(core).leave_guest.fetch_or(LEAVE | NMI_SENT, Ordering::SeqCst);
    apic::send_nmi(core);
}

/// The request is answered: this core is out.
pub(super) fn note_left() {
    this_core().leave_guest.fetch_and(!LEAVE, Ordering::AcqRel);
}

/// An NMI has come: true if it may be that of [`stop`].
pub(crate) fn take_nmi() -> bool {
    this_core().leave_guest.fetch_and(!NMI_SENT, Ordering::AcqRel) & NMI_SENT != 0
}
