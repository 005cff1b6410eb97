use super::super::buddy::{CACHED, FrameInfo, ORDERS};
use super::*;
use proptest::prelude::*;
extern crate std;
use std::vec::Vec;

const LOTS: u32 = 40;
const END: u32 = LOTS << LOT_ORDER;

struct Table(Vec<FrameInfo>);

impl FrameTable for Table {
    fn info(&self, number: u32) -> &FrameInfo {
        &self.0[number as usize]
    }

    fn knows(&self, number: u32) -> bool {
        (number as usize) < self.0.len()
    }
}

/// The truth about an allocator: who has each frame, and where each lot is.
struct Model {
    table: Table,
    buddy: Buddy,
    held: Vec<(u32, u8, Kind)>,
    taken: Vec<bool>,
    here: Vec<bool>,
    leaving: Vec<bool>,
}

#[derive(Clone, Debug)]
enum Act {
    Take(u8, Kind),
    Give(usize),
    Begin(u32),
    Finish(u32),
    Stay(u32),
    Join(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![Just(Kind::Fixed), Just(Kind::Movable)];
    let lot = 0..LOTS;
    prop_oneof![
        8 => (prop_oneof![6 => 0u8..4, 2 => 4u8..9, 1 => 9u8..12], kind).prop_map(|(order, kind)| Act::Take(order, kind)),
        8 => any::<usize>().prop_map(Act::Give),
        3 => lot.clone().prop_map(Act::Begin),
        2 => lot.clone().prop_map(Act::Finish),
        2 => lot.clone().prop_map(Act::Stay),
        2 => lot.prop_map(Act::Join),
    ]
}

impl Model {
    fn new() -> Model {
        let mut model = Model {
            table: Table((0..END).map(|_| FrameInfo::default()).collect()),
            buddy: Buddy::new(),
            held: Vec::new(),
            taken: std::vec![false; END as usize],
            here: std::vec![false; LOTS as usize],
            leaving: std::vec![false; LOTS as usize],
        };
        // A piece of the first lot is somebody else's: that lot cannot leave.
        model.buddy.add_region(&model.table, 100, 24 << LOT_ORDER);
        (0..24).for_each(|lot| model.here[lot] = true);
        model
    }

    fn frames(block: u32, order: u8) -> std::ops::Range<usize> {
        block as usize..block as usize + (1 << order)
    }

    fn is_used(&self, lot: u32) -> bool {
        self.taken[Model::frames(lot << LOT_ORDER, LOT_ORDER)].contains(&true)
    }

    fn may_leave(&self, lot: u32) -> bool {
        lot > 0 && self.here[lot as usize]
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        let Model { table, buddy, .. } = self;
        match *act {
            Act::Take(order, kind) => {
                let Some(block) = buddy.take(table, order, kind) else { return Ok(()) };
                prop_assert_eq!(block % (1 << order), 0, "blocks are aligned to their size");
                for frame in Model::frames(block, order) {
                    let lot = frame >> LOT_ORDER;
                    prop_assert!(
                        self.here[lot] && !self.leaving[lot] && frame >= 100,
                        "frame {frame} is not to be had"
                    );
                    prop_assert!(!std::mem::replace(&mut self.taken[frame], true), "frame {frame} is handed out twice");
                }
                self.held.push((block, order, kind));
            }
            Act::Give(any) if !self.held.is_empty() => {
                let (block, order, _) = self.held.swap_remove(any % self.held.len());
                prop_assert_eq!(buddy.give(table, block, order), Ok(()));
                Model::frames(block, order).for_each(|frame| self.taken[frame] = false);
            }
            Act::Give(_) => {}
            Act::Begin(lot) => {
                let begun = buddy.begin_leaving(table, lot);
                prop_assert_eq!(begun, self.may_leave(lot) && !self.leaving[lot as usize]);
                self.leaving[lot as usize] |= begun;
            }
            Act::Finish(lot) => {
                let wanted = self.leaving[lot as usize] && !self.is_used(lot);
                prop_assert_eq!(self.buddy.finish_leaving(&self.table, lot), wanted);
                if wanted {
                    (self.here[lot as usize], self.leaving[lot as usize]) = (false, false);
                }
            }
            Act::Stay(lot) => {
                buddy.stay(table, lot);
                self.leaving[lot as usize] = false;
            }
            Act::Join(lot) if !self.here[lot as usize] => {
                buddy.add_region(table, lot << LOT_ORDER, (lot + 1) << LOT_ORDER);
                self.here[lot as usize] = true;
            }
            Act::Join(_) => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let lots = || (0..LOTS).filter(|lot| self.here[*lot as usize]);
        let outside = 100 * usize::from(self.here[0]);
        prop_assert_eq!(self.buddy.frames(), (lots().count() << LOT_ORDER) - outside);
        let free = lots().filter(|lot| !self.leaving[*lot as usize]).map(|lot| {
            let frames = Model::frames(lot << LOT_ORDER, LOT_ORDER);
            self.taken[frames].iter().filter(|taken| !**taken).count()
        });
        prop_assert_eq!(self.buddy.free_frames(), free.sum::<usize>() - outside);
        for lot in lots().filter(|lot| *lot > 0) {
            let frames = Model::frames(lot << LOT_ORDER, LOT_ORDER);
            let used = self.buddy.lot_use(&self.table, lot).expect("it is here");
            let taken = self.taken[frames].iter().filter(|taken| **taken).count() as u32;
            prop_assert_eq!((used.movable + used.fixed, used.cached), (taken, 0));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn lots_come_and_go_and_no_frame_is_lost_or_handed_out_twice(acts in proptest::collection::vec(act(), 1..400)) {
        let mut model = Model::new();
        for act in &acts {
            model.act(act)?;
            model.check()?;
        }
        while let Some((block, order, _)) = model.held.pop() {
            prop_assert_eq!(model.buddy.give(&model.table, block, order), Ok(()));
            Model::frames(block, order).for_each(|frame| model.taken[frame] = false);
        }
        for lot in 1..LOTS {
            model.buddy.stay(&model.table, lot);
            model.leaving[lot as usize] = false;
        }
        model.check()?;
        // All lots of which nobody has a frame merge again and can leave.
        for lot in (1..LOTS).filter(|lot| model.here[*lot as usize]) {
            prop_assert!(model.buddy.begin_leaving(&model.table, lot) && model.buddy.finish_leaving(&model.table, lot));
        }
        prop_assert_eq!(model.buddy.frames(), 512 - 100);
    }
}

#[test]
fn frames_of_both_kinds_lie_in_different_lots() {
    let model = &mut Model::new();
    let mut lots = [Vec::new(), Vec::new()];
    for number in 0..4000 {
        let kind = if number % 2 == 0 { Kind::Fixed } else { Kind::Movable };
        lots[number % 2].push(lot_of(model.buddy.take(&model.table, 0, kind).unwrap()));
    }
    assert!(lots[0].iter().all(|lot| !lots[1].contains(lot)));
    let highest = lots.iter().flatten().max();
    assert!(highest <= Some(&8), "lots are taken from below: {highest:?}");
    // If there is no other memory, each kind takes what there is.
    while model.buddy.take(&model.table, 0, Kind::Fixed).is_some() {}
    assert_eq!(model.buddy.free_frames(), 0);
}

#[test]
fn a_frame_that_a_core_keeps_holds_its_lot() {
    let model = &mut Model::new();
    let block = model.buddy.take(&model.table, 0, Kind::Movable).unwrap();
    model.table.info(block).state.store(CACHED, Relaxed);
    let lot = lot_of(block);
    assert!(model.buddy.begin_leaving(&model.table, lot) && !model.buddy.finish_leaving(&model.table, lot));
    assert_eq!(model.buddy.lot_use(&model.table, lot), Some(LotUse { cached: 1, ..LotUse::default() }));
    model.table.info(block).state.store(TAKEN, Relaxed);
    assert_eq!(model.buddy.give(&model.table, block, 0), Ok(()));
    assert!(model.buddy.finish_leaving(&model.table, lot) && !model.buddy.begin_leaving(&model.table, lot));
}

#[test]
fn a_large_block_gives_the_lots_that_leave() {
    let model = &mut Model::new();
    let block = model.buddy.take(&model.table, 11, Kind::Fixed).unwrap();
    let lot = lot_of(block);
    assert!(ORDERS > 11 && model.buddy.begin_leaving(&model.table, lot + 1));
    assert!(!model.buddy.finish_leaving(&model.table, lot + 1));
    assert_eq!(model.buddy.give(&model.table, block, 11), Ok(()));
    assert!(model.buddy.finish_leaving(&model.table, lot + 1));
    assert_eq!(model.buddy.free_frames(), (24 << 9) - 100 - 512);
}
