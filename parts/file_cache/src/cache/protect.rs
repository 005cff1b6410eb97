//! Pages that programs show and that are about to be written: no program may change one unseen after that.
//!
//! A page is dirty from the time on at which a program may write it. A write-back makes it clean; so the right to write goes first, and the
//! next write is told again (`page_dirtied`). Linux does so in `folio_mkclean`, mm/rmap.c.

use super::FileCache;
use crate::writing::Writing;
use alloc::vec::Vec;
use gyre_interface::files::NodeId;
use gyre_interface::memory::KeptFile;

impl FileCache {
    /// Takes the right to write pages of a file from all programs that show them, in the order of the pages. Costs one look for a page that no
    /// program shows.
    pub async fn write_protect<'a>(&self, node: NodeId, writings: impl Iterator<Item = &'a Writing>) {
        let Some(client) = self.shown.get() else { return };
        let mut keys = writings.filter(|writing| writing.page().mappings() > 0).map(Writing::key).peekable();
        let Some(first) = keys.peek() else { return };
        let file = KeptFile { file_system: first.file_system, node };
        let pages: Vec<u64> = keys.map(|key| key.index).collect();
        // If nobody shows pages any more, nobody can write them.
        let _ = client.write_protect(file, pages).await;
    }
}
