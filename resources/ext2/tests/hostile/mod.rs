//! Damaged and hostile images: errors, never a panic, never without end.
pub mod base;
mod corpus;
mod exercise;
mod extremes;
pub mod mutant;
pub mod survival;

use crate::support::*;
use base::{SHAPES, base_image, metadata_bytes};
pub use corpus::Fuzzer;
use survival::survive;

/// Damages images at random places of their metadata and works on them; answers how many were worth walking.
pub fn mutate(seed: u64, mutants: usize) -> usize {
    let mut random = Random(seed);
    let mut alive = 0;
    for shape in SHAPES {
        let image = base_image(shape);
        let places = metadata_bytes(&image);
        for number in 0..mutants / 3 {
            let mut mutant = image.clone();
            for _ in 0..1 + random.below(4) {
                let at = places[random.below(places.len())];
                mutant[at] = match random.below(3) {
                    0 => mutant[at] ^ 1 << random.below(8),
                    1 => random.next() as u8,
                    _ => [0, 0xff, 0x80, 1][random.below(4)],
                };
            }
            let survival = survive(mutant, &format!("seed {seed}, {shape:?}, mutant {number}"), |_| ());
            alive += usize::from(survival.answers > 10);
        }
    }
    alive
}

#[test]
fn every_damaged_image_of_the_corpus_does_no_harm_and_most_end_as_they_did() {
    let fuzzer = Fuzzer::new(0);
    let corpus = corpus::load();
    // Another mke2fs may lay an image out in another way.
    let as_before = corpus.iter().filter(|(name, mutant)| {
        fuzzer.endings(mutant).iter().any(|ending| *name == corpus::file_name(mutant, ending))
    });
    let (as_before, all) = (as_before.count(), corpus.len());
    assert!(as_before > all / 2, "{as_before} of {all} end as they did");
}

#[test]
fn thousands_of_damaged_images_do_no_harm() {
    let mutants = std::env::var("GYRE_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(600);
    let alive = mutate(11, mutants);
    assert!(alive > mutants / 4, "{alive} of {mutants} mutants were worth walking");
}

#[test]
fn single_fields_with_wild_values_are_refused_or_survived() {
    let image = base_image(&["-b", "1024"]);
    // The superblock, the first descriptor, the root's inode and its first block.
    let inode_table = u32::from_le_bytes(image[2048 + 8..2048 + 12].try_into().unwrap()) as usize * 1024;
    let size = usize::from(u16::from_le_bytes(image[1024 + 88..1024 + 90].try_into().unwrap()));
    let root = inode_table + size;
    let ranges = [(1024, 104), (2048, 32), (root, 128), (inode_table + 11 * size, 128)];
    for (start, bytes) in ranges {
        for at in (start..start + bytes).step_by(4) {
            for value in [0_u32, 1, 31, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut mutant = image.clone();
                mutant[at..at + 4].copy_from_slice(&value.to_le_bytes());
                survive(mutant, &format!("{value:#x} at {at}"), |_| ());
            }
        }
    }
}

#[test]
fn pointers_in_circles_end() {
    let image = base_image(&["-b", "1024"]);
    let inode_table = u32::from_le_bytes(image[2048 + 8..2048 + 12].try_into().unwrap()) as usize * 1024;
    let size = usize::from(u16::from_le_bytes(image[1024 + 88..1024 + 90].try_into().unwrap()));
    for inode in 11..64 {
        let at = inode_table + (inode - 1) * size;
        let block = u32::from_le_bytes(image[at + 40..at + 44].try_into().unwrap());
        if block == 0 || block > 1000 || image[at + 1] >> 4 != 8 {
            continue;
        }
        let mut mutant = image.clone();
        // A block full of pointers to itself, as the single, double and triple indirect block of a file of 16 GB.
        let start = block as usize * 1024;
        mutant[start..start + 1024].chunks_mut(4).for_each(|pointer| pointer.copy_from_slice(&block.to_le_bytes()));
        for slot in 12..15 {
            mutant[at + 40 + slot * 4..at + 44 + slot * 4].copy_from_slice(&block.to_le_bytes());
        }
        mutant[at + 4..at + 8].copy_from_slice(&u32::MAX.to_le_bytes());
        mutant[at + 108..at + 112].copy_from_slice(&3_u32.to_le_bytes());
        survive(mutant, &format!("inode {inode}"), |_| ());
    }
}

#[test]
fn a_disk_that_fails_at_any_request_costs_an_error_and_nothing_hangs() {
    let image = base_image(&["-b", "1024"]);
    for at in (1..400).step_by(7) {
        for count in [1, 1_000_000] {
            let fail = |disk: &RamDisk| disk.0.lock().fail_at = Some((at, count));
            survive(image.clone(), &format!("failing at {at}"), fail);
        }
    }
}
