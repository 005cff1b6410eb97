//! The charges of processes for pages that they share, compared with a count of each page's mappings.

use crate::{
    AddressSpace, FRACTION_BITS, Limits, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights,
    SharedMemory,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{Activities, ActivityId, ActivityParams, ResourceId, set_current};
use gyre_message::direct::block_on;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// Single pages, shared memory, huge pages.
const PRIVATE: u64 = 0x10_0000_0000;
const SHARED: u64 = 0x20_0000_0000;
const LARGE: u64 = 0x30_0000_0000;
const PAGES: u64 = 12;
const PROCESSES_MAX: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fork(usize),
    Exit(usize),
    Write(usize, u64),
    WriteShared(usize, u64),
    WriteLarge(usize, u64),
    Unmap(usize, u64, u64),
    UnmapShared(usize),
    Discard(usize, u64, u64),
    DiscardLarge(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, page) = (0..PROCESSES_MAX, 0..PAGES);
    let large = 0..2 * HUGE / PAGE;
    let step = prop_oneof![
        4 => who.clone().prop_map(Step::Fork),
        2 => who.clone().prop_map(Step::Exit),
        6 => (who.clone(), page.clone()).prop_map(|(who, page)| Step::Write(who, page)),
        4 => (who.clone(), page.clone()).prop_map(|(who, page)| Step::WriteShared(who, page)),
        2 => (who.clone(), large.clone()).prop_map(|(who, page)| Step::WriteLarge(who, page)),
        2 => (who.clone(), page.clone(), 1..5u64).prop_map(|(who, page, count)| Step::Unmap(who, page, count)),
        1 => who.clone().prop_map(Step::UnmapShared),
        2 => (who.clone(), page, 1..5u64).prop_map(|(who, page, count)| Step::Discard(who, page, count)),
        1 => (who, large).prop_map(|(who, page)| Step::DiscardLarge(who, page)),
    ];
    prop::collection::vec(step, 1..60)
}

struct World {
    activities: &'static Activities,
    tenant: ActivityId,
    processes: Vec<(ActivityId, Arc<AddressSpace>)>,
}

impl World {
    async fn new() -> World {
        let activities: &'static Activities = Box::leak(Box::new(Activities::new()));
        gyre_machine::set_memory_meter(activities);
        let tenant = activities.create(None, "tenant", ActivityParams::default()).unwrap();
        let mut world = World { activities, tenant, processes: Vec::new() };
        let first = world.open();
        let limits =
            Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };
        let space = AddressSpace::new(&LocalFlush, limits, first).unwrap();
        let memory = Provider::Memory(Arc::new(SharedMemory::default()));
        for (at, bytes, options, provider) in [
            (PRIVATE, PAGES * PAGE, Options::empty(), Provider::Anonymous),
            (SHARED, PAGES * PAGE, Options::SHARED, memory),
            (LARGE, 2 * HUGE, Options::empty(), Provider::Anonymous),
        ] {
            let rights = Rights::READ | Rights::WRITE;
            let place = Place::Fixed(at);
            let request = MapRequest {
                place,
                bytes,
                rights,
                rights_max: rights,
                options,
                provider,
                first_index: PageIndex::FIRST,
            };
            space.map(request).await.unwrap();
        }
        world.processes.push((first, space));
        world
    }

    fn open(&self) -> ActivityId {
        self.activities.create_member(self.tenant, "p", ActivityParams::default(), 1000).unwrap()
    }

    async fn apply(&mut self, step: Step) {
        let count = self.processes.len();
        let (Step::Fork(who)
        | Step::Exit(who)
        | Step::Write(who, _)
        | Step::WriteShared(who, _)
        | Step::WriteLarge(who, _)
        | Step::Unmap(who, ..)
        | Step::UnmapShared(who)
        | Step::Discard(who, ..)
        | Step::DiscardLarge(who, _)) = step;
        let (id, space) = self.processes[who % count].clone();
        set_current(id, ResourceId::RUNTIME);
        let _ = match step {
            Step::Fork(_) if count < PROCESSES_MAX => {
                let child = self.open();
                self.processes.push((child, space.duplicate(child).await.unwrap()));
                Ok(())
            }
            Step::Exit(_) if count > 1 => {
                self.processes.remove(who % count);
                // Some end in order, some are killed.
                if who % 2 == 0 {
                    space.clear().await;
                }
                drop(space);
                self.activities.close(id).unwrap();
                Ok(())
            }
            Step::Write(_, page) => space.copy_out(PRIVATE + page * PAGE, &[1]).await.map_err(drop),
            Step::WriteShared(_, page) => space.copy_out(SHARED + page * PAGE, &[1]).await.map_err(drop),
            Step::WriteLarge(_, page) => space.copy_out(LARGE + page * PAGE, &[1]).await.map_err(drop),
            Step::Unmap(_, page, count) => space.unmap(PRIVATE + page * PAGE, count * PAGE).await.map_err(drop),
            Step::UnmapShared(_) => space.unmap(SHARED, PAGES * PAGE).await.map_err(drop),
            Step::Discard(_, page, count) => space.discard(PRIVATE + page * PAGE, count * PAGE).await.map_err(drop),
            Step::DiscardLarge(_, page) => space.discard(LARGE + page * PAGE, PAGE).await.map_err(drop),
            Step::Fork(_) | Step::Exit(_) => Ok(()),
        };
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
    }

    async fn check(&self) {
        let mut sum = 0;
        for (id, space) in &self.processes {
            let usage = space.usage().await;
            let held = self.activities.memory(*id).bytes;
            // A quotient is cut for each page there and for each set here; the remainders belong to one of the viewers.
            let part = usage.part() >> FRACTION_BITS;
            let pages = [usage.anonymous, usage.shared].iter().map(|kind| kind.resident / PAGE).sum::<u64>();
            // Shared memory without a viewer is charged to its last viewer.
            let kept = PAGES * PAGE;
            assert!(held + pages >= part && held <= part + pages + kept, "{held} of {part}");
            sum += held;
        }
        let tenant = self.activities.memory(self.tenant);
        assert_eq!(sum + tenant.bytes, tenant.bytes_total);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn each_process_is_charged_its_part_whatever_they_do(steps in steps()) {
        let before = gyre_machine::live_frame_bytes();
        std::thread::spawn(move || block_on(async move {
            let mut world = World::new().await;
            for step in steps {
                world.apply(step).await;
                world.check().await;
            }
            for (id, space) in core::mem::take(&mut world.processes) {
                drop(space);
                world.activities.close(id).unwrap();
            }
            assert_eq!(world.activities.memory(world.tenant).bytes_total, 0);
        })).join().unwrap();
        prop_assert_eq!(gyre_machine::live_frame_bytes(), before);
    }
}
