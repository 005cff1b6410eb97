use super::{command, sense, start, wire};
use crate::bus::Verdict;
use crate::device::{BlockOptions, VirtioDisk};
use crate::request::Kind;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::block::block::{Client, serve};
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{sleep_ns, spawn};
use gyre_object::{Bytes, Page, SpinLock};
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;

const SECTORS: u64 = 128;
/// A request and an answer, then what a test does to the answer.
type Twist = fn(command: &[u8], answer: &mut [u8; 108]);

struct Rig {
    client: Client,
    driver: &'static VirtioDisk,
    asked: Arc<SpinLock<Vec<Vec<u8>>>>,
}

/// Does what a command asks for: the data that it answers.
fn execute(request: &[u8], disk: &mut [u8], room: usize) -> Option<Vec<u8>> {
    let command = &request[19..51];
    let at = u32::from_be_bytes(command[2..6].try_into().unwrap()) as usize * SECTOR_BYTES;
    let bytes = usize::from(u16::from_be_bytes([command[7], command[8]])) * SECTOR_BYTES;
    Some(match command[0] {
        0x00 | 0x35 => vec![],
        0x12 => vec![0; room.min(36)],
        0x1a => vec![3, 0, 0, 0],
        0x28 => disk.get(at..at + bytes)?.to_vec(),
        0x2a => {
            disk.get_mut(at..at + bytes)?.copy_from_slice(&request[51..]);
            vec![]
        }
        0x9e => [&(SECTORS - 1).to_be_bytes()[..], &512_u32.to_be_bytes(), &[0; 20]].concat(),
        _ => return None,
    })
}

fn rig(twist: Twist) -> Rig {
    gyre_machine::set_virtual_time(0);
    let mut config = vec![0; 36];
    config[..4].copy_from_slice(&1_u32.to_le_bytes());
    config[4..8].copy_from_slice(&126_u32.to_le_bytes());
    let device = FakeDevice::new(crate::SCSI_KIND, gyre_virtio::features::INDIRECT_DESCRIPTORS, &[64; 3], config);
    let driver: &'static VirtioDisk =
        Box::leak(Box::new(VirtioDisk::new(Box::new(device.clone()), &[0], BlockOptions::default()).unwrap()));
    let asked = Arc::new(SpinLock::new(Vec::new()));
    let client = Client::new(direct_link(move |request| Box::pin(serve(driver, request))));
    let seen = asked.clone();
    let play = async move {
        let mut disk = vec![0_u8; SECTORS as usize * SECTOR_BYTES];
        loop {
            sleep_ns(1_000_000).await;
            while let Some(chain) = device.take(2) {
                answer(&chain, &mut disk, twist, &seen, &device);
                driver.on_interrupt(0);
            }
        }
    };
    // Outside of the block that is waited for there is no executor yet.
    PLAY.lock().push(Box::pin(play));
    Rig { client, driver, asked }
}

type Task = core::pin::Pin<Box<dyn core::future::Future<Output = ()> + Send>>;
static PLAY: SpinLock<Vec<Task>> = SpinLock::new(Vec::new());

fn answer(chain: &FakeChain, disk: &mut [u8], twist: Twist, seen: &SpinLock<Vec<Vec<u8>>>, device: &FakeDevice) {
    let request = chain.read();
    assert_eq!(request[..4], [1, 0, 0x40, 0], "unit 0 of target 0");
    seen.lock().push(request[19..35].to_vec());
    let room = chain.writable_bytes() as usize - 108;
    let data = execute(&request, disk, room);
    let mut said = [0; 108];
    let data = data.unwrap_or_else(|| {
        said[10] = 2;
        said[..4].copy_from_slice(&18_u32.to_le_bytes());
        (said[12], said[14], said[24]) = (0x70, 5, 0x20);
        vec![]
    });
    said[4..8].copy_from_slice(&((room - data.len()) as u32).to_le_bytes());
    twist(&request[19..], &mut said);
    chain.write(&said);
    chain.write_at(108, &data);
    // As QEMU counts: everything that was moved, whoever wrote it.
    device.complete(2, chain.head, 108 + (data.len() + request.len() - 51) as u32);
}

fn run<F: core::future::Future<Output = ()>>(twist: Twist, test: impl FnOnce(Rig) -> F) {
    static ONE: SpinLock<()> = SpinLock::new(());
    let _one = ONE.lock();
    let rig = rig(twist);
    let play = PLAY.lock().pop().unwrap();
    block_on(async move {
        spawn(play);
        test(rig).await;
    });
}

fn page(fill: u8) -> Vec<Bytes> {
    let page = Page::zeroed().unwrap();
    page.write(0, &[fill; 4096]);
    vec![Bytes::new(page, 0, 4096)]
}

#[test]
fn a_unit_is_asked_what_it_is_and_then_read_and_written() {
    run(
        |_, _| (),
        |rig| async move {
            assert_eq!(rig.client.geometry().await.unwrap().sectors, SECTORS);
            rig.client.write(8, page(7)).await.unwrap();
            rig.client.flush().await.unwrap();
            assert_eq!(rig.client.read(8, page(0)).await.unwrap()[0].as_slice(), [7; 4096]);
            assert_eq!(rig.client.read(SECTORS - 7, page(0)).await.err(), Some(BlockError::OutOfRange));
            let codes: Vec<u8> = rig.asked.lock().iter().map(|command| command[0]).collect();
            assert_eq!(codes, [0x12, 0x00, 0x9e, 0x1a, 0x2a, 0x35, 0x28]);
        },
    );
}

#[test]
fn attention_at_the_start_is_asked_away_and_a_busy_unit_asked_again() {
    static SEEN: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
    run(
        |command, said| match (command[0], SEEN.fetch_add(1, core::sync::atomic::Ordering::Relaxed)) {
            (0x00, 0..3) => (said[10], said[0], said[12], said[14]) = (2, 18, 0x70, 6),
            (0x28, count) if count.is_multiple_of(2) => said[10] = 0x08,
            _ => {}
        },
        |rig| async move {
            assert!(rig.client.read(0, page(0)).await.is_ok());
            assert!(rig.client.read(0, page(0)).await.is_ok());
            assert_eq!(rig.driver.statistics().resets, 0);
        },
    );
}

#[test]
fn wrong_answers_are_errors() {
    let twists: [(Twist, Option<BlockError>); 7] = [
        // More residual than there is data.
        (
            |command, said| {
                if command[0] == 0x28 {
                    said[4..8].fill(0xff)
                }
            },
            Some(BlockError::Io),
        ),
        (
            |command, said| {
                if command[0] == 0x28 {
                    said[4] = 1
                }
            },
            Some(BlockError::Io),
        ),
        // A response code of which nobody knows.
        (
            |command, said| {
                if command[0] == 0x28 {
                    said[11] = 77
                }
            },
            Some(BlockError::Io),
        ),
        // More sense than fits, all of it nonsense.
        (
            |command, said| {
                if command[0] == 0x28 {
                    said[..11].fill(0xff);
                    said[10] = 2
                }
            },
            Some(BlockError::Io),
        ),
        // Medium error; address out of range; write protected.
        (
            |command, said| {
                if command[0] == 0x28 {
                    (said[10], said[0], said[12], said[14]) = (2, 18, 0x70, 3)
                }
            },
            Some(BlockError::Io),
        ),
        (
            |command, said| {
                if command[0] == 0x28 {
                    (said[10], said[0], said[12], said[13], said[14]) = (2, 8, 0x72, 5, 0x21)
                }
            },
            Some(BlockError::OutOfRange),
        ),
        (
            |command, said| {
                if command[0] == 0x28 {
                    (said[10], said[0], said[12], said[14]) = (2, 18, 0x70, 7)
                }
            },
            Some(BlockError::Unsupported),
        ),
    ];
    for (twist, error) in twists {
        run(twist, |rig| async move {
            assert_eq!(rig.client.read(0, page(0)).await.err(), error);
        });
    }
}

#[test]
fn a_unit_that_is_no_disk_or_never_ready_is_refused() {
    run(
        |command, said| {
            if command[0] == 0x12 {
                said[11] = 3
            }
        },
        |rig| async move { assert_eq!(rig.client.geometry().await.err(), Some(BlockError::Io)) },
    );
    run(
        |command, said| {
            if command[0] == 0x00 {
                (said[10], said[0], said[12], said[14]) = (2, 18, 0x70, 6)
            }
        },
        |rig| async move { assert_eq!(rig.client.geometry().await.err(), Some(BlockError::Io)) },
    );
}

#[test]
fn a_write_protected_disk_refuses_writes() {
    run(
        |_, _| (),
        |rig| async move {
            *rig.driver.geometry.lock() = Some(gyre_interface::block::Geometry { sectors: SECTORS, read_only: true });
            assert_eq!(rig.client.write(0, page(1)).await, Err(BlockError::Unsupported));
        },
    );
}

#[test]
fn addresses_beyond_two_tebibytes_use_the_long_commands() {
    assert_eq!(command::of(Kind::Read, 0x0102_0304, 0x20), [0x28, 0, 1, 2, 3, 4, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0]);
    let long = command::of(Kind::Write, 0x1_0000_0000, 8);
    assert_eq!(long, [0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    // The last address of the short form must still have its end in it.
    assert_eq!(command::of(Kind::Read, 0xffff_fffe, 8)[0], 0x88);
}

#[test]
fn capacities_and_sense_of_any_content_are_judged() {
    assert_eq!(start::parse_capacity(&[0; 12]), Some((1, 0)));
    assert_eq!(start::parse_capacity(&[0xff; 12]), None, "one more than the largest address");
    assert_eq!(start::parse_capacity(&[0; 11]), None);
    for first in 0..=255_u8 {
        for bytes in 0..20 {
            let mut raw: Vec<u8> = vec![first; bytes];
            raw.iter_mut().skip(1).for_each(|byte| *byte = byte.wrapping_mul(31));
            let _ = sense::judge(&raw);
            let _ = wire::judge(&raw, Kind::Read, 512, u32::from(first));
        }
    }
    assert_eq!(sense::judge(&[]), Verdict::Failed);
    assert_eq!(sense::judge(&[0x71, 0, 6]), Verdict::Failed, "deferred: an earlier write is lost");
}
