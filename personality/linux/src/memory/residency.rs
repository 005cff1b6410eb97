//! mincore: the pages of a range that are in memory.
//!
//! A page of a file counts if the program shows it or its file system has it. A caller that could not write the file does not learn what
//! others do with it: all of it seems to be there (Linux since 5.2: `can_do_mincore`, mm/mincore.c).

use super::PAGE;
use crate::file::permission::{Asker, WRITE};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_address_space::{FilePart, Residency};
use gyre_interface::files::CACHED_PAGES_MAX;

/// Bytes that mincore looks at under one lock.
const PIECE_BYTES: u64 = CACHED_PAGES_MAX as u64 * PAGE;

/// `mincore(address, bytes, vector)`.
pub async fn mincore(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (bytes, space) = (a.word(1), thread.space());
    let mut done = 0;
    while done < bytes {
        let address = a.word(0).checked_add(done).ok_or(Errno::ENOMEM)?;
        let piece = bytes.saturating_sub(done).min(PIECE_BYTES);
        let mut residency = space.residency(address, piece)?;
        add_cached(thread, &mut residency).await;
        thread.copy_out(a.word(2).saturating_add(done / PAGE), &residency.pages).await?;
        done = done.saturating_add(piece);
        if gyre_object::budget::is_spent() {
            gyre_message::yield_now().await;
        }
    }
    // Even for no bytes the address is checked.
    if bytes == 0 {
        space.residency(a.word(0), 0)?;
    }
    Ok(0)
}

/// Notes pages of files that the program does not show.
async fn add_cached(thread: &Thread, residency: &mut Residency) {
    let asker = Asker::of(thread);
    for part in &residency.of_files {
        if let Some(pages) = residency.pages.get_mut(part.pages.clone()).filter(|pages| pages.contains(&0)) {
            add_of(part, &asker, pages).await;
        }
    }
}

/// Notes the pages of one file; none if its file system cannot tell.
async fn add_of(part: &FilePart, asker: &Asker, pages: &mut [u8]) {
    let (client, node) = (part.file.client(), part.file.node());
    let Ok(attributes) = client.attributes(node).await else { return };
    if !asker.owns(&attributes) && asker.check(&attributes, WRITE).is_err() {
        return pages.fill(1);
    }
    let cached = client.cached(node, part.first.get(), pages.len()).await.unwrap_or_default();
    pages.iter_mut().zip(cached).for_each(|(page, is_cached)| *page |= is_cached);
}
