//! The end of an input: what is left in memory once everything was taken back that can be.

use super::OWN;
use gyre_ext2::Ext2;
use gyre_file_cache::FileCache;
use gyre_interface::memory::Effort;
use gyre_interface::memory::reclaim::Server as _;
use gyre_machine::PAGE_BYTES;
use gyre_message::sleep_ns;

/// More than there is.
const ALL_BYTES: u64 = 1 << 40;
/// Longer than everything takes that was begun, ns.
const REST_NS: u64 = 1_000_000_000;

/// The rest that is in memory.
#[derive(Debug)]
pub struct Left {
    cached_pages: usize,
    /// Nodes and names by what they are called.
    objects: [(&'static str, usize); 2],
}

impl Left {
    pub fn cached_bytes(&self) -> i64 {
        (self.cached_pages * PAGE_BYTES) as i64
    }

    pub fn is_nothing(&self) -> bool {
        self.cached_pages == 0 && self.objects.iter().all(|(_, count)| *count == 0)
    }
}

/// Takes everything back from a file system that was unmounted.
pub async fn left(fs: &'static Ext2, cache: &'static FileCache) -> Left {
    sleep_ns(REST_NS).await;
    // Disks that fail keep it from giving all.
    let _ = fs.reclaim(OWN, ALL_BYTES, Effort::Thorough).await;
    Left {
        cached_pages: cache.usage().iter().map(|usage| usage.held).sum(),
        objects: fs.objects().map(|(name, counted)| (name, counted.statistics().live as usize)),
    }
}
