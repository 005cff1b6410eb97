//! The regions of a cell's own memory: sorted, disjoint, in a fixed number of places.

use bitflags::bitflags;

bitflags! {
    /// Rights of memory, with the numbers of Linux's `PROT_` constants.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rights: u8 {
        /// It may be read.
        const READ = 1;
        /// It may be written.
        const WRITE = 2;
        /// It may be executed.
        const EXECUTE = 4;
    }
}

/// Places for regions.
const REGIONS_MAX: usize = 2048;

/// A range of addresses with the same rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first address, a multiple of a page.
    pub start: u64,
    /// The address behind it, a multiple of a page.
    pub end: u64,
    /// Its rights.
    pub rights: Rights,
}

impl Region {
    /// Returns its part within a range; empty if there is none.
    pub fn within(self, start: u64, end: u64) -> Self {
        let start = self.start.max(start);
        Self { start, end: self.end.min(end).max(start), ..self }
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    fn joins(self, next: Self) -> bool {
        self.end == next.start && self.rights == next.rights
    }
}

/// All regions, sorted by address.
#[derive(Debug)]
pub struct Regions {
    list: [Region; REGIONS_MAX],
    count: usize,
}

/// There are no places for more regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Default for Regions {
    fn default() -> Self {
        Self { list: [Region { start: 0, end: 0, rights: Rights::empty() }; REGIONS_MAX], count: 0 }
    }
}

impl Regions {
    /// All of them.
    pub fn all(&self) -> &[Region] {
        self.list.get(..self.count).unwrap_or_default()
    }

    /// Finds the region that holds an address.
    pub fn find(&self, address: u64) -> Option<Region> {
        let region = *self.all().get(self.first_behind(address))?;
        (region.start <= address).then_some(region)
    }

    /// Finds the first free range of so many bytes between two addresses, at a multiple of `align`.
    pub fn find_free(&self, bytes: u64, align: u64, from: u64, to: u64) -> Option<u64> {
        let mut candidate = from.checked_next_multiple_of(align)?;
        for region in self.all().iter().skip(self.first_behind(from)) {
            if candidate.checked_add(bytes)? <= region.start {
                break;
            }
            candidate = candidate.max(region.end.checked_next_multiple_of(align)?);
        }
        (candidate.checked_add(bytes)? <= to).then_some(candidate)
    }

    /// Puts a region in place of what is there.
    ///
    /// # Errors
    /// [`Full`]; nothing is changed then.
    pub fn set(&mut self, region: Region) -> Result<(), Full> {
        self.remove(region.start, region.end)?;
        let at = self.first_behind(region.start);
        self.insert(at, region)?;
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
        Ok(())
    }

    /// Takes a range out.
    ///
    /// # Errors
    /// [`Full`]: a hole makes two of one; nothing is changed then.
    pub fn remove(&mut self, start: u64, end: u64) -> Result<(), Full> {
        // The hole and the region that may come into it.
        if self.count + 2 > REGIONS_MAX {
            return Err(Full);
        }
        let mut at = self.first_behind(start);
        while let Some(region) = self.all().get(at).copied().filter(|region| region.start < end) {
            at = self.cut(at, region, start, end);
        }
        Ok(())
    }

    /// Cuts a range out of one region; returns the index of the next one.
    fn cut(&mut self, at: usize, region: Region, start: u64, end: u64) -> usize {
        let (left, right) = (region.within(0, start), region.within(end, u64::MAX));
        self.delete(at);
        let mut next = at;
        for part in [left, right].into_iter().filter(|part| !part.is_empty()) {
            let _ = self.insert(next, part);
            next += 1;
        }
        next
    }

    /// The index of the first region that ends behind an address.
    fn first_behind(&self, address: u64) -> usize {
        self.all().partition_point(|region| region.end <= address)
    }

    fn insert(&mut self, at: usize, region: Region) -> Result<(), Full> {
        if self.count >= REGIONS_MAX || at > self.count {
            return Err(Full);
        }
        self.list.copy_within(at..self.count, at + 1);
        self.list[at] = region;
        self.count += 1;
        Ok(())
    }

    fn delete(&mut self, at: usize) {
        self.list.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }

    /// Makes one of a region and the next, if they are alike.
    fn join(&mut self, at: usize) {
        let [Some(this), Some(next)] = [self.all().get(at).copied(), self.all().get(at + 1).copied()] else {
            return;
        };
        if this.joins(next) {
            self.list[at].end = next.end;
            self.delete(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn region(start: u64, end: u64, rights: Rights) -> Region {
        Region { start, end, rights }
    }

    #[test]
    fn neighbours_with_one_right_are_one() {
        let mut regions = Regions::default();
        for start in [0x1000, 0x3000, 0x2000] {
            regions.set(region(start, start + 0x1000, Rights::READ)).unwrap();
        }
        assert_eq!(regions.all(), [region(0x1000, 0x4000, Rights::READ)]);
        assert_eq!(regions.find(0x4000), None);
        assert_eq!(regions.find_free(0x1000, 0x1000, 0x1000, 0x5000), Some(0x4000));
        assert_eq!(regions.find_free(0x2000, 0x1000, 0x1000, 0x5000), None);
    }

    #[test]
    fn a_full_list_refuses_and_keeps_what_it_has() {
        let mut regions = Regions::default();
        let mut start = 0;
        while regions.set(region(start, start + 1, Rights::READ)).is_ok() {
            start += 2;
        }
        let before = regions.all().to_vec();
        assert_eq!(regions.remove(0, 1), Err(Full));
        assert_eq!(regions.all(), before);
    }

    proptest! {
        #[test]
        fn they_are_as_a_map_of_pages(steps in proptest::collection::vec((0u64..64, 1u64..16, 0u8..4), 0..64)) {
            let mut regions = Regions::default();
            let mut model = [None; 96];
            for (start, pages, kind) in steps {
                let end = start + pages;
                let rights = Rights::from_bits(kind).filter(|rights| !rights.is_empty());
                match rights {
                    Some(rights) => regions.set(region(start, end, rights)).unwrap(),
                    None => regions.remove(start, end).unwrap(),
                }
                model[start as usize..end as usize].fill(rights);
            }
            for page in 0..96 {
                prop_assert_eq!(regions.find(page).map(|region| region.rights), model[page as usize]);
            }
            prop_assert!(regions.all().windows(2).all(|pair| pair[0].end <= pair[1].start && !pair[0].joins(pair[1])));
        }
    }
}
