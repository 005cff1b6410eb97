//! The last words of a zone, as the log keeps them: no more of them than there is room for, whatever its kernel has written.
//!
//! They are the zone's own: text that is not fit for a terminal as it is, and numbers that lead to nothing but names in a list of symbols.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes of the words of [`LastWords`].
pub const WORDS_BYTES_MAX: usize = 512;
/// Places of the trace of [`LastWords`].
pub const PLACES_MAX: usize = 32;

/// Why a zone crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// The cause, then the words of its kernel or of its wall; at most [`WORDS_BYTES_MAX`] bytes.
    pub words: String,
    /// Places in its code, at most [`PLACES_MAX`]: the instruction, then the calls that led there. In JSON each is a text, `0x` and digits.
    #[serde(with = "places")]
    pub trace: Vec<u64>,
}

impl LastWords {
    /// Keeps of words and places what there is room for.
    #[must_use]
    pub fn new(words: &str, trace: &[u64]) -> Self {
        let places = trace.get(..PLACES_MAX).unwrap_or(trace);
        Self { words: cut(words, WORDS_BYTES_MAX).to_string(), trace: places.to_vec() }
    }
}

impl fmt::Display for LastWords {
    /// Writes the words, then the places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        self.trace.iter().try_for_each(|place| write!(f, " {place:#x}"))
    }
}

/// Returns as many whole letters of a text as take at most so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Places in JSON are texts: so large a number is not kept whole by each reader of JSON.
mod places {
    use alloc::{format, string::String, vec::Vec};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(places: &[u64], to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return places.serialize(to);
        }
        to.collect_seq(places.iter().map(|place| format!("{place:#x}")))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        if !from.is_human_readable() {
            return Vec::deserialize(from);
        }
        let place = |text: &String| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let texts: Vec<String> = Vec::deserialize(from)?;
        let places: Option<Vec<u64>> = texts.iter().map(place).collect();
        places.ok_or_else(|| D::Error::custom("a place is 0x and hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_words_whole_letters_are_kept_and_of_a_long_trace_the_innermost_places() {
        let places: Vec<u64> = (0..99).collect();
        let kept = LastWords::new(&"\u{e9}".repeat(WORDS_BYTES_MAX), &places);
        assert_eq!((kept.words.len(), kept.trace.as_slice()), (WORDS_BYTES_MAX, &places[..PLACES_MAX]));
        let odd = LastWords::new(&("a".to_string() + &"\u{e9}".repeat(WORDS_BYTES_MAX)), &[]);
        assert_eq!(odd.words.len(), WORDS_BYTES_MAX - 1, "no half letter");
        assert_eq!(
            LastWords::new("on purpose", &[0xffff_ffff_8010_0000, 16]).to_string(),
            "on purpose 0xffffffff80100000 0x10"
        );
    }

    #[test]
    fn they_are_read_as_they_were_written() {
        let words = LastWords::new("on purpose", &[u64::MAX, 0]);
        let bytes = postcard::to_allocvec(&words).unwrap();
        assert_eq!(postcard::from_bytes::<LastWords>(&bytes), Ok(words));
    }
}
