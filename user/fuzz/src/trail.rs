//! The last calls of each thread, in pages that can be found in a picture of the machine's memory after its end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{calls, kinds::Call, sys};

/// The first words of each page.
const MAGIC: [u64; 2] = [0x6779_7265_2d66_757a, 0x7a2d_7472_6169_6c21];
/// Words of a page.
const WORDS: usize = 512;
/// The place of the first call, words of a call, and the number of calls that there is room for.
const HEAD: usize = 16;
const ENTRY: usize = 8;
const ENTRIES: usize = (WORDS - HEAD) / ENTRY;
/// The answer of a call that has not come back.
const UNDER_WAY: u64 = 0x7fff_ffff_ffff_fff0;

/// Pages for so many threads.
pub struct Trails {
    words: &'static [AtomicU64],
}

/// The page of one thread.
#[derive(Clone, Copy)]
pub struct Trail {
    words: &'static [AtomicU64],
}

/// The writer of a page.
#[derive(Clone, Copy, Default)]
pub struct Author {
    /// The seed of its round.
    pub seed: u64,
    /// Its round.
    pub round: u64,
    /// Its worker, that worker's life and its thread.
    pub place: [u64; 3],
}

impl Trails {
    /// Maps pages that children share.
    pub fn map(threads: usize) -> Option<Self> {
        sys::shared_words(threads * WORDS).map(|words| Self { words })
    }

    /// Returns the page of a thread.
    pub fn of(&self, thread: usize) -> Option<Trail> {
        self.words.chunks(WORDS).nth(thread).map(|words| Trail { words })
    }
}

impl Trail {
    fn set(self, index: usize, value: u64) {
        self.words.get(index).into_iter().for_each(|word| word.store(value, Relaxed));
    }

    fn get(self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| word.load(Relaxed))
    }

    /// Says who writes from now on.
    pub fn begin(self, author: Author) {
        let [worker, life, thread] = author.place;
        let head = [MAGIC[0], MAGIC[1], author.seed, author.round, worker, life, thread, 0];
        (0..).zip(head).for_each(|(index, value)| self.set(index, value));
        (HEAD..WORDS).for_each(|index| self.set(index, 0));
    }

    /// Notes a call before it is made.
    pub fn calls(self, number: u64, arguments: [u64; 6]) {
        let count = self.get(7);
        let at = HEAD + ENTRY * (count as usize % ENTRIES);
        let words = [count << 32 | number].into_iter().chain(arguments).chain([UNDER_WAY]);
        (at..).zip(words).for_each(|(index, value)| self.set(index, value));
        self.set(7, count + 1);
    }

    /// Notes its answer.
    pub fn answered(self, answer: i64) {
        let last = (self.get(7).wrapping_sub(1)) as usize % ENTRIES;
        self.set(HEAD + ENTRY * last + ENTRY - 1, answer as u64);
    }

    /// Returns the answer noted last.
    pub fn answer(self) -> i64 {
        let last = (self.get(7).wrapping_sub(1)) as usize % ENTRIES;
        self.get(HEAD + ENTRY * last + ENTRY - 1) as i64
    }

    /// Returns how many calls were begun.
    pub fn count(self) -> u64 {
        self.get(7)
    }
}

/// Returns the pages in a picture of memory, as text.
pub fn read(picture: &[u8]) -> String {
    let pages = picture.chunks_exact(8 * WORDS).map(words_of).filter(|words| words.starts_with(&MAGIC) && words[7] > 0);
    let mut pages: Vec<Vec<u64>> = pages.collect();
    pages.sort_by_key(|words| words[3..7].to_vec());
    let last = pages.iter().map(|words| words[3]).max();
    pages.iter().filter(|words| Some(words[3]) == last).map(|words| text_of(words)).collect()
}

fn words_of(page: &[u8]) -> Vec<u64> {
    page.chunks_exact(8).map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))).collect()
}

fn text_of(words: &[u64]) -> String {
    let head = format!(
        "round {} seed {} worker {} life {} thread {}: {} calls begun\n",
        words[3], words[2], words[4], words[5], words[6], words[7]
    );
    let mut entries: Vec<&[u64]> =
        words[HEAD..].chunks_exact(ENTRY).filter(|entry| entry.iter().any(|word| *word != 0)).collect();
    entries.sort_by_key(|entry| entry[0] >> 32);
    entries.iter().fold(head, |text, entry| text + &line_of(entry))
}

fn line_of(entry: &[u64]) -> String {
    let (index, number) = (entry[0] >> 32, entry[0] & 0xffff_ffff);
    let name = calls::all().find(|call| call.number == number).map_or("?", |call: &Call| call.name);
    let arguments: Vec<String> = entry[1..7].iter().map(|value| format!("{value:#x}")).collect();
    let answer = match entry[7] {
        UNDER_WAY => "has not come back".into(),
        answer => format!("{}", answer as i64),
    };
    format!("  {index:>6} {name}({}) = {answer}\n", arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_are_found_in_a_picture_of_memory() {
        let trail = Trails::map(1).unwrap().of(0).unwrap();
        trail.begin(Author { seed: 7, round: 3, place: [1, 0, 2] });
        for number in 0..100 {
            trail.calls(0, [number; 6]);
            trail.answered(-9);
        }
        trail.calls(1, [4096; 6]);
        let mut picture = vec![1; 4096];
        trail.words.iter().for_each(|word| picture.extend(word.load(Relaxed).to_le_bytes()));
        let text = read(&picture);
        assert!(text.starts_with("round 3 seed 7 worker 1 life 0 thread 2: 101 calls begun\n"), "{text}");
        assert!(text.contains("read(0x63, ") && text.contains(") = -9\n") && !text.contains("read(0x1, "), "{text}");
        assert!(text.ends_with("has not come back\n"), "{text}");
    }
}
