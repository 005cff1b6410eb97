//! A simulated machine with a grid, for the tests of this folder.
#![allow(dead_code, missing_docs, reason = "each test uses a part")]

use gyre_account::{Accounts, ActivityId, ActivityParams, Column, ResourceId};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_machine::{set_core_count, set_virtual_tick, set_virtual_time};
use gyre_message::Gone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nobody;

impl From<Gone> for Nobody {
    fn from(_: Gone) -> Nobody {
        Nobody
    }
}

/// Returns the resource of that position in the configuration.
pub const fn resource(position: u8) -> ResourceId {
    ResourceId(FIRST_RESOURCE + position)
}

/// Returns a machine in virtual time, in which each look at the clock costs 20 ns.
pub fn engine(cores: usize, resources: Vec<ResourceConfig>) -> &'static Engine {
    set_core_count(cores);
    set_virtual_time(1_000);
    engine_of(cores, GridConfig::new(resources))
}

/// Returns a machine in virtual time, with a whole configuration.
pub fn engine_of(cores: usize, grid: GridConfig) -> &'static Engine {
    set_core_count(cores);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(cores)));
    Engine::build(grid, accounts).unwrap()
}

pub fn tenant(engine: &Engine, weight: u32) -> ActivityId {
    let params = ActivityParams { weight, ..ActivityParams::default() };
    engine.accounts().activities.create(None, "tenant", params).unwrap()
}

pub fn child(engine: &Engine, parent: ActivityId) -> ActivityId {
    engine.accounts().activities.create(Some(parent), "child", ActivityParams::default()).unwrap()
}

/// Returns the use of a core by an activity, at all resources.
pub fn used(engine: &Engine, core: usize, activity: ActivityId, column: Column) -> u64 {
    engine
        .resource_ids()
        .map(|resource| engine.accounts().line(core).table().cell(activity, resource).get(column))
        .sum()
}

pub fn used_everywhere(engine: &Engine, activity: ActivityId, column: Column) -> u64 {
    (0..engine.cores()).map(|core| used(engine, core, activity, column)).sum()
}

/// Every cycle is on one bill: no line has more than there was, and what choosing cost for each resource is a part of what choosing cost.
pub fn check_books(engine: &Engine) {
    for core in 0..engine.cores() {
        let partition = engine.accounts().line(core).partition();
        assert_eq!(partition.unattributed(), 0, "core {core}: {partition:?}");
        let line = engine.accounts().line(core);
        let chosen: u64 = engine.resource_ids().map(|resource| line.scheduling_for(resource)).sum();
        assert!(chosen <= partition.scheduling, "core {core}: {chosen} cycles for resources, {partition:?}");
        let mut billed = 0u64;
        for activity in engine.accounts().activities.ids() {
            for resource in engine.resource_ids() {
                let cycles = line.table().cell(activity, resource).get(Column::Cycles);
                billed = billed.checked_add(cycles).expect("the sum of the bills");
            }
        }
        assert!(billed <= partition.elapsed, "core {core}: {billed} cycles are billed, {partition:?}");
    }
}
