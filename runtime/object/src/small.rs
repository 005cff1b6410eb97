//! Copies of a few bytes, one behind another in a page: a page of its own would be zeroed and charged for each.

use crate::{Bytes, Page};
use gyre_machine::OutOfMemory;

/// The page for small copies. It is used again from its start once no copy in it is held.
#[derive(Default)]
pub struct SmallCopies {
    page: Option<Page>,
    used: usize,
}

impl SmallCopies {
    /// Copies `data` behind what was copied before; longer data than a page gets memory of its own.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn copy(&mut self, data: &[u8]) -> Result<Bytes, OutOfMemory> {
        if self.page.as_ref().is_some_and(|page| !page.is_shared()) {
            self.used = 0;
        }
        let room = self.page.as_ref().map_or(0, |page| page.len() - self.used);
        if data.len() > room {
            let page = Page::fixed()?;
            if data.len() > page.len() {
                return Bytes::copy_from(data);
            }
            (self.page, self.used) = (Some(page), 0);
        }
        let page = self.page.as_ref().ok_or(OutOfMemory)?;
        page.write(self.used, data);
        let copy = Bytes::new(page.clone(), self.used, data.len());
        self.used += data.len();
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn copies_that_are_held_keep_their_bytes_and_a_page_that_nobody_holds_is_used_again() {
        let mut small = SmallCopies::default();
        let first = small.copy(&[1; 300]).unwrap();
        let page = first.location().0.clone();
        let held: Vec<Bytes> = (0..40).map(|fill| small.copy(&[fill; 300]).unwrap()).collect();
        assert_eq!(first.as_slice(), [1; 300]);
        held.iter().enumerate().for_each(|(fill, copy)| assert_eq!(copy.as_slice(), [fill as u8; 300]));
        let pages = held.iter().filter(|copy| copy.location().1 == 0).count();
        assert_eq!(pages, 3, "13 to a page");
        drop((first, page, held));
        let again = small.copy(&[2; 300]).unwrap();
        assert_eq!(again.location().1, 0);
        let address = again.pa();
        drop(again);
        (0..100).for_each(|_| assert_eq!(small.copy(&[3; 512]).unwrap().pa(), address));
        assert_eq!(small.copy(&[4; 9000]).unwrap().len(), 9000);
    }
}
