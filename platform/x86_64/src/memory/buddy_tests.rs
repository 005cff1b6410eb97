use super::*;
extern crate std;
use std::vec::Vec;

struct Table(Vec<FrameInfo>);

impl FrameTable for Table {
    fn info(&self, number: u32) -> &FrameInfo {
        &self.0[number as usize]
    }

    fn knows(&self, number: u32) -> bool {
        (number as usize) < self.0.len()
    }
}

/// Descriptions of the lots in which so many frames lie.
fn table(frames: usize) -> Table {
    Table((0..frames.next_multiple_of(1 << LOT_ORDER)).map(|_| FrameInfo::default()).collect())
}

#[test]
fn everything_taken_and_given_back_in_any_order_merges_again() {
    let table = table(5000);
    let mut buddy = Buddy::new();
    buddy.add_region(&table, 3, 1027);
    buddy.add_region(&table, 2048, 5000);
    let all = buddy.frames();
    assert_eq!(all, 1024 + 2952);
    let largest_before = buddy.whole[2] != NONE;
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let mut held: Vec<(u32, u8)> = Vec::new();
    let mut used = std::vec![false; 5000];
    for _ in 0..20_000 {
        if random() % 2 == 0 {
            let order = (random() % 6) as u8;
            if let Some(block) = buddy.take(&table, order, Kind::Movable) {
                assert_eq!(block % (1 << order), 0, "blocks are aligned to their size");
                for frame in block..block + (1 << order) {
                    assert!(!std::mem::replace(&mut used[frame as usize], true), "no frame is handed out twice");
                }
                held.push((block, order));
            }
        } else if !held.is_empty() {
            let (block, order) = held.swap_remove(random() % held.len());
            (block..block + (1 << order)).for_each(|frame| used[frame as usize] = false);
            assert_eq!(buddy.give(&table, block, order), Ok(()));
        }
        let taken: usize = held.iter().map(|(_, order)| 1 << order).sum();
        assert_eq!(buddy.free_frames() + taken, all);
    }
    for (block, order) in held {
        assert_eq!(buddy.give(&table, block, order), Ok(()));
    }
    assert_eq!(buddy.free_frames(), all);
    assert!(largest_before && buddy.take(&table, 11, Kind::Fixed).is_some());
}

#[test]
fn a_block_given_twice_or_with_another_order_is_refused() {
    let table = table(64);
    let mut buddy = Buddy::new();
    buddy.add_region(&table, 0, 64);
    let block = buddy.take(&table, 2, Kind::Fixed).unwrap();
    assert_eq!(buddy.give(&table, block, 1), Err(NotTaken));
    assert_eq!(buddy.give(&table, block + 1, 2), Err(NotTaken));
    assert_eq!(buddy.give(&table, block, 2), Ok(()));
    assert_eq!(buddy.give(&table, block, 2), Err(NotTaken));
}
