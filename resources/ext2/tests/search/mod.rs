//! Damage and requests at random: an input's bytes say which bytes of a sound image are wrong, and what is asked of the file system on it.
//!
//! Whatever an input says, each request comes to its end, nothing panics, pages that were lent stay as they are, and after unmounting no
//! memory is held but that of the cache. If nothing was damaged and no request to the disk fails, no answer speaks of damage, the cache gives back all
//! of its pages, no node stays, and e2fsck finds no fault.
//!
//! The corpus beside this file is replayed; `gyre-mutate` tells how to look for longer. Damaged images that were found by the ways in
//! which calls end, not by the code that they reach, are in `hostile/corpus`.
//!
//! Left out: several groups of blocks, a cache that is too small, memory that is short (`room.rs`), crashes (`crash`), and whether
//! answers are right (`model`).

mod caller;
mod contents;
mod damage;
mod end;
mod input;
mod memory;
mod names;
mod nodes;
mod numbers;
mod request;

use crate::hostile::base::{SHAPES, base_image};
use crate::hostile::survival::to_its_end;
use crate::support::*;
use caller::Caller;
use damage::Places;
use gyre_account::{ActivityId, set_current_activity};
use gyre_message::direct::block_on;
use gyre_message::select;
use input::Input;
use std::path::Path;

/// Other tests of this program run meanwhile, under other numbers.
const OWN: ActivityId = ActivityId(62);
const CACHE_PAGES: usize = 512;
/// Changed inputs in a usual run.
const TRIES: u64 = 1000;

/// A sound image, and the places that can be damaged.
struct Base {
    image: Vec<u8>,
    places: Places,
}

impl Base {
    fn of(shape: &[&str]) -> Base {
        let image = base_image(shape);
        Base { places: Places::of(&image), image }
    }
}

async fn try_one(input: &Input, base: &Base) {
    let mutant = input.mutant(base);
    let mut image = base.image.clone();
    mutant.apply(&mut image);
    let disk = RamDisk::leak(image);
    disk.0.lock().fail_at = input.fails;
    let what = format!("{}fails {:?}", mutant.text(), input.fails);
    to_its_end(disk, &what, work(input, disk)).await;
    if input.is_sound() {
        assert_clean(disk.image());
    }
    disk.discard();
}

async fn work(input: &Input, disk: &'static RamDisk) {
    let before = METER.held(OWN);
    let cache = new_cache(CACHE_PAGES);
    let Ok(fs) = mount_on(disk, cache).await else {
        assert!(!input.is_sound(), "a sound image is not mounted");
        return;
    };
    let caller = Caller::new(fs).await;
    let all = async {
        for request in &input.requests {
            caller.begin(*request).await;
        }
        caller.end().await;
    };
    // The background's work never ends by itself.
    select(all, fs.maintain()).await;
    let wrong = caller.wrong_answers();
    assert!(!input.is_sound() || wrong.is_empty(), "answers on a sound image: {wrong:?}");
    drop(caller);
    let unmounted = fs.unmount().await;
    assert!(!input.is_sound() || unmounted.is_ok(), "a sound image is not unmounted: {unmounted:?}");
    let left = end::left(fs, cache).await;
    assert_eq!(METER.held(OWN) - before, left.cached_bytes(), "bytes that nobody gives back: {left:?}");
    assert!(!input.is_sound() || left.is_nothing(), "{left:?}");
}

#[test]
fn damage_and_requests_at_random_do_no_harm() {
    let bases = SHAPES.map(Base::of);
    gyre_machine::set_memory_meter(&METER);
    let before = set_current_activity(OWN);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/search/corpus");
    gyre_mutate::run("ext2", &corpus, &input::EXAMPLE, TRIES, |bytes| {
        let input = Input::of(bytes);
        block_on(try_one(&input, &bases[input.shape]));
    });
    set_current_activity(before);
}
