//! Charges and credits that a core has not passed on yet: small objects come and go with every message, and each level of the tree
//! would cost an atomic addition for each of them.
//!
//! A batch is one word, the payer and a sum of bytes, which its core changes and any core may take out: it is passed on exactly once.
//! It is passed on when the sum passes [`BATCH_BYTES`], after a millisecond, when another payer wants its place, when figures are read,
//! before a charge is refused and before the payer is closed. So figures are exact to the byte, byte-seconds to a millisecond, and a limit may be
//! passed by [`BATCHES`] times [`BATCH_BYTES`] a core: a tenant and each of its processes have batches of their own.

use crate::ActivityId;
use crate::tree::{Activities, NONE};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_machine::{CORES_MAX, core_index};

/// Bytes that a core keeps to itself of one payer.
pub const BATCH_BYTES: u32 = 16 << 10;
/// Bytes of a payer and all below it that all cores keep to themselves at most: everything they have may be its members'.
pub(crate) const NOTED_BYTES_MAX: u64 = BATCH_BYTES as u64 * BATCHES as u64 * CORES_MAX as u64;
/// Payers that a core keeps apart.
const BATCHES: usize = 4;
/// No payer, no bytes.
const EMPTY: u64 = (NONE as u64) << 32;

struct Batch {
    /// The payer in the upper half, the sum in the lower one.
    word: AtomicU64,
    /// When it was begun, ms.
    since_ms: AtomicU64,
    /// When it is passed on, cycles.
    until_cycles: AtomicU64,
}

/// The batches of all cores.
pub(crate) struct Batches([PerCore; CORES_MAX]);

#[repr(align(64))]
struct PerCore([Batch; BATCHES]);

impl Batches {
    pub(crate) fn new() -> Batches {
        let batch =
            |_| Batch { word: AtomicU64::new(EMPTY), since_ms: AtomicU64::new(0), until_cycles: AtomicU64::new(0) };
        Batches(core::array::from_fn(|_| PerCore(core::array::from_fn(batch))))
    }

    #[inline]
    fn of(&self, payer: ActivityId) -> &Batch {
        &self.0[core_index() % CORES_MAX].0[payer.index() % BATCHES]
    }
}

fn pack(payer: ActivityId, bytes: i32) -> u64 {
    u64::from(payer.0) << 32 | u64::from(bytes.cast_unsigned())
}

fn unpack(word: u64) -> (ActivityId, i32) {
    (ActivityId((word >> 32) as u32), (word as u32).cast_signed())
}

impl Activities {
    /// Notes bytes, below zero if they are given back, if the payer may be charged by batches; false, and nothing noted, if not.
    #[inline]
    pub(crate) fn note_batched(&self, payer: ActivityId, bytes: i64) -> bool {
        let batch = self.batches.of(payer);
        let word = batch.word.load(Ordering::Relaxed);
        let (owner, before) = unpack(word);
        let sum = i64::from(before) + bytes;
        if owner == payer
            && sum.unsigned_abs() <= u64::from(BATCH_BYTES)
            && gyre_machine::now() < batch.until_cycles.load(Ordering::Relaxed)
        {
            let next = pack(payer, sum as i32);
            return batch.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        }
        self.begin_batch(batch, payer, bytes)
    }

    #[cold]
    fn begin_batch(&self, batch: &Batch, payer: ActivityId, bytes: i64) -> bool {
        if bytes.unsigned_abs() > u64::from(BATCH_BYTES / 2) || !self.is_alive(payer) {
            return false;
        }
        self.pass_on(batch);
        batch.since_ms.store(crate::memory::now_ms(), Ordering::Relaxed);
        let until = gyre_machine::now().saturating_add(gyre_machine::cycles_per_ms());
        batch.until_cycles.store(until, Ordering::Relaxed);
        batch.word.compare_exchange(EMPTY, pack(payer, bytes as i32), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn pass_on(&self, batch: &Batch) {
        if batch.word.load(Ordering::Relaxed) == EMPTY {
            return;
        }
        let (payer, bytes) = unpack(batch.word.swap(EMPTY, Ordering::Relaxed));
        let ms = batch.since_ms.load(Ordering::Relaxed);
        match bytes {
            0 => {}
            1.. => self.charge_noted(payer, u64::from(bytes.unsigned_abs()), ms),
            _ => self.credit_noted(payer, u64::from(bytes.unsigned_abs()), ms),
        }
    }

    /// Passes everything on.
    pub(crate) fn settle_batches(&self) {
        self.each_batch(|_| true);
    }

    /// Passes on what is noted of one payer.
    pub(crate) fn settle_batches_of(&self, payer: ActivityId) {
        self.each_batch(|owner| owner == payer);
    }

    fn each_batch(&self, which: impl Fn(ActivityId) -> bool) {
        for batch in self.batches.0.iter().flat_map(|core| &core.0) {
            let word = batch.word.load(Ordering::Relaxed);
            if word != EMPTY && which(unpack(word).0) {
                self.pass_on(batch);
            }
        }
    }
}
