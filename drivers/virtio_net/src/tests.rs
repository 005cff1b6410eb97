//! The card's driver against a device that is played by the test: frames out, frames in, and a device that misbehaves.
//!
//! A rig is a `FakeDevice` with a ring to receive and one to send, the driver over it, and a client of the link protocol whose server
//! answers without a gate. Time is virtual, and a test makes the interrupts itself by `interrupt`.
//!
//! The tests hold that frames are sent as they are with every set of features and in order, that received frames are views whose buffers
//! are replaced, that segments are cut by the device or here, that memory and receipts come back when the device is done, and that
//! interrupts are few but never missing. A device that lies, loses interrupts, does not reset or goes away costs frames, not the driver.
//!
//! The resource before the driver, the transport over PCI and a real card are left out.

use crate::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_device::{LinkDevice, Senders, Sent};
use gyre_interface::link::link::{Client, Request};
use gyre_interface::link::{FrameStream, LinkError, OutFrame, Receipt};
use gyre_machine::{MemoryMeter, OutOfMemory};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{Call, reply_pair, sleep_ns, sleep_until, spawn};
use gyre_object::{Bytes, Page};
use gyre_virtio::FakeDevice;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};

const MAC: [u8; 6] = [2, 1, 2, 3, 4, 5];
const ALL: u64 = 1 | 1 << 5 | 1 << 11 | INDIRECT_DESCRIPTORS | EVENT_INDEX;

struct Rig {
    device: Arc<FakeDevice>,
    driver: &'static VirtioNet,
    client: Client,
}

fn rig(features: u64, options: NetOptions) -> Rig {
    gyre_machine::set_virtual_time(1);
    let mut config = vec![0; 12];
    config[..6].copy_from_slice(&MAC);
    let device = FakeDevice::new(DEVICE_KIND, features, &[64, 64], config);
    let driver = VirtioNet::new(Box::new(device.clone()), 0, options).unwrap();
    let driver: &'static VirtioNet = Box::leak(Box::new(driver));
    let client = Client::new(direct_link(move |request| Box::pin(serve(driver, request))));
    Rig { device, driver, client }
}

/// Answers as the resource before the device does, without a gate.
async fn serve(driver: &'static VirtioNet, request: Request) {
    match request {
        Request::properties { reply } => reply.send(Ok(driver.properties())),
        Request::transmit { frame, reply } => reply.send(match driver.send(frame) {
            Sent::Taken => Ok(()),
            Sent::Refused(error) => Err(error),
            Sent::Waits(call) => call.await,
        }),
    }
}

/// Handles an interrupt in full.
fn interrupt(driver: &VirtioNet) {
    driver.acknowledge(Senders::Flow);
    driver.wake_reader();
    driver.go_on_sending();
}

fn ordinary() -> Rig {
    rig(ALL, NetOptions { send_frames: 4, receive_buffers: 16, ..NetOptions::default() })
}

fn frame(fill: u8, pieces: usize, bytes: usize) -> OutFrame {
    let piece = |index: usize| Bytes::copy_from(&vec![fill + index as u8; bytes]).unwrap();
    OutFrame { pieces: (0..pieces).map(piece).collect(), checksum: None, segment: None, receipt: None }
}

/// Lets a reader wait for the next frames.
fn next_of(rig: &Rig) -> Call<Result<Vec<Bytes>, LinkError>> {
    let (driver, (reply, call)) = (rig.driver, reply_pair());
    spawn(async move { reply.send(driver.next().await) });
    call
}

/// Lets the device receive a frame.
fn deliver(rig: &Rig, fill: u8, bytes: usize) {
    let chain = rig.device.take(0).expect("a buffer is posted");
    let mut data = vec![0; 12];
    data.extend(vec![fill; bytes]);
    let written = chain.write(&data);
    if rig.device.complete(0, chain.head, written) {
        interrupt(rig.driver);
    }
}

#[test]
fn frames_are_sent_as_they_are_with_every_set_of_features() {
    for features in [0, INDIRECT_DESCRIPTORS, EVENT_INDEX, ALL] {
        let rig = rig(features, NetOptions { send_frames: 4, receive_buffers: 16, ..NetOptions::default() });
        block_on(async {
            for (pieces, bytes) in [(1, 60), (3, 300), (24, 60)] {
                rig.client.transmit(frame(1, pieces, bytes)).await.unwrap();
                let chain = rig.device.take(1).unwrap();
                let expected: Vec<u8> = (0..pieces).flat_map(|index| vec![1 + index as u8; bytes]).collect();
                let data = chain.read();
                assert_eq!(data[..12], [0; 12]);
                assert_eq!(data[12..], expected[..]);
                rig.device.complete(1, chain.head, 0);
            }
        });
    }
}

#[test]
fn received_frames_are_views_and_their_buffers_are_replaced() {
    let rig = ordinary();
    block_on(async {
        let posted = rig.device.waiting(0);
        assert_eq!(posted, 16);
        let mut held = Vec::new();
        for fill in 0..200u8 {
            let call = next_of(&rig);
            sleep_ns(10).await;
            deliver(&rig, fill, 100);
            let frames = call.await.unwrap();
            assert_eq!(frames.len(), 1);
            held.extend(frames);
            assert_eq!(rig.device.waiting(0), 16, "the buffer was replaced");
        }
        for (fill, frame) in held.iter().enumerate() {
            assert_eq!(frame.as_slice(), &vec![fill as u8; 100][..], "frames above are not written again");
        }
        drop(held);
        let call = next_of(&rig);
        sleep_ns(10).await;
        deliver(&rig, 9, 60);
        assert_eq!(call.await.unwrap()[0].as_slice(), [9; 60]);
    });
}

/// Refuses each page while memory is short for this thread's machine.
struct Shortage;

std::thread_local! {
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
}

impl MemoryMeter for Shortage {
    fn charge(&self, _bytes: usize) -> Result<u32, OutOfMemory> {
        if IS_SHORT.get() { Err(OutOfMemory) } else { Ok(0) }
    }

    fn charge_object(&self, _bytes: usize) -> u32 {
        0
    }

    fn credit(&self, _owner: u32, _bytes: usize) {}
}

#[test]
fn frames_come_again_after_a_time_without_memory_for_any_buffer() {
    gyre_machine::set_memory_meter(&Shortage);
    let rig = ordinary();
    block_on(async {
        IS_SHORT.set(true);
        let mut held = Vec::new();
        for fill in 0..16 {
            deliver(&rig, fill, 100);
        }
        while held.len() < 16 {
            held.extend(rig.driver.next().await.unwrap());
        }
        assert_eq!(rig.device.waiting(0), 0, "each buffer is held above");
        assert!(rig.driver.next().await.is_err(), "no interrupt would end a wait");
        // Any buffer will do that is free, whichever was used first.
        held.truncate(14);
        let call = next_of(&rig);
        sleep_ns(10).await;
        assert!(rig.device.waiting(0) > 0, "freed buffers are posted without memory");
        deliver(&rig, 77, 60);
        assert_eq!(call.await.unwrap()[0].as_slice(), [77; 60]);
        IS_SHORT.set(false);
        assert_eq!(held[0].as_slice(), [0; 100]);
    });
}

#[test]
fn a_flood_is_handed_up_in_batches_without_an_interrupt_for_each_frame() {
    let rig = rig(ALL, NetOptions { receive_buffers: 64, batch: 8, ..NetOptions::default() });
    block_on(async {
        (0..40).for_each(|fill| deliver(&rig, fill, 60));
        let mut got = 0;
        while got < 40 {
            let frames = rig.driver.next().await.unwrap();
            assert!(frames.len() <= 8);
            frames.iter().for_each(|frame| {
                assert_eq!(frame.as_slice()[0], got);
                got += 1;
            });
        }
        assert!(rig.driver.statistics().interrupts <= 2, "{:?}", rig.driver.statistics());
    });
}

#[test]
fn a_full_ring_suspends_and_nothing_is_lost_or_reordered() {
    let rig = ordinary();
    block_on(async {
        let calls: Vec<_> = (0..50).map(|fill| rig.client.transmit(frame(fill, 1, 100))).collect();
        sleep_ns(10).await;
        assert_eq!(rig.device.waiting(1), 4, "the rest waits outside of the ring");
        assert!(!rig.driver.has_room());
        let device = rig.device.clone();
        let driver = rig.driver;
        let sent = alloc::rc::Rc::new(core::cell::RefCell::new(Vec::new()));
        let seen = sent.clone();
        spawn(async move {
            loop {
                sleep_ns(1000).await;
                if let Some(chain) = device.take(1) {
                    seen.borrow_mut().push(chain.read()[12]);
                    if device.complete(1, chain.head, 0) {
                        interrupt(driver);
                    }
                }
            }
        });
        for call in calls {
            call.await.unwrap();
        }
        sleep_ns(100_000).await;
        assert_eq!(*sent.borrow(), (0..50).collect::<Vec<u8>>());
        assert!(rig.driver.has_room());
    });
}

#[test]
fn memory_of_a_sent_frame_is_held_until_the_device_is_done() {
    let rig = ordinary();
    block_on(async {
        let page = Page::zeroed().unwrap();
        let view = Bytes::new(page.clone(), 0, 100);
        rig.client
            .transmit(OutFrame { pieces: vec![view], checksum: None, segment: None, receipt: None })
            .await
            .unwrap();
        assert!(page.is_shared());
        let chain = rig.device.take(1).unwrap();
        rig.device.complete(1, chain.head, 0);
        rig.client.transmit(frame(1, 1, 60)).await.unwrap();
        assert!(!page.is_shared());
    });
}

#[test]
fn offloads_are_described_in_the_header() {
    let rig = ordinary();
    block_on(async {
        let properties = rig.client.properties().await.unwrap();
        assert_eq!((properties.mac, properties.mtu_bytes, properties.checksum_offload), (MAC, 1500, true));
        assert!(properties.segmentation_bytes_max > 20_000);
        let large = OutFrame { checksum: Some((34, 16)), segment: Some((1448, 66)), ..frame(0, 5, 4000) };
        rig.client.transmit(large).await.unwrap();
        let header = rig.device.take(1).unwrap().read()[..12].to_vec();
        assert_eq!(header, [1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0, 0, 0]);
    });
}

#[test]
fn what_the_device_could_not_do_is_refused() {
    let rig = rig(INDIRECT_DESCRIPTORS, NetOptions::default());
    block_on(async {
        assert_eq!(rig.client.transmit(frame(0, 1, 1515)).await, Err(LinkError::TooLong));
        assert_eq!(rig.client.transmit(frame(0, 1, 13)).await, Err(LinkError::TooLong));
        let large = OutFrame { segment: Some((1460, 66)), ..frame(0, 5, 4000) };
        assert_eq!(rig.client.transmit(large).await, Err(LinkError::TooLong), "its parts are longer than a frame");
        let large = OutFrame { segment: Some((1448, 66)), ..frame(0, 16, 4096) };
        assert_eq!(rig.client.transmit(large).await, Err(LinkError::TooLong));
        let summed = OutFrame { checksum: Some((34, 16)), ..frame(0, 1, 100) };
        assert_eq!(rig.client.transmit(summed).await, Err(LinkError::TooLong));
    });
}

/// A segment of `bytes` of payload in `pieces`, which count up; sequence number 1000.
fn segment(bytes: usize, pieces: usize, receipt: Option<Receipt>) -> OutFrame {
    let mut head = vec![0; 66];
    head[12..15].copy_from_slice(&[8, 0, 0x45]);
    head[23] = 6;
    head[38..42].copy_from_slice(&1000u32.to_be_bytes());
    head[46..48].copy_from_slice(&[0x80, 0x18]);
    let payload: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
    let mut all = vec![Bytes::copy_from(&head).unwrap()];
    all.extend(payload.chunks(bytes.div_ceil(pieces)).map(|part| Bytes::copy_from(part).unwrap()));
    OutFrame { pieces: all, checksum: None, segment: Some((1448, 66)), receipt }
}

/// Takes the frames that the device has, and returns the payload behind what was there; checks headers and their order.
fn send_parts(rig: &Rig, stream: &mut Vec<u8>) -> bool {
    let mut interrupts = false;
    while let Some(chain) = rig.device.take(1) {
        let data = chain.read();
        assert_eq!(data[..12], [0; 12], "nothing is left to the device");
        let sequence = u32::from_be_bytes(data[12 + 38..12 + 42].try_into().unwrap());
        assert_eq!(sequence as usize, 1000 + stream.len());
        stream.extend_from_slice(&data[12 + 66..]);
        interrupts |= rig.device.complete(1, chain.head, 0);
    }
    interrupts
}

#[test]
fn a_segment_that_the_device_does_not_cut_is_cut_here_as_far_as_there_is_room() {
    for (features, pieces) in [(0, 5), (INDIRECT_DESCRIPTORS | EVENT_INDEX, 1), (INDIRECT_DESCRIPTORS, 400)] {
        let rig = rig(features, NetOptions { send_frames: 4, receive_buffers: 16, ..NetOptions::default() });
        let taken = Arc::new(AtomicUsize::new(0));
        block_on(async {
            let receipt: Receipt = Box::new(Counted(taken.clone()));
            let whole = segment(20_000, pieces, Some(receipt));
            let (frames, bytes) = (whole.frames(), whole.link_bytes());
            rig.client.transmit(whole).await.unwrap();
            let behind = rig.client.transmit(segment(100, 1, None));
            assert!(!rig.driver.has_room());
            assert_eq!(taken.load(Ordering::Relaxed), 0, "the rest is still to come");
            let (mut stream, mut turns) = (Vec::new(), 0);
            while stream.len() < 20_000 {
                assert!(rig.device.waiting(1) > 0, "more follows each interrupt: {}", stream.len());
                if send_parts(&rig, &mut stream) {
                    interrupt(rig.driver);
                }
                turns += 1;
            }
            assert_eq!(turns, 4, "the ring was filled each time");
            assert_eq!(stream, (0..20_000).map(|at| (at / 7) as u8).collect::<Vec<_>>());
            assert_eq!(taken.load(Ordering::Relaxed), 1);
            behind.await.unwrap();
            let after = rig.device.take(1).expect("what came later comes later").read();
            assert_eq!(after.len(), 12 + 66 + 100);
            let statistics = rig.driver.statistics();
            assert_eq!(statistics.sent_frames as usize, frames + 1);
            assert_eq!(statistics.sent_bytes as usize, bytes + 166, "as on the link");
            assert!(statistics.interrupts <= 4, "one for half of the ring at most");
        });
    }
}

#[test]
fn the_rest_of_a_segment_is_cut_in_the_name_of_its_sender() {
    use gyre_account::{ActivityId, current_activity, set_current_activity};
    let rig = ordinary_without_offloads();
    block_on(async {
        set_current_activity(ActivityId(7));
        rig.client.transmit(segment(20_000, 5, None)).await.unwrap();
        set_current_activity(ActivityId(1));
        while !rig.driver.has_room() {
            send_parts_of_any(&rig);
            interrupt(rig.driver);
            assert_eq!(current_activity(), ActivityId(1));
        }
    });
}

fn ordinary_without_offloads() -> Rig {
    rig(INDIRECT_DESCRIPTORS | EVENT_INDEX, NetOptions { send_frames: 4, receive_buffers: 16, ..NetOptions::default() })
}

fn send_parts_of_any(rig: &Rig) {
    while let Some(chain) = rig.device.take(1) {
        rig.device.complete(1, chain.head, 0);
    }
}

#[test]
fn after_a_reset_the_rest_of_a_segment_follows() {
    let rig = ordinary_without_offloads();
    block_on(async {
        rig.client.transmit(segment(10_000, 3, None)).await.unwrap();
        rig.device.advance_used(1, 77);
        interrupt(rig.driver);
        assert_eq!(rig.driver.statistics().resets, 1);
        let mut parts = 0;
        while let Some(chain) = rig.device.take(1) {
            parts += 1;
            rig.device.complete(1, chain.head, 0);
            interrupt(rig.driver);
        }
        assert_eq!(parts, 3, "7 in all, of which 4 were lost with the device's ring");
        assert!(rig.driver.has_room());
    });
}

#[test]
fn the_rest_of_a_segment_ends_with_its_device() {
    let rig = ordinary_without_offloads();
    let taken = Arc::new(AtomicUsize::new(0));
    block_on(async {
        let receipt: Receipt = Box::new(Counted(taken.clone()));
        rig.client.transmit(segment(10_000, 3, Some(receipt))).await.unwrap();
        rig.device.refuse_reset();
        rig.device.advance_used(1, 77);
        interrupt(rig.driver);
        assert_eq!(taken.load(Ordering::Relaxed), 1);
    });
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(gyre_object::locks_held(), 0, "a receipt may send messages");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_receipt_comes_back_when_the_device_has_taken_its_frame() {
    let rig = ordinary();
    let taken = Arc::new(AtomicUsize::new(0));
    block_on(async {
        for fill in 0..10 {
            let receipt: Receipt = Box::new(Counted(taken.clone()));
            drop(rig.client.transmit(OutFrame { receipt: Some(receipt), ..frame(fill, 1, 100) }));
        }
        sleep_ns(10).await;
        assert_eq!(taken.load(Ordering::Relaxed), 4, "the ring has four");
        for left in (0..10).rev() {
            let chain = rig.device.take(1).unwrap();
            assert_eq!(chain.read()[12], 9 - left);
            rig.device.complete(1, chain.head, 0);
            interrupt(rig.driver);
            assert_eq!(taken.load(Ordering::Relaxed), (14 - left as usize).min(10));
        }
    });
}

#[test]
fn after_a_lost_interrupt_senders_and_reader_go_on() {
    let rig = ordinary();
    let (driver, looks) = (rig.driver, Arc::new(AtomicUsize::new(0)));
    block_on(async {
        fill(&rig).await;
        let seen = looks.clone();
        spawn(async move {
            loop {
                let Some(cycles) = driver.on_tick() else {
                    sleep_ns(1_000_000).await;
                    continue;
                };
                sleep_until(gyre_machine::now() + cycles).await;
                driver.on_tick();
                seen.fetch_add(usize::from(driver.is_half_free()), Ordering::Relaxed);
            }
        });
        let call = next_of(&rig);
        sleep_ns(10).await;
        // both interrupts are lost
        (0..4).for_each(|_| _ = send_one(&rig));
        let chain = rig.device.take(0).unwrap();
        let written = chain.write(&[7; 12 + 60]);
        rig.device.complete(0, chain.head, written);
        sleep_ns(500_000_000).await;
        assert_eq!(looks.load(Ordering::Relaxed), 0);
        sleep_ns(600_000_000).await;
        assert_eq!(looks.load(Ordering::Relaxed), 1, "whoever holds senders back is told");
        assert_eq!(call.await.unwrap()[0].len(), 60);
    });
}

#[test]
fn a_device_that_missed_a_doorbell_is_told_again_by_a_look() {
    let rig = ordinary();
    block_on(async {
        assert!(rig.driver.on_tick().is_none(), "nothing is at the device");
        let quiet = rig.device.kicks(1);
        rig.client.transmit(frame(0, 1, 100)).await.unwrap();
        // it takes nothing: it has missed the doorbell
        let (sending, receiving) = (rig.device.kicks(1), rig.device.kicks(0));
        assert!(sending > quiet);
        assert!(rig.driver.on_tick().is_some());
        assert_eq!((rig.device.kicks(1), rig.device.kicks(0)), (sending + 1, receiving + 1));
        let chain = rig.device.take(1).unwrap();
        rig.device.complete(1, chain.head, 0);
        assert!(rig.driver.on_tick().is_none());
        assert_eq!(rig.device.kicks(1), sending + 1, "it has nothing to be told of");
    });
}

#[test]
fn a_device_that_lies_is_reset_and_works_again() {
    let lies: [fn(&FakeDevice); 3] = [
        |device| _ = device.complete_unchecked(0, 999, 20),
        |device| _ = device.complete_unchecked(0, 0, 100_000),
        |device| _ = device.advance_used(1, 77),
    ];
    for lie in lies {
        let rig = ordinary();
        block_on(async {
            rig.client.transmit(frame(0, 1, 100)).await.unwrap();
            let call = next_of(&rig);
            sleep_ns(10).await;
            lie(&rig.device);
            interrupt(rig.driver);
            sleep_ns(10).await;
            assert_eq!(rig.driver.statistics().resets, 1);
            deliver(&rig, 5, 70);
            // who waited when a receive ring broke is told; the next asks again
            let frames = match call.await {
                Err(LinkError::Device) => rig.driver.next().await,
                other => other,
            };
            assert_eq!(frames.unwrap()[0].as_slice(), [5; 70]);
            rig.client.transmit(frame(3, 1, 100)).await.unwrap();
            assert_eq!(rig.device.take(1).unwrap().read()[12], 3);
        });
    }
}

#[test]
fn a_device_that_does_not_reset_is_dead_and_keeps_its_memory() {
    let rig = ordinary();
    block_on(async {
        let page = Page::zeroed().unwrap();
        let pieces = vec![Bytes::new(page.clone(), 0, 100)];
        rig.client.transmit(OutFrame { pieces, checksum: None, segment: None, receipt: None }).await.unwrap();
        rig.device.refuse_reset();
        rig.device.advance_used(1, 77);
        interrupt(rig.driver);
        assert!(page.is_shared(), "the device may still read it");
        assert_eq!(rig.client.transmit(frame(0, 1, 100)).await, Err(LinkError::Device));
        assert_eq!(rig.driver.next().await.err(), Some(LinkError::Device));
    });
}

#[test]
fn short_and_headless_frames_are_counted_and_dropped() {
    let rig = ordinary();
    block_on(async {
        let chain = rig.device.take(0).unwrap();
        rig.device.complete(0, chain.head, 5);
        interrupt(rig.driver);
        let call = next_of(&rig);
        sleep_ns(10).await;
        deliver(&rig, 1, 60);
        assert_eq!(call.await.unwrap().len(), 1);
        assert_eq!(rig.driver.statistics().malformed, 1);
    });
}

/// The device sends a frame; returns true if it interrupts.
fn send_one(rig: &Rig) -> bool {
    let chain = rig.device.take(1).expect("a frame to send");
    rig.device.complete(1, chain.head, 0)
}

async fn fill(rig: &Rig) {
    while rig.driver.has_room() {
        rig.client.transmit(frame(1, 1, 100)).await.unwrap();
    }
}

#[test]
fn a_refusal_is_followed_by_one_interrupt_when_half_of_the_ring_is_free() {
    let rig = ordinary();
    block_on(async {
        fill(&rig).await;
        assert!(!send_one(&rig), "one frame is not worth an interrupt");
        assert!(send_one(&rig), "the device is told to interrupt");
        assert!(rig.driver.acknowledge(Senders::Held) && rig.driver.is_half_free() && rig.driver.has_room());
        interrupt(rig.driver);
        assert!(!send_one(&rig), "nobody waits any more");
    });
}

#[test]
fn an_interrupt_that_finds_the_ring_filled_again_is_followed_by_another() {
    let rig = ordinary();
    block_on(async {
        fill(&rig).await;
        assert!(!send_one(&rig));
        rig.client.transmit(frame(2, 1, 100)).await.unwrap();
        assert!(send_one(&rig), "the second since the refusal");
        assert!(!rig.driver.acknowledge(Senders::Held), "three of four are left");
        assert!(send_one(&rig), "half is free now");
        assert!(rig.driver.acknowledge(Senders::Held));
    });
}

/// Lets the device receive a frame; returns true if it interrupts.
fn arrives(rig: &Rig, fill: u8) -> bool {
    let chain = rig.device.take(0).expect("a buffer is posted");
    let written = chain.write(&[&[0; 12][..], &[fill; 60]].concat());
    rig.device.complete(0, chain.head, written)
}

/// Fills the device's ring; frames stay there for `stay_ns`.
async fn backlog(rig: &Rig, stay_ns: u64) {
    fill(rig).await;
    sleep_ns(stay_ns).await;
    assert!(!send_one(rig));
    fill(rig).await;
}

#[test]
fn a_refusal_leaves_something_that_interrupts() {
    let rig = ordinary_without_offloads();
    block_on(async {
        rig.client.transmit(segment(20_000, 5, None)).await.unwrap();
        assert!(!rig.driver.has_room());
        while send_one_of_any(&rig) {}
        // the interrupt is taken, its task has not run, and the gate tries before
        assert!(rig.driver.acknowledge(Senders::Held));
        assert!(!rig.driver.has_room(), "the rest of the segment goes first");
        assert!(rig.device.waiting(1) > 0, "the device has something whose end it will tell");
        assert!(!send_one(&rig) && send_one(&rig));
    });
}

/// The device sends a frame, if it has one.
fn send_one_of_any(rig: &Rig) -> bool {
    let chain = rig.device.take(1);
    chain.is_some_and(|chain| {
        rig.device.complete(1, chain.head, 0);
        true
    })
}

#[test]
fn received_frames_gather_while_senders_wait_for_the_device() {
    let rig = ordinary();
    block_on(async {
        backlog(&rig, 1_000_000).await;
        let call = next_of(&rig);
        sleep_ns(10).await;
        assert!((0..3).all(|fill| !arrives(&rig, fill)), "no interrupt for each");
        assert!(!send_one(&rig) && send_one(&rig), "half of the ring is sent");
        assert!(rig.driver.acknowledge(Senders::Held));
        rig.driver.wake_reader();
        assert_eq!(call.await.unwrap().len(), 3);
    });
}

#[test]
fn gathered_frames_interrupt_when_there_are_many() {
    let rig = ordinary();
    block_on(async {
        backlog(&rig, 1_000_000).await;
        let call = next_of(&rig);
        sleep_ns(10).await;
        assert!((0..3).all(|fill| !arrives(&rig, fill)));
        assert!(arrives(&rig, 3), "a quarter of the buffers");
        rig.driver.wake_reader();
        assert_eq!(call.await.unwrap().len(), 4);
    });
}

#[test]
fn a_frame_interrupts_where_none_is_sent_or_sending_takes_long() {
    for stay_ns in [None, Some(70_000_000)] {
        let rig = ordinary();
        block_on(async {
            match stay_ns {
                Some(stay_ns) => backlog(&rig, stay_ns).await,
                None => rig.client.transmit(frame(1, 1, 100)).await.unwrap(),
            }
            let call = next_of(&rig);
            sleep_ns(10).await;
            assert!(arrives(&rig, 1));
            rig.driver.wake_reader();
            assert_eq!(call.await.unwrap().len(), 1);
        });
    }
}

#[test]
fn frames_gather_no_longer_than_the_interrupt_that_they_wait_for_can_come() {
    let ends: [fn(&Rig); 2] = [
        // it came before the first frame
        |rig| {
            assert!(!send_one(rig) && send_one(rig));
            assert!(rig.driver.acknowledge(Senders::Held));
            rig.driver.wake_reader();
        },
        // nobody waits for room any more
        |rig| rig.driver.go_on_sending(),
    ];
    for end in ends {
        let rig = ordinary();
        block_on(async {
            backlog(&rig, 1_000_000).await;
            let call = next_of(&rig);
            sleep_ns(10).await;
            end(&rig);
            assert!(arrives(&rig, 1), "the first frame tells of itself");
            rig.driver.wake_reader();
            assert_eq!(call.await.unwrap().len(), 1);
        });
    }
}

#[test]
fn a_device_that_goes_away_answers_who_waits_and_comes_back() {
    let rig = ordinary();
    block_on(async {
        assert!(rig.driver.has_sent_all());
        let calls: Vec<_> = (0..6).map(|fill| rig.client.transmit(frame(fill, 1, 60))).collect();
        sleep_ns(10).await;
        assert!(!rig.driver.has_sent_all());
        let reader = next_of(&rig);
        assert_eq!(rig.driver.go_away(), Ok(()));
        let mut refused = 0;
        for call in calls {
            refused += usize::from(call.await == Err(LinkError::Device));
        }
        assert_eq!(refused, 2, "four are at the device, and lost; the others waited");
        assert!(rig.driver.has_sent_all());
        assert_eq!(rig.client.transmit(frame(9, 1, 60)).await, Err(LinkError::Device));
        interrupt(rig.driver);
        assert_eq!(rig.device.waiting(0), 0, "it has no memory of ours");

        assert_eq!(rig.driver.come_back(), Ok(()));
        assert!(rig.driver.come_back().is_err(), "it is back");
        assert_eq!(rig.device.waiting(0), 16, "buffers are posted");
        deliver(&rig, 7, 100);
        assert_eq!(reader.await.unwrap()[0].as_slice(), &[7; 100][..], "the reader waited meanwhile");
        rig.client.transmit(frame(5, 1, 60)).await.unwrap();
        assert!(rig.device.take(1).is_some());
    });
}
