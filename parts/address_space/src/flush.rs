//! Making other cores forget rights that shrank.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;

/// The translations to forget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stale {
    /// These pages, by their first address.
    Pages(Vec<u64>),
    /// All pages of programs: cheaper if there are many.
    All,
}

/// Flushes the translation buffers of cores. The kernel implements it with closures on these cores.
pub trait Flush: Send + Sync + 'static {
    /// Waits until the current activity may have this many bytes more; false if that is not possible. Without a
    /// memory resource it never is.
    fn make_room(&self, _bytes: u64) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async { false })
    }

    /// Returns the bytes that the current activity could have at most, if it and others held nothing.
    fn most_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Completes when no core of the set (a bit each, the own one included) still holds a stale page.
    fn flush(&self, cores: u64, stale: Stale) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Flushes the own core only: right if there is one core, and in host tests.
pub struct LocalFlush;

impl Flush for LocalFlush {
    fn flush(&self, _cores: u64, stale: Stale) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        flush_here(&stale);
        Box::pin(async {})
    }
}

/// Flushes the core that runs this.
pub fn flush_here(stale: &Stale) {
    match stale {
        Stale::Pages(pages) => pages.iter().for_each(|page| gyre_machine::flush_page_local(gyre_machine::Va(*page))),
        Stale::All => gyre_machine::flush_all_local(),
    }
}
