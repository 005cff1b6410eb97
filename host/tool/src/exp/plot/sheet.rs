//! The paper of a plot: its size, title, legend and style.

use std::fmt::Write as _;

use super::colour;

/// The width of all plots.
pub const WIDTH: f64 = 720.0;
/// The room at the left for the words of ticks.
pub const LEFT: f64 = 64.0;
/// The room at the right.
pub const RIGHT: f64 = 16.0;
/// A character of 12 pixels, on average.
const CHARACTER: f64 = 6.4;
/// The line with the first names of the legend.
const LEGEND_AT: f64 = 26.0;
const LEGEND_LINE: f64 = 17.0;

const LIGHT: &str = "--card:#fff;--ink:#1c1e21;--dim:#62676d;--line:#e2e2de";
const DARK: &str = "--card:#1c1f25;--ink:#e8e9ea;--dim:#9aa0a9;--line:#2c3038";

/// A plot that is drawn.
pub struct Sheet {
    body: String,
    /// The place at which the plot begins, below title and legend.
    pub top: f64,
}

impl Sheet {
    /// Begins with a title and the names of colours.
    pub fn new(title: &str, legend: &[&str]) -> Self {
        let mut sheet = Self { body: String::new(), top: LEGEND_AT + 14.0 };
        let _ = writeln!(
            sheet.body,
            "<text x='12' y='18' font-size='14' font-weight='600' fill='var(--ink)'>{}</text>",
            escaped(title)
        );
        let (mut x, mut y) = (12.0, LEGEND_AT);
        for (index, name) in legend.iter().enumerate() {
            let wide = 34.0 + width(name);
            if x + wide > WIDTH && x > 12.0 {
                (x, y) = (12.0, y + LEGEND_LINE);
            }
            sheet.rect([x, y, 10.0, 10.0], colour(index));
            sheet.text([x + 14.0, y + 9.0], "start", name);
            x += wide;
            sheet.top = y + 24.0;
        }
        sheet
    }

    /// Adds a text at a place.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: &str, what: &str) {
        let what = escaped(what);
        let _ = writeln!(self.body, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{what}</text>");
    }

    /// Adds a bar: left, top, width, height.
    pub fn rect(&mut self, [x, y, wide, high]: [f64; 4], fill: &str) {
        let (wide, high) = (wide.max(0.0), high.max(0.0));
        let _ = writeln!(
            self.body,
            "<rect x='{x:.1}' y='{y:.1}' width='{wide:.1}' height='{high:.1}' rx='2' fill='{fill}'/>"
        );
    }

    /// Adds a line of the grid.
    pub fn grid(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        let _ = writeln!(self.body, "<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' stroke='var(--line)'/>");
    }

    /// Adds anything else.
    pub fn add(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
    }

    /// Ends a plot of a height.
    pub fn finish(self, height: f64) -> String {
        let body = self.body;
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' class='plot' viewBox='0 0 {WIDTH} {height:.0}' role='img' \
             font-family='system-ui, DejaVu Sans, sans-serif' font-size='12' fill='var(--dim)'>\n\
             <style>.plot{{{LIGHT}}}@media (prefers-color-scheme:dark){{.plot{{{DARK}}}}}@media print{{.plot{{{LIGHT}}}}}</style>\n\
             <rect width='{WIDTH}' height='{height:.0}' fill='var(--card)'/>\n{body}</svg>\n"
        )
    }
}

/// Returns about how wide a text is.
pub fn width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// Breaks a text into lines of a width, between words; a word that is wider has a line of its own.
pub fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + CHARACTER <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Makes a text harmless in SVG and HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_that_is_long_has_more_lines() {
        let names: Vec<String> = (0..12).map(|index| format!("a long name {index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(Sheet::new("t", &names).top > Sheet::new("t", &["a", "b"]).top + LEGEND_LINE);
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 60.0), ["one two", "three"]);
        assert_eq!(wrapped("indivisible", 10.0), ["indivisible"]);
        assert!(wrapped("", 10.0).is_empty());
    }
}
