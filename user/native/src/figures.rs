//! A process' own figures, and by right those of others in its tenant.

use std::{io, mem, ptr};

use gyre_contract::{figures::Figures, native};
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::call;

/// Reads the figures of a process of one's tenant as they are now; 0 is oneself.
///
/// # Errors
/// The kernel's error: no such process, or no right (`monitor = true` in the machine file).
pub fn figures(process: i32) -> io::Result<Figures> {
    let mut figures = Figures::new_zeroed();
    call::with_output(native::FIGURES, [i64::from(process)], figures.as_mut_bytes())?;
    Ok(figures)
}

/// A page of figures that the kernel keeps up to date; given back when dropped.
pub struct FiguresPage(ptr::NonNull<Figures>);

impl FiguresPage {
    /// Maps the figures of a process of one's tenant; 0 is oneself.
    ///
    /// # Errors
    /// Those of [`figures`], and `OutOfMemory` for more pages than a tenant may have.
    pub fn map(process: i32) -> io::Result<Self> {
        let address = call::plain(native::FIGURES_MAP, [i64::from(process), 0])?;
        let address = usize::try_from(address).map_err(io::Error::other)?;
        ptr::NonNull::new(ptr::with_exposed_provenance_mut(address)).map(Self).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Reads what the kernel wrote last: the whole of one write, never parts of two.
    #[must_use]
    pub fn read(&self) -> Figures {
        loop {
            let before = self.sequence();
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            // SAFETY: the page is mapped, as long as this value lives, and any bytes are valid figures.
            let figures = unsafe { self.0.as_ptr().read_volatile() };
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            if before & 1 == 0 && before == self.sequence() {
                return figures;
            }
        }
    }

    fn sequence(&self) -> u32 {
        // SAFETY: the field lies in the page, which is mapped as long as this value lives.
        let field = unsafe { &raw const (*self.0.as_ptr()).sequence };
        // SAFETY: as above; the kernel writes it meanwhile, hence volatile.
        unsafe { field.read_volatile() }
    }
}

impl Drop for FiguresPage {
    fn drop(&mut self) {
        // SAFETY: the page was mapped for this value alone, and nothing points into it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), mem::size_of::<Figures>()) };
    }
}

// SAFETY: the page is only read, and by any thread of the process alike.
unsafe impl Send for FiguresPage {}
// SAFETY: as above.
unsafe impl Sync for FiguresPage {}
