//! The file cache by itself: budgets, the choice of pages that go, dirty pages, and tasks that are killed in between.
//!
//! A test makes a cache of so many pages with a budget for each activity, brings pages by `bring` in the name of one, and asks which
//! pages are there, what each activity holds, and which pages are dirty. No file system and no disk stands behind it, and pages hold
//! nothing of interest.
//!
//! The tests hold that an activity at its budget loses its own pages and never a neighbour's, that pages used again stay and a stream
//! passes, that room is found although all pages were just used, that dirty and held pages never go, that a killed reader hands its fetch
//! over and a killed writer leaves its page dirty, and that counts are exact under random use from two threads.
//!
//! Contents, write-back and read-ahead through the cache are left out: `resources/ext2/tests` has them.

use super::*;
use gyre_account::set_current_activity;
use gyre_message::direct::block_on;
use gyre_message::{select, sleep_ns, spawn};

fn cache(pages: usize, per_activity: usize) -> &'static FileCache {
    let options =
        CacheOptions { pages, pages_per_activity: per_activity, dirty_per_activity: 4, payer: &|activity| activity };
    alloc::boxed::Box::leak(alloc::boxed::Box::new(FileCache::new(options)))
}

fn key(index: u64) -> PageKey {
    PageKey { file_system: 1, node: 12, index }
}

fn bring(cache: &'static FileCache, index: u64) -> bool {
    match cache.begin(key(index)) {
        Ok(Begin::Lead(fetch)) => drop(fetch.done()),
        Ok(_) => {}
        Err(OutOfMemory) => return false,
    }
    true
}

fn held(cache: &FileCache, activity: u32) -> usize {
    let usage = cache.usage();
    usage.iter().find(|usage| usage.activity == ActivityId(activity)).map_or(0, |usage| usage.held)
}

/// Acts as an activity.
fn as_activity<T>(activity: u32, act: impl FnOnce() -> T) -> T {
    let before = set_current_activity(ActivityId(activity));
    let answer = act();
    set_current_activity(before);
    answer
}

#[test]
fn an_activity_at_its_budget_loses_its_own_pages_never_a_neighbours() {
    let cache = cache(1000, 10);
    as_activity(1, || (0..10).for_each(|index| assert!(bring(cache, index))));
    as_activity(2, || (100..1100).for_each(|index| assert!(bring(cache, index))));
    assert!((0..10).all(|index| cache.get(key(index)).is_some()), "the neighbour's pages are there");
    assert_eq!((held(cache, 1), held(cache, 2)), (10, 10));
}

#[test]
fn a_full_cache_takes_from_whoever_is_over_its_budget_first() {
    let cache = cache(100, 100);
    as_activity(1, || (0..90).for_each(|index| assert!(bring(cache, index))));
    as_activity(2, || (100..110).for_each(|index| assert!(bring(cache, index))));
    // All of the first one's pages are held elsewhere while its budget shrinks, so it stays over it.
    let pinned: Vec<Page> = (0..90).filter_map(|index| cache.get(key(index))).collect();
    cache.set_budget(ActivityId(1), 20);
    assert_eq!(held(cache, 1), 90);
    drop(pinned);
    as_activity(2, || (200..250).for_each(|index| assert!(bring(cache, index))));
    assert_eq!(held(cache, 2), 60, "it lost nothing of its own");
    assert_eq!(held(cache, 1), 40);
}

#[test]
fn a_small_budget_leaves_room_for_few_dirty_pages() {
    let cache = cache(1000, 1000);
    let dirtied_until_the_limit = |from: u64| {
        let dirty = |index: &u64| {
            assert!(bring(cache, *index));
            cache.mark_dirty(key(*index));
            !cache.is_over_dirty_limit()
        };
        as_activity(1, || (from..from + 50).take_while(dirty).count())
    };
    assert_eq!(dirtied_until_the_limit(0), 4, "of the machine");
    cache.set_budget(ActivityId(1), 10);
    as_activity(1, || assert!(cache.is_over_dirty_limit(), "a fifth of 10"));
}

#[test]
fn pages_that_are_used_again_stay() {
    let cache = cache(1000, 64);
    (0..64).for_each(|index| assert!(bring(cache, index)));
    for index in 64..2000 {
        (0..8).for_each(|hot| assert!(cache.get(key(hot)).is_some(), "page {hot} went when {index} came"));
        assert!(bring(cache, index));
    }
}

#[test]
fn a_stream_takes_the_place_of_what_was_read_once_not_of_what_is_used_again_and_again() {
    let cache = cache(10_000, 1_000);
    let read = |index: u64| {
        assert!(bring(cache, index));
        (0..4).for_each(|_| drop(cache.read(key(index))));
    };
    // Half of the budget is used in several passes, with other pages in between.
    for pass in 0..8 {
        (0..500).for_each(read);
        (0..150).for_each(|index| read(10_000 + 150 * pass + index));
    }
    (20_000..40_000).for_each(read);
    let stayed = (0..500).filter(|index| cache.knows(key(*index))).count();
    assert!(stayed >= 475, "{stayed} of 500 stayed");
}

#[test]
fn room_is_found_among_pages_that_have_all_just_been_used() {
    let cache = cache(100_000, 40_000);
    (0..40_000).for_each(|index| assert!(bring(cache, index)));
    (0..40_000).for_each(|index| assert!(cache.get(key(index)).is_some()));
    assert!(bring(cache, 50_000), "the marks of 2,500 pages in each shard are passed");
}

#[test]
fn room_is_found_where_all_pages_are_popular_and_have_just_been_used() {
    let cache = cache(100_000, 20_000);
    (0..20_000).for_each(|index| assert!(bring(cache, index)));
    for round in 0..30 {
        (0..20_000).for_each(|index| drop(cache.get(key(index))));
        (0..500).for_each(|index| assert!(bring(cache, 100_000 + 500 * round + index), "round {round}, page {index}"));
    }
    assert_eq!(held(cache, 0), 20_000);
}

#[test]
fn dirty_and_held_pages_never_go_and_no_room_is_an_answer() {
    let cache = cache(1000, 8);
    (0..8).for_each(|index| assert!(bring(cache, index)));
    (0..4).for_each(|index| assert!(cache.mark_dirty(key(index))));
    let held: Vec<Page> = (4..8).filter_map(|index| cache.get(key(index))).collect();
    assert!(!bring(cache, 100));
    cache.start_writing(key(0)).unwrap().done();
    assert!(bring(cache, 100));
    assert!(cache.get(key(0)).is_none());
    drop(held);
    (200..204).for_each(|index| assert!(bring(cache, index)));
    assert!((1..4).all(|index| cache.get(key(index)).is_some()));
}

#[test]
fn a_reader_that_is_killed_hands_its_fetch_over() {
    gyre_machine::set_virtual_time(0);
    block_on(async {
        let cache = cache(100, 100);
        let Ok(Begin::Lead(leader)) = cache.begin(key(5)) else { panic!() };
        let done = alloc::sync::Arc::new(SpinLock::new(Vec::new()));
        for reader in 0..3 {
            let done = done.clone();
            spawn(async move {
                loop {
                    match cache.begin(key(5)).unwrap() {
                        Begin::Here(_) => break done.lock().push((reader, "here")),
                        Begin::Wait(waiting) => waiting.done().await,
                        Begin::Lead(fetch) => {
                            sleep_ns(10).await;
                            fetch.done();
                            break done.lock().push((reader, "led"));
                        }
                    }
                }
            });
        }
        let Ok(Begin::Wait(abandoned)) = cache.begin(key(5)) else { panic!() };
        select(abandoned.done(), sleep_ns(5)).await;
        assert!(done.lock().is_empty());
        drop(leader);
        sleep_ns(100).await;
        let done = done.lock().clone();
        assert_eq!(done.len(), 3);
        assert_eq!(done.iter().filter(|(_, how)| *how == "led").count(), 1);
    });
}

#[test]
fn a_writer_that_is_killed_leaves_the_page_dirty() {
    let cache = cache(100, 100);
    as_activity(3, || assert!(bring(cache, 1) && cache.mark_dirty(key(1))));
    let writing = cache.start_writing(key(1)).unwrap();
    assert_eq!(writing.payer(), ActivityId(3));
    assert!(cache.start_writing(key(1)).is_none(), "one writes it already");
    assert_eq!(cache.being_written(ActivityId(3)), 1);
    drop(writing);
    assert_eq!(cache.being_written(ActivityId(3)), 0);
    assert_eq!(cache.dirty_pages(key(0), 10), [1]);
    let writing = cache.start_writing(key(1)).unwrap();
    assert_eq!(writing.payer(), ActivityId(3), "who dirtied it still pays");
    assert!(cache.mark_dirty(key(1)), "written to while it is on its way");
    writing.done();
    assert_eq!(cache.dirty_pages(key(0), 10), [1]);
}

#[test]
fn forgotten_pages_are_neither_dirty_nor_there() {
    let cache = cache(100, 100);
    (0..10).for_each(|index| assert!(bring(cache, index) && cache.mark_dirty(key(index))));
    cache.forget(1, 12, 3, 8);
    assert_eq!(cache.dirty_pages(key(0), 100), [0, 1, 2, 8, 9]);
    assert!(cache.get(key(5)).is_none());
    cache.forget(1, 12, 1, u64::MAX);
    assert_eq!(cache.dirty_pages(key(0), 100), [0]);
    assert_eq!(cache.usage().iter().map(|usage| (usage.held, usage.dirty)).next(), Some((1, 1)));
}

#[test]
fn an_activity_over_its_dirty_limit_is_told_so_and_shown_where_its_oldest_pages_are() {
    let cache = cache(100, 100);
    as_activity(7, || {
        for index in [9, 3, 5, 1] {
            assert!(bring(cache, index) && cache.mark_dirty(key(index)));
            assert!(!cache.is_over_dirty_limit());
        }
        let other = PageKey { node: 5, ..key(0) };
        let Ok(Begin::Lead(fetch)) = cache.begin(other) else { panic!("is absent") };
        fetch.done();
        assert!(cache.mark_dirty(other) && cache.is_over_dirty_limit());
        assert_eq!(cache.oldest_dirty_nodes(1, 4), [12]);
        assert_eq!(cache.oldest_dirty_nodes(1, 5), [5, 12]);
        assert_eq!(cache.oldest_dirty_nodes(2, 5), []);
    });
    as_activity(8, || assert!(!cache.is_over_dirty_limit() && cache.oldest_dirty_nodes(1, 9).is_empty()));
}

#[test]
fn random_use_from_two_threads_keeps_the_counts_exact() {
    let cache = cache(200, 60);
    let threads: Vec<_> = (0..2_u32)
        .map(|thread| {
            std::thread::spawn(move || {
                gyre_machine::select_core(thread as usize);
                set_current_activity(ActivityId(thread + 1));
                let mut seed = u64::from(thread) + 1;
                for _ in 0..40_000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let index = seed >> 33 & 0x7f;
                    match seed >> 60 {
                        0..=8 => drop(bring(cache, index)),
                        9 | 10 => drop(cache.mark_dirty(key(index))),
                        11 | 12 => drop(cache.start_writing(key(index)).map(Writing::done)),
                        13 => cache.forget(1, 12, index, index + 2),
                        _ => drop(cache.get(key(index))),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let usage = cache.usage();
    let here = (0..128).filter(|index| cache.get(key(*index)).is_some()).count();
    assert_eq!(usage.iter().map(|usage| usage.held).sum::<usize>(), here);
    assert_eq!(usage.iter().map(|usage| usage.dirty).sum::<usize>(), cache.dirty_pages(key(0), 1000).len());
    assert!(usage.iter().all(|usage| usage.held <= usage.budget));
}

#[test]
fn a_payer_keeps_its_last_pages_whoever_asks_for_them() {
    let cache = cache(100, 100);
    let nobody = memory::Client::new(gyre_message::direct::direct_link(|_| alloc::boxed::Box::pin(async {})));
    cache.connect(Room { client: nobody, has_room: &|_| true, process_pages: &|_| usize::MAX, kept_pages: 6 });
    as_activity(7, || (0..20).for_each(|index| assert!(bring(cache, index))));
    assert_eq!(cache.reclaim(ActivityId(7), 10), 10);
    let all: Vec<u64> = (0..20).collect();
    assert_eq!(cache.evict_pages(key(0).file_system, key(0).node, &all[..1]) + cache.reclaim(ActivityId(7), 10), 4);
    assert_eq!(cache.evict_pages(key(0).file_system, key(0).node, &all), 0);
    assert_eq!(cache.reclaim(ActivityId(7), 10), 0);
}

/// Checks, under random calls, that files without a page here or on its way are known as such, and no others.
#[test]
fn a_file_without_pages_is_known_as_such() {
    let cache = cache(60, 40);
    let page = |node, index| PageKey { file_system: 3, node, index };
    let mut random = 77_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut under_way = Vec::new();
    for _ in 0..4000 {
        let (node, index) = (next(6), next(20));
        match next(8) {
            0..=3 => {
                if let Ok(Begin::Lead(fetch)) = cache.begin(page(node, index)) {
                    under_way.push(fetch);
                }
            }
            4 if !under_way.is_empty() => drop(under_way.swap_remove(next(under_way.len() as u64) as usize)),
            5 if !under_way.is_empty() => drop(under_way.swap_remove(next(under_way.len() as u64) as usize).done()),
            6 => _ = cache.evict_node(3, node, index, if next(2) == 0 { index + 3 } else { u64::MAX }),
            _ => cache.forget(3, node, index, if next(2) == 0 { index + 3 } else { u64::MAX }),
        }
        for node in 0..6 {
            let has = (0..20).any(|index| cache.knows(page(node, index)));
            assert_eq!(cache.has_none_of(3, node), !has, "node {node}");
        }
    }
    drop(under_way);
    (0..6).for_each(|node| cache.forget(3, node, 0, u64::MAX));
    assert!((0..6).all(|node| cache.has_none_of(3, node)));
}

#[test]
fn a_page_is_tallied_when_it_becomes_dirty_and_when_it_goes_unwritten() {
    static TOLD: SpinLock<Vec<(ActivityId, Tallied, u64)>> = SpinLock::new(Vec::new());
    let cache = cache(100, 100);
    cache.set_tally(&|what, bytes| TOLD.lock().push((gyre_account::current_activity(), what, bytes)));
    as_activity(1, || (0..3).for_each(|index| assert!(bring(cache, index) && cache.mark_dirty(key(index)))));
    as_activity(2, || cache.mark_dirty(key(0)));
    as_activity(2, || cache.start_writing(key(1)).map(Writing::done));
    // Given up: it is dirty again, and was told before.
    as_activity(2, || drop(cache.start_writing(key(2))));
    as_activity(3, || cache.forget(1, 12, 0, 3));
    let page = PAGE_BYTES as u64;
    let dirtied = [(ActivityId(1), Tallied::Dirtied, page); 3];
    let cancelled = [(ActivityId(3), Tallied::Cancelled, page); 2];
    assert_eq!(*TOLD.lock(), [&dirtied[..], &cancelled[..]].concat());
}
