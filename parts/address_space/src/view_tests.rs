//! A view that shows the pages of one long page in another order: copies go no further than a page of the program.

use crate::{AddressSpace, Limits, LocalFlush, Seen, View};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::MapFlags;
use gyre_message::direct::block_on;
use gyre_object::Page;
use proptest::prelude::*;

const PAGE: usize = 4096;
const PAGES: usize = 8;
const AT: usize = 0x40_0000;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

/// Page `n` of the program is page `order[n]` of the lot.
struct Shuffled {
    lot: Page,
    order: Vec<usize>,
}

impl View for Shuffled {
    fn find(&self, address: u64) -> Option<Seen> {
        let place = (address as usize).checked_sub(AT)?;
        let offset = self.order.get(place / PAGE)? * PAGE + place % PAGE;
        Some(Seen { page: self.lot.clone(), offset, bytes: PAGE - place % PAGE, rights: MapFlags::WRITE })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn copies_follow_the_programs_order(
        order in Just((0..PAGES).collect::<Vec<_>>()).prop_shuffle(),
        start in 0..PAGES * PAGE,
        wanted in 1..PAGES * PAGE,
    ) {
        let bytes = wanted.min(PAGES * PAGE - start);
        let lot = Page::zeroed_run(9).unwrap();
        let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
        space.set_view(Some(Arc::new(Shuffled { lot: lot.clone(), order: order.clone() })));
        let data: Vec<u8> = (0..bytes).map(|at| (at % 251 + 1) as u8).collect();
        let address = (AT + start) as u64;
        block_on(space.copy_out(address, &data)).unwrap();
        let mut all = alloc::vec![0; 2 << 20];
        lot.read(0, &mut all);
        let mut expected = alloc::vec![0; 2 << 20];
        for (at, byte) in data.iter().enumerate() {
            let place = start + at;
            expected[order[place / PAGE] * PAGE + place % PAGE] = *byte;
        }
        prop_assert!(all == expected, "bytes lie elsewhere");
        let mut back = alloc::vec![0; bytes];
        block_on(space.copy_in(address, &mut back)).unwrap();
        prop_assert_eq!(&back, &data);
        let pinned: Vec<u8> = block_on(space.pin(address, bytes)).unwrap().iter().flat_map(|view| view.as_slice().to_vec()).collect();
        prop_assert_eq!(&pinned, &data);
        prop_assert_eq!(block_on(space.read_string(address, bytes)).unwrap(), None);
    }
}
