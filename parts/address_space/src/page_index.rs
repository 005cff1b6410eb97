//! Which page of a file or of shared memory a mapping shows.

use crate::region::PAGE;

/// The number of a page in its provider. Each of its bytes has an offset below 2^64, so no arithmetic on it can
/// overflow: a program's offset becomes one by [`PageIndex::holding`], and mappings grow by [`PageIndex::plus`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct PageIndex(u64);

impl PageIndex {
    /// The first page.
    pub const FIRST: PageIndex = PageIndex(0);
    /// The last page whose bytes have offsets.
    pub const LAST: PageIndex = PageIndex(u64::MAX / PAGE);

    /// Returns the page that holds the byte at an offset.
    pub const fn holding(offset_bytes: u64) -> PageIndex {
        PageIndex(offset_bytes / PAGE)
    }

    /// Returns its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the page so many pages on; `None` beyond [`PageIndex::LAST`].
    pub fn plus(self, pages: u64) -> Option<PageIndex> {
        self.0.checked_add(pages).map(PageIndex).filter(|index| *index <= PageIndex::LAST)
    }

    /// Returns the page so many pages before, or the first one.
    pub fn before(self, pages: u64) -> PageIndex {
        PageIndex(self.0.saturating_sub(pages))
    }

    /// Returns the offset of its first byte.
    pub const fn offset_bytes(self) -> u64 {
        // Exact, by the type's bound.
        self.0.saturating_mul(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_an_offset() {
        assert_eq!(PageIndex::holding(u64::MAX), PageIndex::LAST);
        assert_eq!(PageIndex::LAST.offset_bytes(), u64::MAX - (PAGE - 1));
        assert_eq!((PageIndex::LAST.plus(1), PageIndex::LAST.plus(u64::MAX)), (None, None));
        assert_eq!(PageIndex::LAST.before(1).plus(1), Some(PageIndex::LAST));
        assert_eq!(PageIndex::FIRST.before(1), PageIndex::FIRST);
    }
}
