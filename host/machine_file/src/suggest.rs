//! "Did you mean": from what was written to what exists.

use super::words;

/// Returns the candidate that `word` was probably meant to be.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('_', "-");
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.replace('_', "-"));
    let near = |candidate: &&str| {
        let start = word.len() >= 3 && candidate.starts_with(&word);
        start || distance(candidate) <= 1 + candidate.len().max(word.len()) / 4
    };
    candidates.into_iter().filter(near).min_by_key(|candidate| distance(candidate))
}

/// Says "did you mean X?", or lists what exists.
pub(super) fn help<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match closest(word, candidates.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there is: {}", candidates.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Turns a message of the TOML reader into message, label and help.
pub(super) fn explain(message: &str) -> (String, String, Option<String>) {
    if let Some((found, expected)) = words::mismatch(message.lines().next().unwrap_or_default()) {
        return (found, expected, extra(message));
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((word, known)) if message.starts_with("unknown field") => {
            let help = help(word, known.iter().copied());
            (format!("unknown key `{word}`"), "nothing has this name here".into(), Some(help))
        }
        Some((word, _)) if message.starts_with("missing field") => {
            (format!("the key `{word}` is missing"), format!("needs `{word} = ...`"), None)
        }
        _ => (message.lines().next().unwrap_or("not TOML").to_owned(), "here".into(), extra(message)),
    }
}

fn extra(message: &str) -> Option<String> {
    let rest: Vec<&str> = message.lines().skip(1).collect();
    (!rest.is_empty()).then(|| rest.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_found_and_nonsense_is_not() {
        let names = ["weighted-fair", "round-robin", "token-bucket"];
        assert_eq!(closest("wieghted-fair", names), Some("weighted-fair"));
        assert_eq!(closest("round_robin", names), Some("round-robin"));
        assert_eq!(closest("Weighted", names), Some("weighted-fair"));
        assert_eq!(closest("xyzzy", names), None);
    }
}
