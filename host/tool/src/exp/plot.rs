//! Plots as SVG: lines over time, bars in groups. Colours and layout are those of the live page.

mod stacks;

use std::fmt::Write as _;

pub use stacks::stacks;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 44.0;
const COLOURS: &[&str] = &["#d9a400", "#8a97a8", "#b8693a", "#3b82f6", "#10b981", "#a855f7", "#ef4444", "#14b8a6"];

/// A named line, with the level that it should have.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed.
    pub level: Option<f64>,
}

/// A group of bars: its name, and one value per series.
pub struct Group {
    /// Its name.
    pub name: String,
    /// Values in the order of the series.
    pub values: Vec<f64>,
}

struct Scale {
    high: f64,
    step: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(1e-9, f64::max) * 1.05;
        let rough = high / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        Self { high: (high / step).ceil() * step, step }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - value / self.high) * (HEIGHT - TOP - BOTTOM)
    }

    fn axis(&self, svg: &mut String, unit: &str) {
        let mut value = 0.0;
        while value <= self.high * 1.001 {
            let y = self.y(value);
            let _ = writeln!(svg, "<line x1='{LEFT}' x2='{}' y1='{y:.1}' y2='{y:.1}' stroke='#ddd'/>", WIDTH - RIGHT);
            let label = format!("{:.4}", value).trim_end_matches('0').trim_end_matches('.').to_owned();
            let _ = writeln!(svg, "<text x='{}' y='{:.1}' text-anchor='end'>{label}{unit}</text>", LEFT - 6.0, y + 4.0);
            value += self.step;
        }
    }
}

fn colour(index: usize) -> &'static str {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or("#888")
}

fn start(title: &str, legend: &[&str]) -> String {
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' font-size='12' fill='#555'>\n\
         <rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>\n<text x='{LEFT}' y='18' font-size='14' font-weight='600' fill='#111'>{}</text>\n",
        escaped(title)
    );
    let mut x = LEFT;
    for (index, name) in legend.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<rect x='{x}' y='26' width='10' height='10' rx='2' fill='{}'/><text x='{}' y='35'>{}</text>",
            colour(index),
            x + 14.0,
            escaped(name)
        );
        x += 30.0 + 7.0 * name.len() as f64;
    }
    svg
}

/// Draws lines over time in seconds.
pub fn lines(title: &str, unit: &str, lines: &[Line]) -> String {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut svg = start(title, &names);
    let points = || lines.iter().flat_map(|line| &line.points);
    let scale = Scale::new(points().map(|(_, y)| *y).chain(lines.iter().filter_map(|line| line.level)));
    let begin = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min).min(0.0);
    let end = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let x = |value: f64| LEFT + (value - begin) / (end - begin) * (WIDTH - LEFT - RIGHT);
    scale.axis(&mut svg, unit);
    for part in 0..=5 {
        let value = begin + (end - begin) * f64::from(part) / 5.0;
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{value:.0} s</text>",
            x(value),
            HEIGHT - BOTTOM + 18.0
        );
    }
    for (index, line) in lines.iter().enumerate() {
        if let Some(level) = line.level {
            let y = scale.y(level);
            let _ = writeln!(
                svg,
                "<line x1='{LEFT}' x2='{}' y1='{y:.1}' y2='{y:.1}' stroke='{}' stroke-dasharray='5 5' opacity='.7'/>",
                WIDTH - RIGHT,
                colour(index)
            );
        }
        let path: Vec<String> =
            line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), scale.y(*value))).collect();
        let _ = writeln!(
            svg,
            "<polyline points='{}' fill='none' stroke='{}' stroke-width='2' stroke-linejoin='round'/>",
            path.join(" "),
            colour(index)
        );
    }
    svg + "</svg>\n"
}

/// Draws groups of bars.
pub fn bars(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let mut svg = start(title, series);
    let scale = Scale::new(groups.iter().flat_map(|group| group.values.iter().copied()));
    scale.axis(&mut svg, unit);
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let bar = wide * 0.7 / series.len().max(1) as f64;
    for (at, group) in groups.iter().enumerate() {
        let left = LEFT + wide * at as f64 + wide * 0.15;
        for (index, value) in group.values.iter().enumerate() {
            let (x, y) = (left + bar * index as f64, scale.y(*value));
            let height = HEIGHT - BOTTOM - y;
            let _ = writeln!(
                svg,
                "<rect x='{x:.1}' y='{y:.1}' width='{:.1}' height='{height:.1}' rx='2' fill='{}'/>",
                bar - 2.0,
                colour(index)
            );
            let _ = writeln!(
                svg,
                "<text x='{:.1}' y='{:.1}' text-anchor='middle' font-size='11'>{value:.1}</text>",
                x + bar / 2.0 - 1.0,
                y - 4.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{}</text>",
            left + wide * 0.35,
            HEIGHT - BOTTOM + 18.0,
            escaped(&group.name)
        );
    }
    svg + "</svg>\n"
}

/// Makes a text harmless in SVG and HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_all_values_and_step_by_round_numbers() {
        for high in [0.0004, 0.9, 7.0, 49.9, 50.1, 123_456.0] {
            let scale = Scale::new([high].into_iter());
            assert!(scale.high >= high);
            assert!((2.0..=12.0).contains(&(scale.high / scale.step)), "{high}: {} by {}", scale.high, scale.step);
        }
    }

    #[test]
    fn a_plot_without_points_is_still_a_plot() {
        let empty = Line { name: "a<b".into(), points: vec![], level: Some(50.0) };
        let svg = lines("t", " %", &[empty]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf") && svg.contains("a&lt;b"));
        assert!(!bars("t", "", &["x"], &[]).contains("NaN"));
    }
}
