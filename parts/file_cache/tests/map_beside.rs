//! Pages for a mapping beside the one that it uses: a guess, which is no use and fails alone.

use gyre_file_cache::{Begin, CacheOptions, FileCache, PageKey};
use gyre_machine::{MemoryMeter, OutOfMemory};
use gyre_object::Page;
use std::sync::atomic::{AtomicBool, Ordering};

static REFUSES: AtomicBool = AtomicBool::new(false);

/// Refuses pages if the test says so.
struct Meter;

impl MemoryMeter for Meter {
    fn charge(&self, _bytes: usize) -> Result<u32, OutOfMemory> {
        if REFUSES.load(Ordering::Relaxed) { Err(OutOfMemory) } else { Ok(1) }
    }
    fn charge_object(&self, _bytes: usize) -> u32 {
        1
    }
    fn credit(&self, _owner: u32, _bytes: usize) {}
}

fn key(index: u64) -> PageKey {
    PageKey { file_system: 1, node: 12, index }
}

fn begin(cache: &'static FileCache, index: u64) -> gyre_file_cache::Fetch {
    match cache.begin(key(index)) {
        Ok(Begin::Lead(fetch)) => fetch,
        _ => panic!("page {index} is absent, and there is room"),
    }
}

fn hits(cache: &FileCache) -> u64 {
    cache.usage().iter().map(|usage| usage.hits).sum()
}

fn takes_beside(cache: &FileCache, index: u64) -> bool {
    cache.map_beside(key(index)).is_some()
}

#[test]
fn a_page_beside_is_taken_only_if_it_is_here_free_and_no_sign_for_its_reader() {
    gyre_machine::set_memory_meter(&Meter);
    let options =
        CacheOptions { pages: 100, pages_per_activity: 100, dirty_per_activity: 4, payer: &|activity| activity };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    let on_its_way = begin(cache, 1);
    assert!(!takes_beside(cache, 0) && !takes_beside(cache, 1), "absent, and on its way");
    let page: Page = on_its_way.done();
    assert!(cache.map_beside(key(1)).is_some_and(|beside| beside.same(&page)));
    assert_eq!(hits(cache), 1);
    let mut marked = begin(cache, 2);
    marked.set_mark();
    drop(marked.done());
    assert!(!takes_beside(cache, 2), "its reader shall be seen");
    assert!(matches!(cache.map(key(2)), Ok(Some((_, true)))));
    assert!(takes_beside(cache, 2));
    drop(begin(cache, 3).done());
    let (lent, _) = cache.lend(key(3)).unwrap();
    REFUSES.store(true, Ordering::Relaxed);
    assert!(!takes_beside(cache, 3), "it is lent, and no copy is to be had");
    assert!(takes_beside(cache, 1), "the others come all the same");
    REFUSES.store(false, Ordering::Relaxed);
    assert!(cache.map_beside(key(3)).is_some_and(|beside| !beside.same(&lent)), "a copy took its place");
}
