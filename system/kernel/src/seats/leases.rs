//! The native call by which a program sees what cells of its own tenant hold.
//!
//! A tenant sees its own cells alone; the owner's list ([`super::calls`]) has all. Cells whose keeper has given everything back are not in it.

use super::calls::state;
use super::seat::Seat;
use crate::kernel::Kernel;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_contract::leases::state as word;
use gyre_contract::native::Lease;
use gyre_contract::seats::State;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use zerocopy::IntoBytes as _;

/// `cell_leases(buffer, length)`.
///
/// # Errors
/// ENOSYS without cells, EFAULT.
pub async fn list(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let seats = kernel.seats.ok_or(Errno::ENOSYS)?;
    let own = kernel.base.description_of(thread.tenant().activity()).ok_or(Errno::EPERM)?;
    let mut all: Vec<Arc<Seat>> = seats.all().into_iter().filter(|seat| seat.owner.tenant == own.name).collect();
    all.sort_by_key(|seat| seat.number);
    let room = arguments.size(1).checked_div(size_of::<Lease>()).unwrap_or(0);
    let engine = kernel.base.engine;
    let bytes: Vec<u8> = all
        .iter()
        .take(room)
        .flat_map(|seat| {
            let lease = Lease { since_ns: engine.ns(seat.began), devices: seats.devices.of(seat.number), ..view(seat) };
            lease.as_bytes().to_vec()
        })
        .collect();
    thread.copy_out(arguments.word(0), &bytes).await?;
    Ok(all.len() as u64)
}

fn view(seat: &Seat) -> Lease {
    let live = seat.stations.iter().filter(|station| station.is_held());
    let bit = |slot: usize| u32::try_from(slot).ok().and_then(|slot| 1u64.checked_shl(slot)).unwrap_or(0);
    let mut name = [0; 16];
    name.iter_mut().zip(&seat.owner.name).for_each(|(place, byte)| *place = *byte);
    Lease {
        number: seat.number.into(),
        process: seat.owner.process,
        state: word_of(state(seat)),
        lots: u32::try_from(seat.lot_count()).unwrap_or(u32::MAX),
        cores: live.map(|station| bit(station.slot())).fold(0, |all, one| all | one),
        name,
        runtime: seat.owner.hash.unwrap_or_default(),
        ..Lease::default()
    }
}

fn word_of(state: State) -> u32 {
    match state {
        State::Preparing => word::PREPARING,
        State::Runs => word::RUNS,
        State::Asked => word::ASKED,
        State::Ends => word::ENDS,
    }
}
