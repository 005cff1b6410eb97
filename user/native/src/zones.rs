//! The zones of the machine, for the system tenant of a supervisor; and the wish of a zone, for its own.

use std::io;

use gyre_contract::{
    native,
    zones::{Answer, Command, Orderer, RECORD_BYTES_MAX, Record, Wish, WishAnswer, Zones},
};
use serde::de::DeserializeOwned;

use crate::{call, tail};

const ZONES_BYTES_FIRST: usize = 8 << 10;
/// Room for an answer: a refusal with the longest sentence.
const ANSWER_BYTES: usize = 4 << 10;
/// Room for records of the log in one call.
const RECORDS_BYTES: usize = 64 << 10;
// The fullest record has room: an empty list means that there is none yet.
const _: () = assert!(RECORDS_BYTES > 2 * RECORD_BYTES_MAX);

/// Reads the zones as they are now.
///
/// # Errors
/// The kernel's error; see [`native::ZONES`].
pub fn zones() -> io::Result<Zones> {
    let mut buffer = vec![0; ZONES_BYTES_FIRST];
    loop {
        let bytes = call::with_output(native::ZONES, [], &mut buffer)?;
        match buffer.get(..bytes) {
            Some(encoded) => return decode(encoded),
            // They grow while we ask: leave some room.
            None => buffer.resize(bytes + bytes / 4, 0),
        }
    }
}

/// Changes the zones by somebody's order: all commands or none. Waits until it is done.
///
/// # Errors
/// The kernel's error; see [`native::ZONE_CONTROL`]. A refusal is an answer.
pub fn control(commands: &[Command], by: Orderer) -> io::Result<Answer> {
    let request = postcard::to_allocvec(commands)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let bytes = call::with_both_and_number(native::ZONE_CONTROL, &request, &mut answer, by as u64)?;
    decode(answer.get(..bytes).unwrap_or_default())
}

/// Hands over a piece of the boot module of a zone that is to come, at `offset` of `whole` bytes; `number` is the caller's. Returns the bytes
/// that there are.
///
/// # Errors
/// The kernel's error; see [`native::ZONE_MODULE`].
pub fn stage(number: u64, whole: u64, offset: u64, piece: &[u8]) -> io::Result<u64> {
    let before = [number.cast_signed(), whole.cast_signed(), offset.cast_signed()];
    let there = call::with_numbers_and_input(native::ZONE_MODULE, before, piece)?;
    u64::try_from(there).map_err(io::Error::other)
}

/// Asks the supervisor to hand parts of this zone to another one. Waits until it is done or refused.
///
/// # Errors
/// The kernel's error; see [`native::ZONE_WISH`]. A refusal is an answer.
pub fn wish(wish: &Wish) -> io::Result<WishAnswer> {
    let request =
        postcard::to_allocvec(wish).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let bytes = call::with_both(native::ZONE_WISH, &request, &mut answer)?;
    decode(answer.get(..bytes).unwrap_or_default())
}

/// Reads what a zone (its index in the description) has printed, from an offset on: the offset of the first byte, and the bytes.
///
/// # Errors
/// The kernel's error; see [`native::ZONE_CONSOLE`].
pub fn console(zone: u32, offset: u64, length: usize) -> io::Result<(u64, Vec<u8>)> {
    tail(native::ZONE_CONSOLE, zone, offset, length)
}

/// Reads records of the log of changes, from a number on; none if there is none yet.
///
/// # Errors
/// The kernel's error; see [`native::ZONE_LOG`].
pub fn log(from: u64) -> io::Result<Vec<Record>> {
    let mut buffer = vec![0; RECORDS_BYTES];
    let bytes = call::with_output(native::ZONE_LOG, [from as i64], &mut buffer)?;
    decode(buffer.get(..bytes).unwrap_or_default())
}

fn decode<T: DeserializeOwned>(encoded: &[u8]) -> io::Result<T> {
    postcard::from_bytes(encoded).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_knows_no_zones() {
        // Its numbers end far below: each call answers ENOSYS.
        assert_eq!(zones().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(control(&[], Orderer::Owner).unwrap_err().kind(), io::ErrorKind::Unsupported);
        let nothing = Wish { to: "a".into(), ..Wish::default() };
        assert_eq!(wish(&nothing).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(stage(1, 1, 0, b"a").unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(console(0, 0, 16).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(log(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
