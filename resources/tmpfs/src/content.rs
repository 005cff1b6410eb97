//! Contents of a file: pages by index; a missing page is a hole and reads as zeroes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_interface::files::FileError;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages that an operation may still add.
pub(crate) struct Room(pub u64);

impl Room {
    fn take(&mut self) -> Result<(), FileError> {
        self.0 = self.0.checked_sub(1).ok_or(FileError::NoSpace)?;
        Ok(())
    }
}

/// Pages by index.
pub(crate) type Pages = BTreeMap<u64, Page>;

#[derive(Default)]
pub(crate) struct Content {
    pages: Pages,
}

impl Content {
    /// Returns the pages held.
    pub fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns its pages in units of 512 bytes.
    pub fn blocks_512(&self) -> u64 {
        self.page_count().saturating_mul(PAGE / 512)
    }

    /// Returns the page at `index`; `None` for a hole.
    pub fn held(&self, index: u64) -> Option<Page> {
        self.pages.get(&index).cloned()
    }

    /// Returns whether there is a page at `index`.
    pub fn holds(&self, index: u64) -> bool {
        self.pages.contains_key(&index)
    }

    /// Returns the page at `index`, made if there is a hole.
    pub fn page(&mut self, index: u64, room: &mut Room) -> Result<Page, FileError> {
        if let Some(page) = self.pages.get(&index) {
            return Ok(page.clone());
        }
        room.take()?;
        let page = Page::fixed().map_err(|_| FileError::OutOfMemory)?;
        self.pages.insert(index, page.clone());
        Ok(page)
    }

    /// Returns the pages that hold the bytes from `offset` to `end`, which is behind it; `zeroes` stands for holes.
    pub fn pages_from<'a>(&'a self, offset: u64, end: u64, zeroes: &'a Page) -> impl Iterator<Item = &'a Page> {
        (offset / PAGE..end.div_ceil(PAGE)).map(|index| self.pages.get(&index).unwrap_or(zeroes))
    }

    /// Views of the bytes from `offset` to `end`; holes are views of `zeroes`.
    pub fn read(&self, offset: u64, end: u64, zeroes: &Page) -> Vec<Bytes> {
        let mut start = (offset % PAGE) as usize;
        let mut left = end.saturating_sub(offset);
        let view = |page: &Page| {
            let count = left.min(PAGE.saturating_sub(start as u64));
            let view = Bytes::new(page.clone(), start, count as usize);
            (start, left) = (0, left.saturating_sub(count));
            view
        };
        self.pages_from(offset, end.max(offset), zeroes).map(view).collect()
    }

    /// Writes `data` at `offset`; returns the bytes written and why it stopped early, if it did.
    pub fn write(&mut self, offset: u64, data: &[Bytes], room: &mut Room) -> (usize, Option<FileError>) {
        let mut written = 0_usize;
        for piece in data {
            let mut from = 0;
            while from < piece.len() {
                let at = offset.saturating_add(written as u64);
                match self.write_page(at, piece, from, room) {
                    Ok(count) => {
                        from = count.saturating_add(from);
                        written = count.saturating_add(written);
                    }
                    Err(error) => return (written, Some(error)),
                }
            }
        }
        (written, None)
    }

    /// Writes a piece into the page at `at`, taking over a whole unshared page instead of copying it.
    fn write_page(&mut self, at: u64, piece: &Bytes, from: usize, room: &mut Room) -> Result<usize, FileError> {
        let start = (at % PAGE) as usize;
        let count = piece.len().saturating_sub(from).min(PAGE_BYTES.saturating_sub(start));
        let (source, source_start) = piece.location();
        let whole = count == PAGE_BYTES && (source_start, from) == (0, 0) && source.len() == PAGE_BYTES;
        if whole && !source.is_shared() && !self.pages.contains_key(&(at / PAGE)) {
            room.take()?;
            self.pages.insert(at / PAGE, source.clone());
            return Ok(count);
        }
        let page = self.page(at / PAGE, room)?;
        let view = piece.as_slice().get(from..).and_then(|rest| rest.get(..count)).unwrap_or(&[]);
        page.write(start, view);
        Ok(count)
    }

    /// Forgets the bytes from `start` to `end`: whole pages become holes, the rest zeroes; returns the pages given up.
    pub fn punch(&mut self, start: u64, end: u64) -> u64 {
        let (first, last) = (start.div_ceil(PAGE), end / PAGE);
        let gone: Vec<u64> = self.pages.range(first..last.max(first)).map(|(index, _)| *index).collect();
        gone.iter().for_each(|index| _ = self.pages.remove(index));
        let (first, last) = (first.saturating_mul(PAGE).min(end), last.saturating_mul(PAGE).max(start));
        for (from, to) in [(start, first), (last, end)] {
            if let Some(page) = self.pages.get(&(from / PAGE)).filter(|_| from < to) {
                clear(page, (from % PAGE) as usize, to.saturating_sub(from) as usize);
            }
        }
        gone.len() as u64
    }

    /// Returns the first page from `index` on that is held (`true`) or not.
    pub fn next(&self, index: u64, held: bool) -> Option<u64> {
        if held {
            return self.pages.range(index..).next().map(|(index, _)| *index);
        }
        let run = self.pages.range(index..).zip(index..).take_while(|((page, _), at)| **page == *at).count();
        Some(index.saturating_add(run as u64))
    }

    /// Gives everything from `size` on up; returns the pages. The rest of the last page becomes zero.
    pub fn truncate(&mut self, size: u64) -> Pages {
        let gone = self.pages.split_off(&size.div_ceil(PAGE));
        if !size.is_multiple_of(PAGE)
            && let Some(page) = self.pages.get(&(size / PAGE))
        {
            clear(page, (size % PAGE) as usize, PAGE_BYTES);
        }
        gone
    }

    /// Gives everything up; returns the pages.
    pub fn into_pages(self) -> Pages {
        self.pages
    }
}

/// Writes zeroes, to the end of the page at most.
fn clear(page: &Page, start: usize, bytes: usize) {
    let zeroes = [0u8; 256];
    let end = start.saturating_add(bytes).min(PAGE_BYTES);
    for at in (start..end).step_by(zeroes.len()) {
        let count = zeroes.len().min(end.saturating_sub(at));
        page.write(at, zeroes.get(..count).unwrap_or(&[]));
    }
}
