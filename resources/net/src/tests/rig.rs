//! The path with a wire instead of a device.

use crate::packet::{Origin, Packet};
use crate::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use crate::wire::tcp::{Flags, Header};
use crate::{Door, Net, NetConfig, NetLimits, NetPorts, Protection};
use gyre_account::{ActivityId, set_current_activity};
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame, link};
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_machine::wire::Way;
pub use gyre_machine::wire::{CLEAN, Faults};
use gyre_message::direct::direct_link;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_ns, spawn};
use gyre_object::{Bytes, SpinLock};
use gyre_segments::Cutter;
use std::boxed::Box;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Vec;

pub const GOLD: ActivityId = ActivityId(1);
pub const BRONZE: ActivityId = ActivityId(2);
pub const NOBODY: ActivityId = ActivityId(3);
pub const GOLD_IP: [u8; 4] = [10, 0, 0, 1];
pub const BRONZE_IP: [u8; 4] = [10, 0, 0, 2];
pub const PEER_IP: [u8; 4] = [10, 0, 0, 9];
pub const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
pub const MS: u64 = 1_000_000;

/// The link of the tests.
pub struct Wire {
    pub faults: SpinLock<Faults>,
    pub to_peer: SpinLock<Way>,
    pub to_us: SpinLock<Way>,
    inbox: SpinLock<VecDeque<Bytes>>,
    arrived: WaitQueue,
    budget: SpinLock<u64>,
    room: WaitQueue,
    pub period_ns: SpinLock<u64>,
    /// Messages with a send room that are lost, one of three.
    pub lost_turns: AtomicUsize,
    /// Acknowledgments without data within this machine that nobody handles.
    pub lost_acknowledgments: AtomicUsize,
    /// Requests to send: one for each frame or large segment.
    pub requests: AtomicUsize,
    /// Frames taken from us: who paid, bytes, and the port that it goes to.
    pub taken: SpinLock<Vec<(ActivityId, usize, u16)>>,
}

impl link::Server for Wire {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Ok(properties())
    }

    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if frame.segment.is_none() {
            self.take(frame.pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()).await;
            return Ok(());
        }
        let expected = (frame.frames(), frame.link_bytes());
        let mut cutter = Cutter::new(frame).ok().expect("a segment that can be cut");
        let mut cut = (0, 0);
        while !cutter.is_done() {
            let mut payload = Vec::new();
            cutter.cut(|piece, from, to| payload.extend_from_slice(&piece.as_slice()[from..to]));
            let flat = [cutter.headers(), &payload].concat();
            cut = (cut.0 + 1, cut.1 + flat.len());
            self.take(flat).await;
        }
        assert_eq!(cut, expected, "frames and bytes are accounted as they are on the link");
        Ok(())
    }
}

impl Wire {
    /// True for what is to be lost instead of handled.
    fn loses(&self, request: &tcp_input::Request) -> bool {
        let lose = |left: usize| left.checked_sub(1);
        let count = |count: &AtomicUsize| count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lose);
        match request {
            tcp_input::Request::resume { .. } => count(&self.lost_turns).is_ok_and(|left| left % 3 == 0),
            tcp_input::Request::segments { first, .. } => {
                is_local_acknowledgment(first) && count(&self.lost_acknowledgments).is_ok()
            }
            _ => false,
        }
    }

    /// Takes a frame as soon as there is room.
    async fn take(&self, flat: Vec<u8>) {
        self.room
            .until(|| {
                let mut budget = self.budget.lock();
                *budget = budget.checked_sub(1)?;
                Some(())
            })
            .await;
        assert!(flat.len() <= 1514, "a frame of {} bytes", flat.len());
        let port = flat.get(36..38).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        self.taken.lock().push((gyre_account::current_activity(), flat.len(), port));
        self.to_peer.lock().put(&mut self.faults.lock(), flat);
    }
}

impl FrameStream for Wire {
    type Frame = Bytes;

    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        let take = || Some(self.inbox.lock().drain(..).collect::<Vec<_>>()).filter(|frames| !frames.is_empty());
        Ok(self.arrived.until(take).await)
    }
}

impl Wire {
    /// Little happens any more: look every 200 ms only.
    pub fn slow_down(&self) {
        *self.period_ns.lock() = 200 * MS;
    }

    /// A frame for us, now.
    pub fn inject(&self, frame: &[u8]) {
        self.inbox.lock().push_back(Bytes::copy_from(frame).unwrap());
        self.arrived.wake_all();
    }

    /// Forgets what was sent: a wire lives for ever.
    pub fn forget(&self) {
        *self.taken.lock() = Vec::new();
        *self.to_peer.lock() = Way::default();
    }

    async fn turn(&'static self) {
        loop {
            self.tick();
            let period = *self.period_ns.lock();
            sleep_ns(period).await;
        }
    }

    /// Moves what is due and gives new budget: once a millisecond.
    pub fn tick(&self) {
        *self.budget.lock() = self.faults.lock().frames_per_ms;
        self.room.wake_all();
        while let Some(frame) = { self.to_us.lock().take() } {
            self.inject(&frame);
        }
    }
}

fn is_local_acknowledgment(packet: &Packet) -> bool {
    let header = Header::read(packet.body.as_slice()).map(|read| read.0);
    packet.origin == Origin::Here
        && packet.body_bytes() <= 60
        && header.is_some_and(|header| header.flags == Flags::ACK)
}

fn properties() -> LinkProperties {
    LinkProperties { mac: OUR_MAC, mtu_bytes: 1500, checksum_offload: false, segmentation_bytes_max: 60 << 10 }
}

/// The path and clients to it.
#[derive(Clone, Copy)]
pub struct Rig {
    pub net: &'static Net,
    pub wire: &'static Wire,
    pub tcp: tcp::Client,
    pub udp: udp::Client,
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl Rig {
    pub fn new(faults: Faults) -> Rig {
        Rig::with_limits(faults, NetLimits::default())
    }

    pub fn with_limits(faults: Faults, limits: NetLimits) -> Rig {
        Rig::protected(faults, limits, Vec::new())
    }

    /// With neighbours that reach each other by name only.
    pub fn with_doors(doors: Vec<(ActivityId, Door)>) -> Rig {
        Rig::configured(CLEAN, |config| config.doors = doors)
    }

    /// With overload controllers at the listeners of some.
    pub fn protected(faults: Faults, limits: NetLimits, protected: Vec<(ActivityId, Protection)>) -> Rig {
        Rig::configured(faults, |config| (config.limits, config.protected) = (limits, protected))
    }

    fn configured(faults: Faults, change: impl FnOnce(&mut NetConfig)) -> Rig {
        gyre_machine::set_virtual_time(1_000_000_000);
        gyre_machine::seed_random(faults.seed);
        set_current_activity(ActivityId::INFRASTRUCTURE);
        let wire: &'static Wire = leak(Wire {
            faults: SpinLock::new(faults),
            to_peer: SpinLock::default(),
            to_us: SpinLock::default(),
            inbox: SpinLock::default(),
            arrived: WaitQueue::new(),
            budget: SpinLock::new(faults.frames_per_ms),
            room: WaitQueue::new(),
            period_ns: SpinLock::new(MS),
            lost_turns: AtomicUsize::new(0),
            lost_acknowledgments: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            taken: SpinLock::default(),
        });
        let device = link::Client::new(direct_link(move |request| Box::pin(link::serve(wire, request))));
        let mut config = NetConfig {
            link_write: device,
            properties: properties(),
            addresses: vec![(GOLD, GOLD_IP), (BRONZE, BRONZE_IP)],
            unowned: NOBODY,
            gateway: [10, 0, 0, 254],
            prefix: 24,
            tenant_of: &|activity| activity,
            limits: NetLimits::default(),
            protected: Vec::new(),
            doors: Vec::new(),
        };
        change(&mut config);
        let net = Net::new(config);
        net.connect(NetPorts {
            tcp_input: tcp_input::Client::new(direct_link(move |request| match wire.loses(&request) {
                true => Box::pin(async move { drop(request) }),
                false => Box::pin(tcp_input::serve(&net.tcp, request)),
            })),
            udp_input: udp_input::Client::new(direct_link(|request| Box::pin(udp_input::serve(&net.udp, request)))),
            icmp_input: icmp_input::Client::new(direct_link(|request| Box::pin(icmp_input::serve(&net.icmp, request)))),
            tcp_timer: tcp_timer::Client::new(direct_link(|request| Box::pin(tcp_timer::serve(&net.timer, request)))),
            net_write: net_write::Client::new(direct_link(|request| Box::pin(net_write::serve(&net.writer, request)))),
        });
        Rig {
            net,
            wire,
            tcp: tcp::Client::new(direct_link(|request| Box::pin(tcp::serve(&net.tcp, request)))),
            udp: udp::Client::new(direct_link(|request| Box::pin(udp::serve(&net.udp, request)))),
        }
    }

    /// Starts the tasks of the path; call inside `block_on`.
    pub fn start(&self) {
        let (net, wire) = (self.net, self.wire);
        spawn(async move { net.read_frames(wire).await });
        spawn(async move { net.keep_time().await });
        spawn(wire.turn());
    }

    /// Runs the tasks of the path until some work is done, and no longer.
    pub async fn during(&self, work: impl Future<Output = ()>) {
        let (net, wire) = (self.net, self.wire);
        let path = select(net.read_frames(wire), select(net.keep_time(), wire.turn()));
        assert!(matches!(select(work, path).await, Either::First(())), "the path has ended");
    }

    /// Frames that we have sent, without a peer.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.wire.to_peer.lock().drain()
    }

    /// A peer that only answers ARP questions was asked before: its address is known.
    pub fn introduce_peer(&self) {
        let packet = crate::wire::arp::Packet {
            operation: 1,
            sender_mac: PEER_MAC,
            sender: PEER_IP,
            target_mac: [0; 6],
            target: GOLD_IP,
        };
        let mut frame =
            crate::wire::ethernet::Header { destination: [0xff; 6], source: PEER_MAC, kind: 0x0806 }.bytes().to_vec();
        frame.extend(packet.bytes());
        self.wire.inject(&frame);
    }
}

/// Runs as an activity.
pub fn act_as(activity: ActivityId) {
    set_current_activity(activity);
}

/// Returns a stream whose bytes can be checked anywhere.
pub fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

pub fn stream(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(pattern).collect()
}
