//! The scheduler before the disk divides its bytes by weight, and adjacent requests that wait are joined, on any disk: also if requests pass
//! the SCSI resource before it.

use crate::whole::machine::Machine;
use crate::whole::plan::{MS, Plan};
use gyre_account::{ActivityId, Column};
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_device::DiskDevice;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_interface::block::block;
use gyre_object::{Bytes, Page};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const BYTES: usize = 2 << 20;
/// Readers of each tenant: more than the device takes, fewer than a queue holds.
const READERS: u64 = 24;
const STEPS_MAX: u64 = 3_000_000;

/// Reads for ever, a page here and a page there; none lies beside another, so that nothing is joined.
async fn read(disk: block::Client, first: u64) {
    let mut sector = first;
    loop {
        let Ok(page) = Page::zeroed() else { return };
        let done = disk.read(sector, vec![Bytes::new(page, 0, 4096)]).await;
        assert!(done.is_ok(), "{done:?}", done = done.err());
        sector = (sector + 16 * 41) % (BYTES as u64 / 512);
    }
}

fn bytes(machine: &Machine, activity: ActivityId, resource: Resource) -> u64 {
    let (lines, resource) = (machine.engine.accounts().lines(), id(resource));
    lines.iter().map(|line| line.table().cell(activity, resource).get(Column::Bytes)).sum()
}

/// Returns the part of the disk that the second of two tenants gets if it has so many shares and the first one has 1, per mille.
fn part_of_second(share: u32, is_scsi: bool, depth: u16) -> u64 {
    let machine = Machine::new(Plan::for_disk_shares([1, share], is_scsi, depth), vec![0; BYTES]);
    let mut simulator = Simulator::new(machine.engine, 1);
    simulator.attach(machine.disk.clone());
    simulator.run_for(3 * MS, STEPS_MAX);
    gyre_machine::select_core(0);
    // As the mounter of a file system does: it asks a unit for its facts before there is competition for it.
    let disk = machine.block;
    let is_known = Arc::new(AtomicBool::new(false));
    let known = is_known.clone();
    let ask = async move { known.store(disk.geometry().await.is_ok(), Relaxed) };
    machine.engine.spawn_for(id(Resource::Storage), machine.activities[0], ask);
    assert_eq!(simulator.run(STEPS_MAX, move || is_known.load(Relaxed)), Stop::Done);
    let begun = simulator.now_ns();
    for (activity, first) in machine.activities.iter().zip([0, 16 * 17]) {
        for reader in 0..READERS {
            let disk = machine.block;
            machine.engine.spawn_for(id(Resource::Storage), *activity, read(disk, first + reader * 16));
        }
    }
    simulator.run_for(begun + 10 * MS, STEPS_MAX);
    let look = || [0, 1].map(|index| bytes(&machine, machine.activities[index], Resource::Block));
    let before = look();
    simulator.run_for(begun + 210 * MS, STEPS_MAX);
    let after = look();
    let (first, second) = (after[0] - before[0], after[1] - before[1]);
    let seen = machine.driver.statistics();
    assert!(first + second > 1_000_000 && seen.depth <= depth, "{first} and {second} bytes, {seen:?}");
    second * 1000 / (first + second)
}

#[test]
fn the_disk_is_divided_by_weight_on_both_buses() {
    for share in [1, 3, 9] {
        for (is_scsi, depth) in [(false, 4), (true, 1), (true, 4), (true, 8)] {
            let part = std::thread::spawn(move || part_of_second(share, is_scsi, depth)).join().unwrap();
            let due = u64::from(1000 * share / (share + 1));
            let what = if is_scsi { "SCSI disk" } else { "block device" };
            assert!(part.abs_diff(due) <= 15, "a {what} of depth {depth}: {part} per mille, {due} are due");
        }
    }
}

/// Reads 64 pages that lie side by side, all at once; how many requests the device had.
fn requests_for_64_pages(is_scsi: bool) -> u64 {
    let machine = Machine::new(Plan::for_disk_shares([1, 1], is_scsi, 4), vec![0; BYTES]);
    let mut simulator = Simulator::new(machine.engine, 1);
    simulator.attach(machine.disk.clone());
    simulator.run_for(3 * MS, STEPS_MAX);
    gyre_machine::select_core(0);
    let disk = machine.block;
    let all = async move {
        let view = || vec![Bytes::new(Page::zeroed().unwrap(), 0, 4096)];
        assert!(disk.geometry().await.is_ok());
        let calls: Vec<_> = (0..64).map(|page| disk.read(page * 8, view())).collect();
        for call in calls {
            assert!(call.await.is_ok());
        }
    };
    machine.engine.spawn_for(id(Resource::Storage), machine.activities[0], all);
    simulator.run_for(400 * MS, STEPS_MAX);
    let seen = machine.driver.statistics();
    assert!(seen.read_bytes >= 64 * 4096 && seen.depth == 0, "{seen:?}");
    seen.completed
}

#[test]
fn adjacent_requests_are_joined_on_both_disks() {
    let joined = |is_scsi| std::thread::spawn(move || requests_for_64_pages(is_scsi)).join().unwrap();
    let (block, scsi) = (joined(false), joined(true));
    assert!(block <= 14, "{block} requests of a block device: those of its depth, and the rest in eighths");
    assert!(scsi <= 26, "{scsi} commands: those at the gate (10), the rest in eighths, and what a unit is asked first");
}
