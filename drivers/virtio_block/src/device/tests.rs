//! The disk's driver against a device that is played by the test: what a client is told, and what a bad device can do.
//!
//! A rig is a `FakeDevice` of 64 sectors, the driver over it, and a client of the block protocol, all in virtual time. A test serves the
//! disk by a task of its own, or takes single chains from the device and answers them well, badly or never.
//!
//! The tests hold that data arrive where they belong with every set of features, that requests beyond the depth wait and are all
//! answered, that the device is told once of many, that bad requests never reach it, and that a device that lies, is silent or does not
//! reset fails its requests without touching memory that it may still write. Each core has its queue, and a request's time is its own.
//!
//! The transport over PCI, real interrupts and a real disk are left out: machines with QEMU have them.

use super::*;
use crate::asked::{block_client, tick};
use alloc::sync::Arc;
use alloc::vec;
use gyre_device::{DiskDevice, Operation, Transfer};
use gyre_interface::block::block::Client;
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::Page;
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;

const SECTORS: u64 = 64;

struct Rig {
    device: Arc<FakeDevice>,
    driver: &'static VirtioDisk,
    client: Client,
}

fn rig(features: u64, options: BlockOptions) -> Rig {
    gyre_machine::set_virtual_time(0);
    let mut config = vec![0; 64];
    config[..8].copy_from_slice(&SECTORS.to_le_bytes());
    config[12..16].copy_from_slice(&126_u32.to_le_bytes());
    let device = FakeDevice::new(crate::BLOCK_KIND, features | FEATURE_SEGMENTS_MAX, &[128], config);
    let driver: &'static VirtioDisk =
        alloc::boxed::Box::leak(Box::new(VirtioDisk::new(Box::new(device.clone()), &[0], options).unwrap()));
    let client = block_client(driver);
    Rig { device, driver, client }
}

fn ordinary() -> Rig {
    rig(FEATURE_FLUSH | INDIRECT_DESCRIPTORS | EVENT_INDEX, BlockOptions::default())
}

/// Does what a chain asks for on `disk`; the length that the device reports.
fn execute(chain: &FakeChain, disk: &mut [u8]) -> u32 {
    let request = chain.read();
    let at = u64::from_le_bytes(request[8..16].try_into().unwrap()) as usize * SECTOR_BYTES;
    let data = chain.writable_bytes() as usize - 1;
    match request[0] {
        0 => drop(chain.write(&disk[at..at + data])),
        1 => disk[at..at + request.len() - 16].copy_from_slice(&request[16..]),
        _ => {}
    }
    chain.write_at(data, &[0]) + data as u32
}

/// A disk that works, for ever.
fn serve_disk(rig: &Rig) {
    let (device, driver) = (rig.device.clone(), rig.driver);
    spawn(async move {
        let mut disk = vec![0_u8; SECTORS as usize * SECTOR_BYTES];
        loop {
            sleep_ns(1000).await;
            while let Some(chain) = device.take(0) {
                let bytes = execute(&chain, &mut disk);
                if device.complete(0, chain.head, bytes) {
                    driver.on_interrupt(0);
                }
            }
        }
    });
}

fn pages(count: usize, fill: u8) -> Vec<Bytes> {
    (0..count)
        .map(|index| {
            let page = Page::zeroed().unwrap();
            page.write(0, &[fill + index as u8; 4096]);
            Bytes::new(page, 0, 4096)
        })
        .collect()
}

#[test]
fn what_was_written_is_read_back_with_every_set_of_features() {
    for features in [0, FEATURE_FLUSH, INDIRECT_DESCRIPTORS, EVENT_INDEX | INDIRECT_DESCRIPTORS | FEATURE_FLUSH] {
        let rig = rig(features, BlockOptions { depth: 1, ..BlockOptions::default() });
        block_on(async {
            serve_disk(&rig);
            rig.client.write(8, pages(4, 7)).await.unwrap();
            rig.client.flush().await.unwrap();
            let back = rig.client.read(16, pages(2, 0)).await.unwrap();
            assert_eq!(back[0].as_slice(), [8; 4096]);
            assert_eq!(back[1].as_slice(), [9; 4096]);
        });
    }
}

#[test]
fn parts_of_pages_are_read_where_they_belong() {
    let rig = ordinary();
    block_on(async {
        serve_disk(&rig);
        rig.client.write(0, pages(1, 5)).await.unwrap();
        let page = Page::zeroed().unwrap();
        rig.client.read(3, vec![Bytes::new(page.clone(), 1024, 1024)]).await.unwrap();
        assert_eq!(page.as_slice()[..1024], [0; 1024]);
        assert_eq!(page.as_slice()[1024..2048], [5; 1024]);
        assert_eq!(page.as_slice()[2048..], [0; 2048]);
    });
}

#[test]
fn more_requests_than_the_device_takes_wait_and_are_all_answered() {
    let rig = rig(INDIRECT_DESCRIPTORS | EVENT_INDEX, BlockOptions { depth: 4, ..BlockOptions::default() });
    block_on(async {
        let calls: Vec<_> = (0..50).map(|_| rig.client.read(0, pages(1, 1))).collect();
        sleep_ns(10).await;
        assert_eq!(rig.driver.statistics().depth, 4);
        assert_eq!(rig.device.waiting(0), 4);
        serve_disk(&rig);
        for call in calls {
            assert!(call.await.is_ok());
        }
        assert_eq!(rig.driver.statistics().completed, 50);
        assert!(rig.driver.is_at_rest());
        assert!(rig.driver.statistics().waits >= 46);
    });
}

#[test]
fn the_device_is_told_once_of_requests_that_are_made_together() {
    let rig = ordinary();
    block_on(async {
        serve_disk(&rig);
        let calls: Vec<_> = (0..4).map(|part| rig.client.read(part * 8, pages(1, 1))).collect();
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!((rig.driver.statistics().completed, rig.device.kicks(0)), (4, 1));
        rig.client.read(0, pages(1, 1)).await.unwrap();
        assert_eq!(rig.device.kicks(0), 2);
    });
}

#[test]
fn what_the_device_could_not_do_is_refused() {
    let rig = ordinary();
    let misaligned = vec![Bytes::new(Page::zeroed().unwrap(), 100, 512)];
    block_on(async {
        assert_eq!(rig.client.read(SECTORS - 7, pages(1, 0)).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(rig.client.read(u64::MAX, pages(1, 0)).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(rig.client.read(0, pages(9, 0)).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(rig.client.read(0, Vec::new()).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(rig.client.read(0, misaligned).await.err(), Some(BlockError::OutOfRange));
    });
    assert_eq!(rig.device.waiting(0), 0);
}

#[test]
fn a_read_only_disk_refuses_writes() {
    let rig = rig(FEATURE_READ_ONLY, BlockOptions { depth: 1, ..BlockOptions::default() });
    block_on(async {
        assert!(rig.client.geometry().await.unwrap().read_only);
        assert_eq!(rig.client.write(0, pages(1, 0)).await, Err(BlockError::Unsupported));
    });
}

#[test]
fn a_request_that_is_never_answered_fails_in_time_and_the_next_one_works() {
    let rig = ordinary();
    let driver = rig.driver;
    block_on(async {
        tick(driver);
        assert_eq!(rig.client.read(0, pages(1, 0)).await.err(), Some(BlockError::Io));
        assert!(gyre_machine::now() < 40_000_000_000);
        assert_eq!(driver.statistics().resets, 1);
        serve_disk(&rig);
        assert!(rig.client.read(0, pages(1, 0)).await.is_ok());
    });
}

#[test]
fn a_lost_interrupt_costs_time_but_not_the_request() {
    let rig = ordinary();
    let driver = rig.driver;
    block_on(async {
        tick(driver);
        let call = rig.client.read(0, pages(1, 0));
        sleep_ns(10).await;
        let chain = rig.device.take(0).unwrap();
        let bytes = execute(&chain, &mut [0; SECTORS as usize * SECTOR_BYTES]);
        rig.device.complete(0, chain.head, bytes);
        assert!(call.await.is_ok());
        assert_eq!(driver.statistics().resets, 0);
        assert!(driver.has_room(), "whoever holds requests back may go on");
    });
}

#[test]
fn a_lost_doorbell_costs_time_but_not_the_request() {
    let rig = ordinary();
    block_on(async {
        tick(rig.driver);
        let quiet = rig.device.kicks(0);
        let call = rig.client.read(0, pages(1, 0));
        sleep_ns(10).await;
        let told = rig.device.kicks(0);
        assert!(told > quiet);
        // it has not heard of it, and looks when it is told again
        let until = gyre_machine::now() + 5_000_000_000;
        while rig.device.kicks(0) == told && gyre_machine::now() < until {
            sleep_ns(1_000_000).await;
        }
        assert_eq!(rig.device.kicks(0), told + 1);
        let chain = rig.device.take(0).unwrap();
        let bytes = execute(&chain, &mut [0; SECTORS as usize * SECTOR_BYTES]);
        rig.device.complete(0, chain.head, bytes);
        assert!(call.await.is_ok());
        assert_eq!(rig.driver.statistics().resets, 0);
    });
}

#[test]
fn a_device_that_lies_is_reset_and_its_requests_fail() {
    let lies: [fn(&FakeDevice, u16); 3] = [
        |device, head| _ = device.complete_unchecked(0, u32::from(head) + 1, 1),
        |device, head| _ = device.complete_unchecked(0, head.into(), 100_000),
        |device, _| _ = device.advance_used(0, 77),
    ];
    for lie in lies {
        let rig = ordinary();
        block_on(async {
            let call = rig.client.read(0, pages(1, 0));
            sleep_ns(10).await;
            lie(&rig.device, rig.device.take(0).unwrap().head);
            rig.driver.on_interrupt(0);
            assert_eq!(call.await.err(), Some(BlockError::Io));
            serve_disk(&rig);
            assert!(rig.client.read(0, pages(1, 0)).await.is_ok());
        });
    }
}

#[test]
fn a_status_that_was_not_written_or_a_short_read_is_an_error() {
    let rig = ordinary();
    block_on(async {
        let call = rig.client.read(0, pages(1, 0));
        sleep_ns(10).await;
        rig.device.complete(0, rig.device.take(0).unwrap().head, 4097);
        rig.driver.on_interrupt(0);
        assert_eq!(call.await.err(), Some(BlockError::Io));
        let call = rig.client.read(0, pages(1, 0));
        sleep_ns(10).await;
        let chain = rig.device.take(0).unwrap();
        chain.write_at(4096, &[0]);
        rig.device.complete(0, chain.head, 100);
        rig.driver.on_interrupt(0);
        assert_eq!(call.await.err(), Some(BlockError::Io));
    });
}

#[test]
fn a_killed_asker_leaves_its_memory_until_the_device_is_done() {
    let rig = ordinary();
    block_on(async {
        let view = pages(1, 0);
        let (page, _) = view[0].location();
        let page = page.clone();
        drop(rig.client.read(0, view));
        sleep_ns(10).await;
        assert!(page.is_shared() && !rig.driver.is_at_rest(), "the device may still write to it");
        serve_disk(&rig);
        sleep_ns(5000).await;
        assert!(!page.is_shared() && rig.driver.is_at_rest());
    });
}

#[test]
fn a_device_that_does_not_reset_is_dead_and_keeps_its_memory() {
    let rig = ordinary();
    block_on(async {
        let view = pages(1, 0);
        let page = view[0].location().0.clone();
        let call = rig.client.read(0, view);
        sleep_ns(10).await;
        rig.device.refuse_reset();
        rig.device.advance_used(0, 9);
        rig.driver.on_interrupt(0);
        assert_eq!(call.await.err(), Some(BlockError::Io));
        assert!(page.is_shared());
        assert_eq!(rig.client.read(0, pages(1, 0)).await.err(), Some(BlockError::Io));
        assert!(!rig.driver.is_at_rest(), "it may still be at work");
    });
}

#[test]
fn a_disk_is_at_rest_once_the_requests_of_killed_askers_are_done_those_that_waited_too() {
    let rig = rig(INDIRECT_DESCRIPTORS | EVENT_INDEX, BlockOptions { depth: 1, ..BlockOptions::default() });
    block_on(async {
        assert!(rig.driver.is_at_rest());
        // Past the gate: the second one waits in the driver.
        let device: &'static dyn DiskDevice = rig.driver;
        let write =
            |fill| device.transfer(Transfer { operation: Operation::Write, first_sector: 0, data: pages(1, fill) });
        drop((write(1), write(2)));
        sleep_ns(10).await;
        for _ in 0..2 {
            assert!(!device.is_at_rest(), "a write is still to come");
            let chain = rig.device.take(0).unwrap();
            let bytes = execute(&chain, &mut [0; SECTORS as usize * SECTOR_BYTES]);
            rig.device.complete(0, chain.head, bytes);
            device.on_interrupt(0);
            sleep_ns(10).await;
        }
        assert!(device.is_at_rest() && rig.device.take(0).is_none());
    });
}

#[test]
fn each_core_has_a_queue_up_to_what_the_device_offers_and_the_depth_bounds_all() {
    gyre_machine::set_virtual_time(0);
    for (offered, used) in [(3_u16, 2), (1, 1), (2, 2)] {
        let mut config = vec![0; 64];
        config[..8].copy_from_slice(&SECTORS.to_le_bytes());
        config[12..16].copy_from_slice(&126_u32.to_le_bytes());
        config[34..36].copy_from_slice(&offered.to_le_bytes());
        let features = FEATURE_SEGMENTS_MAX | FEATURE_QUEUES | INDIRECT_DESCRIPTORS;
        let device = FakeDevice::new(crate::BLOCK_KIND, features, &vec![128; offered.into()], config);
        let options = BlockOptions { depth: 3, ..BlockOptions::default() };
        let driver: &'static VirtioDisk =
            Box::leak(Box::new(VirtioDisk::new(Box::new(device.clone()), &[0, 1], options).unwrap()));
        assert_eq!(driver.interrupts().iter().map(|line| line.core).collect::<Vec<_>>(), [0, 1][..used]);
        block_on(async {
            let client = block_client(driver);
            let calls: Vec<_> = (0..9).map(|_| client.read(0, pages(1, 1))).collect();
            sleep_ns(10).await;
            let waiting: u16 = (0..offered.into()).map(|queue| device.waiting(queue)).sum();
            assert_eq!((waiting, driver.statistics().depth), (3, 3));
            assert_eq!(device.waiting(0), 3, "this core's requests are in this core's queue");
            let rig = Rig { device: device.clone(), driver, client };
            serve_disk(&rig);
            for call in calls {
                assert!(call.await.is_ok());
            }
            assert_eq!((driver.statistics().completed, driver.statistics().depth), (9, 0));
        });
    }
}

#[test]
fn what_a_request_took_of_the_device_is_its_time_alone_there() {
    let rig = ordinary();
    let driver = rig.driver;
    block_on(async {
        let taken = alloc::rc::Rc::new(core::cell::RefCell::new(Vec::new()));
        for _ in 0..2 {
            let taken = taken.clone();
            spawn(async move {
                let device: &'static dyn DiskDevice = driver;
                let read = Transfer { operation: Operation::Read, first_sector: 0, data: pages(1, 0) };
                let done = device.transfer(read).await;
                assert!(done.answer.is_ok());
                taken.borrow_mut().push(done.device_ns);
            });
        }
        sleep_ns(1).await;
        for wait in [1000, 3000] {
            sleep_ns(wait).await;
            let chain = rig.device.take(0).unwrap();
            let bytes = execute(&chain, &mut [0; SECTORS as usize * SECTOR_BYTES]);
            rig.device.complete(0, chain.head, bytes);
            driver.on_interrupt(0);
        }
        sleep_ns(10).await;
        let taken = taken.borrow();
        let near = |ns: u64, wanted: u64| ns.abs_diff(wanted) < 100;
        assert!(near(taken[0], 1000) && near(taken[1], 3000), "{taken:?}: the second had to wait for the first");
    });
}
