//! Lots and devices of zones as two see them: the wall that the supervisor opens and closes, and the zone's kernel, which takes, gives,
//! refuses, or is late. Nothing is ever within two walls, and a kernel that runs has nothing outside of its own.

use super::{NAMES, ZONES};
use gyre_interface::leases::{Lots, Parts};
use gyre_machine::PciAddress;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Lots that a kernel stands on.
const RESIDENT: usize = 6;

/// The parts that somebody has.
#[derive(Clone, Default, Debug)]
struct Held {
    lots: BTreeSet<u64>,
    devices: BTreeSet<PciAddress>,
}

#[derive(Clone, Default, Debug)]
struct Zone {
    wall: Held,
    kernel: Held,
    asked: u32,
}

/// How often parts were moved while zones ran.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Moves {
    pub lots: u32,
    pub devices: u32,
    pub stuck: u32,
}

#[derive(Default)]
struct State {
    zones: [Zone; ZONES],
    moves: Moves,
    resets: u32,
}

/// How a kernel answers when it is asked for something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Refuses,
    /// After its deadline.
    Late,
    AtOnce,
}

/// The parts of all zones.
#[derive(Default)]
pub struct Books(Mutex<State>);

fn each(lots: Lots) -> impl Iterator<Item = u64> {
    lots.first..lots.first + u64::from(lots.count)
}

impl State {
    fn check_walls(&self) {
        let (mut lots, mut devices) = (BTreeSet::new(), BTreeSet::new());
        for (zone, name) in self.zones.iter().zip(NAMES) {
            assert!(zone.wall.lots.iter().all(|lot| lots.insert(*lot)), "{name} has another's lot: {:?}", self.zones);
            assert!(zone.wall.devices.iter().all(|one| devices.insert(*one)), "{name} has another's device");
            assert!(zone.kernel.lots.is_subset(&zone.wall.lots), "{name}: {zone:?}");
            assert!(zone.kernel.devices.is_subset(&zone.wall.devices), "{name}: {zone:?}");
        }
    }
}

impl Books {
    fn change<T>(&self, zone: usize, work: impl FnOnce(&mut Zone, &mut Moves) -> T) -> T {
        let mut state = self.0.lock().unwrap();
        let State { zones, moves, .. } = &mut *state;
        let result = work(&mut zones[zone], moves);
        state.check_walls();
        result
    }

    /// An instance is made of these.
    pub fn begin(&self, zone: usize, parts: &Parts) {
        let lots = parts.lots.iter().copied().flat_map(each).collect();
        let held = Held { lots, devices: parts.devices.iter().copied().collect() };
        self.change(zone, |zone, _| *zone = Zone { wall: held.clone(), kernel: held, asked: zone.asked });
    }

    /// There is no instance.
    pub fn end(&self, zone: usize) {
        self.change(zone, |zone, _| *zone = Zone { asked: zone.asked, ..Zone::default() });
    }

    /// The supervisor lets lots into a wall.
    pub fn open(&self, zone: usize, lots: Lots) {
        self.change(zone, |zone, _| zone.wall.lots.extend(each(lots)));
    }

    /// It takes them out: the kernel has given them, or never took them.
    pub fn close(&self, zone: usize, lots: Lots) {
        self.change(zone, |zone, moves| {
            moves.lots += lots.count;
            each(lots).for_each(|lot| assert!(zone.wall.lots.remove(&lot), "{lot} is not within: {zone:?}"));
        });
    }

    /// As [`Books::open`], of a device.
    pub fn open_device(&self, zone: usize, device: PciAddress) {
        self.change(zone, |zone, _| assert!(zone.wall.devices.insert(device)));
    }

    /// As [`Books::close`], of a device. Answers false if it does not reset: then it stays within the wall.
    pub fn close_device(&self, zone: usize, device: PciAddress) -> bool {
        let resets = {
            let mut state = self.0.lock().unwrap();
            state.resets += 1;
            state.resets % 5 != 0
        };
        self.change(zone, |zone, moves| {
            moves.devices += 1;
            moves.stuck += u32::from(!resets);
            zone.kernel.devices.remove(&device);
            assert!(!resets || zone.wall.devices.remove(&device), "{device} is not within: {zone:?}");
        });
        resets
    }

    /// The kernel takes lots that it is offered.
    pub fn take(&self, zone: usize, lots: Lots) {
        self.change(zone, |zone, _| zone.kernel.lots.extend(each(lots)));
    }

    /// The kernel gives its last lots, or none.
    pub fn give(&self, zone: usize, count: u32) -> Option<Vec<Lots>> {
        self.change(zone, |zone, _| {
            let left = zone.kernel.lots.len().checked_sub(count as usize).filter(|left| *left >= RESIDENT)?;
            let given: Vec<u64> = zone.kernel.lots.iter().skip(left).copied().collect();
            given.iter().for_each(|lot| _ = zone.kernel.lots.remove(lot));
            Some(given.into_iter().map(|first| Lots { first, count: 1 }).collect())
        })
    }

    /// The kernel takes a device.
    pub fn take_device(&self, zone: usize, device: PciAddress) {
        self.change(zone, |zone, _| _ = zone.kernel.devices.insert(device));
    }

    /// The kernel gives a device.
    pub fn give_device(&self, zone: usize, device: PciAddress) -> bool {
        self.change(zone, |zone, _| zone.kernel.devices.remove(&device))
    }

    /// How the kernel answers this time.
    pub fn manner(&self, zone: usize) -> Manner {
        self.change(zone, |zone, _| {
            zone.asked += 1;
            match zone.asked % 11 {
                0 => Manner::Refuses,
                5 => Manner::Late,
                _ => Manner::AtOnce,
            }
        })
    }

    /// How often parts were moved.
    pub fn moves(&self) -> Moves {
        self.0.lock().unwrap().moves
    }
}
