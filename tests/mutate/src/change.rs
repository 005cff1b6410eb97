//! Changes of inputs.

use fastrand::Rng;

/// The longest input.
const BYTES_MAX: usize = 4096;
/// Bytes at which something goes over.
const EXTREMES: &[u8] = &[0, 1, 2, 7, 8, 0x0f, 0x10, 0x1f, 0x20, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff];

/// One of the inputs with some changes.
pub fn changed(inputs: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let pick = |random: &mut Rng| inputs.get(random.usize(0..inputs.len().max(1))).cloned().unwrap_or_default();
    let mut input = pick(random);
    for _ in 0..1 + random.usize(0..6) {
        let other = if random.u8(0..8) == 0 { pick(random) } else { vec![] };
        change(&mut input, &other, random);
    }
    input.truncate(BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let at = random.usize(0..input.len().max(1)).min(input.len());
    let length = random.usize(0..32).min(input.len() - at);
    let extreme = EXTREMES.get(random.usize(0..EXTREMES.len())).copied().unwrap_or(0);
    match random.u8(0..8) {
        0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.u8(0..8)),
        1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..)),
        2 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = extreme),
        3 => input.insert(at, random.u8(..)),
        4 => drop(input.drain(at..at + length)),
        5 => {
            let copy = input[at..at + length].to_vec();
            input.splice(at..at, copy);
        }
        6 => input.iter_mut().skip(at).take(length).for_each(|byte| *byte = extreme),
        _ => {
            input.truncate(at);
            input.extend(other.iter().skip(at));
            input.extend((0..random.usize(0..16)).map(|_| random.u8(..)));
        }
    }
}
