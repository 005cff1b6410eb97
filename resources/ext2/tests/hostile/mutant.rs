//! A damaged image, as text: the sound image that it is made from, and the bytes written over it.
//!
//! ```text
//!   image 1
//!   1080 ff00       from byte 1080 on these bytes, in hexadecimal digits
//! ```

use crate::support::Random;
use std::fmt::Write as _;

/// Most places that are written over.
const WRITES_MAX: usize = 6;
/// Numbers that are wrong in most fields.
pub const WILD: [u32; 8] = [0, 1, 2, 31, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// The damage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mutant {
    pub image: usize,
    pub writes: Vec<(usize, Vec<u8>)>,
}

impl Mutant {
    /// Reads the text.
    pub fn parse(text: &str) -> Option<Mutant> {
        let mut lines = text.lines();
        let image = lines.next()?.strip_prefix("image ")?.parse().ok()?;
        let writes = lines.map(parse_write).collect::<Option<_>>()?;
        Some(Mutant { image, writes })
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        let mut text = format!("image {}\n", self.image);
        for (at, bytes) in &self.writes {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{at} {digits}").expect("memory");
        }
        text
    }

    /// Damages an image.
    pub fn apply(&self, image: &mut [u8]) {
        for (at, bytes) in &self.writes {
            if let Some(place) = image.get_mut(*at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Returns another one, a little different; `places` are bytes that damage hurts most.
    pub fn changed(&self, random: &mut Random, image: &[u8], places: &[usize]) -> Mutant {
        let mut changed = self.clone();
        if !changed.writes.is_empty() && random.below(4) == 0 {
            changed.writes.remove(random.below(changed.writes.len()));
        }
        for _ in 0..1 + random.below(2) {
            changed.writes.push(damage(random, image, places));
        }
        changed.writes.truncate(WRITES_MAX);
        changed
    }

    /// Returns it without one of its writes, for each in turn.
    pub fn smaller(&self) -> impl Iterator<Item = Mutant> + '_ {
        (0..self.writes.len()).map(|index| {
            let mut smaller = self.clone();
            smaller.writes.remove(index);
            smaller
        })
    }
}

fn parse_write(line: &str) -> Option<(usize, Vec<u8>)> {
    let (at, digits) = line.split_once(' ')?;
    let byte = |index: usize| u8::from_str_radix(digits.get(index..index + 2)?, 16).ok();
    Some((at.parse().ok()?, (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?))
}

/// Returns a bit, a byte, a wild number, or a number from somewhere else.
fn damage(random: &mut Random, image: &[u8], places: &[usize]) -> (usize, Vec<u8>) {
    let at = places[random.below(places.len())];
    let field = (at / 4 * 4).min(image.len() - 4);
    match random.below(5) {
        0 => (at, vec![image[at] ^ 1 << random.below(8)]),
        1 => (at, vec![random.next() as u8]),
        2 => (field, WILD[random.below(WILD.len())].to_le_bytes().to_vec()),
        3 => (field, (random.below(1024) as u32).to_le_bytes().to_vec()),
        _ => {
            let from = places[random.below(places.len())] / 4 * 4;
            (field, image[from.min(image.len() - 4)..][..4].to_vec())
        }
    }
}

#[test]
fn text_becomes_the_mutant_that_it_was() {
    let mutant = Mutant { image: 2, writes: vec![(1080, vec![0xff, 0]), (7, vec![1])] };
    assert_eq!(mutant.text(), "image 2\n1080 ff00\n7 01\n");
    assert_eq!(Mutant::parse(&mutant.text()), Some(mutant));
    assert_eq!(Mutant::parse("image x\n"), None);
}
