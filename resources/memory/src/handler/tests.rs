use super::*;
use alloc::boxed::Box;
use gyre_account::ActivityParams;
use gyre_interface::memory::memory::Server as _;
use gyre_message::direct::{block_on, direct_link};

std::thread_local! {
    static FREE: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// A keeper whose memory can all be given back, except for the part marked as held for good.
struct Keeper {
    activities: &'static Activities,
    kept: SpinLock<Vec<(ActivityId, u64)>>,
    /// At the next look it only marks.
    marks: SpinLock<bool>,
}

impl Keeper {
    fn keep(&self, activity: ActivityId, bytes: u64) {
        self.activities.charge_memory(activity, bytes).unwrap();
        FREE.set(FREE.get() - bytes);
        self.kept.lock().push((activity, bytes));
    }

    fn kept(&self, activity: ActivityId) -> u64 {
        self.kept.lock().iter().filter(|(owner, _)| *owner == activity).map(|(_, bytes)| bytes).sum()
    }
}

impl reclaim::Server for Keeper {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64, _: Effort) -> Result<u64, MemoryError> {
        if core::mem::take(&mut *self.marks.lock()) {
            return Ok(0);
        }
        let mut given = 0;
        for (_, kept) in self.kept.lock().iter_mut().filter(|(owner, _)| *owner == activity) {
            let part = (*kept).min(bytes - given);
            *kept -= part;
            given += part;
        }
        self.activities.credit_memory(activity, given);
        FREE.set(FREE.get() + given);
        Ok(given)
    }
}

struct World {
    memory: &'static Memory,
    keeper: &'static Keeper,
    tenants: [ActivityId; 3],
}

const KIB: u64 = 1 << 10;
const LIMIT: u64 = 2048 * KIB;

/// Returns a machine of 3 MiB for tenants, each entitled to 1 MiB and limited to 2 MiB.
fn world() -> World {
    world_with_group(u64::MAX)
}

/// Makes the world of [`world`] with the first two as a group with a limit of its own.
fn world_with_group(limit: u64) -> World {
    let activities: &'static Activities = Box::leak(Box::default());
    let params = |memory_bytes_max| ActivityParams { memory_bytes_max, ..ActivityParams::default() };
    let group = activities.create(None, "group", params(limit)).unwrap();
    let tenants = [("a", Some(group)), ("b", Some(group)), ("c", None)]
        .map(|(name, parent)| activities.create(parent, name, params(LIMIT)).unwrap());
    let keeper: &'static Keeper =
        Box::leak(Box::new(Keeper { activities, kept: SpinLock::default(), marks: SpinLock::default() }));
    let client = reclaim::Client::new(direct_link(move |request| Box::pin(reclaim::serve(keeper, request))));
    FREE.set(3072 * KIB);
    let options = Options {
        activities,
        capacity_bytes: 3072 * KIB,
        low_bytes: 0,
        free_bytes: || FREE.get(),
        payer: &|activity| if activity.is_member() { ActivityId(activity.lead_index() as u32) } else { activity },
        providers: alloc::vec![client],
    };
    let budget = Budget { reservation_bytes: 0, limit_bytes: LIMIT, share: 1 };
    let memory = Box::leak(Box::new(Memory::new(options, tenants.map(|tenant| (tenant, budget)))));
    World { memory, keeper, tenants }
}

#[test]
fn room_that_is_there_takes_nothing_from_anybody() {
    let World { memory, keeper, tenants: [a, b, _] } = world();
    keeper.keep(b, 1024 * KIB);
    assert_eq!(block_on(memory.reserve(a, 4 * KIB)), Ok(()));
    assert_eq!(keeper.kept(b), 1024 * KIB);
}

#[test]
fn who_reaches_its_limit_loses_its_own_pages() {
    let World { memory, keeper, tenants: [a, b, _] } = world();
    keeper.keep(a, LIMIT);
    keeper.keep(b, 512 * KIB);
    assert_eq!(block_on(memory.reserve(a, 4 * KIB)), Ok(()));
    assert!(keeper.kept(a) <= LIMIT - 4 * KIB);
    assert_eq!(keeper.kept(b), 512 * KIB);
}

#[test]
fn a_full_machine_takes_from_who_is_over_its_entitlement() {
    let World { memory, keeper, tenants: [a, b, c] } = world();
    keeper.keep(b, 2048 * KIB);
    keeper.keep(c, 1024 * KIB);
    assert_eq!(block_on(memory.reserve(a, 256 * KIB)), Ok(()));
    assert!(keeper.kept(b) <= 1792 * KIB);
    assert_eq!(keeper.kept(c), 1024 * KIB, "c is within its entitlement");
    assert_eq!(memory.figures_of(b).unwrap().reclaimed_bytes, 2048 * KIB - keeper.kept(b));
}

#[test]
fn a_stream_never_takes_what_others_are_entitled_to() {
    let World { memory, keeper, tenants: [a, b, c] } = world();
    keeper.keep(b, 1000 * KIB);
    keeper.keep(c, 1000 * KIB);
    for _ in 0..1000 {
        assert_eq!(block_on(memory.reserve(a, 32 * KIB)), Ok(()));
        keeper.keep(a, 32 * KIB);
    }
    assert_eq!((keeper.kept(b), keeper.kept(c)), (1000 * KIB, 1000 * KIB));
}

#[test]
fn who_holds_only_what_cannot_be_given_back_is_told_so() {
    let World { memory, tenants: [a, ..], .. } = world();
    memory.options.activities.charge_memory(a, LIMIT).unwrap();
    assert_eq!(block_on(memory.reserve(a, 4 * KIB)), Err(MemoryError::LimitReached));
    assert_eq!(memory.figures_of(a).unwrap().failures, 1);
}

#[test]
fn what_a_keeper_gives_at_its_second_look_is_waited_for() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    keeper.keep(a, LIMIT);
    *keeper.marks.lock() = true;
    assert_eq!(block_on(memory.reserve(a, 4 * KIB)), Ok(()));
    assert_eq!(memory.figures_of(a).unwrap().failures, 0);
}

#[test]
fn a_limit_above_counts_for_those_below() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    let child = memory.options.activities.create(Some(a), "child", ActivityParams::default()).unwrap();
    keeper.keep(a, LIMIT);
    assert_eq!(memory.shortage(child, KIB), Some(Shortage::Group(a, KIB)));
}

/// Makes `tenant` the one to be asked if others than those of a group are: it holds 2 MiB and is entitled to 1 MiB.
fn keep_more_than_entitled(memory: &Memory, keeper: &Keeper, tenant: ActivityId) {
    memory.set_limit(tenant, 1024 * KIB);
    keeper.keep(tenant, 2048 * KIB);
    assert_eq!(memory.figures_of(tenant).unwrap().entitled_bytes, 1024 * KIB);
}

#[test]
fn a_full_group_takes_from_its_own_and_by_what_they_are_entitled_to() {
    let World { memory, keeper, tenants: [a, b, c] } = world_with_group(1024 * KIB);
    let entitled = |tenant| memory.figures_of(tenant).unwrap().entitled_bytes;
    assert_eq!((entitled(a), entitled(b), entitled(c)), (512 * KIB, 512 * KIB, 2048 * KIB));
    keep_more_than_entitled(memory, keeper, c);
    keeper.keep(a, 256 * KIB);
    keeper.keep(b, 768 * KIB);
    assert_eq!(block_on(memory.reserve(a, 128 * KIB)), Ok(()));
    assert!((512 * KIB..=640 * KIB).contains(&keeper.kept(b)), "{} KiB", keeper.kept(b) / KIB);
    // A tenant that streams takes its own memory, however little the others leave it.
    for _ in 0..500 {
        assert_eq!(block_on(memory.reserve(b, 32 * KIB)), Ok(()));
        keeper.keep(b, 32 * KIB);
    }
    assert_eq!((keeper.kept(a), keeper.kept(c)), (256 * KIB, 2048 * KIB), "nobody else's");
}

#[test]
fn a_group_full_of_what_nobody_can_give_back_refuses_and_asks_nobody_else() {
    let World { memory, keeper, tenants: [a, b, c] } = world_with_group(1024 * KIB);
    memory.options.activities.charge_memory(b, 1000 * KIB).unwrap();
    keep_more_than_entitled(memory, keeper, c);
    assert_eq!(block_on(memory.reserve(a, 32 * KIB)), Err(MemoryError::LimitReached));
    assert_eq!(memory.figures_of(a).unwrap().failures, 1);
    assert_eq!(keeper.kept(c), 2048 * KIB);
    assert_eq!(block_on(memory.reserve(a, 24 * KIB)), Ok(()), "what is left is there for it");
}

#[test]
fn pages_are_kept_only_below_the_groups_limit_and_the_entitlement() {
    let World { memory, keeper, tenants: [a, b, c] } = world_with_group(1024 * KIB);
    keeper.keep(b, 600 * KIB);
    keeper.keep(a, 200 * KIB);
    assert!(memory.has_room(a) && memory.has_room(b) && memory.has_room(c));
    keeper.keep(a, 128 * KIB);
    assert!(memory.has_room(a), "it has less than it is entitled to");
    assert!(!memory.has_room(b) && memory.has_room(c));
}

#[test]
fn pages_are_kept_only_below_the_limit_and_the_entitlement() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    assert!(memory.has_room(a));
    keeper.keep(a, LIMIT - LIMIT / 8);
    assert!(!memory.has_room(a));
}

#[test]
fn reservations_beyond_the_machine_are_refused() {
    let World { memory, tenants: [a, b, _], .. } = world();
    let budget = |reservation_bytes| Budget { reservation_bytes, limit_bytes: LIMIT, share: 1 };
    assert_eq!(block_on(memory.set_budget(a, budget(2048 * KIB))), Ok(()));
    assert_eq!(block_on(memory.set_budget(b, budget(2048 * KIB))), Err(MemoryError::Invalid));
    assert_eq!(memory.figures_of(a).unwrap().entitled_bytes, 2048 * KIB);
}

#[test]
fn reservations_beyond_a_groups_limit_are_refused_whichever_changes() {
    let World { memory, tenants: [a, b, c], .. } = world_with_group(1024 * KIB);
    let group = memory.options.activities.ancestors(a).nth(1).unwrap();
    let budget = |kib| Budget { reservation_bytes: kib * KIB, limit_bytes: LIMIT, share: 1 };
    assert_eq!(block_on(memory.set_budget(a, budget(512))), Ok(()));
    assert_eq!(block_on(memory.set_budget(b, budget(513))), Err(MemoryError::Invalid));
    assert_eq!(block_on(memory.set_budget(b, budget(512))), Ok(()));
    assert_eq!(block_on(memory.set_budget(a, budget(512))), Ok(()), "as before");
    assert_eq!(block_on(memory.set_budget(c, budget(1025))), Ok(()), "in no group");
    assert_eq!(memory.set_group_limit(group, 1023 * KIB), Err(MemoryError::Invalid));
    assert_eq!(memory.set_group_limit(group, 1024 * KIB), Ok(()));
    assert_eq!(memory.set_group_limit(ActivityId(9_999), 1024 * KIB), Err(MemoryError::Unknown));
}

#[test]
fn a_groups_limit_that_changes_holds_from_the_next_request_on() {
    let World { memory, keeper, tenants: [a, b, c] } = world_with_group(u64::MAX);
    let group = memory.options.activities.ancestors(a).nth(1).unwrap();
    keeper.keep(a, 768 * KIB);
    keeper.keep(b, 256 * KIB);
    keep_more_than_entitled(memory, keeper, c);
    assert_eq!(memory.set_group_limit(group, 512 * KIB), Ok(()));
    assert_eq!(memory.figures_of(a).unwrap().entitled_bytes, 256 * KIB);
    assert_eq!(block_on(memory.reserve(b, 4 * KIB)), Ok(()));
    assert!(keeper.kept(a) + keeper.kept(b) <= 508 * KIB, "{} and {}", keeper.kept(a), keeper.kept(b));
    assert_eq!(keeper.kept(c), 2048 * KIB, "in no group");
    assert_eq!(memory.set_group_limit(group, u64::MAX), Ok(()));
    assert_eq!(memory.figures_of(a).unwrap().entitled_bytes, 1024 * KIB);
}

/// Processes of `tenant`, which may hold so much each.
fn processes(memory: &Memory, tenant: ActivityId, limit: u64) -> [ActivityId; 2] {
    let activities = memory.options.activities;
    let params = ActivityParams { member_bytes_max: limit, ..activities.params(tenant) };
    activities.set_params(tenant, params).unwrap();
    ["p", "q"].map(|name| activities.create_member(tenant, name, ActivityParams::default(), 10).unwrap())
}

#[test]
fn a_process_at_its_limit_gives_its_own_pages_and_nobody_elses() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    let [p, q] = processes(memory, a, 512 * KIB);
    keeper.keep(p, 512 * KIB);
    keeper.keep(q, 512 * KIB);
    keeper.keep(a, 512 * KIB);
    assert!(!memory.has_room(p) && memory.has_room(a));
    assert_eq!(memory.shortage(p, 4 * KIB), Some(Shortage::Process(4 * KIB)));
    assert_eq!(block_on(memory.reserve(p, 4 * KIB)), Ok(()));
    assert_eq!((keeper.kept(p), keeper.kept(q), keeper.kept(a)), (444 * KIB, 512 * KIB, 512 * KIB));
    assert_eq!(memory.figures_of(a).unwrap().reclaimed_bytes, 68 * KIB, "it counts as taken from its tenant");
}

#[test]
fn a_process_that_can_give_nothing_is_refused_while_its_sibling_goes_on() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    let [p, q] = processes(memory, a, 512 * KIB);
    memory.options.activities.charge_memory(p, 512 * KIB).unwrap();
    keeper.keep(q, 256 * KIB);
    assert_eq!(block_on(memory.reserve(p, 4 * KIB)), Err(MemoryError::LimitReached));
    assert_eq!(block_on(memory.reserve(q, 128 * KIB)), Ok(()));
    assert_eq!(keeper.kept(q), 256 * KIB);
}

#[test]
fn at_its_tenants_limit_a_process_takes_from_the_whole_tenant() {
    let World { memory, keeper, tenants: [a, ..] } = world();
    let [p, q] = processes(memory, a, LIMIT - 64 * KIB);
    keeper.keep(q, LIMIT - 64 * KIB);
    keeper.keep(a, 64 * KIB);
    assert_eq!(memory.shortage(p, 4 * KIB), Some(Shortage::Limit(4 * KIB)));
    assert_eq!(block_on(memory.reserve(p, 4 * KIB)), Ok(()));
    assert_eq!(keeper.kept(a), 0);
}
