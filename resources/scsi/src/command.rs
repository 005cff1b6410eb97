//! Commands (SBC-3 §5, SPC-4 §6), big endian.

use gyre_interface::scsi::COMMAND_BYTES;

const TEST_UNIT_READY: u8 = 0x00;
const INQUIRY: u8 = 0x12;
const MODE_SENSE_6: u8 = 0x1a;
const READ_10: u8 = 0x28;
const WRITE_10: u8 = 0x2a;
const SYNCHRONIZE_CACHE_10: u8 = 0x35;
const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
const SERVICE_ACTION_IN_16: u8 = 0x9e;
const READ_CAPACITY_16: u8 = 0x10;
/// All pages of mode sense.
const ALL_PAGES: u8 = 0x3f;

/// Reads so many blocks.
pub(crate) fn read(first: u64, blocks: u32) -> [u8; COMMAND_BYTES] {
    transfer((READ_10, READ_16), first, blocks)
}

/// Writes so many blocks.
pub(crate) fn write(first: u64, blocks: u32) -> [u8; COMMAND_BYTES] {
    transfer((WRITE_10, WRITE_16), first, blocks)
}

/// Makes all blocks durable: address and count are zero (SBC-3 §5.20).
pub(crate) fn synchronize() -> [u8; COMMAND_BYTES] {
    with_code(SYNCHRONIZE_CACHE_10)
}

/// The short form, if address and count fit: every disk knows it.
fn transfer((short, long): (u8, u8), first: u64, blocks: u32) -> [u8; COMMAND_BYTES] {
    let end = first.saturating_add(u64::from(blocks));
    match (u32::try_from(first), u16::try_from(blocks)) {
        (Ok(first), Ok(blocks)) if end <= u64::from(u32::MAX) => {
            let (a, c) = (first.to_be_bytes(), blocks.to_be_bytes());
            [short, 0, a[0], a[1], a[2], a[3], 0, c[0], c[1], 0, 0, 0, 0, 0, 0, 0]
        }
        _ => {
            let (a, c) = (first.to_be_bytes(), blocks.to_be_bytes());
            [long, 0, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], c[0], c[1], c[2], c[3], 0, 0]
        }
    }
}

fn with_code(code: u8) -> [u8; COMMAND_BYTES] {
    let mut command = [0; COMMAND_BYTES];
    command[0] = code;
    command
}

/// Is it ready?
pub(crate) fn test_unit_ready() -> [u8; COMMAND_BYTES] {
    with_code(TEST_UNIT_READY)
}

/// Asks what the unit is; the answer has up to `bytes`.
pub(crate) fn inquiry(bytes: u8) -> [u8; COMMAND_BYTES] {
    let mut command = with_code(INQUIRY);
    command[4] = bytes;
    command
}

/// May it be written? Answers up to `bytes`, without descriptors of blocks.
pub(crate) fn mode_sense(bytes: u8) -> [u8; COMMAND_BYTES] {
    let mut command = with_code(MODE_SENSE_6);
    (command[1], command[2], command[4]) = (1 << 3, ALL_PAGES, bytes);
    command
}

/// How large is it? Answers up to `bytes`.
pub(crate) fn read_capacity(bytes: u8) -> [u8; COMMAND_BYTES] {
    let mut command = with_code(SERVICE_ACTION_IN_16);
    (command[1], command[13]) = (READ_CAPACITY_16, bytes);
    command
}
