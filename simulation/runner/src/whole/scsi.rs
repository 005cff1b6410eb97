//! The disk as a unit behind a SCSI host: requests and answers as on the wire (virtio 1.2 §5.6.6.1).

use crate::whole::disk::Wish;
use gyre_machine::disk::SECTOR_BYTES;
use gyre_virtio::fake::FakeChain;

/// Queues for control and events, before those for requests.
pub const OTHER_QUEUES: usize = 2;
const COMMAND_OFFSET: usize = 19;
const REQUEST_BYTES: usize = 51;
const ANSWER_BYTES: usize = 108;
const CHECK_CONDITION: u8 = 2;
const BUSY: u8 = 8;

/// Returns the configuration of a host with so many queues for requests.
pub fn config(queues: u16) -> Vec<u8> {
    let mut config = vec![0; 36];
    config[..4].copy_from_slice(&u32::from(queues).to_le_bytes());
    config[4..8].copy_from_slice(&126_u32.to_le_bytes());
    config
}

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With so many bytes of data.
    Good(usize),
    /// The unit cannot now.
    Busy,
    /// Something happened to the unit meanwhile: it was reset.
    Attention,
    /// The medium failed.
    Failed,
}

/// Returns bytes of data that there is room for.
pub fn room(chain: &FakeChain) -> usize {
    (chain.writable_bytes() as usize).saturating_sub(ANSWER_BYTES)
}

/// Returns the wish of a command to a disk of so many sectors.
pub fn wish(chain: &FakeChain, sectors: u64, writes: u64) -> Wish {
    let request = chain.read();
    let Some(command) = request.get(COMMAND_OFFSET..COMMAND_OFFSET + 16) else { return Wish::Unknown };
    let at = u32::from_be_bytes([command[2], command[3], command[4], command[5]]) as usize * SECTOR_BYTES;
    match command[0] {
        0x00 => Wish::Tell(vec![]),
        0x12 => Wish::Tell(vec![0; 36]),
        0x1a => Wish::Tell(vec![3, 0, 0, 0]),
        0x28 => Wish::Read { at, bytes: room(chain) },
        0x2a => Wish::Write { at, data: request[REQUEST_BYTES..].to_vec() },
        0x35 => Wish::Flush { writes },
        0x9e => Wish::Tell([&(sectors - 1).to_be_bytes()[..], &512_u32.to_be_bytes(), &[0; 20]].concat()),
        _ => Wish::Unknown,
    }
}

/// Writes data to their place.
pub fn write_data(chain: &FakeChain, data: &[u8]) -> usize {
    let data = &data[..data.len().min(room(chain))];
    chain.write_at(ANSWER_BYTES, data);
    data.len()
}

/// Writes the answer; how many bytes were written in all.
pub fn answer(chain: &FakeChain, end: End) -> u32 {
    let mut said = [0; ANSWER_BYTES];
    let moved = if let End::Good(bytes) = end { bytes } else { 0 };
    said[4..8].copy_from_slice(&((room(chain) - moved) as u32).to_le_bytes());
    let sense_key = match end {
        End::Good(_) => 0,
        End::Busy => {
            said[10] = BUSY;
            0
        }
        End::Attention => 6,
        End::Failed => 3,
    };
    if sense_key != 0 {
        said[10] = CHECK_CONDITION;
        said[..4].copy_from_slice(&18_u32.to_le_bytes());
        (said[12], said[14]) = (0x70, sense_key);
    }
    chain.write(&said);
    (ANSWER_BYTES + moved) as u32
}
