//! A card for a cell: frames that are right come and go, others are lost, and lies end the cell and touch nothing else.
//!
//! The cell is the `Fake` of `tests.rs`: one lot of memory, in which a test writes rings, descriptors and frames as a cell would. The
//! wire is a `Segment`, which keeps the frames that were sent, brings frames to the cell, and may be full. The service runs beside the
//! test's script until the cell gives the card back, is over, or has lied.
//!
//! The tests hold that frames may lie in parts, that those in another one's name or of a wrong length are lost and counted, that frames
//! wait for room at the card, that a cell that never stops lets others run, and that each lie in a ring is found. A property says that
//! whatever stands in a ring, nothing leaves in another name.
//!
//! The disk is in `tests.rs`; a cell that runs code is left out.

use super::tests::{ENTRIES, Fake};
use super::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_cell_abi::card::CardRequest;
use gyre_cell_abi::device::{DESCRIPTOR_BYTES, ENTRIES_MAX, NEXT, WRITE};
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame, link};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, yield_now};
use gyre_object::{Bytes, SpinLock};
use proptest::prelude::*;

const MAC: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];
const FRAME_BYTES_MAX: usize = 1514;
/// Places of the receiving ring in the lot; the sending one lies one behind.
const RINGS: [usize; 2] = [3 << 19, (3 << 19) + (1 << 16)];
const AVAILABLE: usize = 0x1000;
const USED: usize = 0x2000;
/// Places of frames that come, and of those that go.
const DATA: [usize; 2] = [1 << 20, (1 << 20) + (1 << 17)];
const STRIDE: usize = 2048;

/// The other end of a wire.
#[derive(Default)]
struct Segment {
    waiting: SpinLock<Vec<Bytes>>,
    arrived: WaitQueue,
    sent: SpinLock<Vec<Vec<u8>>>,
    is_full: AtomicBool,
}

impl FrameStream for Segment {
    type Frame = Bytes;

    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        let take = || Some(core::mem::take(&mut *self.waiting.lock())).filter(|frames| !frames.is_empty());
        Ok(self.arrived.until(take).await)
    }
}

impl link::Server for Segment {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Err(LinkError::Gone)
    }
    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        self.sent.lock().push(frame.pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect());
        Ok(())
    }
}

impl Segment {
    fn new() -> &'static Segment {
        Box::leak(Box::default())
    }

    fn wire(&'static self) -> Wire<Segment> {
        Wire {
            client: link::Client::new(direct_link(move |request| Box::pin(link::serve(self, request)))),
            frames: self,
            has_room: |segment| !segment.is_full.load(Ordering::SeqCst),
            mac: MAC,
            frame_bytes_max: FRAME_BYTES_MAX,
        }
    }

    fn bring(&self, frames: &[Vec<u8>]) {
        self.waiting.lock().extend(frames.iter().map(|frame| Bytes::copy_from(frame).unwrap()));
        self.arrived.wake_all();
    }

    fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().clone()
    }
}

/// A frame from one address to another one, of so many bytes.
fn frame(to: [u8; 6], from: [u8; 6], bytes: usize) -> Vec<u8> {
    let head = to.into_iter().chain(from).chain([8, 0]);
    head.chain((0..=u8::MAX).cycle()).take(bytes).collect()
}

/// A ring of a cell, by its place: 0 for frames to come, 1 for those to send.
struct Ring<'a>(&'a Fake, usize);

impl Ring<'_> {
    fn describe(&self, number: u16, place: u64, bytes: u32, [flags, next]: [u16; 2]) {
        let pa = self.0.lot.pa().0.wrapping_add(place);
        let high = u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48;
        let at = RINGS[self.1] + usize::from(number) * DESCRIPTOR_BYTES as usize;
        self.0.lot.write(at, &pa.to_le_bytes());
        self.0.lot.write(at + 8, &high.to_le_bytes());
    }

    fn announce(&self, count: u16, head: u16) {
        let at = RINGS[self.1] + AVAILABLE;
        self.0.lot.write(at + 4 + usize::from(count.wrapping_sub(1) % ENTRIES) * 2, &head.to_le_bytes());
        self.0.lot.write(at + 2, &count.to_le_bytes());
        self.0.changed.wake_all();
    }

    fn word(&self, at: usize) -> u16 {
        let mut word = [0; 2];
        self.0.lot.read(RINGS[self.1] + at, &mut word);
        u16::from_le_bytes(word)
    }

    /// Waits for so many answers; returns the bytes that the last one names.
    async fn answers(&self, count: u16) -> u16 {
        while self.word(USED + 2) != count {
            yield_now().await;
        }
        self.word(USED + 8 + usize::from(count.wrapping_sub(1) % ENTRIES) * 8)
    }

    /// Offers room for a frame, or a frame, as chain number `count` of one descriptor.
    fn offer(&self, count: u16, bytes: usize) {
        let number = count.wrapping_sub(1) % ENTRIES;
        let place = (DATA[self.1] + usize::from(number) * STRIDE) as u64;
        self.describe(number, place, bytes as u32, [if self.1 == 0 { WRITE } else { 0 }, 0]);
        self.announce(count, number);
    }

    fn send(&self, count: u16, frame: &[u8]) {
        self.0.lot.write(DATA[1] + usize::from(count.wrapping_sub(1) % ENTRIES) * STRIDE, frame);
        self.offer(count, frame.len());
    }

    fn received(&self, number: usize, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        self.0.lot.read(DATA[0] + number * STRIDE, &mut frame);
        frame
    }
}

fn plan(cell: &Fake) -> CardRequest {
    let ring = |at: usize| [at, at + AVAILABLE, at + USED].map(|place| cell.lot.pa().0 + place as u64);
    CardRequest {
        size: 64,
        entries: ENTRIES.into(),
        receive: ring(RINGS[0]),
        send: ring(RINGS[1]),
        ..Default::default()
    }
}

fn rings(cell: &Fake) -> Rings {
    let plan = plan(cell);
    let queue = |plan| Queue::new(&cell.memory, &plan).unwrap();
    Rings { receive: queue(plan.receiving()), send: queue(plan.sending()) }
}

fn run(segment: &'static Segment, script: impl AsyncFn(&Fake)) -> (End, Arc<Fake>) {
    let cell = Arc::new(Fake::new());
    let end = block_on(async {
        let script = async {
            script(&cell).await;
            core::future::pending::<()>().await;
        };
        match select(attend_card(segment.wire(), &cell.memory, rings(&cell), &*cell), script).await {
            Either::First(end) => end,
            Either::Second(()) => unreachable!("the script waits for ever"),
        }
    });
    (end, cell)
}

fn give_back(cell: &Fake) {
    cell.gives_back.store(true, Ordering::SeqCst);
    cell.changed.wake_all();
}

fn counts(cell: &Fake) -> [usize; 3] {
    [&cell.moved[0], &cell.moved[1], &cell.lost].map(|count| count.load(Ordering::SeqCst))
}

#[test]
fn frames_come_and_go() {
    let segment = Segment::new();
    let out = frame([0xff; 6], MAC, 60);
    let inward = [frame(MAC, [2; 6], 1514), frame([0xff; 6], [2; 6], 14)];
    let (end, cell) = run(segment, async |cell| {
        let [receive, send] = [Ring(cell, 0), Ring(cell, 1)];
        send.send(1, &out);
        assert_eq!(send.answers(1).await, 0);
        receive.offer(1, STRIDE);
        receive.offer(2, FRAME_BYTES_MAX);
        segment.bring(&inward);
        assert_eq!(receive.answers(2).await, 14);
        assert_eq!((receive.received(0, 1514), receive.received(1, 14)), (inward[0].clone(), inward[1].clone()));
        assert!(cell.told.load(Ordering::SeqCst) >= 2);
        give_back(cell);
    });
    assert_eq!((end, segment.sent(), counts(&cell)), (End::GivenBack, vec![out.clone()], [1528, 60, 0]));
}

#[test]
fn a_frame_may_lie_in_parts() {
    let segment = Segment::new();
    let (out, inward) = (frame([4; 6], MAC, 100), frame(MAC, [2; 6], 700));
    let (end, _) = run(segment, async |cell| {
        let [receive, send] = [Ring(cell, 0), Ring(cell, 1)];
        cell.lot.write(DATA[1], &out);
        send.describe(0, DATA[1] as u64, 9, [NEXT, 1]);
        send.describe(1, DATA[1] as u64 + 9, 91, [0, 0]);
        send.announce(1, 0);
        send.answers(1).await;
        receive.describe(3, DATA[0] as u64, 500, [NEXT | WRITE, 5]);
        receive.describe(5, DATA[0] as u64 + 4096, 1100, [WRITE, 0]);
        receive.announce(1, 3);
        segment.bring(core::slice::from_ref(&inward));
        assert_eq!(receive.answers(1).await, 700);
        assert_eq!(receive.received(0, 500), inward[..500]);
        assert_eq!(receive.received(2, 200), inward[500..]);
        give_back(cell);
    });
    assert_eq!((end, segment.sent()), (End::GivenBack, vec![out.clone()]));
}

#[test]
fn frames_that_are_not_the_cells_are_lost() {
    let segment = Segment::new();
    segment.bring(&[frame(MAC, [9; 6], 64)]);
    let (end, cell) = run(segment, async |cell| {
        let [receive, send] = [Ring(cell, 0), Ring(cell, 1)];
        // Another one's name, too short, too long: none leaves.
        for (count, wrong) in (1..).zip([frame([4; 6], [7; 6], 60), frame([4; 6], MAC, 13), frame([4; 6], MAC, 1515)]) {
            send.send(count, &wrong);
            send.answers(count).await;
        }
        // No frame comes that was there before the card was the cell's, that is for somebody else, or for which there
        // is no room.
        segment.bring(&[frame([8; 6], [9; 6], 64), frame(MAC, [9; 6], 70)]);
        while cell.lost.load(Ordering::SeqCst) < 4 {
            yield_now().await;
        }
        receive.offer(1, STRIDE);
        segment.bring(&[frame(MAC, [9; 6], 1515), frame(MAC, [9; 6], 80)]);
        assert_eq!(receive.answers(1).await, 80);
        give_back(cell);
    });
    assert_eq!((end, segment.sent(), counts(&cell)), (End::GivenBack, vec![], [80, 0, 5]));
}

#[test]
fn frames_wait_for_room_at_the_card() {
    let segment = Segment::new();
    segment.is_full.store(true, Ordering::SeqCst);
    let (end, _) = run(segment, async |cell| {
        let send = Ring(cell, 1);
        (1..=3).for_each(|count| send.send(count, &frame([4; 6], MAC, 60)));
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!((send.word(USED + 2), segment.sent().len()), (0, 0));
        segment.is_full.store(false, Ordering::SeqCst);
        send.answers(3).await;
        give_back(cell);
    });
    assert_eq!((end, segment.sent().len()), (End::GivenBack, 3));
}

#[test]
fn a_cell_that_never_stops_lets_others_run() {
    let segment = Segment::new();
    let (end, _) = run(segment, async |cell| {
        let send = Ring(cell, 1);
        let mut count = 0u16;
        while segment.sent().len() < 500 {
            // As many as fit.
            while count.wrapping_sub(send.word(USED + 2)) < ENTRIES {
                count = count.wrapping_add(1);
                send.send(count, &frame([4; 6], MAC, 60));
            }
            yield_now().await;
        }
        cell.is_over.store(true, Ordering::SeqCst);
        cell.changed.wake_all();
    });
    assert_eq!(end, End::Over);
}

#[test]
fn lies_end_the_service() {
    let lot = 2u64 << 20;
    let sending = |place: u64, bytes, words: [u16; 2]| {
        run(Segment::new(), async move |cell| {
            Ring(cell, 1).describe(0, place, bytes, words);
            Ring(cell, 1).announce(1, 0);
        })
    };
    let data = DATA[1] as u64;
    for (place, bytes, words, lie) in [
        (data, 60, [WRITE, 0], Lie::Shape),
        (data, 0, [0, 0], Lie::Shape),
        (data, 60, [4, 0], Lie::Shape),
        (data, 60, [NEXT, 0], Lie::Shape),
        (data, 60, [NEXT, ENTRIES], Lie::Descriptor),
        (lot, 60, [0, 0], Lie::Memory),
        (lot - 59, 60, [0, 0], Lie::Memory),
        (0u64.wrapping_sub(4096), 60, [0, 0], Lie::Memory),
        (data, u32::MAX, [0, 0], Lie::Memory),
    ] {
        assert_eq!(sending(place, bytes, words).0, End::Lied(lie), "{place:#x} {bytes} {words:?}");
    }
    for (count, head, lie) in
        [(ENTRIES + 1, 0, Lie::Index), (0u16.wrapping_sub(1), 0, Lie::Index), (1, ENTRIES, Lie::Descriptor)]
    {
        let end = run(Segment::new(), async move |cell| Ring(cell, 1).announce(count, head)).0;
        assert_eq!(end, End::Lied(lie), "{count} {head}");
    }
}

#[test]
fn lies_about_room_end_the_service_when_a_frame_comes() {
    let lot = 2u64 << 20;
    let data = DATA[0] as u64;
    for (place, bytes, words, count, lie) in [
        (data, 2048, [0, 0], 1, Lie::Shape),
        (data, 1513, [WRITE, 0], 1, Lie::Shape),
        (lot - 1000, 2048, [WRITE, 0], 1, Lie::Memory),
        (lot, 2048, [WRITE, 0], 1, Lie::Memory),
        (data, 2048, [WRITE | NEXT, 200], 1, Lie::Descriptor),
        (data, 2048, [WRITE, 0], ENTRIES + 1, Lie::Index),
    ] {
        let segment = Segment::new();
        let end = run(segment, async move |cell| {
            Ring(cell, 0).describe(0, place, bytes, words);
            Ring(cell, 0).announce(count, 0);
            yield_now().await;
            segment.bring(&[frame(MAC, [9; 6], 64)]);
        });
        assert_eq!(end.0, End::Lied(lie), "{place:#x} {bytes} {words:?}");
    }
}

#[test]
fn rings_lie_in_lots_of_the_cell() {
    let cell = Fake::new();
    let changes: [fn(&mut CardRequest); 5] = [
        |plan| plan.entries = ENTRIES_MAX * 2,
        |plan| plan.entries = 0,
        |plan| plan.send[0] += 8,
        |plan| plan.send[2] += 2 << 20,
        |plan| plan.receive[1] = u64::MAX - 1,
    ];
    for change in changes {
        let mut plan = plan(&cell);
        change(&mut plan);
        let found = [plan.receiving(), plan.sending()].map(|ring| Queue::new(&cell.memory, &ring).is_ok());
        assert!(found.contains(&false), "{plan:?}");
    }
}

proptest! {
    /// The sending ring may hold anything: what leaves is the cell's own, in its own name, or the service ends.
    #[test]
    fn nothing_in_a_ring_leaves_in_another_name(
        table in proptest::collection::vec((0u64..(2 << 20) + 8192, 0u32..2000, 0u16..4, 0u16..10), 8),
        heads in proptest::collection::vec(0u16..9, 8),
        count in 1u16..10,
        place in 0usize..4096,
    ) {
        let segment = Segment::new();
        let (end, cell) = run(segment, async move |cell| {
            let send = Ring(cell, 1);
            for at in 0..(1 << 20) / STRIDE {
                cell.lot.write(at * STRIDE + place % 64, &frame([4; 6], MAC, 60));
            }
            for (number, (place, bytes, flags, next)) in (0..).zip(&table) {
                send.describe(number, *place, *bytes, [*flags, *next]);
            }
            (1..).zip(&heads).for_each(|(place, head)| send.announce(place, *head));
            send.announce(count, 0);
            for _ in 0..200 {
                yield_now().await;
            }
            give_back(cell);
        });
        prop_assert!(matches!(end, End::GivenBack | End::Lied(_)));
        prop_assert!(segment.sent().iter().all(|frame| frame[6..12] == MAC && frame.len() <= FRAME_BYTES_MAX));
        drop(cell);
    }
}
