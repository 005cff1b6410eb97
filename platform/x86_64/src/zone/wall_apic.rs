//! A zone's interrupt controllers behind its wall: which registers it reaches, and which commands it may give (SDM vol. 3, chapter 11).
//!
//! The zone names registers as x2APIC does, by model-specific registers; here they go to the core's real controller. Interrupts reach the zone
//! without a call; only their end, the timer and commands to other cores come here. A command goes to cores of the zone alone, as an ordinary
//! interrupt or an NMI, to the supervisor's core as its bell, and
//! to the core of a link's other end as that link's. One for another core is dropped: a core may have left the zone while the
//! command was on its way. A command that resets, starts or reaches all is a breach.

use super::breach::Deed;

/// The first and the last model-specific register of an interrupt controller.
pub(super) const FIRST: u32 = 0x800;
pub(super) const LAST: u32 = 0x8ff;

const COMMAND: u32 = 0x830;
/// Identity, version, priority, spurious vector; in service, trigger and requested; errors; local vectors, timer.
const READABLE: [core::ops::RangeInclusive<u32>; 7] =
    [0x802..=0x803, 0x808..=0x808, 0x80a..=0x80a, 0x80f..=0x828, 0x832..=0x832, 0x834..=0x839, 0x83e..=0x83e];
/// Priority, end of interrupt, spurious vector, errors, local vectors, timer.
const WRITABLE: [core::ops::RangeInclusive<u32>; 7] =
    [0x808..=0x808, 0x80b..=0x80b, 0x80f..=0x80f, 0x828..=0x828, 0x832..=0x832, 0x834..=0x838, 0x83e..=0x83e];
/// Those of them that name an interrupt and the way of its delivery.
const LOCAL_VECTORS: core::ops::RangeInclusive<u32> = 0x832..=0x837;

const MODE: u64 = 7 << 8;
const FIXED: u64 = 0;
const NMI: u64 = 4 << 8;
const LOGICAL: u64 = 1 << 11;
const SHORTHAND: u64 = 3 << 18;
const TO_SELF: u64 = 1 << 18;

/// The fate of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ruling {
    /// Read the register with this offset.
    Read(u32),
    /// Write it.
    Write(u32, u32),
    /// Send this command, as it is, if the core is the zone's or the supervisor's bell.
    Send {
        /// The hardware id.
        target: u32,
        /// The lower half.
        command: u32,
    },
    /// Send it to the core itself.
    SendHere(u32),
    /// The zone has broken out.
    Breach(Deed),
}

/// Rules about a read.
pub(super) fn read(register: u32) -> Ruling {
    match READABLE.iter().any(|range| range.contains(&register)) {
        true => Ruling::Read(offset(register)),
        false => Ruling::Breach(Deed::ReadRegister),
    }
}

/// Rules about a write.
pub(super) fn write(register: u32, value: u64) -> Ruling {
    if register == COMMAND {
        return command(value);
    }
    let is_open = WRITABLE.iter().any(|range| range.contains(&register));
    let is_good = !LOCAL_VECTORS.contains(&register) || matches!(value & MODE, FIXED | NMI);
    match is_open && is_good {
        true => Ruling::Write(offset(register), value as u32),
        false => Ruling::Breach(Deed::WriteRegister),
    }
}

fn command(value: u64) -> Ruling {
    let is_plain = matches!(value & MODE, FIXED | NMI) && value & LOGICAL == 0;
    match value & SHORTHAND {
        0 if is_plain => Ruling::Send { target: (value >> 32) as u32, command: value as u32 },
        TO_SELF if is_plain => Ruling::SendHere(value as u32),
        _ => Ruling::Breach(Deed::Command),
    }
}

/// The place of a register among those in memory.
fn offset(register: u32) -> u32 {
    (register - FIRST) * 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_reset_start_or_reach_all_are_breaches() {
        // INIT, startup, SMI, lowest priority; all, all others; a logical target.
        for value in [0x500, 0x4608, 0x200, 0x121, 0x8_0021, 0xc_0021, 0x821, 0xc500, 0x3_0000_4500] {
            assert_eq!(write(COMMAND, value), Ruling::Breach(Deed::Command), "{value:#x}");
        }
        assert_eq!(write(COMMAND, 0x3_0000_4021), Ruling::Send { target: 3, command: 0x4021 });
        assert_eq!(write(COMMAND, 0x3_0000_4400), Ruling::Send { target: 3, command: 0x4400 });
        assert_eq!(write(COMMAND, 0x4_4021), Ruling::SendHere(0x4_4021));
    }

    #[test]
    fn a_local_vector_raises_no_reset() {
        assert_eq!(write(0x836, 0x400), Ruling::Write(0x360, 0x400));
        assert_eq!(write(0x835, 0x1_0000), Ruling::Write(0x350, 0x1_0000));
        assert_eq!(write(0x838, 0xffff_ffff), Ruling::Write(0x380, 0xffff_ffff));
        for value in [0x200, 0x500, 0x700] {
            assert_eq!(write(0x836, value), Ruling::Breach(Deed::WriteRegister));
        }
    }

    #[test]
    fn registers_that_are_none_are_breaches() {
        assert_eq!(read(0x802), Ruling::Read(0x20));
        assert_eq!(read(0x839), Ruling::Read(0x390));
        for register in [0x800, 0x830, 0x83f, 0x8ff] {
            assert_eq!(read(register), Ruling::Breach(Deed::ReadRegister));
        }
        for register in [0x802, 0x839, 0x83f, 0x8ff] {
            assert_eq!(write(register, 0), Ruling::Breach(Deed::WriteRegister));
        }
    }
}
