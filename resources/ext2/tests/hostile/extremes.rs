//! Numbers at their ends: those of the image that are seldom read, and those of programs.

use super::base::{SHAPES, base_image};
use super::survival::survive;
use crate::support::*;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;
use gyre_message::direct::block_on;

const WILD: [u64; 9] = [0, 1, 511, 4095, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX - 4095, u64::MAX];

/// Places of an image that hold the bytes, which are few.
fn places_of(image: &[u8], bytes: &[u8]) -> Vec<usize> {
    image.windows(bytes.len()).enumerate().filter(|(_, part)| *part == bytes).map(|(at, _)| at).collect()
}

#[test]
fn names_attributes_and_bitmaps_with_wild_numbers_are_refused_or_survived() {
    for shape in SHAPES {
        let image = base_image(shape);
        let number = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
        let block_bytes = 1024 << number(1024 + 24);
        let descriptor = if block_bytes == 1024 { 2048 } else { block_bytes };
        // The entries of a directory, the entries of attributes, and the bitmaps.
        let mut ranges: Vec<(usize, usize)> =
            places_of(&image, b"name1").iter().take(1).map(|at| (at - 8, 16)).collect();
        ranges.extend(places_of(&image, &0xea02_0000_u32.to_le_bytes()).iter().take(2).map(|at| (*at, 40)));
        ranges.extend([0, 4].map(|field| (number(descriptor + field) * block_bytes, 16)));
        assert!(ranges.len() >= 4, "{ranges:?}");
        for (start, bytes) in ranges {
            for at in (start..start + bytes).step_by(2) {
                for value in [0_u16, 1, 0xff, 0x7fff, 0x8000, 0xfffc, 0xffff] {
                    let mut mutant = image.clone();
                    mutant[at..at + 2].copy_from_slice(&value.to_le_bytes());
                    survive(mutant, &format!("{shape:?}: {value:#x} at {at}"), |_| ());
                }
            }
        }
    }
}

#[test]
fn a_file_that_says_it_is_longer_than_any_file_is_damaged() {
    let mut image = base_image(&["-b", "1024"]);
    let number = |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let table = number(&image, 2048 + 8) * 1024;
    let size = usize::from(u16::from_le_bytes(image[1024 + 88..1024 + 90].try_into().unwrap()));
    let files = (11..64).map(|inode| table + (inode - 1) * size).filter(|at| image[at + 1] >> 4 == 8);
    for at in files.collect::<Vec<_>>() {
        image[at + 108..at + 112].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    block_on(async {
        let fs = mount_on(RamDisk::leak(image), new_cache(512)).await.unwrap();
        let root = fs.root().await.unwrap();
        let directory = fs.lookup(root, b"a".to_vec()).await.unwrap().node;
        assert_eq!(fs.lookup(directory, b"file".to_vec()).await.err(), Some(FileError::Damaged));
    });
}

#[test]
fn numbers_of_programs_at_their_ends_are_answered() {
    for shape in SHAPES {
        let image = base_image(shape);
        block_on(async {
            let fs = mount_on(RamDisk::leak(image), new_cache(512)).await.unwrap();
            let root = fs.root().await.unwrap();
            let directory = fs.lookup(root, b"a".to_vec()).await.unwrap().node;
            let file = fs.lookup(directory, b"file".to_vec()).await.unwrap();
            for at in WILD {
                _ = fs.read_directory(root, at, at as usize).await;
                _ = fs.read(file.node, at, at as usize).await;
                _ = fs.page(file.node, at, Pattern::Usual).await;
                _ = fs.page_dirtied(file.node, at).await;
                _ = fs.read_direct(file.node, at, views_of(&[0; 512])).await;
                _ = fs.write_direct(file.node, at, views_of(&[1; 512])).await;
                _ = fs.seek(file.node, at, Sought::Data).await;
                _ = fs.seek(file.node, at, Sought::Hole).await;
                for bytes in WILD {
                    _ = fs.write_back(file.node, at, bytes).await;
                    _ = fs.evict(file.node, at, bytes).await;
                    // This much a file may have, and it is more than the disk has.
                    if at.checked_add(bytes).is_none_or(|end| end > 1 << 43) || bytes < 5000 && at < 5000 {
                        _ = fs.allocate(file.node, at, bytes).await;
                    }
                }
                if at > 1 << 41 || at < 5000 {
                    _ = fs.write(file.node, at, views_of(&[2; 700])).await;
                }
                _ = fs.punch(file.node, at, u64::MAX).await;
                let size_bytes = Some(at);
                _ = fs.set_attributes(file.node, AttributeChange { size_bytes, ..AttributeChange::default() }).await;
            }
            assert_eq!(fs.lookup(directory, b"file".to_vec()).await.unwrap().node, file.node);
            fs.unmount().await.unwrap();
        });
    }
}
