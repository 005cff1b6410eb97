//! Bars of parts that stand on each other.

use std::fmt::Write as _;

use super::{BOTTOM, Group, HEIGHT, LEFT, RIGHT, Scale, WIDTH, colour, escaped, start};

/// Lines that names below the bars alternate between, so that long ones do not meet.
const NAME_LINES: usize = 2;

/// Draws a bar for each group, with its values on each other and their sum above.
pub fn stacks(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let mut svg = start(title, series);
    let scale = Scale::new(groups.iter().map(|group| group.values.iter().sum()));
    scale.axis(&mut svg, unit);
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    for (at, group) in groups.iter().enumerate() {
        let left = LEFT + wide * at as f64 + wide * 0.15;
        let top = stack(&mut svg, &scale, group, left, wide * 0.7);
        let below = HEIGHT - BOTTOM + 16.0 + 13.0 * (at % NAME_LINES) as f64;
        text(&mut svg, left + wide * 0.35, below, &escaped(&group.name));
        text(&mut svg, left + wide * 0.35, scale.y(top) - 4.0, &format!("{top:.2}"));
    }
    svg + "</svg>\n"
}

/// Draws one bar; answers the sum of its parts.
fn stack(svg: &mut String, scale: &Scale, group: &Group, left: f64, wide: f64) -> f64 {
    let mut top = 0.0;
    for (index, value) in group.values.iter().enumerate() {
        let low = scale.y(top);
        top += value;
        let (high, colour) = (scale.y(top), colour(index));
        let height = low - high;
        let _ =
            writeln!(svg, "<rect x='{left:.1}' y='{high:.1}' width='{wide:.1}' height='{height:.1}' fill='{colour}'/>");
    }
    top
}

fn text(svg: &mut String, x: f64, y: f64, what: &str) {
    let _ = writeln!(svg, "<text x='{x:.1}' y='{y:.1}' text-anchor='middle' font-size='11'>{what}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_parts_and_their_sum() {
        let group = Group { name: "a<b".into(), values: vec![1.0, 2.5] };
        let svg = stacks("t", " %", &["x", "y"], &[group]);
        assert!(svg.contains(">3.50<") && svg.contains("a&lt;b"), "{svg}");
        assert!(!stacks("t", "", &["x"], &[]).contains("NaN"));
    }
}
