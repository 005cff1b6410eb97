//! The pages that one fault of a mapping takes from memory: the one that it needs, and those around it.
//!
//! A program's memory asks for them in one look at the file system ([`crate::near::Near::to_map`]). A page around is
//! a guess: whoever takes it must not count it as used.

use gyre_object::Page;

/// Most pages that one fault takes: 64 KiB, as on Linux (mm/memory.c, `fault_around_pages`).
pub const AROUND_PAGES: usize = 16;

/// The reason for which a page is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// A program uses it now.
    Needed,
    /// It lies beside one that is used.
    Beside,
}

/// Pages of a file from an index on: those asked for, and those found so far.
pub struct Around {
    first: u64,
    needed: Option<u8>,
    beside: u16,
    pages: [Option<Page>; AROUND_PAGES],
}

impl Around {
    /// Asks for the pages that have a bit in `beside`, the lowest one for the page with index `first`.
    #[inline(always)]
    pub fn new(first: u64, beside: u16) -> Around {
        Around { first, needed: None, beside, pages: [const { None }; AROUND_PAGES] }
    }

    /// Asks for one page alone.
    pub fn only(index: u64) -> Around {
        Around::new(index, 0).needing(0)
    }

    /// Also asks for the page so many places behind the first one, without which the others are not taken. There is
    /// no such page from [`AROUND_PAGES`] on.
    #[must_use]
    #[inline(always)]
    pub fn needing(self, place: u8) -> Around {
        let needed = Some(place).filter(|place| usize::from(*place) < AROUND_PAGES);
        let beside = self.beside & !needed.map_or(0, |place| 1 << place);
        Around { needed, beside, ..self }
    }

    /// Takes what `look` finds at an index: the needed page first. Pages from the index `end` on are not the file's.
    /// Answers how many were found.
    #[inline(always)]
    pub fn take(&mut self, end: u64, mut look: impl FnMut(u64, Claim) -> Option<Page>) -> usize {
        let mut found = 0;
        if let Some(needed) = self.needed {
            let index = self.first.saturating_add(u64::from(needed));
            let page = if index < end { look(index, Claim::Needed) } else { None };
            let (Some(page), Some(place)) = (page, self.pages.get_mut(usize::from(needed))) else { return 0 };
            *place = Some(page);
            found = 1;
        }
        let mut left = self.beside & first_places(end.saturating_sub(self.first));
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            if let Some(page) = look(self.first.saturating_add(u64::from(number)), Claim::Beside)
                && let Some(place) = self.pages.get_mut(number as usize)
            {
                *place = Some(page);
                found = usize::saturating_add(found, 1);
            }
        }
        found
    }

    /// Gives back what was found.
    pub fn clear(&mut self) {
        self.pages = [const { None }; AROUND_PAGES];
    }

    /// Puts a page that was found otherwise at a place; there is none from [`AROUND_PAGES`] on.
    pub fn put(&mut self, place: u8, page: Page) {
        if let Some(slot) = self.pages.get_mut(usize::from(place)) {
            *slot = Some(page);
        }
    }

    /// Returns what was found, by places behind the first page.
    #[inline]
    pub fn pages(&mut self) -> &mut [Option<Page>; AROUND_PAGES] {
        &mut self.pages
    }

    /// Returns a bit for each place for which a page was found.
    #[inline]
    pub fn found(&self) -> u16 {
        self.pages.iter().rev().fold(0, |bits, page| bits << 1 | u16::from(page.is_some()))
    }

    /// Takes the needed page out, if it was found.
    pub fn take_needed(&mut self) -> Option<Page> {
        self.pages.get_mut(usize::from(self.needed?))?.take()
    }

    /// Returns whether the needed page was found; false also if none is needed.
    pub fn has_needed(&self) -> bool {
        self.needed.and_then(|place| self.pages.get(usize::from(place))).is_some_and(Option::is_some)
    }
}

/// Returns a bit for each of so many places.
#[inline]
pub fn first_places(count: u64) -> u16 {
    1u16.checked_shl(count.min(AROUND_PAGES as u64) as u32).map_or(u16::MAX, |bit| bit.wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn places(around: &mut Around) -> Vec<usize> {
        around.pages().iter().enumerate().filter(|(_, page)| page.is_some()).map(|(place, _)| place).collect()
    }

    #[test]
    fn the_needed_page_is_looked_for_first_and_nothing_without_it() {
        let mut seen = Vec::new();
        let mut around = Around::new(100, 0b1011).needing(1);
        let found = around.take(1000, |index, claim| {
            seen.push((index, claim));
            Page::zeroed().ok().filter(|_| index != 100)
        });
        assert_eq!((found, places(&mut around)), (2, [1, 3].to_vec()));
        assert_eq!(seen, [(101, Claim::Needed), (100, Claim::Beside), (103, Claim::Beside)]);
        assert!(around.has_needed() && around.take_needed().is_some() && !around.has_needed());
        let mut around = Around::new(100, 0b1011).needing(1);
        assert_eq!(around.take(1000, |index, _| Page::zeroed().ok().filter(|_| index != 101)), 0);
        assert_eq!(places(&mut around), []);
    }

    #[test]
    fn nothing_is_looked_for_behind_the_end_and_no_place_behind_the_last() {
        let mut around = Around::new(u64::MAX - 4, u16::MAX).needing(2);
        assert_eq!(around.take(u64::MAX - 1, |_, _| Page::zeroed().ok()), 3);
        assert_eq!(places(&mut around), [0, 1, 2]);
        assert_eq!(
            Around::new(0, u16::MAX).needing(2).take(2, |_, _| Page::zeroed().ok()),
            0,
            "the needed one is behind"
        );
        let mut around = Around::new(0, 0).needing(16);
        around.put(16, Page::zeroed().unwrap());
        assert_eq!((around.take(99, |_, _| Page::zeroed().ok()), places(&mut around)), (0, [].to_vec()));
        around.put(15, Page::zeroed().unwrap());
        assert_eq!(places(&mut around), [15]);
        around.clear();
        assert!(places(&mut around).is_empty() && around.take_needed().is_none());
    }
}
