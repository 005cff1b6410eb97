//! Lines over a number: time, cores, connections.

use super::{
    colour,
    scale::Scale,
    sheet::{LEFT, RIGHT, Sheet, WIDTH},
};

const HEIGHT: f64 = 320.0;
const BOTTOM: f64 = 30.0;

/// A named line, with the level that it should have.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed.
    pub level: Option<f64>,
}

/// Draws lines; the units are those of the horizontal and the vertical axis, behind each number.
pub fn lines(title: &str, [x_unit, y_unit]: [&str; 2], lines: &[Line]) -> String {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut sheet = Sheet::new(title, &names);
    let points = || lines.iter().flat_map(|line| &line.points);
    let vertical = Scale::holding(points().map(|(_, y)| *y).chain(lines.iter().filter_map(|line| line.level)), 5.0);
    let horizontal = Scale::until(points().map(|(x, _)| *x).fold(1.0, f64::max), 6.0);
    let (top, low) = (sheet.top, HEIGHT - BOTTOM);
    let x = |value: f64| LEFT + value / horizontal.high * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| top + (1.0 - value / vertical.high) * (low - top);
    for (value, words) in vertical.ticks() {
        sheet.grid([LEFT, y(value)], [WIDTH - RIGHT, y(value)]);
        sheet.text([LEFT - 6.0, y(value) + 4.0], "end", &format!("{words}{y_unit}"));
    }
    for (value, words) in horizontal.ticks() {
        sheet.grid([x(value), low], [x(value), low + 5.0]);
        let anchor = if x(value) > WIDTH - 40.0 { "end" } else { "middle" };
        sheet.text([x(value), low + 19.0], anchor, &format!("{words}{x_unit}"));
    }
    for (index, line) in lines.iter().enumerate() {
        let colour = colour(index);
        if let Some(level) = line.level {
            let (y, end) = (y(level), WIDTH - RIGHT);
            sheet.add(&format!(
                "<line x1='{LEFT}' x2='{end}' y1='{y:.1}' y2='{y:.1}' stroke='{colour}' stroke-dasharray='5 5' opacity='.7'/>"
            ));
        }
        let path: Vec<String> =
            line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        sheet.add(&format!(
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2' stroke-linejoin='round'/>",
            path.join(" ")
        ));
    }
    sheet.finish(HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_time_has_even_ticks_from_0_on() {
        let line = Line { name: "a".into(), points: (1..=9).map(|at| (f64::from(at), 1.0)).collect(), level: None };
        let svg = lines("t", [" s", " %"], &[line]);
        for tick in ["0 s", "2 s", "4 s", "6 s", "8 s"] {
            assert!(svg.contains(&format!(">{tick}</text>")), "{tick}: {svg}");
        }
        assert!(!svg.contains(">9 s<") && !svg.contains(">1 s<"));
    }
}
