//! Sound images that are damaged.

use crate::support::{debugfs_writing, make_image, temporary};

/// Shapes of the images, by the numbers that mutants name.
pub const SHAPES: [&[&str]; 3] = [&["-b", "1024"], &["-b", "4096"], &["-b", "2048", "-I", "256"]];

/// Returns an image with directories, small and large files, a long link and extended attributes.
pub fn base_image(shape: &[&str]) -> Vec<u8> {
    let root = temporary("hostile-tree");
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    std::fs::write(root.join("a/file"), vec![1; 100_000]).unwrap();
    std::fs::write(root.join("a/b/large"), vec![2; 600_000]).unwrap();
    for number in 0..40 {
        std::fs::write(root.join(format!("a/b/c/name{number}")), b"x").unwrap();
    }
    std::os::unix::fs::symlink("z".repeat(200), root.join("slow")).unwrap();
    let path = root.to_str().unwrap().to_owned();
    let image = make_image(1024, &[shape, &["-N", "64", "-d", &path]].concat());
    std::fs::remove_dir_all(root).unwrap();
    with_attributes(image)
}

/// Returns attributes in an inode or in a block, as debugfs writes them.
fn with_attributes(image: Vec<u8>) -> Vec<u8> {
    let path = temporary("hostile-attributes");
    std::fs::write(&path, image).unwrap();
    for value in ["short", &"long".repeat(100)] {
        let request = format!("ea_set a/file user.{} {value}", value.len());
        let done = debugfs_writing(&request, &path).output().unwrap();
        assert!(done.status.success());
    }
    let image = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    image
}

/// Returns the bytes of an image that are metadata, which damage hurts most.
pub fn metadata_bytes(image: &[u8]) -> Vec<usize> {
    (1024..image.len().min(64 * 1024))
        .chain((64 * 1024..image.len()).filter(|at| image[*at] != 0 && at % 7 == 0))
        .collect()
}
