//! The native calls of zones, for the system tenant of a supervisor, and the wish of a zone for that of the zone. In another instance they answer
//! ENOSYS.

use crate::kernel::Kernel;
use crate::zones::Supervised;
use alloc::string::ToString;
use alloc::vec::Vec;
use gyre_account::current_activity;
use gyre_contract::zones::{
    Answer, Command, LOG_RECORDS_MAX, LOT_BYTES, MODULE_BYTES_MAX, Orderer, Record, Refusal, Wish, WishAnswer,
};
use gyre_interface::zone_messages::ZoneName;
use gyre_interface::zones::{By, ZonesError};
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_zone_agent::WishError;
use serde::Serialize;

/// Longest list of commands, bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Longest piece of a module, bytes.
const PIECE_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of a console or a log that are read at once.
const ROOM_BYTES_MAX: usize = 64 * 1024;

fn supervised(kernel: &Kernel) -> Result<&Supervised, Errno> {
    kernel.supervised.as_ref().ok_or(Errno::ENOSYS)
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, Errno> {
    postcard::to_allocvec(value).map_err(|_| Errno::ENOMEM)
}

/// `zone_control(request, length, answer, room, by)`.
pub async fn control(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let zones = supervised(kernel)?;
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let by = match Orderer::ALL.get(arguments.size(4)) {
        Some(Orderer::Owner) => By::Owner,
        Some(Orderer::Controller) => By::Controller,
        None => return Err(Errno::EINVAL),
    };
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let commands: Vec<Command> = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let answer: Answer = match zones.client.change(commands, by).await {
        Ok(()) => Ok(()),
        Err(ZonesError::Refused(refusal)) => Err(refusal),
        Err(ZonesError::Unknown) => Err(Refusal::Unknown { zone: "?".into() }),
        Err(ZonesError::Gone) => return Err(Errno::ENOMEM),
    };
    answered(&answer, thread, arguments).await
}

/// `zone_module(number, whole, offset, buffer, length)`.
pub async fn stage(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let zones = supervised(kernel)?;
    let (number, whole, offset) = (arguments.word(0), arguments.word(1), arguments.word(2));
    if !(1..=MODULE_BYTES_MAX).contains(&whole) || arguments.size(4) > PIECE_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    if offset == 0 {
        // The whole of it is the caller's from the first piece on.
        kernel.memory.client.reserve(current_activity(), whole).await.map_err(|_| Errno::ENOMEM)?;
    }
    let bytes = thread.read_vec(arguments.word(3), arguments.size(4)).await?;
    zones.client.stage(number, whole, offset, bytes).await.map_err(|error| match error {
        ZonesError::Unknown | ZonesError::Refused(_) => Errno::ESTALE,
        ZonesError::Gone => Errno::ENOMEM,
    })
}

/// Writes an answer to where the third and the fourth argument say.
async fn answered(answer: &impl Serialize, thread: &Thread, arguments: Arguments) -> Outcome {
    let answer = encoded(answer)?;
    if answer.len() > arguments.size(3) {
        return Err(Errno::ENOSPC);
    }
    thread.copy_out(arguments.word(2), &answer).await?;
    Ok(answer.len() as u64)
}

/// `zone_wish(request, length, answer, room)`.
pub async fn wish(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let agent = kernel.zone_agent.get().ok_or(Errno::ENOSYS)?;
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let Wish { to, cores, memory_bytes, deed } = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let to = ZoneName::new(&to).ok_or(Errno::EINVAL)?;
    let lots = memory_bytes.checked_div(LOT_BYTES).filter(|_| memory_bytes.is_multiple_of(LOT_BYTES));
    let lots = lots.and_then(|lots| u32::try_from(lots).ok()).ok_or(Errno::EINVAL)?;
    let answer: WishAnswer = match agent.wish(to, deed, u32::from(cores), lots).await {
        Ok(()) => Ok(()),
        Err(WishError::Refused(why)) => Err(why.to_string()),
        Err(WishError::Busy) => return Err(Errno::EBUSY),
        Err(WishError::Late) => return Err(Errno::ETIMEDOUT),
    };
    answered(&answer, thread, arguments).await
}

/// `zones(buffer, length)`.
pub async fn show(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let all = supervised(kernel)?.client.view().await.map_err(|_| Errno::ENOMEM)?;
    let bytes = encoded(&all)?;
    if bytes.len() <= arguments.size(1) {
        thread.copy_out(arguments.word(0), &bytes).await?;
    }
    Ok(bytes.len() as u64)
}

/// `zone_console(zone, offset, buffer, length)`.
pub async fn console(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let zones = supervised(kernel)?;
    let zone = u16::try_from(arguments.word(0)).map_err(|_| Errno::ENOENT)?;
    let room = arguments.size(3).checked_sub(8).ok_or(Errno::EINVAL)?.min(ROOM_BYTES_MAX) as u32;
    let printed = zones.client.console(zone, arguments.word(1), room).await.map_err(|error| match error {
        ZonesError::Unknown => Errno::ENOENT,
        ZonesError::Refused(_) | ZonesError::Gone => Errno::ENOMEM,
    })?;
    let mut answer = Vec::from(printed.position.to_le_bytes());
    answer.extend_from_slice(&printed.bytes);
    thread.copy_out(arguments.word(2), &answer).await?;
    Ok(answer.len() as u64)
}

/// `zone_log(number, buffer, length)`.
pub async fn log(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let client = supervised(kernel)?.client;
    let all = client.log(arguments.word(0), LOG_RECORDS_MAX as u32).await.map_err(|_| Errno::ENOMEM)?;
    let bytes = fitting(&all, arguments.size(2))?;
    thread.copy_out(arguments.word(1), &bytes).await?;
    Ok(bytes.len() as u64)
}

/// Returns the form of as many records as there is room for.
///
/// # Errors
/// ENOSPC if there is no room for an empty list.
fn fitting(all: &[Record], room: usize) -> Result<Vec<u8>, Errno> {
    let mut count = all.len();
    loop {
        let bytes = encoded(&all.get(..count).unwrap_or(&[]))?;
        if bytes.len() <= room {
            return Ok(bytes);
        }
        // Half of them, until they fit.
        count = count.checked_div(2).filter(|_| count > 0).ok_or(Errno::ENOSPC)?;
    }
}
