//! Pages of files that a program gives: which can be had again, and the way to their files.

use crate::page_index::PageIndex;
use crate::region::{MappedFile, Options, PAGE, Provider, Region};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pages that a file is asked for at once: it may have to write all of them.
const PAGES_AT_ONCE: usize = 128;

/// Pages that a program does not show any more, by their files.
#[derive(Default)]
pub(crate) struct Given {
    files: Vec<(Arc<MappedFile>, Vec<u64>)>,
    count: usize,
}

impl Given {
    pub(crate) fn note(&mut self, file: &Arc<MappedFile>, index: PageIndex) {
        self.count = self.count.saturating_add(1);
        match self.files.last_mut().filter(|(last, _)| Arc::ptr_eq(last, file)) {
            Some((_, pages)) => pages.push(index.get()),
            None => self.files.push((file.clone(), Vec::from([index.get()]))),
        }
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Lets their files drop those that nobody uses; answers the bytes. A file system that is gone keeps nothing.
    pub(crate) async fn drop_unused(self) -> u64 {
        let mut bytes = 0_u64;
        for (file, pages) in self.files {
            for some in pages.chunks(PAGES_AT_ONCE) {
                let dropped = file.client.evict_pages(file.node, some.to_vec()).await;
                bytes = bytes.saturating_add(dropped.unwrap_or(0));
            }
        }
        bytes
    }
}

/// The rest of a region that shows a file.
pub(crate) struct Rest {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file: Arc<MappedFile>,
    /// The file's page at its start.
    pub(crate) first: PageIndex,
}

impl Rest {
    pub(crate) fn index_of(&self, address: u64) -> PageIndex {
        self.first.plus(address.saturating_sub(self.start) / PAGE).unwrap_or(PageIndex::LAST)
    }
}

/// Returns the file that a region shows, if its pages can be had again.
pub(crate) fn file_of(region: &Region) -> Option<Arc<MappedFile>> {
    match &region.provider {
        Provider::File(file) if !file.is_in_memory() && !region.options.contains(Options::LOCKED) => Some(file.clone()),
        _ => None,
    }
}
