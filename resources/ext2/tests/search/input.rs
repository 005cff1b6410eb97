//! An input: the shape of the image and how much is damaged, when the disk fails, the damage, and requests.

use super::Base;
use super::damage;
use super::request::{self, Request};
use crate::hostile::base::SHAPES;
use crate::hostile::mutant::Mutant;

/// Requests that are made at most.
const REQUESTS_MAX: usize = 48;
/// A file is made, written, cut, renamed, read and removed on an image without damage.
pub const EXAMPLE: [u8; 2 + 7 * request::BYTES] = [
    0, 0, // the first shape, no damage, no failure
    4, 0, 9, 0, 0, 0, 0, 0, // create
    19, 8, 0, 0, 0, 14, 9, 7, // write
    28, 8, 0, 0, 0, 10, 0, 0, // cut
    12, 0, 9, 1, 10, 0, 0, 0, // rename
    16, 8, 0, 0, 0, 0, 16, 0, // read
    47, 8, 0, 0, 0, 0, 0, 0, // sync
    8, 1, 10, 0, 0, 0, 0, 0, // unlink
];

/// The meaning of an input's bytes.
pub struct Input {
    /// The number of the image's shape.
    pub shape: usize,
    damage: Vec<[u8; damage::BYTES]>,
    /// The first request to the disk that fails, and how many do.
    pub fails: Option<(u64, u64)>,
    pub requests: Vec<Request>,
}

impl Input {
    pub fn of(bytes: &[u8]) -> Input {
        let [head, failure, rest @ ..] = bytes else { return Input::of(&EXAMPLE) };
        let shape = usize::from(head >> 4) % SHAPES.len();
        let fails =
            (*failure >= 128).then(|| (2 * u64::from(failure & 127), if head & 8 == 0 { 1 } else { u64::MAX / 2 }));
        let (damage, requests) = rest.split_at((usize::from(head & 7) * damage::BYTES).min(rest.len()));
        let damage = damage.chunks_exact(damage::BYTES).map(|bytes| bytes.try_into().expect("so many bytes")).collect();
        let requests = requests.chunks_exact(request::BYTES).take(REQUESTS_MAX).map(Request::of).collect();
        Input { shape, damage, fails, requests }
    }

    /// Returns whether nothing is damaged and no request to the disk fails.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.fails.is_none()
    }

    pub fn mutant(&self, base: &Base) -> Mutant {
        let writes = self.damage.iter().map(|damage| base.places.write(&base.image, *damage));
        Mutant { image: self.shape, writes: writes.collect() }
    }
}
