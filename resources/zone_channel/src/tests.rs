//! Two trunks over one memory, and trunks whose peer lies or dies.
//!
//! The tenants `shop` and `mill` live in two instances that one thread plays; mill connects. Each third interrupt is lost, so whatever arrives does
//! so because somebody looks again. Time is virtual: a test that waits for ever fails at once.
//!
//! * Both behave: lengths, order, readers that stop, ends that go, refusals, pages given again.
//! * An instance dies in the middle, and its next life is reached.
//! * A peer writes its own lines into the ring: names, pages and channels that are none.

use crate::layout::{SHARED_PAGES, Words};
use crate::line::{Data, Line, MINE};
use crate::live::MALFORMED_MAX;
use crate::*;
use gyre_account::ActivityId;
use gyre_channel::{Abroad, ChannelError, Channels, End, MESSAGE_BYTES_MAX, MESSAGES_MAX, Name};
use gyre_interface::Ready;
use gyre_machine::{SharedMemory, begin_virtual_time};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::Bytes;
use gyre_zone_link::Side;
use gyre_zone_link::fake::{SharedArena, shared_memory};
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec;
use std::vec::Vec;

const MS: u64 = 1_000_000;

pub(crate) struct Rig {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) trunks: [&'static Trunk; 2],
    pub(crate) names: [&'static Trunks; 2],
    pub(crate) channels: [&'static Channels; 2],
    /// Interrupts so far; each third one is lost.
    rings: Arc<AtomicU64>,
}

fn trunk(own: &'static str, theirs: &'static str, channels: &'static Channels) -> &'static Trunk {
    let payer = Box::new(move |name: &str| (name == own).then_some(ActivityId(1)));
    Box::leak(Box::new(Trunk::new(Setup { tenants: vec![theirs.into()], channels, payer })))
}

impl Rig {
    pub(crate) fn new() -> Rig {
        begin_virtual_time();
        let channels = [0, 1].map(|_| &*Box::leak(Box::new(Channels::default())));
        let trunks = [trunk("shop", "mill", channels[0]), trunk("mill", "shop", channels[1])];
        let names = trunks.map(|trunk| &*Box::leak(Box::new(Trunks(vec![trunk]))));
        let rig = Rig { memory: shared_memory(PAGES), trunks, names, channels, rings: Arc::default() };
        rig.attach();
        trunks.into_iter().for_each(|trunk| spawn(trunk.serve()));
        rig
    }

    pub(crate) fn arena(&self, end: usize) -> Arc<SharedArena> {
        let (other, rings) = (self.trunks[1 - end], self.rings.clone());
        let ring = Box::new(move || {
            if rings.fetch_add(1, Ordering::Relaxed) % 3 != 2 {
                other.ring();
            }
        });
        SharedArena::new(self.memory.clone(), [Side::First, Side::Second][end], ring)
    }

    pub(crate) fn attach(&self) {
        assert!(prepare(self.memory.words(0, CONTROL_PAGES)));
        (0..2).for_each(|end| assert!(self.trunks[end].attach(self.arena(end))));
    }

    async fn connect(&self, name: &str, pages: usize) -> Result<End, ChannelError> {
        let name = Name::read(name.as_bytes(), "mill").unwrap();
        self.names[1].connect(&name, "mill".into(), pages).expect("a neighbour's tenant").await
    }

    /// A channel between mill, which asked for it, and shop.
    pub(crate) async fn pair(&self, pages: usize) -> [End; 2] {
        let listener = self.channels[0].listen(name("shop/orders"), SHARED_PAGES).unwrap();
        let mill = self.connect("shop/orders", pages).await.unwrap();
        [mill, listener.accept().unwrap()]
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::read(text.as_bytes(), "shop").unwrap()
}

pub(crate) fn message(bytes: usize, seed: u8) -> Vec<Bytes> {
    let all: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(7).wrapping_add(seed)).collect();
    // pieces that do not fall on pages
    all.chunks(3000).map(|piece| Bytes::copy_from(piece).unwrap()).collect()
}

pub(crate) fn flat(message: Vec<Bytes>) -> Vec<u8> {
    message.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
}

pub(crate) async fn send(end: &End, message: Vec<Bytes>) -> Result<(), ChannelError> {
    loop {
        match end.send(message.clone()) {
            Err(ChannelError::Again) => _ = end.readiness().wait(Ready::WRITE).await,
            result => return result,
        }
    }
}

pub(crate) async fn receive(end: &End) -> Result<Option<Vec<u8>>, ChannelError> {
    loop {
        match end.receive(MESSAGE_BYTES_MAX) {
            Err(ChannelError::Again) => _ = end.readiness().wait(Ready::READ).await,
            result => return result.map(|message| message.map(flat)),
        }
    }
}

fn run(work: impl AsyncFnOnce(Rig) + 'static) {
    block_on(async { work(Rig::new()).await });
}

#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order_though_interrupts_are_lost() {
    run(async |rig| {
        let [mill, shop] = rig.pair(0).await;
        assert_eq!((mill.figures().peer.as_str(), shop.figures().peer.as_str()), ("shop", "mill"));
        for (number, bytes) in [1, 2999, 4096, 4097, 40_000, MESSAGE_BYTES_MAX, 7].into_iter().enumerate() {
            send(&mill, message(bytes, number as u8)).await.unwrap();
            assert_eq!(receive(&shop).await, Ok(Some(flat(message(bytes, number as u8)))), "{bytes}");
            send(&shop, message(bytes, 9)).await.unwrap();
            assert_eq!(receive(&mill).await, Ok(Some(flat(message(bytes, 9)))), "{bytes}");
        }
        assert_eq!((mill.figures().received, mill.figures().sent), (7, 7));
    });
}

#[test]
fn a_reader_that_does_not_read_stops_its_writer_and_nobody_else() {
    run(async |rig| {
        let [lazy, shop] = rig.pair(0).await;
        let mut sent: usize = 0;
        for _ in 0..500 {
            match lazy.send(message(60_000, sent as u8)) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, ChannelError::Again);
                    sleep_ns(MS).await;
                }
            }
        }
        assert!((5..=2 * 5 + 2 * WINDOW as usize).contains(&sent), "{sent} messages wait");
        let [busy, other] = rig.pair(0).await;
        for number in 0..2 * MESSAGES_MAX {
            send(&busy, message(50_000, number as u8)).await.unwrap();
            assert_eq!(receive(&other).await.unwrap().unwrap()[0], number as u8);
        }
        for number in 0..sent {
            assert_eq!(receive(&shop).await, Ok(Some(flat(message(60_000, number as u8)))));
        }
        drop(lazy);
        assert_eq!(receive(&shop).await, Ok(None));
    });
}

#[test]
fn who_goes_is_heard_and_what_it_said_is_read() {
    run(async |rig| {
        for from in 0..2 {
            let mut ends = rig.pair(0).await;
            if from == 1 {
                ends.reverse();
            }
            let [goes, stays] = ends;
            (0..9).for_each(|number| goes.send(message(9000, number)).unwrap());
            drop(goes);
            for number in 0..9 {
                assert_eq!(receive(&stays).await, Ok(Some(flat(message(9000, number)))));
            }
            assert_eq!(receive(&stays).await, Ok(None));
            assert_eq!(send(&stays, message(1, 1)).await, Err(ChannelError::Ended));
        }
        sleep_ns(50 * MS).await;
        assert!(rig.trunks.iter().all(|trunk| trunk.state.lock().channels.is_empty()), "nothing is left");
    });
}

#[test]
fn refusals_are_told_as_they_are() {
    run(async |rig| {
        assert!(matches!(rig.connect("shop/orders", 0).await, Err(ChannelError::Refused)));
        let listener = rig.channels[0].listen(name("shop/orders"), 2).unwrap();
        assert!(matches!(rig.connect("shop/orders", 3).await, Err(ChannelError::Invalid)));
        assert!(matches!(rig.connect("shop/orders", SHARED_PAGES + 1).await, Err(ChannelError::NoMemory)));
        let ends: Vec<End> = {
            let mut ends = Vec::new();
            while let Ok(end) = rig.connect("shop/orders", 0).await {
                ends.push(end);
            }
            ends
        };
        assert_eq!(ends.len(), gyre_channel::BACKLOG_MAX);
        assert!(matches!(rig.connect("shop/orders", 0).await, Err(ChannelError::Again)));
        drop(listener);
        for end in &ends {
            assert_eq!(receive(end).await, Ok(None));
        }
        assert!(rig.names[1].connect(&name("nobody/x"), "mill".into(), 0).is_none());
        let stranger = rig.names[1].connect(&name("shop/orders"), "stranger".into(), 0).unwrap().await;
        assert!(matches!(stranger, Err(ChannelError::Forbidden)));
        rig.trunks.iter().for_each(|trunk| trunk.detach());
        assert!(matches!(rig.connect("shop/orders", 0).await, Err(ChannelError::Unreachable)));
    });
}

#[test]
fn an_instance_that_is_gone_is_heard_and_its_next_life_is_reached() {
    run(async |rig| {
        let [mill, shop] = rig.pair(2).await;
        send(&shop, message(10, 1)).await.unwrap();
        sleep_ns(20 * MS).await;
        // the instance of shop dies; its supervisor tells the other one
        rig.trunks[1].detach();
        assert_eq!(receive(&mill).await, Ok(Some(flat(message(10, 1)))));
        assert_eq!(receive(&mill).await, Err(ChannelError::Lost));
        assert_eq!(send(&mill, message(1, 1)).await, Err(ChannelError::Ended));
        rig.trunks[0].detach();
        assert_eq!(receive(&shop).await, Err(ChannelError::Lost));
        rig.attach();
        let held = mill.memory().unwrap().0;
        let [again, other] = rig.pair(SHARED_PAGES - 2).await;
        assert!(matches!(rig.connect("shop/orders", 1).await, Err(ChannelError::Refused | ChannelError::NoMemory)));
        drop((held, mill, shop));
        send(&again, message(70, 5)).await.unwrap();
        assert_eq!(receive(&other).await, Ok(Some(flat(message(70, 5)))));
    });
}

#[test]
fn pages_are_given_again_only_when_neither_side_holds_them() {
    run(async |rig| {
        let [mill, shop] = rig.pair(SHARED_PAGES).await;
        let listener = rig.channels[0].listen(name("shop/more"), 1).unwrap();
        let theirs = shop.memory().unwrap().0;
        drop((mill, shop));
        sleep_ns(300 * MS).await;
        assert!(matches!(rig.connect("shop/more", 1).await, Err(ChannelError::NoMemory)), "a program maps them");
        drop(theirs);
        sleep_ns(300 * MS).await;
        assert_eq!(rig.connect("shop/more", 1).await.map(drop), Ok(()));
        drop(listener);
    });
}

/// A peer that writes its own lines into the ring of shop's trunk.
struct Liar<'a> {
    words: Words<'a>,
    position: u32,
}

impl Liar<'_> {
    fn says(&mut self, key: u32, line: &Line) {
        let mut sender = self.words.sender(self.position).unwrap();
        sender.send(&line.encode(key)).unwrap();
        self.position = sender.position();
    }
}

#[test]
fn a_peer_that_lies_loses_its_channels_and_no_more() {
    run(async |rig| {
        let listener = rig.channels[0].listen(name("orders"), 1).unwrap();
        rig.trunks[1].detach();
        let memory = rig.memory.clone();
        let mut liar = Liar { words: Words::of(memory.words(0, CONTROL_PAGES), Side::Second).unwrap(), position: 0 };
        let names = |text: &str| {
            let page = rig.arena(1);
            let page = gyre_zone_link::Arena::outbound(&*page, 0).unwrap();
            page.write(0, text.as_bytes());
            text.len() as u16
        };
        // a name of another instance's tenant, pages that are none, a name that is none, a key of the other side's
        for (key, text, shared) in
            [(1, "shop/orders shop", 0), (2, "shop/orders mill", 1 << 20), (3, "shop orders", 0), (4, "", 0)]
        {
            liar.says(key | MINE, &Line::Open { page: 0, bytes: names(text), shared });
            rig.trunks[0].ring();
            sleep_ns(10 * MS).await;
        }
        liar.says(5, &Line::Open { page: 0, bytes: names("shop/orders mill"), shared: 0 });
        liar.says(6 | MINE, &Line::Open { page: u16::MAX, bytes: 9, shared: 0 });
        rig.trunks[0].ring();
        sleep_ns(10 * MS).await;
        assert!(matches!(listener.accept(), Err(ChannelError::Again)), "nothing of that is a connection");
        liar.says(7 | MINE, &Line::Open { page: 0, bytes: names("shop/orders mill"), shared: 0 });
        rig.trunks[0].ring();
        sleep_ns(10 * MS).await;
        let shop = listener.accept().unwrap();
        // more than there is room for, pages that are none, messages of no channel
        for number in 0..200_u16 {
            if !rig.trunks[0].is_attached() {
                break;
            }
            liar.says(7 | MINE, &Line::Data(Data { bytes: 4096, pages: vec![number] }));
            liar.says(u32::from(number) + 100, &Line::Data(Data { bytes: 1, pages: vec![0] }));
            liar.says(7 | MINE, &Line::Done(vec![3]));
            rig.trunks[0].ring();
            sleep_ns(MS).await;
        }
        assert!(!rig.trunks[0].is_attached(), "{MALFORMED_MAX} lies are enough");
        let mut last = receive(&shop).await;
        while let Ok(Some(_)) = last {
            last = receive(&shop).await;
        }
        assert_eq!(last, Err(ChannelError::Lost));
    });
}
