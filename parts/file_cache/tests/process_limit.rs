//! A process that reads more than it may hold loses its own pages, not its siblings'.

use gyre_account::tree::ActivityParams;
use gyre_account::{Activities, ActivityId, set_current_activity};
use gyre_file_cache::{Begin, CacheOptions, FileCache, PageKey, Room};
use gyre_interface::memory::memory;
use gyre_machine::PAGE_BYTES;
use gyre_message::direct::direct_link;
use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

const LIMIT_PAGES: u64 = 64;

static ACTIVITIES: OnceLock<Activities> = OnceLock::new();

fn activities() -> &'static Activities {
    ACTIVITIES.get_or_init(Activities::new)
}

fn has_room(activity: ActivityId) -> bool {
    let limit = activities().own_limit(activity);
    limit == u64::MAX || activities().held_bytes(activity) < limit - limit / 8
}

fn process_pages(activity: ActivityId) -> usize {
    usize::try_from(activities().own_limit(activity) / PAGE_BYTES as u64).unwrap_or(usize::MAX)
}

fn lead(activity: ActivityId) -> ActivityId {
    activities().lead(activity)
}

fn cache() -> &'static FileCache {
    let options = CacheOptions { pages: 10_000, pages_per_activity: 10_000, dirty_per_activity: 4, payer: &lead };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    let nobody = memory::Client::new(direct_link(|_| Box::pin(async {})));
    cache.connect(Room { client: nobody, has_room: &has_room, process_pages: &process_pages, kept_pages: 4 });
    cache
}

fn key(index: u64) -> PageKey {
    PageKey { file_system: 1, node: 12, index }
}

fn read(cache: &'static FileCache, who: ActivityId, pages: core::ops::Range<u64>) {
    let before = set_current_activity(who);
    for index in pages {
        match cache.begin(key(index)) {
            Ok(Begin::Lead(fetch)) => drop(fetch.done()),
            Ok(_) => {}
            Err(_) => panic!("{who:?} has room for page {index}"),
        }
    }
    set_current_activity(before);
}

#[test]
fn a_process_that_streams_through_files_takes_its_own_pages_only() {
    gyre_machine::set_memory_meter(activities());
    let params = ActivityParams { member_bytes_max: LIMIT_PAGES * PAGE_BYTES as u64, ..ActivityParams::default() };
    let tenant = activities().create(None, "tenant", params).unwrap();
    let process = |name| activities().create_member(tenant, name, ActivityParams::default(), 10).unwrap();
    let [reader, stream] = ["reader", "stream"].map(process);
    let cache = cache();
    read(cache, reader, 0..50);
    read(cache, tenant, 100..300);
    read(cache, stream, 1000..2000);
    assert!((0..50).chain(100..300).all(|index| cache.knows(key(index))), "siblings and tenant lost nothing");
    let left = |cache: &FileCache| (1000..2000).filter(|index| cache.knows(key(*index))).count();
    assert!((40..=64).contains(&left(cache)), "{} of its own stay", left(cache));
    assert!(activities().held_bytes(stream) <= LIMIT_PAGES * PAGE_BYTES as u64);
    let before = left(cache);
    assert_eq!(cache.reclaim(stream, 30), 30);
    assert_eq!((left(cache), cache.reclaim(stream, 100)), (before - 30, before - 30));
    assert_eq!(cache.reclaim(stream, 1), 0, "there are others', which are not asked for");
    assert!((0..50).chain(100..300).all(|index| cache.knows(key(index))));
}

#[test]
fn who_is_short_waits_for_pages_of_its_own_that_somebody_else_is_writing() {
    let cache = cache();
    let [own, other] = ["own", "other"].map(|name| activities().create(None, name, ActivityParams::default()).unwrap());
    for (who, index) in [(own, 5000), (other, 5001)] {
        read(cache, who, index..index + 1);
        let before = set_current_activity(who);
        assert!(cache.mark_dirty(key(index)));
        set_current_activity(before);
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut ask = |who| pin!(cache.until_one_is_written(who)).poll(&mut context);
    assert_eq!(ask(own), Poll::Ready(false), "none is being written");
    let theirs = cache.start_writing(key(5001)).unwrap();
    assert_eq!(ask(own), Poll::Ready(false), "others' are nothing to wait for");
    let mine = cache.start_writing(key(5000)).unwrap();
    let mut waiting = pin!(cache.until_one_is_written(own));
    let mut context = Context::from_waker(Waker::noop());
    theirs.done();
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    mine.done();
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(true));
}
