//! The gate before a disk that is no device of any kind: order, joined requests and their errors, flushes, lost interrupts, a device that is silent.

mod common;

use common::*;
use gyre_account::{ActivityId, Column};
use gyre_device::Operation;
use gyre_engine::simulate::Stop;
use gyre_interface::block::BlockError;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn requests_of_one_activity_reach_the_device_in_their_order() {
    let mut rig = rig(1);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, async move {
        let writes: Vec<_> = (0..20_u8).map(|turn| client.write(16 * u64::from(turn % 2), memory(turn, 8))).collect();
        for write in writes {
            write.await.unwrap();
        }
        let back = client.read(0, memory(0xff, 8)).await.unwrap();
        assert_eq!(back[0].as_slice(), [18; 4096], "the last write counts");
    });
    rig.run(vec![work]);
    let asked: Vec<u64> = rig.disk.asked.lock().iter().map(|(_, first, _)| *first).collect();
    assert_eq!(asked.len(), 21, "what does not lie side by side is not joined");
    assert!(asked[..20].chunks(2).all(|pair| pair == [0, 16]), "{asked:?}");
}

#[test]
fn a_full_device_is_divided_by_weight() {
    let mut rig = rig(2);
    let tenants = [rig.tenant(3), rig.tenant(1)];
    for (number, tenant) in (0..).zip(tenants) {
        for reader in 0..8_u64 {
            let client = rig.client;
            // no two lie side by side
            let first = 16 * (2 * reader + number);
            rig.start(tenant, async move {
                loop {
                    client.read(first % SECTORS, memory(0, 8)).await.unwrap();
                }
            });
        }
    }
    let until = rig.simulator.now_ns() + 200_000_000;
    assert_eq!(rig.simulator.run_for(until, 5_000_000), Stop::TimeOver);
    let bytes = tenants.map(|tenant| rig.column(tenant, "block", Column::Bytes));
    let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!(bytes[1] > 400_000 && (share - 0.75).abs() < 0.02, "{share} of {bytes:?}");
}

#[test]
fn after_an_error_of_joined_requests_only_the_bad_ones_reader_fails() {
    let mut rig = rig(1);
    rig.disk.bad.lock().push(19);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let answers = Rc::new(RefCell::new(Vec::new()));
    let told = answers.clone();
    let work = rig.start(tenant, async move {
        // the first is at the device while the others wait and join
        let reads: Vec<_> = [100, 8, 16, 24].into_iter().map(|first| client.read(first, memory(0, 8))).collect();
        for read in reads {
            let answer = read.await.map(drop);
            told.borrow_mut().push(answer);
        }
    });
    rig.run(vec![work]);
    assert_eq!(*answers.borrow(), [Ok(()), Ok(()), Err(BlockError::Io), Ok(())]);
    let asked = rig.disk.asked.lock().clone();
    let read = |first, sectors| (Operation::Read, first, sectors);
    assert_eq!(asked, [read(100, 8), read(8, 24), read(8, 8), read(16, 8), read(24, 8)]);
}

#[test]
fn a_flush_follows_its_writes_and_its_time_is_its_askers() {
    let mut rig = rig(4);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, async move {
        client.write(0, memory(1, 8)).await.unwrap();
        client.flush().await.unwrap();
        client.write(0, memory(2, 8)).await.unwrap();
    });
    rig.run(vec![work]);
    let asked: Vec<Operation> = rig.disk.asked.lock().iter().map(|(operation, ..)| *operation).collect();
    assert_eq!(asked, [Operation::Write, Operation::Flush, Operation::Write]);
    assert_eq!(rig.column(tenant, "block", Column::DeviceNs), 300_000, "each took 100 us");
    assert_eq!(rig.column(tenant, "block", Column::Bytes), 8192, "a flush moves nothing");
}

#[test]
fn an_interrupt_is_a_message_of_the_resource() {
    let mut rig = rig(4);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let before = rig.column(ActivityId::INFRASTRUCTURE, "block", Column::Messages);
    let work = rig.start(tenant, async move {
        for _ in 0..10 {
            client.read(0, memory(0, 8)).await.unwrap();
        }
    });
    rig.run(vec![work]);
    let messages = rig.column(ActivityId::INFRASTRUCTURE, "block", Column::Messages) - before;
    // one for each interrupt, one for the first tick, two for the places when they are made
    assert!((10..=13).contains(&messages), "{messages} messages for 10 interrupts");
    assert_eq!(rig.column(ActivityId::INFRASTRUCTURE, "device_interrupt", Column::Messages), 0);
    assert!(rig.column(tenant, "block", Column::Cycles) > 0, "the answer is the asker's work");
}

#[test]
fn a_device_is_ticked_only_while_it_has_something() {
    let mut rig = rig(4);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, async move { _ = client.read(0, memory(0, 8)).await.unwrap() });
    rig.run(vec![work]);
    let until = rig.simulator.now_ns() + 100 * PATIENCE_NS;
    assert_eq!(rig.simulator.run_for(until, 100_000), Stop::Quiet, "no timer is left");
    assert!((2..=4).contains(&rig.disk.ticks.load(Relaxed)), "{:?}", rig.disk.ticks);
}

#[test]
fn a_silent_device_costs_its_requests_and_who_is_held_back_goes_on() {
    let mut rig = rig(2);
    rig.disk.is_silent.store(true, Relaxed);
    let (client, disk, tenant) = (rig.client, rig.disk, rig.tenant(1));
    let work = rig.start(tenant, async move {
        let reads: Vec<_> = [0, 32, 64, 96].into_iter().map(|first| client.read(first, memory(0, 8))).collect();
        let mut answers = Vec::new();
        for (number, read) in reads.into_iter().enumerate() {
            answers.push(read.await.map(drop));
            if number == 1 {
                assert!((PATIENCE_NS..2 * PATIENCE_NS).contains(&now_ns()), "in time: {}", now_ns());
                disk.is_silent.store(false, Relaxed);
            }
        }
        assert_eq!(answers, [Err(BlockError::Io), Err(BlockError::Io), Ok(()), Ok(())]);
    });
    rig.run(vec![work]);
}

#[test]
fn a_lost_interrupt_costs_time_but_no_request() {
    let mut rig = rig(1);
    rig.disk.loses_interrupts.store(true, Relaxed);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, async move {
        for _ in 0..3 {
            client.read(0, memory(0, 8)).await.unwrap();
        }
        assert!(now_ns() < PATIENCE_NS, "found by ticks: {}", now_ns());
    });
    rig.run(vec![work]);
}
