//! A host adapter with a unit in memory: what the driver carries, and what it makes of answers.

use super::*;
use crate::asked::{block_client, host_client};
use crate::device::{BlockOptions, VirtioDisk};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use gyre_device::DiskDevice;
use gyre_interface::block::{BlockError, REQUEST_BYTES_MAX};
use gyre_interface::scsi::scsi_host::Client;
use gyre_interface::scsi::{Command, Direction, HostError};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::{Bytes, Page};
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;
use proptest::prelude::*;

const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

/// A change that a test makes to an answer before it is written.
type Twist = fn(answer: &mut [u8; ANSWER_BYTES]);

struct Rig {
    client: Client,
    driver: &'static VirtioDisk,
    device: Arc<FakeDevice>,
}

fn rig() -> Rig {
    gyre_machine::set_virtual_time(0);
    let mut config = vec![0; 36];
    config[..4].copy_from_slice(&1_u32.to_le_bytes());
    config[4..8].copy_from_slice(&126_u32.to_le_bytes());
    let device = FakeDevice::new(crate::SCSI_KIND, gyre_virtio::features::INDIRECT_DESCRIPTORS, &[64; 3], config);
    let driver: &'static VirtioDisk =
        Box::leak(Box::new(VirtioDisk::new(Box::new(device.clone()), &[0], BlockOptions::default()).unwrap()));
    let client = host_client(driver);
    Rig { client, driver, device }
}

/// Answers all commands for ever: a read gets the byte of its address everywhere, but for the last `short` bytes.
fn play(rig: &Rig, short: usize, twist: Twist) {
    let (device, driver) = (rig.device.clone(), rig.driver);
    spawn(async move {
        loop {
            sleep_ns(1000).await;
            while let Some(chain) = device.take(2) {
                answer(&chain, &device, short, twist);
                driver.on_interrupt(0);
            }
        }
    });
}

fn answer(chain: &FakeChain, device: &FakeDevice, short: usize, twist: Twist) {
    let request = chain.read();
    assert_eq!(request[..8], [1, 0, 0x40, 0, 0, 0, 0, 0], "unit 0 of target 0");
    let room = chain.writable_bytes() as usize - ANSWER_BYTES;
    let data = vec![request[COMMAND_OFFSET + 5]; room.saturating_sub(short)];
    let mut said = [0; ANSWER_BYTES];
    said[4..8].copy_from_slice(&(short as u32).to_le_bytes());
    twist(&mut said);
    chain.write(&said);
    chain.write_at(ANSWER_BYTES, &data);
    // As QEMU counts: everything that was moved, whoever wrote it.
    device.complete(2, chain.head, (ANSWER_BYTES + data.len() + request.len() - REQUEST_BYTES) as u32);
}

fn page(bytes: usize) -> Vec<Bytes> {
    vec![Bytes::new(Page::zeroed().unwrap(), 0, bytes)]
}

fn command(code: u8, direction: Direction, data: Vec<Bytes>) -> Command {
    let mut block = [0; COMMAND_BYTES];
    (block[0], block[5]) = (code, 9);
    Command { block, direction, data }
}

#[test]
fn commands_are_carried_in_both_directions_and_without_data() {
    let rig = rig();
    block_on(async {
        play(&rig, 0, |_| ());
        let read = rig.client.execute(command(READ, Direction::FromUnit, page(4096))).await.unwrap();
        assert_eq!((read.status, read.residual_bytes, read.data[0].as_slice()), (Status::GOOD, 0, &[9; 4096][..]));
        let written = rig.client.execute(command(WRITE, Direction::ToUnit, page(512))).await.unwrap();
        assert_eq!((written.status, written.residual_bytes, written.data[0].len()), (Status::GOOD, 0, 512));
        let plain = rig.client.execute(command(0, Direction::Nowhere, vec![])).await.unwrap();
        assert_eq!((plain.status, plain.sense.len(), plain.data.len()), (Status::GOOD, 0, 0));
        let seen = rig.driver.statistics();
        assert_eq!((seen.completed, seen.read_bytes, seen.written_bytes), (3, 4096, 512));
    });
}

#[test]
fn a_unit_that_says_less_leaves_the_rest_over() {
    let rig = rig();
    block_on(async {
        play(&rig, 100, |_| ());
        let answer = rig.client.execute(command(0x12, Direction::FromUnit, page(128))).await.unwrap();
        assert_eq!((answer.status, answer.residual_bytes), (Status::GOOD, 100));
        assert_eq!(answer.data[0].as_slice()[26..30], [9, 9, 0, 0]);
    });
    // More than there is: nothing is believed.
    let rig = self::rig();
    block_on(async {
        play(&rig, 1000, |_| ());
        let answer = rig.client.execute(command(0x12, Direction::FromUnit, page(128))).await;
        assert_eq!(answer.err(), Some(HostError::Failed));
    });
}

#[test]
fn sense_data_come_as_they_are_and_at_most_as_long_as_there_is_room() {
    let rig = rig();
    block_on(async {
        play(&rig, 0, |said| {
            said[..4].fill(0xff);
            said[10] = 2;
            said[12..].fill(0x72);
        });
        let answer = rig.client.execute(command(READ, Direction::FromUnit, page(512))).await.unwrap();
        assert_eq!((answer.status, answer.sense), (Status::CHECK_CONDITION, vec![0x72; SENSE_BYTES_MAX]));
    });
}

#[test]
fn a_host_that_is_reset_is_busy_and_one_that_failed_says_nothing() {
    let twists: [(Twist, Result<Status, HostError>); 5] = [
        (|said| said[11] = RESPONSE_RESET, Ok(Status::BUSY)),
        (|said| said[11] = RESPONSE_BUSY, Ok(Status::BUSY)),
        (|said| said[11] = 3, Err(HostError::Failed)),
        (|said| said[11] = 77, Err(HostError::Failed)),
        (|said| said[4..8].fill(0xff), Err(HostError::Failed)),
    ];
    for (twist, expected) in twists {
        let rig = rig();
        block_on(async {
            play(&rig, 0, twist);
            let answer = rig.client.execute(command(READ, Direction::FromUnit, page(4096))).await;
            assert_eq!(answer.map(|answer| answer.status), expected);
        });
    }
}

#[test]
fn what_does_not_fit_is_refused_before_the_device_hears_of_it() {
    let rig = rig();
    block_on(async {
        let pages = (0..=REQUEST_BYTES_MAX / 4096).flat_map(|_| page(4096)).collect();
        let refused = [
            command(READ, Direction::FromUnit, pages),
            command(READ, Direction::FromUnit, (0..65).flat_map(|_| page(1)).collect()),
            command(READ, Direction::FromUnit, page(0)),
            command(READ, Direction::FromUnit, vec![]),
            command(WRITE, Direction::Nowhere, page(512)),
        ];
        for command in refused {
            assert_eq!(rig.client.execute(command).await.err(), Some(HostError::Refused));
        }
        assert_eq!(rig.device.waiting(2), 0);
        let blocks = block_client(rig.driver);
        assert_eq!(blocks.geometry().await.err(), Some(BlockError::Unsupported), "it carries commands only");
    });
}

proptest! {
    /// Whatever a device writes as answer, it is parsed; what it says was moved, it has written.
    #[test]
    fn any_answer_is_parsed(
        mut raw in proptest::collection::vec(any::<u8>(), 0..160),
        response in prop_oneof![Just(0_u8), any::<u8>()],
        residual in prop_oneof![0_u32..70_000, any::<u32>()],
        device_writes in any::<bool>(),
        data_bytes in 0_usize..33_000,
        written in prop_oneof![0_u32..40_000, any::<u32>()],
    ) {
        raw.iter_mut().skip(11).take(1).for_each(|byte| *byte = response);
        raw.iter_mut().skip(4).zip(residual.to_le_bytes()).for_each(|(byte, value)| *byte = value);
        if let Some(said) = parse(&raw, device_writes, data_bytes, written) {
            prop_assert!(raw.len() >= ANSWER_BYTES && written as usize >= ANSWER_BYTES);
            prop_assert!(said.residual_bytes <= data_bytes && said.sense.len() <= SENSE_BYTES_MAX);
            let moved = data_bytes - said.residual_bytes;
            prop_assert!(!device_writes || moved <= written as usize - ANSWER_BYTES);
            prop_assert!(said.status == Status::BUSY || response == 0);
        }
    }
}
