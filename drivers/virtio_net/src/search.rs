//! Steps at random: an input's bytes are frames of the driver's users, and what a card that lies writes.
//!
//! The card is a `FakeDevice`, which panics if the driver breaks the rules. It takes chains and completes them as it should or not: with any
//! length, twice, never, or others that nobody gave it; its indexes jump, its interrupts are lost or come unasked, its configuration
//! changes, it does not come back from a reset, and it goes away to another instance and back. Users send frames of any form and keep
//! those that they receive.
//!
//! After each input nothing has panicked, each frame that waited is answered, each receipt came back, and once driver and card are dropped all
//! their memory is free. The corpus is in `search/corpus`; how to look for longer is said in `gyre-mutate`.

use crate::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_device::{LinkDevice, Senders, Sent};
use gyre_interface::link::{LinkError, OutFrame};
use gyre_machine::{advance, live_frame_bytes};
use gyre_message::direct::block_on;
use gyre_message::wait::Either;
use gyre_message::{Call, select, sleep_ns};
use gyre_mutate::Input;
use gyre_object::Bytes;
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};

const STEPS_MAX: usize = 200;
/// Chains of the two rings.
const SIZES: [u16; 2] = [8, 32];
/// A card's checksums, greatest length, address and segments.
const OFFERS: &[u64] = &[1 | 1 << 5 | 1 << 11, 1 << 3 | 1 << 5, 1, 0];
const RINGS: &[u64] = &[INDIRECT_DESCRIPTORS | EVENT_INDEX, INDIRECT_DESCRIPTORS, EVENT_INDEX, 0];
const PIECES: &[usize] = &[60, 14, 1, 100, 1448, 1514, 4096];
/// Longest frame that fits into a buffer behind its header.
const FRAME_BYTES_MAX: usize = 2048 - 12;

/// Counts the receipts that are out.
struct Receipt(Arc<AtomicUsize>);

impl Drop for Receipt {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct World {
    device: Arc<FakeDevice>,
    driver: VirtioNet,
    /// Chains that the card has, by ring.
    chains: [Vec<FakeChain>; 2],
    resets: usize,
    refuses: bool,
    /// It did not come back from a reset: what it makes of the rings from then on is no fault of the driver.
    is_gone: bool,
    received: Vec<Bytes>,
    waiting: Vec<Call<Result<(), LinkError>>>,
    receipts: Arc<AtomicUsize>,
}

impl World {
    fn new(input: &mut Input<'_>) -> World {
        let features = input.one_of(OFFERS) | input.one_of(RINGS);
        let config = vec![2, 1, 2, 3, 4, 5, 0, 0, 0, 0, input.byte(), input.byte()];
        let device = FakeDevice::new(DEVICE_KIND, features, &SIZES, config);
        let options = NetOptions { send_frames: 4, receive_buffers: 8, batch: 4, ..NetOptions::default() };
        let driver = VirtioNet::new(Box::new(device.clone()), 0, options).unwrap();
        let resets = device.resets();
        World {
            device,
            driver,
            chains: [Vec::new(), Vec::new()],
            resets,
            refuses: false,
            is_gone: false,
            received: Vec::new(),
            waiting: Vec::new(),
            receipts: Arc::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..4 => self.send(input),
            4 | 5 => self.take(input),
            6 | 7 => self.complete(input),
            8 => self.lie(input),
            9 | 10 => self.interrupt(input),
            11 => self.receive(),
            12 => self.received.clear(),
            13 => {
                advance(input.number() % 1_000_000 * 1_000_000);
                let _ = self.driver.on_tick();
            }
            14 => self.device.set_config(vec![input.byte(); 12]),
            _ => self.go(input),
        }
        // a card touches nothing after its reset
        if self.device.resets() != self.resets {
            self.resets = self.device.resets();
            self.is_gone = self.refuses;
            self.chains.iter_mut().for_each(Vec::clear);
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let pieces = (0..1 + input.below(40)).map(|_| input.one_of(PIECES));
        let pieces = pieces.map(|bytes| Bytes::copy_from(&vec![0x45; bytes]).unwrap()).collect();
        let mut pair = || (input.number() as u16, input.number() as u16);
        let (checksum, segment) = match pair() {
            (1, _) => (Some(pair()), None),
            (2, headers) => (None, Some((1448, headers))),
            (3, _) => (Some(pair()), Some(pair())),
            _ => (None, None),
        };
        self.receipts.fetch_add(1, Ordering::Relaxed);
        let receipt = Some(Box::new(Receipt(self.receipts.clone())) as _);
        if let Sent::Waits(call) = self.driver.send(OutFrame { pieces, checksum, segment, receipt }) {
            self.waiting.push(call);
        }
    }

    fn take(&mut self, input: &mut Input<'_>) {
        let queue = input.below(2);
        if !self.is_gone {
            self.chains[queue].extend(self.device.take(queue));
        }
    }

    /// The card is done with a chain, and says a length that is right or not.
    fn complete(&mut self, input: &mut Input<'_>) {
        let queue = input.below(2);
        let turn = input.below(self.chains[queue].len());
        if turn < self.chains[queue].len() {
            let chain = self.chains[queue].swap_remove(turn);
            let bytes = vec![input.byte(); input.number() as usize % 3000];
            let written = chain.write(&bytes);
            let said = if input.hits(4) { input.number() as u32 } else { written };
            self.device.complete(queue, chain.head, said);
        }
    }

    /// After a lie the driver may take any of its memory back, so the card leaves it alone.
    fn lie(&mut self, input: &mut Input<'_>) {
        let queue = input.below(2);
        self.chains[queue].clear();
        match input.hits(2) {
            true => self.device.complete_unchecked(queue, input.number() as u32, input.number() as u32),
            false => self.device.advance_used(queue, input.number() as u16),
        };
    }

    fn interrupt(&self, input: &mut Input<'_>) {
        let parts = input.byte();
        if parts & 1 == 0 {
            self.driver.acknowledge(if parts & 2 == 0 { Senders::Flow } else { Senders::Held });
        }
        if parts & 4 == 0 {
            self.driver.wake_reader();
        }
        if parts & 8 == 0 {
            self.driver.go_on_sending();
        }
        assert!(self.driver.has_room() || self.driver.statistics().sending > 0, "who is held back waits for nothing");
    }

    fn receive(&mut self) {
        let frames = self.driver.take_frames().and_then(Result::ok).unwrap_or_default();
        assert!(frames.iter().all(|frame| (1..=FRAME_BYTES_MAX).contains(&frame.len())));
        self.received.extend(frames);
    }

    fn go(&mut self, input: &mut Input<'_>) {
        // each reset is waited for until its time is over
        if self.is_gone {
            return;
        }
        match input.byte() {
            0..100 => _ = self.driver.go_away(),
            100..200 => _ = self.driver.come_back(),
            // seldom: a reset that does not end takes long
            0xff => {
                self.device.refuse_reset();
                self.refuses = true;
            }
            _ => _ = self.driver.has_sent_all(),
        }
    }

    async fn end(self) {
        let went = self.driver.go_away();
        assert!(went.is_ok() || self.refuses);
        for call in self.waiting {
            assert!(matches!(select(call, sleep_ns(1000)).await, Either::First(_)), "a frame waits for ever");
        }
        let receipts = self.receipts.clone();
        if !self.refuses {
            assert_eq!(receipts.load(Ordering::Relaxed), 0, "receipts that are out");
        }
        drop((self.driver, self.device, self.received));
        assert_eq!(receipts.load(Ordering::Relaxed), 0, "receipts that the driver kept");
    }
}

fn one(bytes: &[u8]) {
    gyre_machine::set_virtual_time(1);
    let before = live_frame_bytes();
    block_on(async {
        let mut input = Input::new(bytes);
        let mut world = World::new(&mut input);
        for _ in 0..STEPS_MAX {
            if input.is_over() {
                break;
            }
            world.step(&mut input);
        }
        world.end().await;
    });
    assert_eq!(live_frame_bytes(), before, "memory that nobody gives back");
}

#[test]
fn whatever_a_card_says_frames_are_answered_once_and_all_memory_comes_back() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/search/corpus");
    // a frame out and a frame in
    let first = [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 6, 1, 0, 0, 0, 0, 9, 0, 4, 0, 6, 0, 0, 7, 100, 0, 9, 0, 11];
    gyre_mutate::run("virtio-net", &corpus, &first, 2000, one);
}
