//! Output for people: progress on standard error, colours if a terminal shows them.

use std::{
    borrow::Cow,
    io::IsTerminal as _,
    sync::LazyLock,
    time::{Duration, Instant},
};

use crate::patience::Patience;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Returns whether colours go to standard error: a terminal, and no `NO_COLOR` (no-color.org).
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stderr().is_terminal()
}

/// A colour by meaning.
#[derive(Clone, Copy)]
pub enum Paint {
    /// It worked.
    Good,
    /// It did not.
    Bad,
    /// It may not be meant.
    Odd,
    /// Less important.
    Dim,
    /// More important.
    Bold,
}

/// Paints a text, or leaves it as it is if colours are off.
pub fn paint(paint: Paint, text: &str) -> Cow<'_, str> {
    if !colours() {
        return Cow::Borrowed(text);
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "31",
        Paint::Odd => "33",
        Paint::Dim => "2",
        Paint::Bold => "1",
    };
    Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
}

/// The spinners of all steps under way: each has a line, and what is said stands above them.
static SPINNERS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Says one line.
pub fn say(text: &str) {
    SPINNERS.suspend(|| eprintln!("{text}"));
}

/// Warns in one line.
pub fn warn(text: &str) {
    say(&format!("{} {text}", paint(Paint::Odd, "warning:")));
}

/// Time after which a line says that a step began, if no terminal shows it.
const QUIET: Duration = Duration::from_secs(2);

/// A step that takes a while. On a terminal it is a spinner with the elapsed time. Elsewhere it is a line at the step's end,
/// and one before that if the step takes long.
pub struct Step {
    title: String,
    bar: ProgressBar,
    /// Says after a while what is being done, unless it is dropped before.
    patience: Option<Patience>,
    started: Instant,
    finished: bool,
}

impl Step {
    /// Starts a step; the title says what is being done ("building the kernel").
    pub fn start(title: impl Into<String>) -> Self {
        let title = title.into();
        let is_seen = std::io::stderr().is_terminal();
        let bar = if is_seen { SPINNERS.add(ProgressBar::new_spinner()) } else { ProgressBar::hidden() };
        let line = format!("{} {title} ...", paint(Paint::Dim, "·"));
        let patience = if is_seen { None } else { Patience::start(QUIET, move || say(&line)) };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed:.dim} {wide_msg:.dim}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.clone());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { title, bar, patience, started: Instant::now(), finished: false }
    }

    /// Shows what it is at.
    pub fn detail(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Ends it well; silent when it took no time and changed nothing.
    pub fn done(self) {
        self.done_with("");
    }

    /// Ends it well with a result ("42 MiB").
    pub fn done_with(mut self, result: &str) {
        self.finished = true;
        self.patience = None;
        self.bar.finish_and_clear();
        let elapsed = self.started.elapsed();
        if elapsed < Duration::from_millis(300) && result.is_empty() {
            return;
        }
        let note = [result.to_owned(), format!("{:.1} s", elapsed.as_secs_f64())];
        let note = note.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        say(&format!("{} {} {}", paint(Paint::Good, "✓"), self.title, paint(Paint::Dim, &note)));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.patience = None;
        if !self.finished {
            self.bar.finish_and_clear();
            say(&format!("{} {}", paint(Paint::Bad, "✗"), self.title));
        }
    }
}

/// Writes an age for people: its largest unit.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns a table of text for people: columns aligned, the first left, the others right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths.get(column).copied().unwrap_or(0);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let line = row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let shown = [5, 300, 8_000, 200_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["5 s", "5 min", "2 h", "2 days"]);
    }

    #[test]
    fn a_table_aligns_names_left_and_numbers_right() {
        let rows = [vec!["name".to_owned(), "bytes".to_owned()], vec!["a".to_owned(), "12".to_owned()]];
        assert_eq!(table(&rows), "name  bytes\na        12\n");
    }
}
