//! The stack of a program that begins: arguments, environment and the auxiliary vector.
//!
//! Source: System V ABI, AMD64 supplement, 3.4.1.

use std::{
    ffi::{CString, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
};

use linux_raw_sys::auxvec as at;

use super::{Image, segments::mmap};

/// Bytes of the stack.
const STACK_BYTES: u64 = 8 << 20;
/// Bytes of an entry of the program headers.
const HEADER_BYTES: u64 = 56;
/// Entries of the vector that are the launcher's own: restartable sequences belong to the C library of who was started by the kernel.
const LEFT_OUT: [u64; 2] = [27, 28];

/// A program that can begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The first instruction.
    pub entry: u64,
    /// The stack pointer.
    pub stack: u64,
}

/// Makes a stack.
///
/// # Errors
/// Linux's; `InvalidInput` for a word with a zero byte.
pub fn build(image: &Image, arguments: &[OsString]) -> io::Result<Start> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    let bottom = mmap(0, STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, None)?;
    let environment: Vec<OsString> = std::env::vars_os().map(|(name, value)| joined(name, value)).collect();
    let own = own_vector();
    let words = words(image, [arguments, &environment], &own, bottom + STACK_BYTES)?;
    // SAFETY: the range was mapped above for this, and is as long.
    unsafe { std::ptr::copy_nonoverlapping(words.bytes.as_ptr(), words.start as *mut u8, words.bytes.len()) };
    Ok(Start { entry: image.entry, stack: words.start })
}

fn joined(name: OsString, value: OsString) -> OsString {
    let mut word = name;
    word.push("=");
    word.push(value);
    word
}

/// Types of entries are smaller (linux/auxvec.h).
const TYPE_MAX: u64 = 64;
/// Users, groups and whether the program has rights that its starter has not.
const MAY_BE_ZERO: [u64; 5] =
    [at::AT_UID as u64, at::AT_EUID as u64, at::AT_GID as u64, at::AT_EGID as u64, at::AT_SECURE as u64];

struct Words {
    start: u64,
    bytes: Vec<u8>,
}

/// Writes the stack down: pointers first, then what they point to, up to the top.
fn words(image: &Image, lists: [&[OsString]; 2], own: &[u8], top: u64) -> io::Result<Words> {
    let mut strings: Vec<u8> = random_bytes().to_vec();
    let mut places = [vec![], vec![]];
    for (list, places) in lists.iter().zip(&mut places) {
        for word in *list {
            places.push(strings.len() as u64);
            strings.extend(CString::new(word.as_bytes())?.as_bytes_with_nul());
        }
    }
    let vector = vector(image, own);
    let count = 1 + lists[0].len() + 1 + lists[1].len() + 1 + 2 * (vector.len() + 1);
    let bytes = (count * 8 + strings.len()) as u64;
    if bytes > STACK_BYTES / 2 {
        return Err(io::Error::new(io::ErrorKind::ArgumentListTooLong, "too many arguments"));
    }
    let start = (top - bytes) & !15;
    let base = start + count as u64 * 8;
    let mut words = vec![lists[0].len() as u64];
    for places in &places {
        words.extend(places.iter().map(|place| base + place));
        words.push(0);
    }
    for entry in vector {
        words.extend(match u32::try_from(entry[0]) {
            Ok(at::AT_RANDOM) => [entry[0], base],
            Ok(at::AT_EXECFN) => [entry[0], base + places[0].first().copied().unwrap_or(0)],
            _ => entry,
        });
    }
    words.extend([0, 0]);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(strings);
    Ok(Words { start, bytes })
}

/// An entry of the launcher's own vector, by its type; 0 if it is not there.
pub fn auxiliary(kind: u64) -> u64 {
    // SAFETY: libc looks into its own list.
    unsafe { libc::getauxval(kind) }
}

/// Entries of the launcher's own vector, as bytes; some are 0.
fn own_vector() -> Vec<u8> {
    let types = (1..=TYPE_MAX).filter(|kind| *kind != at::AT_IGNORE.into());
    let entries = types.map(|kind| [kind, auxiliary(kind)]);
    let kept = entries.filter(|entry| entry[1] != 0 || MAY_BE_ZERO.contains(&entry[0]));
    kept.flatten().flat_map(u64::to_le_bytes).collect()
}

/// The vector: the launcher's own, with the entries of the program.
fn vector(image: &Image, own: &[u8]) -> Vec<[u64; 2]> {
    let ours = [
        [at::AT_PHDR.into(), image.headers],
        [at::AT_PHENT.into(), HEADER_BYTES],
        [at::AT_PHNUM.into(), image.header_count],
        [at::AT_BASE.into(), image.base],
        [at::AT_ENTRY.into(), image.program_entry],
        [at::AT_RANDOM.into(), 0],
        [at::AT_EXECFN.into(), 0],
    ];
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let pairs = own.chunks_exact(16).map(|pair| [word(&pair[..8]), word(&pair[8..])]);
    let kept =
        pairs.filter(|pair| pair[0] != 0 && !LEFT_OUT.contains(&pair[0]) && ours.iter().all(|own| own[0] != pair[0]));
    kept.chain(ours).collect()
}

/// Sixteen bytes that nobody can guess.
fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: the buffer is as long as it says. If there are no random bytes, the program begins with zeros, as on a kernel without.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Image = Image { entry: 1, program_entry: 2, headers: 3, header_count: 4, base: 5 };

    #[test]
    fn the_stack_is_aligned_and_its_pointers_meet_their_words() {
        let own: Vec<u8> = [[at::AT_PAGESZ.into(), 4096u64], [27, 1], [at::AT_ENTRY.into(), 9], [0, 0]]
            .iter()
            .flatten()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        for extra in 0..9 {
            let arguments = ["sort".into(), "x".repeat(extra).into()];
            let top = 0x7000_0000;
            let built = words(&IMAGE, [&arguments, &["A=1".into()]], &own, top).unwrap();
            assert!(built.start.is_multiple_of(16) && built.start + built.bytes.len() as u64 <= top);
            let word = |index: usize| u64::from_le_bytes(built.bytes[index * 8..][..8].try_into().unwrap());
            let string = |address: u64| {
                let bytes = &built.bytes[(address - built.start) as usize..];
                bytes[..bytes.iter().position(|byte| *byte == 0).unwrap()].to_vec()
            };
            assert_eq!((word(0), string(word(1)), word(3)), (2, b"sort".to_vec(), 0));
            assert_eq!((string(word(4)), word(5)), (b"A=1".to_vec(), 0));
            let entries: Vec<_> = (0..8).map(|index| [word(6 + 2 * index), word(7 + 2 * index)]).collect();
            assert!(entries.contains(&[at::AT_ENTRY.into(), 2]) && entries.contains(&[at::AT_PAGESZ.into(), 4096]));
            assert!(!entries.iter().any(|entry| entry[0] == 27 || entry[1] == 9));
            let name = entries.iter().find(|entry| entry[0] == u64::from(at::AT_EXECFN)).unwrap();
            assert_eq!(string(name[1]), b"sort");
        }
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        let long = ["x".repeat(5 << 20).into()];
        assert!(words(&IMAGE, [&long, &[]], &[], 0x7000_0000).is_err());
        assert!(words(&IMAGE, [&["a\0b".into()], &[]], &[], 0x7000_0000).is_err());
    }
}
