//! Texts that programs chose (names, lines of logs, reasons), made fit for a terminal and a page: they show themselves and do nothing.
//!
//! Colours of a terminal go without a trace. Other control characters become their pictures; characters that turn the direction of a text or
//! break a line become U+FFFD. HTML needs no more: pages put texts in as text, never as markup.

/// The pictures of control characters begin here (Unicode, Control Pictures).
const PICTURES: u32 = 0x2400;
/// The picture of DEL.
const PICTURE_OF_DEL: char = '\u{2421}';

/// Returns a text without control characters.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_colour(rest) {
            rest = after;
            continue;
        }
        match first {
            '\t' => shown.push_str("  "),
            _ => shown.push(picture(first)),
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    shown
}

/// Returns the rest of a text that begins with a colour: ESC [ numbers m.
fn after_colour(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("\x1b[")?;
    rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';').strip_prefix('m')
}

fn picture(letter: char) -> char {
    match letter {
        '\0'..='\x1f' => char::from_u32(PICTURES.saturating_add(letter.into())).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => PICTURE_OF_DEL,
        '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        _ => letter,
    }
}

/// Returns at most so many characters of a text, and says how much is missing.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (head, tail) = text.split_at(end);
            format!("{head} … ({} bytes more)", tail.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_show_themselves_and_colours_go() {
        assert_eq!(harmless("\x1b[1;31mred\x1b[0m \x1b]0;title\x07"), "red ␛]0;title␇");
        assert_eq!(harmless("a\u{202e}b\u{9b}31m\x7f\0"), "a\u{fffd}b\u{fffd}31m\u{2421}␀");
        assert_eq!(harmless("<script>\t\"ä\"</script>"), "<script>  \"ä\"</script>");
        assert_eq!(harmless("\x1b["), "␛[");
    }

    #[test]
    fn what_is_cut_says_how_much_is_missing() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äbcd", 1), "ä … (3 bytes more)");
    }
}
