//! Many damaged images: bits, bytes and absurd values at random places of the metadata, each mounted, walked and written to.
//!
//! ```text
//!   cargo run --release -p gyre-ext2 --example damaged [IMAGES] [FIRST SEED]
//! ```
//! A panic or a walk without end stops the run with the seed and the number of the image.

#[path = "../tests/hostile/mod.rs"]
#[allow(dead_code, unused_imports, reason = "its tests are not used here")]
mod hostile;
#[path = "../tests/support/mod.rs"]
mod support;

/// Images of one seed and process: the memory that they leave behind goes with it.
const IMAGES_PER_PROCESS: usize = 600;

fn main() {
    let argument = |place: usize| std::env::args().nth(place).and_then(|text| text.parse::<u64>().ok());
    let (images, first) = (argument(1).unwrap_or(100_000) as usize, argument(2).unwrap_or(1));
    if std::env::args().nth(3).is_some() {
        let alive = hostile::mutate(first, images);
        assert!(alive > images / 4, "{alive} of {images} were worth walking: the damage is too much to show anything");
        return;
    }
    let started = std::time::Instant::now();
    let mut done = 0;
    for seed in first.. {
        if done >= images {
            break;
        }
        let count = IMAGES_PER_PROCESS.min(images - done);
        let own = std::env::current_exe().expect("the program knows its path");
        let status =
            std::process::Command::new(own).args([count.to_string(), seed.to_string(), "part".into()]).status();
        assert!(status.is_ok_and(|status| status.success()), "seed {seed}");
        done += count;
        println!("{done} damaged images, no harm, {:.0} s", started.elapsed().as_secs_f64());
    }
}
