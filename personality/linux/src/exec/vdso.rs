//! The pages by which programs read clocks without a system call (vdso(7)).

use crate::Errno;
use alloc::sync::Arc;
use gyre_address_space::{AddressSpace, MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_machine::{OutOfMemory, PAGE_BYTES, clock_scale};
use gyre_object::Page;
use gyre_vdso::ClockData;
use zerocopy::IntoBytes;

/// A tenant's copy, shared by its programs: a page of code and one of data. No program can get the right to write
/// them.
pub struct Vdso(Arc<SharedMemory>);

impl Vdso {
    /// Makes the pages.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new() -> Result<Vdso, OutOfMemory> {
        let (code, data) = (Page::fixed()?, Page::zeroed()?);
        data.write(0, ClockData::new(clock_scale()).as_bytes());
        code.write(0, gyre_vdso::image());
        Ok(Vdso(Arc::new(SharedMemory::of_pages([code, data]))))
    }

    /// Maps it and returns the address of the image (AT_SYSINFO_EHDR). One mapping holds both pages: a program has
    /// few mappings, and each one slows the search for the others.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) async fn map(&self, space: &AddressSpace) -> Result<u64, Errno> {
        let rights = Rights::READ | Rights::EXECUTE;
        let request = MapRequest {
            place: Place::Anywhere(0),
            bytes: const { 2 * PAGE_BYTES as u64 },
            rights,
            rights_max: rights,
            options: Options::SHARED | Options::VDSO,
            provider: Provider::Memory(self.0.clone()),
            first_index: PageIndex::FIRST,
        };
        Ok(space.map(request).await?)
    }
}
