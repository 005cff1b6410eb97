//! Which known word a misspelt one was probably meant to be; without memory of its own.

/// Longer words are not compared.
const WORD_MAX: usize = 32;

/// The nearest of the known words, if one is near: a quarter of its letters and one more may differ.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.filter_map(|candidate| {
        let distance = distance(word.as_bytes(), candidate.as_bytes())?;
        (distance <= 1 + word.len().max(candidate.len()) / 4).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Letters that are missing, too many, different or exchanged with their neighbours (Damerau 1964, each pair exchanged once); upper and
/// lower case are alike. `None` for words that are too long.
fn distance(left: &[u8], right: &[u8]) -> Option<usize> {
    if left.len() > WORD_MAX || right.len() > WORD_MAX {
        return None;
    }
    let mut before = [0; WORD_MAX + 1];
    let mut last: [usize; WORD_MAX + 1] = core::array::from_fn(|place| place);
    for row in 1..=left.len() {
        let mut next = [0; WORD_MAX + 1];
        next[0] = row;
        for column in 1..=right.len() {
            let same = |row: usize, column: usize| left[row - 1].eq_ignore_ascii_case(&right[column - 1]);
            let replaced = last[column - 1] + usize::from(!same(row, column));
            next[column] = replaced.min(last[column] + 1).min(next[column - 1] + 1);
            if row > 1 && column > 1 && same(row, column - 1) && same(row - 1, column) {
                next[column] = next[column].min(before[column - 2] + 1);
            }
        }
        (before, last) = (last, next);
    }
    Some(last[right.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: [&str; 4] = ["cores", "tsc_khz", "memory", "devices"];

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        for (word, meant) in
            [("coers", "cores"), ("CORES", "cores"), ("core", "cores"), ("tsckhz", "tsc_khz"), ("memry", "memory")]
        {
            assert_eq!(nearest(word, KNOWN.into_iter()), Some(meant), "{word}");
        }
        for word in ["root", "console", "gyre.nonsense", "log", "quiet", "", "x"] {
            assert_eq!(nearest(word, KNOWN.into_iter()), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn any_word_is_compared_without_harm(word in "\\PC{0,40}") {
            let _ = nearest(&word, KNOWN.into_iter());
        }

        #[test]
        fn a_distance_is_the_same_both_ways_and_at_most_the_length(left in "[a-d]{0,12}", right in "[a-d]{0,12}") {
            let there = distance(left.as_bytes(), right.as_bytes()).unwrap();
            prop_assert_eq!(Some(there), distance(right.as_bytes(), left.as_bytes()));
            prop_assert!(there <= left.len().max(right.len()));
            prop_assert_eq!(there == 0, left == right);
        }
    }

    extern crate std;
}
