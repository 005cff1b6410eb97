//! Random bytes: ChaCha20 (RFC 8439, 2.3) per core, keyed from RDRAND, the clock and whatever the host gives.
//!
//! Each request takes a fresh key from the stream before its output ("fast key erasure"), so that a later look at the memory does
//! not tell earlier bytes.

use crate::core_local::CoreLocal;
use crate::instructions::{cpuid, rdtsc};
use crate::lock::SpinLock;
use gyre_platform::CORES_MAX;

#[derive(Clone, Copy)]
struct Generator {
    key: [u32; 8],
    seeded: bool,
}

static GENERATORS: CoreLocal<Generator> = CoreLocal::new([Generator { key: [0; 8], seeded: false }; CORES_MAX]);
/// From which each core's first key is drawn.
static POOL: SpinLock<Generator> = SpinLock::new(Generator { key: [0; 8], seeded: false });

/// Collects the first entropy. `told` are random bytes of a supervisor.
pub(crate) fn start(told: &[u8]) {
    let mut seed = [0; 32];
    for chunk in seed.chunks_exact_mut(8) {
        chunk.copy_from_slice(&hardware_random().to_le_bytes());
    }
    if cpuid(1, 0)[2] >> 30 & 1 == 0 && told.is_empty() {
        log::warn!(target: "platform", "the processor has no RDRAND: random bytes depend on the clock and the host's seed");
    }
    add_random(&seed);
    add_random(told);
}

/// Mixes bytes into the pool; makes it no worse. Cores that have drawn their key already draw again.
pub fn add_random(bytes: &[u8]) {
    POOL.with(|pool| {
        for chunk in bytes.chunks(32) {
            for (index, byte) in chunk.iter().enumerate() {
                pool.key[index / 4] ^= u32::from(*byte) << (8 * (index % 4));
            }
            pool.key[0] ^= rdtsc() as u32;
            let mut next = [0; 32];
            pool.draw(&mut next);
        }
    });
    GENERATORS.with(|own| own.seeded = false);
}

/// Fills `into` with random bytes.
pub fn fill_random(into: &mut [u8]) {
    GENERATORS.with(|own| {
        if !own.seeded {
            let mut key = [0; 32];
            POOL.with(|pool| {
                pool.key[1] ^= rdtsc() as u32;
                pool.key[2] ^= hardware_random() as u32;
                pool.draw(&mut key);
            });
            own.key = words(&key);
            own.seeded = true;
        }
        own.draw(into);
    });
}

fn hardware_random() -> u64 {
    let mut value = 0u64;
    if cpuid(1, 0)[2] >> 30 & 1 == 1 {
        for _ in 0..10 {
            let good: u8;
            // SAFETY: RDRAND is offered; it changes registers and flags only.
            unsafe {
                core::arch::asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) good, options(nomem, nostack))
            };
            if good == 1 {
                break;
            }
        }
    }
    value ^ rdtsc().rotate_left(32)
}

fn words(bytes: &[u8; 32]) -> [u32; 8] {
    core::array::from_fn(|index| {
        u32::from_le_bytes([bytes[4 * index], bytes[4 * index + 1], bytes[4 * index + 2], bytes[4 * index + 3]])
    })
}

impl Generator {
    /// Output starts after the 32 bytes that become the next key.
    fn draw(&mut self, into: &mut [u8]) {
        let key = self.key;
        let first = block(&key, 0);
        self.key = core::array::from_fn(|index| {
            u32::from_le_bytes([first[4 * index], first[4 * index + 1], first[4 * index + 2], first[4 * index + 3]])
        });
        let (head, rest) = into.split_at_mut(into.len().min(32));
        head.copy_from_slice(&first[32..32 + head.len()]);
        for (counter, chunk) in (1..).zip(rest.chunks_mut(64)) {
            chunk.copy_from_slice(&block(&key, counter)[..chunk.len()]);
        }
    }
}

/// RFC 8439, 2.3, with a nonce of zeros: each key is used for one request.
pub(crate) fn block(key: &[u32; 8], counter: u32) -> [u8; 64] {
    let mut start = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574, 0, 0, 0, 0, 0, 0, 0, 0, counter, 0, 0, 0];
    start[4..12].copy_from_slice(key);
    let mut state = start;
    for _ in 0..10 {
        quarter::<0, 4, 8, 12>(&mut state);
        quarter::<1, 5, 9, 13>(&mut state);
        quarter::<2, 6, 10, 14>(&mut state);
        quarter::<3, 7, 11, 15>(&mut state);
        quarter::<0, 5, 10, 15>(&mut state);
        quarter::<1, 6, 11, 12>(&mut state);
        quarter::<2, 7, 8, 13>(&mut state);
        quarter::<3, 4, 9, 14>(&mut state);
    }
    let mut bytes = [0; 64];
    for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
        chunk.copy_from_slice(&state[index].wrapping_add(start[index]).to_le_bytes());
    }
    bytes
}

#[inline(always)]
fn quarter<const A: usize, const B: usize, const C: usize, const D: usize>(state: &mut [u32; 16]) {
    state[A] = state[A].wrapping_add(state[B]);
    state[D] = (state[D] ^ state[A]).rotate_left(16);
    state[C] = state[C].wrapping_add(state[D]);
    state[B] = (state[B] ^ state[C]).rotate_left(12);
    state[A] = state[A].wrapping_add(state[B]);
    state[D] = (state[D] ^ state[A]).rotate_left(8);
    state[C] = state[C].wrapping_add(state[D]);
    state[B] = (state[B] ^ state[C]).rotate_left(7);
}
