//! Output for people: progress on standard error, colours where a terminal shows them.

use std::{
    borrow::Cow,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use crate::patience::Patience;
use indicatif::{ProgressBar, ProgressStyle};

/// Whether colours go to standard error: a terminal, and no `NO_COLOR` (no-color.org).
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

/// Paints a text, or leaves it where colours are off.
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

/// Says one line.
pub fn say(text: &str) {
    eprintln!("{text}");
}

/// Warns in one line.
pub fn warn(text: &str) {
    eprintln!("{} {text}", paint(Paint::Odd, "warning:"));
}

/// How long a step goes on before a line says that it began, where no terminal shows it.
const QUIET: Duration = Duration::from_secs(2);

/// Something that takes a while: a spinner with the elapsed time on a terminal; elsewhere a line at its end, and one before that where it
/// takes long enough for somebody to wonder.
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
        let bar = if is_seen { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
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
        eprintln!("{} {} {}", paint(Paint::Good, "✓"), self.title, paint(Paint::Dim, &note));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.patience = None;
        if !self.finished {
            self.bar.finish_and_clear();
            eprintln!("{} {}", paint(Paint::Bad, "✗"), self.title);
        }
    }
}

/// A table of text for people: columns aligned, the first left, the others right.
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
    fn a_table_aligns_names_left_and_numbers_right() {
        let rows = [vec!["name".to_owned(), "bytes".to_owned()], vec!["a".to_owned(), "12".to_owned()]];
        assert_eq!(table(&rows), "name  bytes\na        12\n");
    }
}
