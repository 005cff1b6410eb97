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

/// The resource of that position in the configuration.
pub const fn resource(position: u8) -> ResourceId {
    ResourceId(FIRST_RESOURCE + position)
}

/// A machine in virtual time, where each look at the clock costs 20 ns.
pub fn engine(cores: usize, resources: Vec<ResourceConfig>) -> &'static Engine {
    set_core_count(cores);
    set_virtual_time(1_000);
    engine_of(cores, GridConfig::new(resources))
}

/// The same for a whole configuration.
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

/// What an activity used on a core, whichever resource.
pub fn used(engine: &Engine, core: usize, activity: ActivityId, column: Column) -> u64 {
    engine
        .resource_ids()
        .map(|resource| engine.accounts().line(core).table().cell(activity, resource).get(column))
        .sum()
}

pub fn used_everywhere(engine: &Engine, activity: ActivityId, column: Column) -> u64 {
    (0..engine.cores()).map(|core| used(engine, core, activity, column)).sum()
}

/// Every cycle is somebody's.
pub fn check_books(engine: &Engine) {
    for core in 0..engine.cores() {
        let partition = engine.accounts().line(core).partition();
        assert_eq!(partition.unattributed(), 0, "core {core}: {partition:?}");
    }
}
