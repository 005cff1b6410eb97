//! The gate before a network device that is no device of any kind: order, shares, senders that are held back, lost interrupts.
#![allow(missing_docs, reason = "tests")]

use gyre_account::{Accounts, ActivityId, ActivityParams, Column, ResourceId};
use gyre_device::{InterruptLine, LinkDevice, Senders, Sent};
use gyre_engine::simulate::{Outside, Simulator, Stop};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame, link};
use gyre_machine::{Events, post_event, set_core_count, set_virtual_tick, set_virtual_time, virtual_clock};
use gyre_object::{Bytes, SpinLock};
use gyre_schedulers::{Metric, weighted_fair};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const ROOM: usize = 4;
/// How long a byte takes on the link, ns.
const BYTE_NS: u64 = 10;
const LOOK_NS: u64 = 10_000_000;

/// A card that sends one frame at a time and interrupts when half of its room is free, if it was asked to.
#[derive(Default)]
struct Card {
    /// When the first frame has left, ns, and the frames.
    ring: SpinLock<(u64, VecDeque<Vec<u8>>)>,
    sent: SpinLock<Vec<Vec<u8>>>,
    is_asked: AtomicBool,
    loses_interrupts: AtomicBool,
    /// Turns of the sending side after interrupts.
    turns: AtomicU64,
    ticks: AtomicU64,
}

impl FrameStream for Card {
    type Frame = Bytes;

    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        std::future::pending().await
    }
}

impl LinkDevice for Card {
    fn properties(&self) -> LinkProperties {
        LinkProperties { mac: [2; 6], mtu_bytes: 1500, checksum_offload: false, segmentation_bytes_max: 0 }
    }
    fn interrupt(&self) -> InterruptLine {
        InterruptLine { core: 0, line: Events::FIRST_LINE }
    }
    fn send(&self, frame: OutFrame) -> Sent {
        let bytes: Vec<u8> = frame.pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect();
        if bytes.len() > 1514 {
            return Sent::Refused(LinkError::TooLong);
        }
        let mut ring = self.ring.lock();
        assert!(ring.1.len() < ROOM, "the gate sends only what there is room for");
        if ring.1.is_empty() {
            ring.0 = virtual_clock(0) + bytes.len() as u64 * BYTE_NS;
        }
        ring.1.push_back(bytes);
        Sent::Taken
    }
    fn acknowledge(&self, senders: Senders) -> bool {
        senders == Senders::Held && self.is_half_free()
    }
    fn wake_reader(&self) {}
    fn go_on_sending(&self) {
        self.turns.fetch_add(1, Relaxed);
    }
    fn has_room(&self) -> bool {
        let has_room = self.ring.lock().1.len() < ROOM;
        self.is_asked.store(!has_room, Relaxed);
        has_room
    }
    fn is_half_free(&self) -> bool {
        self.ring.lock().1.len() <= ROOM / 2
    }
    fn on_tick(&self) -> Option<u64> {
        self.ticks.fetch_add(1, Relaxed);
        let period = LOOK_NS * gyre_machine::cycles_per_ms() / 1_000_000;
        (!self.ring.lock().1.is_empty()).then_some(period)
    }
}

struct Wire(&'static Card);

impl Outside for Wire {
    fn next_at(&self) -> Option<u64> {
        let ring = self.0.ring.lock();
        (!ring.1.is_empty()).then_some(ring.0)
    }
    fn act(&self, at_ns: u64) {
        let mut ring = self.0.ring.lock();
        if let Some(frame) = ring.1.pop_front() {
            self.0.sent.lock().push(frame);
        }
        let next = ring.1.front().map_or(0, |frame| frame.len() as u64 * BYTE_NS);
        ring.0 = at_ns + next;
        let is_half = ring.1.len() == ROOM / 2;
        drop(ring);
        if is_half && self.0.is_asked.swap(false, Relaxed) && !self.0.loses_interrupts.load(Relaxed) {
            post_event(0, 1 << Events::FIRST_LINE);
        }
    }
}

struct Rig {
    engine: &'static Engine,
    card: &'static Card,
    client: link::Client,
    simulator: Simulator,
}

fn rig() -> Rig {
    set_core_count(1);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let write = ResourceConfig::new("network_write").gate(Metric::Bytes, Box::new(policy));
    let grid = GridConfig::new(vec![ResourceConfig::new("device_interrupt"), write]);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(1)));
    let Ok(engine) = Engine::build(grid, accounts) else { panic!("the grid is one") };
    let card: &'static Card = Box::leak(Box::default());
    let [interrupts, resource] = [0, 1].map(|place| ResourceId(FIRST_RESOURCE + place));
    let places = gyre_link::Places { resource, interrupts };
    let client = gyre_link::attach(engine, places, card);
    let mut simulator = Simulator::new(engine, 7);
    simulator.attach(Rc::new(Wire(card)));
    Rig { engine, card, client, simulator }
}

fn frame(fill: u8, bytes: usize) -> OutFrame {
    let pieces = vec![Bytes::copy_from(&vec![fill; bytes]).unwrap()];
    OutFrame { pieces, checksum: None, segment: None, receipt: None }
}

impl Rig {
    fn tenant(&self, weight: u32) -> ActivityId {
        let params = ActivityParams { weight, ..ActivityParams::default() };
        self.engine.accounts().activities.create(None, "tenant", params).unwrap()
    }

    fn start(&self, tenant: ActivityId, work: impl Future<Output = ()> + 'static) -> Rc<Cell<bool>> {
        let ended = Rc::new(Cell::new(false));
        let told = ended.clone();
        self.engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
            work.await;
            told.set(true);
        });
        ended
    }

    fn run(&mut self, work: Rc<Cell<bool>>) {
        assert_eq!(self.simulator.run(2_000_000, move || work.get()), Stop::Done);
    }

    fn bytes(&self, activity: ActivityId) -> u64 {
        let resource = self.engine.resource("network_write").unwrap();
        self.engine.accounts().line(0).table().cell(activity, resource).get(Column::Bytes)
    }
}

/// Sends so many frames at once and waits for all.
async fn send(client: link::Client, count: u8) {
    let calls: Vec<_> = (0..count).map(|fill| client.transmit(frame(fill, 100))).collect();
    for call in calls {
        call.await.unwrap();
    }
}

#[test]
fn frames_leave_in_order_and_each_turn_of_the_sending_side_is_worth_half_of_the_ring() {
    let mut rig = rig();
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, send(client, 100));
    rig.run(work);
    let until = rig.simulator.now_ns() + 1_000_000;
    rig.simulator.run_for(until, 10_000);
    let sent: Vec<u8> = rig.card.sent.lock().iter().map(|frame| frame[0]).collect();
    assert_eq!(sent, (0..100).collect::<Vec<_>>());
    let turns = rig.card.turns.load(Relaxed);
    assert!((20..=60).contains(&turns), "{turns} turns for 100 frames, two at a time");
    assert_eq!(rig.bytes(tenant), 10_000);
}

#[test]
fn the_link_is_divided_by_weight() {
    let mut rig = rig();
    let tenants = [rig.tenant(3), rig.tenant(1)];
    for (tenant, bytes) in tenants.into_iter().zip([300, 1_200]) {
        for _ in 0..8 {
            let client = rig.client;
            rig.start(tenant, async move {
                loop {
                    client.transmit(frame(1, bytes)).await.unwrap();
                }
            });
        }
    }
    let until = rig.simulator.now_ns() + 50_000_000;
    assert_eq!(rig.simulator.run_for(until, 5_000_000), Stop::TimeOver);
    let bytes = tenants.map(|tenant| rig.bytes(tenant));
    let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!(bytes[1] > 500_000 && (share - 0.75).abs() < 0.02, "{share} of {bytes:?}");
}

#[test]
fn a_lost_interrupt_costs_time_and_then_senders_go_on() {
    let mut rig = rig();
    rig.card.loses_interrupts.store(true, Relaxed);
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, send(client, 10));
    rig.run(work);
    assert!(rig.simulator.now_ns() < 5 * LOOK_NS, "{} ns", rig.simulator.now_ns());
    let until = rig.simulator.now_ns() + 100 * LOOK_NS;
    assert_eq!(rig.simulator.run_for(until, 100_000), Stop::Quiet, "no tick is left once all is sent");
    assert!(rig.card.ticks.load(Relaxed) <= 8);
}

#[test]
fn a_frame_that_the_device_refuses_is_an_error_of_its_sender() {
    let mut rig = rig();
    let (client, tenant) = (rig.client, rig.tenant(1));
    let work = rig.start(tenant, async move {
        assert_eq!(client.transmit(frame(1, 2_000)).await, Err(LinkError::TooLong));
        assert_eq!(client.transmit(frame(2, 100)).await, Ok(()));
        assert_eq!(client.properties().await.unwrap().mtu_bytes, 1500);
    });
    rig.run(work);
}
