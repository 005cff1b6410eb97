use super::*;
use crate::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use crate::{FakeDevice, Transport, begin, finish};
use alloc::sync::Arc;
use gyre_machine::Frame;

struct Rig {
    device: Arc<FakeDevice>,
    ring: Ring<u32>,
    frame: Frame,
    doorbell: crate::Doorbell,
}

fn rig(features: u64, size: u16) -> Rig {
    let device = FakeDevice::new(2, features, &[size], Vec::new());
    let agreed = begin(&device, features).unwrap();
    let options = RingOptions {
        indirect: agreed & INDIRECT_DESCRIPTORS != 0,
        event_index: agreed & EVENT_INDEX != 0,
        pieces_max: 4,
        counts_all: false,
    };
    let ring = Ring::new(size, options).unwrap();
    let doorbell = device.enable_queue(0, ring.layout(), 0).unwrap();
    finish(&device);
    Rig { device, ring, frame: Frame::allocate(0).unwrap(), doorbell }
}

impl Rig {
    fn push(&mut self, pieces: usize, token: u32) -> Result<(), Full<u32>> {
        let base = self.frame.pa().0;
        let pieces: Vec<Piece> = (0..pieces)
            .map(|index| Piece { pa: Pa(base + 64 * index as u64), bytes: 64, device_writes: index > 0 })
            .collect();
        self.ring.push(&pieces, token)
    }
    fn publish(&mut self) {
        if self.ring.publish() {
            self.device.notify(self.doorbell);
        }
    }
}

const ALL: [u64; 4] = [0, INDIRECT_DESCRIPTORS, EVENT_INDEX, INDIRECT_DESCRIPTORS | EVENT_INDEX];

#[test]
fn every_chain_comes_back_once_with_its_token_in_any_order() {
    for features in ALL {
        let mut rig = rig(features, 16);
        let mut next_token = 0;
        let mut expected = alloc::collections::BTreeSet::new();
        for round in 0..5000_u32 {
            while rig.push(1 + (round as usize + next_token as usize) % 4, next_token).is_ok() {
                expected.insert(next_token);
                next_token += 1;
            }
            rig.publish();
            let mut taken: Vec<_> = core::iter::from_fn(|| rig.device.take(0)).collect();
            if round % 2 == 0 {
                taken.reverse();
            }
            for chain in &taken {
                rig.device.complete(0, chain.head, chain.writable_bytes());
            }
            while let Some(used) = rig.ring.pop().unwrap() {
                assert!(expected.remove(&used.token), "token {} came twice", used.token);
            }
        }
        assert!(expected.is_empty());
        assert!(next_token > 20_000);
        assert_eq!(rig.ring.in_flight(), 0);
    }
}

#[test]
fn a_full_ring_gives_the_token_back() {
    let mut rig = rig(INDIRECT_DESCRIPTORS, 4);
    (0..4).for_each(|token| rig.push(4, token).unwrap());
    assert_eq!(rig.push(1, 9), Err(Full(9)));
    let mut direct = self::rig(0, 4);
    direct.push(3, 1).unwrap();
    assert_eq!(direct.push(2, 9), Err(Full(9)));
    direct.push(1, 2).unwrap();
}

#[test]
fn pieces_reach_the_device_as_they_were_pushed() {
    for features in ALL {
        let mut rig = rig(features, 8);
        rig.frame.write_shared(0, b"request");
        rig.push(3, 1).unwrap();
        rig.publish();
        let chain = rig.device.take(0).unwrap();
        assert_eq!(&chain.read()[..7], b"request");
        assert_eq!(chain.writable.len(), 2);
        chain.write_at(64, b"answer");
        rig.device.complete(0, chain.head, 128);
        assert_eq!(rig.ring.pop().unwrap(), Some(Used { token: 1, bytes: 128 }));
        let mut answer = [0; 6];
        rig.frame.read_shared(128, &mut answer);
        assert_eq!(&answer, b"answer");
    }
}

#[test]
fn lies_about_completions_are_refused() {
    let lies: [fn(&FakeDevice, u16); 6] = [
        |device, _| _ = device.complete_unchecked(0, 3, 0),
        |device, _| _ = device.complete_unchecked(0, 0x1_0000, 0),
        |device, _| _ = device.complete_unchecked(0, u32::MAX, 0),
        |device, head| _ = device.complete_unchecked(0, head.into(), 65),
        |device, _| _ = device.advance_used(0, 2),
        |device, _| _ = device.advance_used(0, 0x8000),
    ];
    for features in ALL {
        for lie in lies {
            let mut rig = rig(features, 8);
            rig.push(2, 7).unwrap();
            rig.publish();
            let head = rig.device.take(0).unwrap().head;
            lie(&rig.device, head);
            assert_eq!(rig.ring.pop(), Err(DeviceError::Protocol));
            crate::startup::reset(&rig.device).unwrap();
            assert_eq!(rig.ring.clear(), [7]);
            assert_eq!(rig.ring.pop(), Ok(None));
        }
    }
}

#[test]
fn a_chain_completed_twice_is_refused() {
    let mut rig = rig(EVENT_INDEX, 8);
    rig.push(1, 1).unwrap();
    rig.push(1, 2).unwrap();
    rig.publish();
    let head = rig.device.take(0).unwrap().head;
    rig.device.complete(0, head, 0);
    assert_eq!(rig.ring.pop().unwrap().map(|used| used.token), Some(1));
    rig.device.complete_unchecked(0, head.into(), 0);
    assert_eq!(rig.ring.pop(), Err(DeviceError::Protocol));
}

#[test]
fn the_event_index_saves_notifications_and_loses_none() {
    let mut rig = rig(EVENT_INDEX, 8);
    rig.push(1, 1).unwrap();
    rig.publish();
    rig.push(1, 2).unwrap();
    rig.publish();
    assert_eq!(rig.device.kicks(0), 1, "the device was told once and has not looked yet");
    while rig.device.take(0).is_some() {}
    rig.push(1, 3).unwrap();
    rig.publish();
    assert_eq!(rig.device.kicks(0), 2);
}

#[test]
fn a_completion_between_hush_and_listen_is_seen() {
    for features in ALL {
        let mut rig = rig(features, 8);
        rig.push(1, 1).unwrap();
        rig.publish();
        let head = rig.device.take(0).unwrap().head;
        rig.ring.hush();
        assert!(!rig.device.complete(0, head, 0), "no interrupt was wanted");
        assert!(rig.ring.listen(), "but there is something");
        assert!(rig.ring.pop().unwrap().is_some());
        assert!(!rig.ring.listen());
        rig.push(1, 2).unwrap();
        rig.publish();
        let head = rig.device.take(0).unwrap().head;
        assert!(rig.device.complete(0, head, 0), "now an interrupt is wanted");
    }
}

#[test]
fn indices_may_wrap() {
    let mut rig = rig(EVENT_INDEX | INDIRECT_DESCRIPTORS, 2);
    for round in 0..70_000 {
        rig.push(2, round).unwrap();
        rig.publish();
        let head = rig.device.take(0).expect("the device sees it").head;
        assert!(rig.device.complete(0, head, 1));
        assert_eq!(rig.ring.pop().unwrap().unwrap().token, round);
        assert!(!rig.ring.listen());
    }
    assert_eq!(rig.device.kicks(0), 70_000);
}

#[test]
fn a_device_that_is_not_modern_or_does_not_reset_is_refused() {
    let device = FakeDevice::new(2, 0, &[8], Vec::new());
    device.refuse_reset();
    device.set_status(1);
    assert_eq!(begin(&device, 0), Err(DeviceError::Protocol));
}

#[test]
fn an_interrupt_is_to_come_until_the_device_passes_its_chain() {
    for features in ALL {
        let counts = features & EVENT_INDEX != 0;
        let mut rig = rig(features, 16);
        assert!(!rig.ring.will_interrupt(), "the device has nothing");
        (0..4).for_each(|token| rig.push(1, token).unwrap());
        rig.publish();
        assert!(!rig.ring.listen_after(2));
        assert_eq!(rig.ring.will_interrupt(), counts);
        let complete = |rig: &Rig| {
            let chain = rig.device.take(0).unwrap();
            rig.device.complete(0, chain.head, 0)
        };
        assert_eq!(complete(&rig), !counts);
        assert_eq!(rig.ring.will_interrupt(), counts);
        assert_eq!(rig.ring.pop().unwrap().map(|used| used.token), Some(0));
        assert_eq!(rig.ring.will_interrupt(), counts, "taken or not");
        assert!(complete(&rig));
        assert!(!rig.ring.will_interrupt(), "it has come");
        rig.ring.listen_after(9);
        assert_eq!(rig.ring.will_interrupt(), counts);
        rig.ring.hush();
        assert!(!rig.ring.will_interrupt());
    }
}

#[test]
fn an_index_that_moves_back_is_a_lie() {
    for features in ALL {
        let mut rig = rig(features, 8);
        rig.push(1, 7).unwrap();
        rig.publish();
        rig.device.advance_used(0, 1);
        assert!(rig.ring.listen());
        rig.device.advance_used(0, 1_u16.wrapping_neg());
        assert_eq!(rig.ring.pop(), Err(DeviceError::Protocol), "who pops until nothing is there would go on for ever");
        crate::startup::reset(&rig.device).unwrap();
        assert_eq!(rig.ring.clear(), [7]);
        assert_eq!(rig.ring.pop(), Ok(None));
    }
}

/// Numbers that a device may say by chance.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn extreme(&mut self) -> u32 {
        [0, 1, 7, 8, 0x7fff, 0x8000, 0xffff, 0x1_0000, u32::MAX][self.roll(9) as usize]
    }
}

#[test]
fn whatever_a_device_says_each_token_comes_back_once() {
    for features in ALL {
        let (mut rig, mut dice) = (rig(features, 8), Dice(features));
        let (mut pushed, mut back) = (0, Vec::new());
        for _ in 0..20_000 {
            match dice.roll(8) {
                0..3 => pushed += u32::from(rig.push(1 + dice.roll(4) as usize, pushed).is_ok()),
                3 | 4 => {
                    rig.publish();
                    if let Some(chain) = rig.device.take(0) {
                        rig.device.complete(0, chain.head, dice.extreme().min(64));
                    }
                }
                5 => _ = rig.device.complete_unchecked(0, dice.extreme(), dice.extreme()),
                6 => _ = rig.device.advance_used(0, dice.extreme() as u16),
                _ => _ = rig.ring.listen() || rig.ring.listen_after(dice.extreme() as u16),
            }
            // at most what the device has, then nothing or an error
            let mut looks = 0;
            let verdict = loop {
                looks += 1;
                assert!(looks <= 10, "more answers than chains");
                match rig.ring.pop() {
                    Ok(Some(used)) => back.push(used.token),
                    verdict => break verdict,
                }
            };
            if verdict.is_err() {
                crate::startup::reset(&rig.device).unwrap();
                back.extend(rig.ring.clear());
                begin(&rig.device, features).unwrap();
                rig.device.enable_queue(0, rig.ring.layout(), 0).unwrap();
                finish(&rig.device);
            }
        }
        back.extend(rig.ring.clear());
        back.sort_unstable();
        assert!(pushed > 1000 && back.iter().copied().eq(0..pushed), "{pushed} were pushed");
    }
}
