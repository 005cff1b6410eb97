//! Cells that own cores and memory: for the system tenant, and for every program those of its own tenant ([`leases`]).

use std::io;

use gyre_contract::{
    native::{self, Lease},
    seats::{Answer, Offer, OfferAnswer, Record, Revoke, Seats},
};
use serde::{Serialize, de::DeserializeOwned};
use zerocopy::FromBytes as _;

use crate::call;

/// Room for the list of cells in one call: the most that there can be.
const LIST_BYTES: usize = 16 << 10;
/// Room for an answer.
const ANSWER_BYTES: usize = 1 << 10;
/// Room for records of the log in one call.
const RECORDS_BYTES: usize = 64 << 10;

/// Reads the cells as they are now.
///
/// # Errors
/// The kernel's error; see [`native::CELL_LIST`].
pub fn seats() -> io::Result<Seats> {
    let mut buffer = vec![0; LIST_BYTES];
    let bytes = call::with_output(native::CELL_LIST, [], &mut buffer)?;
    decode(buffer.get(..bytes).unwrap_or_default())
}

/// Room for the leases of a tenant in one call: more than a machine has cores for.
const LEASES_MAX: usize = 64;

/// Reads the leases that cells of this program's tenant hold now, by number.
///
/// # Errors
/// The kernel's error; see [`native::CELL_LEASES`].
pub fn leases() -> io::Result<Vec<Lease>> {
    let mut buffer = vec![0; LEASES_MAX * size_of::<Lease>()];
    let count = call::with_output(native::CELL_LEASES, [], &mut buffer)?;
    let read = |bytes| Lease::read_from_bytes(bytes).map_err(|_| io::ErrorKind::InvalidData.into());
    buffer.chunks_exact(size_of::<Lease>()).take(count).map(read).collect()
}

/// Reads records of the log, from a number on; none if there is none yet.
///
/// # Errors
/// The kernel's error; see [`native::CELL_LOG`].
pub fn log(from: u64) -> io::Result<Vec<Record>> {
    let mut buffer = vec![0; RECORDS_BYTES];
    let bytes = call::with_output(native::CELL_LOG, [from as i64], &mut buffer)?;
    decode(buffer.get(..bytes).unwrap_or_default())
}

/// Has a cell give parts back, and waits until it has or is ended.
///
/// # Errors
/// The kernel's error; see [`native::CELL_REVOKE`]. A refusal is an answer.
pub fn revoke(order: &Revoke) -> io::Result<Answer> {
    ask(native::CELL_REVOKE, order)
}

/// Offers cores to a cell, and waits until it has taken them or the time is over.
///
/// # Errors
/// The kernel's error; see [`native::CELL_OFFER`]. A refusal is an answer.
pub fn offer(order: &Offer) -> io::Result<OfferAnswer> {
    ask(native::CELL_OFFER, order)
}

fn ask<T: DeserializeOwned>(call: u64, order: &impl Serialize) -> io::Result<T> {
    let request =
        postcard::to_allocvec(order).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let bytes = call::with_both(call, &request, &mut answer)?;
    decode(answer.get(..bytes).unwrap_or_default())
}

/// Keeps so many bytes for cells; answers how many are kept now.
///
/// # Errors
/// The kernel's error; see [`native::CELL_POOL`].
pub fn pool(bytes: u64) -> io::Result<u64> {
    call::numbers(native::CELL_POOL, [bytes as i64]).map(|kept| kept as u64)
}

fn decode<T: DeserializeOwned>(encoded: &[u8]) -> io::Result<T> {
    postcard::from_bytes(encoded).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_knows_no_cells() {
        let order = Revoke { tenant: "gold".into(), process: 1, cores: 0, memory_bytes: 0, within_ns: 1 };
        let cores = Offer { tenant: "gold".into(), process: 1, cores: 1, within_ns: 1 };
        let lists = [leases().unwrap_err(), seats().unwrap_err(), log(0).unwrap_err()];
        for error in lists.into_iter().chain([revoke(&order).unwrap_err(), offer(&cores).unwrap_err()]) {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
    }
}
