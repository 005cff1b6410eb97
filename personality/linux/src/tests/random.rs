//! Calls at random: an input's bytes are a program. Every process ends when it is killed, after any calls.
//!
//! The corpus beside this file is replayed; `gyre-mutate` tells how to look for longer.

use super::script::*;
use alloc::vec::Vec;
use gyre_message::direct::block_on;

/// How long a program may run, in virtual time.
const LIFE_NS: u64 = 50_000_000;
const CALLS_MAX: usize = 48;
/// Calls that stop the machine for a reason that is known and not mended yet.
const KNOWN: &[u64] = &[];
/// The second byte of a pair that names a call after the first 256, and bytes above it.
const LATER: u8 = 224;
/// Numbers that arguments are.
const WORDS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    16,
    24,
    64,
    100,
    4095,
    4096,
    4097,
    65536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_e000,
    0xffff_ffff_ffff_f000,
    0xffff_ffff_ffff_ffce,
    0xffff_ffff_ffff_ff9c,
    u64::MAX,
    0o1101,
    0o102,
    0x22,
    0x32,
    0x21,
    17,
    34,
    1 << 32,
    1 << 62,
];

fn numbers() -> Vec<u64> {
    let all = crate::table::CALLS.iter().chain(crate::file::table::CALLS);
    all.map(|call| call.number).filter(|number| !KNOWN.contains(number)).collect()
}

/// Returns an argument from two bytes: a number, or an address of the script's memory.
fn argument(kind: u8, value: u8) -> u64 {
    let word = WORDS[usize::from(value) % WORDS.len()];
    match kind % 8 {
        0..3 => word,
        3 => u64::from(value),
        4 | 5 => DATA + 256 * u64::from(value % 64),
        6 => 0x1000_0000 + 4096 * u64::from(value % 16),
        _ => word.wrapping_add(DATA),
    }
}

/// Returns the call that a byte and the one behind it name: there are more calls than a byte has values, and the first 256 of them are
/// named by most pairs.
fn chosen(numbers: &[u64], bytes: [u8; 2]) -> u64 {
    let page = if bytes[1] >= LATER { 256 } else { 0 };
    numbers[(page + usize::from(bytes[0])) % numbers.len()]
}

/// Reads thirteen bytes a call; before it a word or a name is put at an address for arguments.
fn program(input: &[u8]) -> Script {
    let (numbers, mut script) = (numbers(), Script::default());
    for bytes in input.chunks_exact(13).take(CALLS_MAX) {
        let number = chosen(&numbers, [bytes[0], bytes[1]]);
        let mut arguments = [0; 6];
        arguments
            .iter_mut()
            .zip(bytes[1..].chunks_exact(2))
            .for_each(|(slot, pair)| *slot = argument(pair[0], pair[1]));
        script.call(number, &arguments);
    }
    script.exit(0);
    script
}

/// Fills the script's memory: the input chooses names and structures.
async fn fill(process: &crate::Process, input: &[u8]) {
    for slot in 0..64u64 {
        let at = DATA + 256 * slot;
        let name = [b'f', b'0' + (slot % 8) as u8, 0, 0, 0, 0, 0, 0];
        let first = if slot % 2 == 0 { u64::from_le_bytes(name) } else { WORDS[slot as usize % WORDS.len()] };
        let _ = process.space().write_struct(at, &first).await;
        for word in 1..8u64 {
            let byte = input.get(slot as usize + word as usize).copied().unwrap_or(0);
            let _ = process.space().write_struct(at + 8 * word, &WORDS[usize::from(byte) % WORDS.len()]).await;
        }
    }
}

fn one(input: &[u8]) {
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, program(input)).await;
        fill(&process, input).await;
        gyre_message::sleep_ns(LIFE_NS).await;
        // Processes born meanwhile are killed too.
        for _ in 0..64 {
            let living = tenant.tree.lock().processes();
            if living.is_empty() {
                return;
            }
            living.iter().for_each(|process| process.end(9));
            gyre_message::sleep_ns(LIFE_NS).await;
        }
        panic!("processes that do not end when they are killed");
    });
}

#[test]
fn each_call_has_bytes_that_name_it() {
    let numbers = numbers();
    let named =
        |number| (0..=255).any(|first| [0, LATER].iter().any(|second| chosen(&numbers, [first, *second]) == number));
    assert!(numbers.iter().all(|number| named(*number)));
}

#[test]
fn random_programs_end_and_stop_nobody() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/corpus");
    gyre_mutate::run("linux-calls", &corpus, &[0; 130], 3000, one);
}
