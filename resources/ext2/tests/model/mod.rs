//! Random operations against a model in memory; at the end the disk agrees with both.
mod readers;
mod tree;
mod work;

use crate::support::*;
use gyre_message::direct::block_on;
use readers::{compare_by_debugfs, shown};
use tree::View;
use work::Worker;

fn run(seed: u64, shape: &[&str], cache_pages: usize, steps: usize) {
    let (image, view) = block_on(worked_on(seed, shape, cache_pages, steps));
    assert_clean(image.clone());
    compare_by_debugfs(&image, &view);
    block_on(async {
        let (_, _, client) = mount(image).await;
        assert!(shown(&client).await == view, "seed {seed}: the disk differs from the model");
    });
}

/// Returns the image after `steps` operations, and the view that it should hold.
async fn worked_on(seed: u64, shape: &[&str], cache_pages: usize, steps: usize) -> (Vec<u8>, View) {
    let disk = RamDisk::leak(make_image(8 * 1024, shape));
    let file_system = mount_on(disk, new_cache(cache_pages)).await.unwrap();
    gyre_message::spawn(file_system.maintain());
    let mut worker = Worker::new(client_of(file_system), seed).await;
    for _ in 0..steps {
        worker.step().await;
    }
    let view = worker.model.view();
    assert!(shown(&worker.client).await == view, "seed {seed}: what is shown differs from the model");
    file_system.unmount().await.unwrap();
    (disk.image(), view)
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..seeds(12) {
        let shape = [&["-b", "1024"][..], &["-b", "4096"], &["-b", "2048", "-I", "128"]][seed as usize % 3];
        run(seed, shape, 4096, 900);
    }
}

#[test]
fn a_tiny_cache_changes_nothing_but_the_time() {
    for seed in 1000..1000 + seeds(4) {
        run(seed, &["-b", "1024"], 96, 600);
    }
}
