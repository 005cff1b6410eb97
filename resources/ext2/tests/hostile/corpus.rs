//! Damaged images that are kept: each was the first by which some call ended in some way. All are replayed by each test run; the example
//! `fuzz` looks for more.

use super::base::{SHAPES, base_image, metadata_bytes};
use super::exercise::Endings;
use super::mutant::Mutant;
use super::survival::survive;
use crate::support::Random;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Returns the folder of kept images.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/corpus")
}

/// Returns the kept ones by the names of their files.
pub fn load() -> Vec<(String, Mutant)> {
    let files = std::fs::read_dir(folder()).expect("there is a corpus").map(Result::unwrap);
    let read = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().expect("names are plain");
        let text = std::fs::read_to_string(file.path()).unwrap();
        let mutant = Mutant::parse(&text).unwrap_or_else(|| panic!("{name} is no damaged image"));
        (name, mutant)
    };
    let mut all: Vec<_> = files.map(read).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Returns the name of a damaged image by the ending that it showed first.
pub fn file_name(mutant: &Mutant, ending: &str) -> String {
    format!("{}-{}", mutant.image, ending.replace(' ', "-"))
}

/// Searches for damage by which calls end in new ways.
pub struct Fuzzer {
    images: Vec<(Vec<u8>, Vec<usize>)>,
    known: BTreeSet<(usize, String)>,
    corpus: Vec<Mutant>,
    random: Random,
}

impl Fuzzer {
    /// Replays the kept images.
    pub fn new(seed: u64) -> Fuzzer {
        let with_places = |image: Vec<u8>| (metadata_bytes(&image), image);
        let images = SHAPES.map(|shape| with_places(base_image(shape))).map(|(places, image)| (image, places));
        let mut fuzzer =
            Fuzzer { images: images.into(), known: BTreeSet::new(), corpus: Vec::new(), random: Random(seed) };
        let sound = (0..SHAPES.len()).map(|image| Mutant { image, writes: Vec::new() });
        for mutant in sound.chain(load().into_iter().map(|(_, mutant)| mutant)) {
            let endings = fuzzer.endings(&mutant);
            fuzzer.keep(mutant, endings);
        }
        fuzzer
    }

    /// Returns in how many ways calls have ended, over all images.
    pub fn ways(&self) -> usize {
        self.known.len()
    }

    /// Returns how calls end on a damaged image.
    pub fn endings(&self, mutant: &Mutant) -> Endings {
        let mut image = self.images[mutant.image % self.images.len()].0.clone();
        mutant.apply(&mut image);
        survive(image, &mutant.text(), |_| ()).endings
    }

    fn is_new(&self, mutant: &Mutant, ending: &str) -> bool {
        !self.known.contains(&(mutant.image, ending.to_owned()))
    }

    fn keep(&mut self, mutant: Mutant, endings: Endings) {
        self.known.extend(endings.into_iter().map(|ending| (mutant.image, ending)));
        self.corpus.push(mutant);
    }

    /// Tries changes of the kept images, up to `count` or for `time`; returns how many were tried, and writes new
    /// ones into the folder.
    pub fn grow(&mut self, count: usize, time: Duration) -> usize {
        let started = Instant::now();
        for tried in 0..count {
            if started.elapsed() > time {
                return tried;
            }
            self.try_one();
        }
        count
    }

    fn try_one(&mut self) {
        let from = self.corpus[self.random.below(self.corpus.len())].clone();
        let (image, places) = &self.images[from.image];
        let mutant = from.changed(&mut self.random, image, places);
        let endings = self.endings(&mutant);
        let Some(new) = endings.iter().find(|ending| self.is_new(&mutant, ending)).cloned() else { return };
        let mutant = self.smallest(mutant, &new);
        let name = file_name(&mutant, &new);
        std::fs::write(folder().join(&name), mutant.text()).expect("the folder can be written");
        println!("{name}");
        let endings = self.endings(&mutant);
        self.keep(mutant, endings);
    }

    /// Returns a mutant with the same ending and fewer writes.
    fn smallest(&self, mutant: Mutant, ending: &str) -> Mutant {
        let shows = |smaller: &Mutant| self.endings(smaller).contains(ending);
        let smaller = mutant.smaller().find(shows);
        match smaller {
            Some(smaller) => self.smallest(smaller, ending),
            None => mutant,
        }
    }
}
