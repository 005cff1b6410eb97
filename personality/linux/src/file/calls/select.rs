//! select and pselect6: three sets of descriptors, as bits of poll in groups ([`SETS`]).

use super::poll::{Timeout, with_mask};
use super::watched::{Watched, wait_for};
use crate::file::buffer::word;
use crate::time::{TimeVal, cycles_to_ns};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;

/// Descriptors of one call.
const DESCRIPTORS_MAX: usize = 1024;

/// The meaning of the three sets in poll's bits. A hang-up counts only for the sets that ask for it, so that it does not end the wait of
/// others.
const SETS: [u32; 3] = [
    raw::POLLIN | raw::POLLRDNORM | raw::POLLHUP | raw::POLLERR,
    raw::POLLOUT | raw::POLLWRNORM | raw::POLLERR,
    raw::POLLPRI,
];

/// `select(count, read, write, except, timeout)`: the timeout is a `struct timeval`, which gets the time left.
pub async fn select(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let mut timeout = Timeout(None);
    if a.word(4) != 0 {
        let time: TimeVal = thread.read_struct(a.word(4)).await?;
        timeout = Timeout(Some(time.ns()?));
    }
    let deadline = timeout.deadline();
    let outcome = select_sets(thread, a, timeout).await;
    if let Some(deadline) = deadline {
        let left = deadline.saturating_sub(gyre_machine::now());
        let left = TimeVal::from_ns(cycles_to_ns(left));
        thread.write_struct(a.word(4), &left).await?;
    }
    outcome
}

/// `pselect6(count, read, write, except, timeout, mask)`: the last points to the mask's address and length.
pub async fn pselect6(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timeout = Timeout::from_timespec(thread, a.word(4)).await?;
    let mut mask = (0, 0);
    if a.word(5) != 0 {
        let pair = thread.read_vec(a.word(5), 16).await?;
        mask = (word(&pair, 0), word(&pair, 8));
    }
    let call = select_sets(thread, a, timeout);
    with_mask(thread, mask.0, mask.1, call).await
}

/// One of the three sets, as it is in the program's memory.
#[derive(Default)]
struct Set {
    address: u64,
    bits: Vec<u8>,
}

impl Set {
    async fn read(thread: &Thread, address: u64, bytes: usize) -> Result<Set, Errno> {
        let bits = if address == 0 { Vec::new() } else { thread.read_vec(address, bytes).await? };
        Ok(Set { address, bits })
    }

    fn has(&self, descriptor: usize) -> bool {
        self.bits.get(descriptor / 8).is_some_and(|byte| byte >> (descriptor % 8) & 1 == 1)
    }

    fn insert(&mut self, descriptor: usize) {
        if let Some(byte) = self.bits.get_mut(descriptor / 8) {
            *byte |= 1 << (descriptor % 8);
        }
    }

    /// Returns the set of its members that are ready for `mask`.
    fn ready_for(&self, mask: u32, descriptors: &[usize], found: &[u32]) -> Set {
        let mut ready = Set { address: self.address, bits: alloc::vec![0; self.bits.len()] };
        for (descriptor, bits) in descriptors.iter().zip(found) {
            if self.has(*descriptor) && bits & mask != 0 {
                ready.insert(*descriptor);
            }
        }
        ready
    }

    fn count(&self) -> u64 {
        self.bits.iter().fold(0, |count, byte| u64::saturating_add(count, u64::from(byte.count_ones())))
    }
}

async fn select_sets(thread: &Thread, a: Arguments, timeout: Timeout) -> Outcome {
    let count = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?.min(DESCRIPTORS_MAX);
    let bytes = count.div_ceil(64).saturating_mul(8);
    let mut sets: [Set; 3] = Default::default();
    for (set, index) in sets.iter_mut().zip(1..) {
        *set = Set::read(thread, a.word(index), bytes).await?;
    }
    let (descriptors, watched) = members(thread, &sets, count)?;
    let found = wait_for(thread, &watched, timeout.patience()).await?;
    let mut ready = 0;
    for (set, mask) in sets.iter().zip(SETS) {
        let set = set.ready_for(mask, &descriptors, &found);
        ready = u64::saturating_add(ready, set.count());
        if set.address != 0 {
            thread.copy_out(set.address, &set.bits).await?;
        }
    }
    Ok(ready)
}

/// Returns the descriptors that are in a set, and what is watched of each.
fn members(thread: &Thread, sets: &[Set; 3], count: usize) -> Result<(Vec<usize>, Vec<Watched>), Errno> {
    let files = thread.process().files();
    let (mut descriptors, mut watched) = (Vec::new(), Vec::new());
    for descriptor in 0..count {
        let wanted = sets.iter().zip(SETS).filter(|(set, _)| set.has(descriptor)).fold(0, |bits, (_, set)| bits | set);
        if wanted != 0 {
            watched.push(Watched::File(files.table().get(descriptor as i32)?, wanted));
            descriptors.push(descriptor);
        }
    }
    Ok((descriptors, watched))
}
