//! The pristine image from which another instance is made.

use crate::check;
use crate::suite::{Check, Verdict};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_x86_64::pristine_image;

/// All checks of this file.
pub const CHECKS: &[Check] = &[("the_saved_image_is_as_it_was_linked", the_saved_image_is_as_it_was_linked)];

const LINKED: u64 = 0x6779_7265_7a6f_6e65;
static WORD: AtomicU64 = AtomicU64::new(LINKED);

fn the_saved_image_is_as_it_was_linked() -> Verdict {
    WORD.store(7, Ordering::SeqCst);
    let image = pristine_image();
    let place = (&raw const WORD) as usize - image.constants.as_ptr() as usize - image.constants.len();
    let saved = image.data.get(place..place + 8).ok_or("the word is not in the data")?;
    check!(saved == LINKED.to_le_bytes(), "the word was saved as {saved:x?}");
    check!(WORD.load(Ordering::SeqCst) == 7, "the running kernel's word has changed");
    check!(image.constants.len() % 4096 == 0, "the data does not begin a page");
    check!(image.constants.len() + image.data.len() < image.bytes && image.bytes % 4096 == 0, "{} bytes", image.bytes);
    // The entry begins with CLD, CLI.
    check!(image.constants.get(image.entry..image.entry + 2) == Some(&[0xfc, 0xfa]), "no entry at {:#x}", image.entry);
    Ok(())
}
