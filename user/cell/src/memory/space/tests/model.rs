//! A space beside a map of its pages: steps by chance, with each pager and each policy of frames.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{frames::Coloured, testing::START};

/// Few addresses, so that steps meet.
const PAGES: u64 = 2048;
const SMALL: Arena = Arena { end: ARENA.mappings + PAGES * PAGE_BYTES, ..ARENA };
const PAGERS: [&dyn Pager; 4] = [&Demand, &Eager, &Keep, &Reuse];

/// A deed of a program. Places are pages of the mappings.
#[derive(Clone, Copy, Debug)]
enum Step {
    Map { pages: u64, rights: Rights },
    MapAt { first: u64, pages: u64, rights: Rights },
    Unmap { first: u64, pages: u64 },
    Protect { first: u64, pages: u64, rights: Rights },
    Write { page: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rights = || prop_oneof![4 => Just(BOTH), 1 => Just(Rights::READ), 1 => Just(Rights::empty())];
    let pages = || prop_oneof![1u64..40, 1u64..700];
    let first = || 0..PAGES;
    let step = prop_oneof![
        2 => (pages(), rights()).prop_map(|(pages, rights)| Step::Map { pages, rights }),
        1 => (first(), pages(), rights()).prop_map(|(first, pages, rights)| Step::MapAt { first, pages, rights }),
        2 => (first(), pages()).prop_map(|(first, pages)| Step::Unmap { first, pages }),
        1 => (first(), pages(), rights()).prop_map(|(first, pages, rights)| Step::Protect { first, pages, rights }),
        4 => first().prop_map(|page| Step::Write { page }),
    ];
    proptest::collection::vec(step, 1..40)
}

/// A page that is mapped, and its first word, if it is known.
#[derive(Clone, Copy, Debug)]
struct Page {
    rights: Rights,
    word: Option<u64>,
}

struct Both {
    cell: Cell,
    pages: BTreeMap<u64, Page>,
    lots: u64,
    words: u64,
}

fn address(page: u64) -> u64 {
    SMALL.mappings + page * PAGE_BYTES
}

fn coloured(lots: u64) -> &'static mut dyn Frames {
    let frames: &'static mut Coloured = Box::leak(Box::default());
    (0..lots).for_each(|lot| frames.add_lot(START + lot * LARGE_BYTES, 0, Contents::Old).unwrap());
    frames
}

impl Both {
    fn with(pager: &'static dyn Pager, frames: Option<&'static mut dyn Frames>, lots: u64) -> Self {
        let (mut memory, buddy) = Memory::with_lots(lots);
        let frames = frames.unwrap_or_else(|| Box::leak(buddy));
        let root = memory.root(frames);
        let cell = Cell { memory, space: Space::new(SMALL, root, frames, pager) };
        Self { cell, pages: BTreeMap::new(), lots, words: 0 }
    }

    /// Notes new memory, which reads as zeros if the pager clears it.
    fn add(&mut self, first: u64, pages: u64, rights: Rights) {
        let word = if self.unmapped() == Unmapped::KeptAsItWas { None } else { Some(0) };
        self.pages.extend((first..first + pages).map(|page| (page, Page { rights, word })));
    }

    fn unmapped(&self) -> Unmapped {
        self.cell.space.pager.unmapped()
    }

    /// Does a step on both.
    ///
    /// # Errors
    /// A page could not be divided for want of a frame: what was to be done is half done.
    fn step(&mut self, step: Step) -> Result<(), Errno> {
        let Cell { memory, space } = &mut self.cell;
        let inside = |first: u64, pages: u64| pages.min(PAGES - first);
        match step {
            Step::Map { pages, rights } => {
                if let Ok(start) = space.map(memory, pages * PAGE_BYTES, rights) {
                    self.add((start - SMALL.mappings) / PAGE_BYTES, pages, rights);
                }
            }
            Step::MapAt { first, pages, rights } => {
                let pages = inside(first, pages);
                space.map_at(memory, address(first), pages * PAGE_BYTES, rights)?;
                self.add(first, pages, rights);
            }
            Step::Unmap { first, pages } => {
                let pages = inside(first, pages);
                space.unmap(memory, address(first), pages * PAGE_BYTES)?;
                self.pages.retain(|page, _| !(first..first + pages).contains(page));
            }
            Step::Protect { first, pages, rights } => {
                let pages = inside(first, pages);
                let is_mapped = (first..first + pages).all(|page| self.pages.contains_key(&page));
                let done = space.protect(memory, address(first), pages * PAGE_BYTES, rights);
                if !is_mapped {
                    assert_eq!(done, Err(Errno::NOMEM));
                    return Ok(());
                }
                done?;
                self.pages.range_mut(first..first + pages).for_each(|(_, page)| page.rights = rights);
            }
            Step::Write { page } => self.write(page),
        }
        Ok(())
    }

    fn write(&mut self, page: u64) {
        let Cell { memory, space } = &mut self.cell;
        let at = address(page);
        let done = space.fault(memory, at, Rights::WRITE);
        match self.pages.get_mut(&page).filter(|page| page.rights.contains(Rights::WRITE)) {
            None => assert_eq!(done, Err(Errno::FAULT)),
            Some(_) if done == Err(Errno::NOMEM) => {}
            Some(known) => {
                assert_eq!(done, Ok(()));
                self.words += 1;
                known.word = Some(self.words);
                let place = self.cell.place(at);
                self.cell.memory.write(place, self.words);
            }
        }
    }

    /// Each frame has one use, all uses and what is free are all that there is, and each page has its rights and its word.
    fn check(&mut self) {
        let mut used: BTreeSet<u64> = self.cell.tables().into_iter().collect();
        for page in 0..PAGES {
            let (at, known) = (address(page), self.pages.get(&page));
            let Some(leaf) = self.cell.space.table.walk(&self.cell.memory, at) else {
                assert!(known.is_none_or(|known| known.word.is_none_or(|word| word == 0)), "page {page} is lost");
                continue;
            };
            let place = self.cell.place(at);
            assert!(used.insert(place), "the frame of page {page} has two uses");
            match known {
                None => assert_ne!(self.unmapped(), Unmapped::Released, "page {page} is still there"),
                Some(known) => {
                    assert_eq!(leaf.rights, known.rights, "rights of page {page}");
                    let word = self.cell.memory.read(place);
                    assert_eq!(word, known.word.unwrap_or(word), "word of page {page}");
                }
            }
        }
        let used = used.len() as u64 * PAGE_BYTES;
        assert_eq!(used + self.cell.space.frames.free_bytes(), self.lots * LARGE_BYTES);
    }
}

/// Does steps with each pager and each policy of frames, until a page cannot be divided for want of a frame.
fn follow(steps: &[Step], lots: u64) {
    for pager in PAGERS {
        for frames in [None, Some(coloured(lots))] {
            let mut both = Both::with(pager, frames, lots);
            for step in steps {
                if both.step(*step).is_err() {
                    break;
                }
                both.check();
            }
        }
    }
}

#[test]
fn a_part_of_a_large_page_comes_back_alone_if_its_lot_had_small_pages_before() {
    let small = [1, 513].map(|first| Step::MapAt { first, pages: 511, rights: BOTH });
    let large = Step::MapAt { first: 1024, pages: 512, rights: BOTH };
    let [all, part] = [(1, 1023), (1029, 1)].map(|(first, pages)| Step::Unmap { first, pages });
    let [first, second] = small;
    follow(&[first, second, all, large, part, Step::Map { pages: 300, rights: BOTH }], 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_page_is_lost_or_has_two_uses(steps in steps(), lots in 2u64..9) {
        follow(&steps, lots);
    }
}
