//! The kernel's image as its loader left it, for another instance of it.
//!
//! Text, constants and the sealed interrupt table hold no address of this instance and are never written after boot, so they are copied as
//! they stand. `.data` is written all the time: [`save_data`] keeps it as it was linked. All that follows, up to the end, is zeros.

unsafe extern "C" {
    static gyre_image_start: u8;
    static gyre_image_end: u8;
    static gyre_data_start: u8;
    static gyre_data_end: u8;
    static gyre_saved_data: u8;
    static gyre_pvh_entry: u8;
}

/// The parts of an image that may be put at any multiple of 2 MiB below 4 GiB: `constants`, then `data`, then zeros up to `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct PristineImage {
    /// Its start, in whole pages: text, constants and the interrupt table.
    pub constants: &'static [u8],
    /// The data that follows, as it was linked.
    pub data: &'static [u8],
    /// Length of the whole image, in bytes.
    pub bytes: usize,
    /// The entry for PVH loaders, in bytes from its start.
    pub entry: usize,
}

/// Copies `.data` to the place that the linker script keeps for it. The first act of the boot core: later the data is no longer pristine.
///
/// The entry code has written one word of it, the address of its descriptor table, which each instance writes before it reads it.
pub(crate) fn save_data() {
    let start = &raw const gyre_data_start;
    let bytes = (&raw const gyre_data_end) as usize - start as usize;
    // SAFETY: the linker script keeps as many bytes at the end of the image, for this alone; nobody else runs.
    unsafe { core::ptr::copy_nonoverlapping(start, (&raw const gyre_saved_data).cast_mut(), bytes) };
}

/// Returns the image of this kernel as its loader left it.
pub fn pristine_image() -> PristineImage {
    let start = (&raw const gyre_image_start) as usize;
    let constants = (&raw const gyre_data_start) as usize - start;
    let data = (&raw const gyre_data_end) as usize - (&raw const gyre_data_start) as usize;
    PristineImage {
        // SAFETY: one piece of the image, mapped read-only for good.
        constants: unsafe { core::slice::from_raw_parts(&raw const gyre_image_start, constants) },
        // SAFETY: the copy's own place, which nobody writes after boot.
        data: unsafe { core::slice::from_raw_parts(&raw const gyre_saved_data, data) },
        bytes: (&raw const gyre_image_end) as usize - start,
        entry: (&raw const gyre_pvh_entry) as usize - start,
    }
}
