//! `capget`, `capset` and the requests of `prctl` on capabilities (capabilities(7)).

use crate::credentials::{Capabilities, CapabilitySet, SecureBits, Wanted};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;

/// Version 1 of the header has one word of 32 capabilities, versions 2 and 3 have two.
const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

const PR_CAP_AMBIENT_IS_SET: u64 = 1;
const PR_CAP_AMBIENT_RAISE: u64 = 2;
const PR_CAP_AMBIENT_LOWER: u64 = 3;
const PR_CAP_AMBIENT_CLEAR_ALL: u64 = 4;

/// The header of both calls: how many words follow, and whom it means (0: the caller).
struct Header {
    words: usize,
    target: i32,
}

/// Reads the header; none for a version that does not exist, in which case the newest is written there.
async fn header(thread: &Thread, address: u64) -> Result<Option<Header>, Errno> {
    let [version, target]: [u32; 2] = thread.read_struct(address).await?;
    let words = match version {
        VERSION_1 => 1,
        VERSION_2 | VERSION_3 => 2,
        _ => {
            thread.write_struct(address, &VERSION_3).await?;
            return Ok(None);
        }
    };
    Ok(Some(Header { words, target: target as i32 }))
}

/// `capget(header, data)`.
pub async fn capget(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let Some(header) = header(thread, a.word(0)).await? else {
        return if a.word(1) == 0 { Ok(0) } else { Err(Errno::EINVAL) };
    };
    let of = match header.target {
        ..0 => return Err(Errno::EINVAL),
        0 => thread.clone(),
        id => thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH)?,
    };
    let has = of.with_credentials(|who| who.capabilities);
    let words = |shift: u32| [has.effective, has.permitted, has.inheritable].map(|set| (set.bits() >> shift) as u32);
    match header.words {
        1 => thread.write_optional(a.word(1), &words(0)).await?,
        _ => thread.write_optional(a.word(1), &[words(0), words(32)]).await?,
    }
    Ok(0)
}

/// `capset(header, data)`: of the caller only.
pub async fn capset(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let header = header(thread, a.word(0)).await?.ok_or(Errno::EINVAL)?;
    if ![0, thread.id()].contains(&header.target) {
        return Err(Errno::EPERM);
    }
    let (low, high): ([u32; 3], [u32; 3]) = match header.words {
        1 => (thread.read_struct(a.word(1)).await?, [0; 3]),
        _ => {
            let [low, high]: [[u32; 3]; 2] = thread.read_struct(a.word(1)).await?;
            (low, high)
        }
    };
    let set = |index: usize| CapabilitySet::of_bits(u64::from(low[index]) | u64::from(high[index]) << 32);
    let wanted = Wanted { effective: set(0), permitted: set(1), inheritable: set(2) };
    change(thread, |has| has.changed(wanted))
}

fn change(thread: &Thread, rule: impl FnOnce(Capabilities) -> Result<Capabilities, Errno>) -> Outcome {
    thread.change_credentials(|who| {
        who.capabilities = rule(who.capabilities)?;
        Ok(0)
    })
}

fn capabilities(thread: &Thread) -> Capabilities {
    thread.with_credentials(|who| who.capabilities)
}

/// Does PR_CAPBSET_READ.
pub(super) fn is_bounding(thread: &Thread, number: u64) -> Outcome {
    let asked = CapabilitySet::numbered(number).ok_or(Errno::EINVAL)?;
    Ok(u64::from(asked.is_within(capabilities(thread).bounding)))
}

/// Does PR_CAPBSET_DROP.
pub(super) fn drop_bounding(thread: &Thread, number: u64) -> Outcome {
    let lost = CapabilitySet::numbered(number);
    change(thread, |has| {
        let bounded = has.bounded(lost.unwrap_or_default())?;
        lost.map(|_| bounded).ok_or(Errno::EINVAL)
    })
}

/// Does PR_GET_SECUREBITS.
pub(super) fn secure_bits(thread: &Thread) -> Outcome {
    Ok(u64::from(capabilities(thread).secure.bits()))
}

/// Does PR_SET_SECUREBITS.
pub(super) fn set_secure_bits(thread: &Thread, bits: u64) -> Outcome {
    change(thread, |has| has.secured(bits))
}

/// Does PR_GET_KEEPCAPS.
pub(super) fn keeps(thread: &Thread) -> Outcome {
    Ok(u64::from(capabilities(thread).secure.contains(SecureBits::KEEP_CAPS)))
}

/// Does PR_SET_KEEPCAPS.
pub(super) fn set_keeps(thread: &Thread, keeps: u64) -> Outcome {
    match keeps {
        0 => change(thread, |has| has.keeping(false)),
        1 => change(thread, |has| has.keeping(true)),
        _ => Err(Errno::EINVAL),
    }
}

/// Does PR_CAP_AMBIENT.
pub(super) fn ambient(thread: &Thread, a: Arguments) -> Outcome {
    if a.word(3) | a.word(4) != 0 {
        return Err(Errno::EINVAL);
    }
    if a.word(1) == PR_CAP_AMBIENT_CLEAR_ALL {
        return match a.word(2) {
            0 => change(thread, |has| Ok(Capabilities { ambient: CapabilitySet::EMPTY, ..has })),
            _ => Err(Errno::EINVAL),
        };
    }
    let meant = CapabilitySet::numbered(a.word(2)).ok_or(Errno::EINVAL)?;
    match a.word(1) {
        PR_CAP_AMBIENT_IS_SET => Ok(u64::from(meant.is_within(capabilities(thread).ambient))),
        PR_CAP_AMBIENT_RAISE => change(thread, |has| has.with_ambient(meant)),
        PR_CAP_AMBIENT_LOWER => change(thread, |has| Ok(Capabilities { ambient: has.ambient.without(meant), ..has })),
        _ => Err(Errno::EINVAL),
    }
}
