//! Pages that several activities show: each pays for its part, and the parts are all there is.
//!
//! A `World` is a table of activities with one tenant and processes below it. A page is a `FrameWord` without memory behind it; processes
//! come to it and go from it by `Viewing`, as a frame does when it is mapped and unmapped.
//!
//! The tests hold that a page is divided among those who show it and the last one has it all, that parts count at a member's limit and in
//! byte-seconds, that one that shows a page often has as many parts, that a part of an ended one is the tenant's, that another tenant's
//! page stays theirs, and that without room for a set of viewers the tenant pays. Random steps are compared with a model that knows each
//! page's viewers, and two threads that come and go at once lose nothing.
//!
//! Real frames and page tables are left out: `parts/address_space` has them.

use super::*;
use crate::tree::ActivityParams;
use crate::{Activities, ActivityId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_machine::{FrameWord, MemoryMeter, PAGE_BYTES, Viewing};

const PAGE: u64 = PAGE_BYTES as u64;

/// As a frame does.
trait Shown {
    fn come(&self, viewing: &mut Viewing);
    fn go(&self, viewing: &mut Viewing);
}

impl Shown for FrameWord {
    fn come(&self, viewing: &mut Viewing) {
        match self.pass_like(viewing.like()) {
            true => viewing.note(1),
            false => self.enter(viewing, PAGE_BYTES),
        }
    }

    fn go(&self, viewing: &mut Viewing) {
        match self.pass_like(viewing.like()) {
            true => viewing.note(1),
            false if self.leave_last() => {}
            false => self.leave(viewing, PAGE_BYTES),
        }
    }
}

struct World {
    activities: &'static Activities,
    tenant: ActivityId,
}

impl World {
    fn new() -> World {
        gyre_machine::set_virtual_time(0);
        let activities = alloc::boxed::Box::leak(alloc::boxed::Box::new(Activities::new()));
        let tenant = activities.create(None, "tenant", ActivityParams::default()).unwrap();
        World { activities, tenant }
    }

    fn process(&self) -> ActivityId {
        self.activities.create_member(self.tenant, "p", ActivityParams::default(), 1000).unwrap()
    }

    fn viewing(&self, viewer: ActivityId) -> Viewing {
        Viewing::new(Some(self.activities), viewer.0)
    }

    fn page(&self, payer: ActivityId) -> FrameWord {
        self.activities.charge_memory(payer, PAGE).unwrap();
        FrameWord::new(payer.0, false)
    }

    fn free(&self, page: FrameWord) {
        self.activities.credit(page.owner(), PAGE_BYTES);
    }

    fn held(&self, id: ActivityId) -> u64 {
        self.activities.memory(id).bytes
    }

    fn sets(&self) -> usize {
        let mut count = 0;
        self.activities.viewers.each(|shard| count += shard.used().count());
        count
    }

    /// The sum of all holdings is what was taken, for the tenant and for the machine.
    fn adds_up(&self, pages: u64) {
        let all = self.activities.memories();
        assert_eq!(all.iter().map(|(_, held)| held.bytes as i64).sum::<i64>(), (pages * PAGE) as i64);
        assert_eq!(self.activities.memory(self.tenant).bytes_total, pages * PAGE);
        assert!(all.iter().all(|(id, held)| self.activities.memory(*id) == *held));
    }
}

#[test]
fn a_page_is_divided_among_those_who_show_it_and_the_last_one_has_it_all() {
    let world = World::new();
    let four: Vec<ActivityId> = (0..4).map(|_| world.process()).collect();
    let page = world.page(four[0]);
    for (count, id) in (1..).zip(&four) {
        page.come(&mut world.viewing(*id));
        assert!(four[..count].iter().skip(1).all(|id| world.held(*id) == PAGE / count as u64));
        assert_eq!(world.held(four[0]), PAGE - (count as u64 - 1) * (PAGE / count as u64));
        world.adds_up(1);
    }
    for id in &four[..3] {
        page.go(&mut world.viewing(*id));
        assert_eq!(world.held(*id), 0);
        world.adds_up(1);
    }
    assert_eq!((world.held(four[3]), world.sets(), page.owner()), (PAGE, 0, four[3].0));
    page.go(&mut world.viewing(four[3]));
    assert_eq!((world.held(four[3]), page.mappings()), (PAGE, 0));
    world.free(page);
    world.adds_up(0);
}

#[test]
fn parts_of_pages_that_are_shown_with_others_count_at_a_members_limit() {
    let world = World::new();
    let (first, second) = (world.process(), world.process());
    let params = ActivityParams { member_bytes_max: 3 * PAGE, ..ActivityParams::default() };
    world.activities.set_params(world.tenant, params).unwrap();
    let pages: Vec<FrameWord> = (0..3).map(|_| world.page(first)).collect();
    let show = |id| pages.iter().for_each(|page| page.come(&mut world.viewing(id)));
    let room = |id| world.activities.memory_room(id) / PAGE;
    show(first);
    assert_eq!((room(first), room(second)), (0, 3));
    show(second);
    assert_eq!((room(first), room(second)), (1, 1), "each has half of three");
    assert!(world.activities.charge_memory(second, PAGE).is_ok());
    assert!(world.activities.charge_memory(second, PAGE).is_err(), "two of its own, and a page and a half");
    assert!(!world.activities.is_over_limit(second));
}

#[test]
fn byte_seconds_are_divided_and_stay_whose_they_were() {
    let world = World::new();
    let (first, second) = (world.process(), world.process());
    let page = world.page(first);
    page.come(&mut world.viewing(first));
    gyre_machine::set_virtual_time(1_000_000_000);
    page.come(&mut world.viewing(second));
    gyre_machine::set_virtual_time(5_000_000_000);
    let seconds = |id| world.activities.memory(id).byte_seconds;
    assert_eq!((seconds(first), seconds(second)), (PAGE as i64 * 3, PAGE as i64 * 2));
    page.go(&mut world.viewing(first));
    assert_eq!(world.sets(), 0);
    gyre_machine::set_virtual_time(6_000_000_000);
    assert_eq!((seconds(first), seconds(second)), (PAGE as i64 * 3, PAGE as i64 * 3));
}

#[test]
fn who_shows_a_page_often_has_as_many_parts() {
    let world = World::new();
    let (first, second) = (world.process(), world.process());
    let page = world.page(first);
    for id in [first, second, first, first] {
        page.come(&mut world.viewing(id));
    }
    assert_eq!((world.held(first), world.held(second)), (PAGE / 4 * 3, PAGE / 4));
    page.go(&mut world.viewing(second));
    assert_eq!((world.held(first), world.held(second)), (PAGE, 0));
    page.go(&mut world.viewing(first));
    page.go(&mut world.viewing(first));
    assert_eq!((world.sets(), page.mappings()), (0, 1));
    world.adds_up(1);
}

#[test]
fn who_shows_what_another_one_keeps_pays_for_it() {
    let world = World::new();
    let (reader, viewer) = (world.process(), world.process());
    let page = world.page(reader);
    page.come(&mut world.viewing(viewer));
    assert_eq!((world.held(reader), world.held(viewer)), (0, PAGE));
    page.go(&mut world.viewing(viewer));
    assert_eq!(world.held(viewer), PAGE);
    world.adds_up(1);
}

#[test]
fn a_part_of_who_has_ended_is_the_tenants() {
    let world = World::new();
    let (first, second) = (world.process(), world.process());
    let page = world.page(first);
    [first, second].iter().for_each(|id| page.come(&mut world.viewing(*id)));
    gyre_machine::set_virtual_time(4_000_000_000);
    world.activities.close(first).unwrap();
    assert_eq!((world.held(world.tenant), world.held(second)), (PAGE / 2, PAGE / 2));
    assert_eq!(world.activities.memory(world.tenant).byte_seconds, PAGE as i64 * 2);
    world.adds_up(1);
    page.go(&mut world.viewing(first));
    assert_eq!((world.held(world.tenant), world.held(second)), (0, PAGE));
    assert_eq!(world.activities.memory(world.tenant).byte_seconds, PAGE as i64 * 2);
    page.go(&mut world.viewing(second));
    world.activities.close(second).unwrap();
    world.free(page);
    world.adds_up(0);
}

#[test]
fn a_page_of_somebody_elses_stays_theirs() {
    let world = World::new();
    let stranger = world.activities.create(None, "other", ActivityParams::default()).unwrap();
    let process = world.process();
    for payer in [stranger, ActivityId::INFRASTRUCTURE] {
        let page = world.page(payer);
        page.come(&mut world.viewing(process));
        page.come(&mut world.viewing(stranger));
        assert_eq!((world.held(process), world.held(payer)), (0, PAGE));
        page.go(&mut world.viewing(process));
        page.go(&mut world.viewing(stranger));
        world.free(page);
        assert_eq!((world.held(process), world.held(payer), world.sets()), (0, 0, 0));
    }
}

#[test]
fn where_there_is_no_room_for_a_set_the_tenant_pays_until_nobody_shows_the_page() {
    let world = World::new();
    let all: Vec<ActivityId> = (0..46).map(|_| world.process()).collect();
    let mut pages = Vec::new();
    for (at, first) in all.iter().enumerate() {
        for second in &all[..at] {
            let page = world.page(*first);
            [first, second].iter().for_each(|id| page.come(&mut world.viewing(**id)));
            pages.push((page, *first, *second));
        }
    }
    assert_eq!((pages.len(), world.sets()), (46 * 45 / 2, SETS_MAX));
    let loose = (pages.len() - SETS_MAX) as u64;
    assert_eq!(world.held(world.tenant), loose * PAGE);
    world.adds_up(pages.len() as u64);
    for (page, first, second) in &pages {
        page.go(&mut world.viewing(*first));
        page.go(&mut world.viewing(*second));
    }
    assert_eq!((world.held(world.tenant), world.sets()), (loose * PAGE, 0));
    world.adds_up(pages.len() as u64);
    let (page, first, _) = pages.last().unwrap();
    page.come(&mut world.viewing(*first));
    assert_eq!(world.held(world.tenant), (loose - 1) * PAGE);
}

#[test]
fn a_tenant_that_is_closed_leaves_its_sets_to_its_heir() {
    let world = World::new();
    let (first, second) = (world.process(), world.process());
    let page = world.page(first);
    [first, second].iter().for_each(|id| page.come(&mut world.viewing(*id)));
    for id in [first, second, world.tenant] {
        world.activities.close(id).unwrap();
    }
    let held = || world.held(ActivityId::INFRASTRUCTURE);
    assert_eq!(held(), PAGE);
    page.go(&mut world.viewing(first));
    page.go(&mut world.viewing(second));
    assert_eq!((held(), world.sets()), (PAGE, 0));
    world.free(page);
    assert_eq!(held(), 0);
}

/// Random steps beside a model that knows for each page who shows it.
#[test]
fn random_steps_divide_as_the_model_does() {
    for seed in 0..20u64 {
        let world = World::new();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        let processes: Vec<ActivityId> = (0..7).map(|_| world.process()).collect();
        let mut pages: Vec<(FrameWord, Vec<ActivityId>)> = Vec::new();
        for step in 0..400 {
            let who = processes[next(7)];
            match next(4) {
                0 if pages.len() < 24 => pages.push((world.page(who), Vec::new())),
                1 => {
                    let mut viewing = world.viewing(who);
                    for (page, shown) in pages.iter_mut().filter(|_| next(2) == 0) {
                        page.come(&mut viewing);
                        shown.push(who);
                    }
                }
                2 => {
                    let mut viewing = world.viewing(who);
                    let is_alone = next(2) == 0;
                    for (page, shown) in &mut pages {
                        while let Some(at) = shown.iter().position(|other| *other == who) {
                            match is_alone {
                                true => page.leave_now(Some(world.activities), who.0, PAGE_BYTES),
                                false => page.go(&mut viewing),
                            }
                            shown.swap_remove(at);
                        }
                    }
                }
                _ if !pages.is_empty() && next(4) == 0 => {
                    let (page, shown) = pages.swap_remove(next(pages.len()));
                    shown.iter().for_each(|id| page.go(&mut world.viewing(*id)));
                    world.free(page);
                }
                _ => {}
            }
            gyre_machine::set_virtual_time(step * 7_000_000);
            world.adds_up(pages.len() as u64);
            check_parts(&world, &processes, &pages);
        }
    }
}

/// Each viewer's whole pages and parts, the remainders left out.
fn check_parts(world: &World, processes: &[ActivityId], pages: &[(FrameWord, Vec<ActivityId>)]) {
    let mut wanted: BTreeMap<ActivityId, f64> = BTreeMap::new();
    for (page, shown) in pages {
        assert_eq!(page.mappings() as usize, shown.len());
        match shown.len() {
            0 => *wanted.entry(ActivityId(page.owner())).or_default() += PAGE as f64,
            all => shown.iter().for_each(|id| *wanted.entry(*id).or_default() += PAGE as f64 / all as f64),
        }
    }
    for id in processes {
        let part = wanted.get(id).copied().unwrap_or_default();
        let held = world.held(*id) as f64;
        assert!((held - part).abs() < 8.0 * pages.len().max(1) as f64, "{held} of {part}");
    }
}

#[test]
fn cores_that_come_and_go_at_once_lose_nothing() {
    extern crate std;
    let world = World::new();
    let processes: Vec<ActivityId> = (0..3).map(|_| world.process()).collect();
    let pages: alloc::sync::Arc<Vec<FrameWord>> =
        alloc::sync::Arc::new((0..100).map(|_| world.page(processes[0])).collect());
    let threads: Vec<_> = processes
        .iter()
        .map(|&id| {
            let (pages, activities) = (pages.clone(), world.activities);
            std::thread::spawn(move || {
                for _ in 0..300 {
                    let mut viewing = Viewing::new(Some(activities), id.0);
                    pages.iter().for_each(|page| page.come(&mut viewing));
                    drop(viewing);
                    let mut viewing = Viewing::new(Some(activities), id.0);
                    let (ones, others) = pages.split_at(50);
                    ones.iter().for_each(|page| page.leave_now(Some(activities), id.0, PAGE_BYTES));
                    others.iter().for_each(|page| page.go(&mut viewing));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(pages.iter().all(|page| page.mappings() == 0));
    assert_eq!(world.sets(), 0);
    world.adds_up(100);
}
