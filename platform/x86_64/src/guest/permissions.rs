//! Which ports and model-specific registers a guest reaches by itself: maps with a bit for each, set if the guest is held back
//! (APM vol. 2, 15.10 and 15.11). All are held back but those of a list.

/// Bytes of the map of ports: 64 Ki bits, and one more page for accesses that begin at the last port.
pub(super) const PORT_MAP_BYTES: usize = 3 * 4096;
/// Bytes of the map of registers: three ranges of 8 Ki registers with two bits each, and one that is reserved.
pub(super) const REGISTER_MAP_BYTES: usize = 2 * 4096;

/// First registers of the ranges that the map describes. Others are always held back.
const RANGES: [u32; 3] = [0, 0xc000_0000, 0xc001_0000];
const RANGE_REGISTERS: u32 = 0x2000;

/// Registers that the switch between guest and host exchanges: the guest has its own.
pub(super) const EXCHANGED: [u32; 10] =
    [0x174, 0x175, 0x176, 0xc000_0081, 0xc000_0082, 0xc000_0083, 0xc000_0084, 0xc000_0100, 0xc000_0101, 0xc000_0102];
/// Registers that a guest may read: the time stamp counter, and the number of its core, of which it has its own.
pub(super) const READABLE: [u32; 2] = [0x10, 0xc000_0103];

/// Registers that no list can open: they belong to the core, not to who runs on it. Time stamp counter and its offset, APIC base,
/// feature control, memory types, debug control, extended state of the supervisor, EFER, core number, SYSCFG and fixed ranges,
/// SMM, and those of guests themselves.
const NEVER: [core::ops::RangeInclusive<u32>; 12] = [
    0x10..=0x10,
    0x1b..=0x1b,
    0x3a..=0x3b,
    0x8b..=0x8b,
    0xfe..=0xfe,
    0x1d9..=0x1d9,
    0x200..=0x2ff,
    0xda0..=0xda0,
    0xc000_0080..=0xc000_0080,
    0xc000_0103..=0xc000_0104,
    0xc001_0010..=0xc001_001f,
    0xc001_0110..=0xc001_011b,
];

/// A range of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The kind of access that a bit holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Read,
    Write,
}

/// True for registers that a list may open.
pub(super) fn may_be_opened(register: u32) -> bool {
    !NEVER.iter().any(|range| range.contains(&register)) && register_bit(register, Way::Write).is_some()
}

/// The byte and the bit of a port.
pub(super) fn port_bit(port: u16) -> (usize, u8) {
    (usize::from(port) / 8, 1 << (port % 8))
}

/// The byte and the bit of a register; `None` for one that the map does not describe.
pub(super) fn register_bit(register: u32, way: Way) -> Option<(usize, u8)> {
    let (range, first) = RANGES.iter().enumerate().rfind(|(_, first)| register >= **first)?;
    let offset = register - first;
    if offset >= RANGE_REGISTERS {
        return None;
    }
    let bit = (range as u32 * RANGE_REGISTERS + offset) * 2 + u32::from(way == Way::Write);
    Some((bit as usize / 8, 1 << (bit % 8)))
}

#[cfg(all(test, not(target_os = "none")))]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_where_the_manual_says() {
        assert_eq!(port_bit(0x3f8), (0x7f, 1));
        assert_eq!(port_bit(0xffff), (0x1fff, 0x80));
        assert_eq!(register_bit(0, Way::Read), Some((0, 1)));
        assert_eq!(register_bit(0x1b, Way::Write), Some((6, 0x80)));
        assert_eq!(register_bit(0xc000_0080, Way::Read), Some((0x820, 1)));
        assert_eq!(register_bit(0xc001_0117, Way::Read), Some((0x1045, 0x40)));
        assert_eq!(register_bit(0x2000, Way::Read), None);
        assert_eq!(register_bit(0xc001_2000, Way::Read), None);
        assert_eq!(register_bit(u32::MAX, Way::Write), None);
    }

    #[test]
    fn the_registers_of_a_core_are_not_opened() {
        for register in [0x10, 0x1b, 0x277, 0xc000_0080, 0xc000_0103, 0xc001_0114, 0xc001_0117, 0x4000_0000] {
            assert!(!may_be_opened(register), "{register:#x}");
        }
        assert!(may_be_opened(0x6e0) && may_be_opened(0x80b));
    }

    #[test]
    fn no_register_is_both_exchanged_and_kept_from_the_guest() {
        assert!(EXCHANGED.iter().all(|register| may_be_opened(*register)));
    }
}
