//! Bars of parts that stand on each other.

use super::{
    bars::Group,
    colour, measured,
    scale::Scale,
    sheet::{LEFT, RIGHT, Sheet, WIDTH, width},
};

const HEIGHT: f64 = 320.0;
const BOTTOM: f64 = 40.0;
/// Lines that names below the bars alternate between, so that long ones do not meet.
const NAME_LINES: usize = 2;

/// Draws a bar for each group, with its values on each other and their sum above.
pub fn stacks(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let mut sheet = Sheet::new(title, series);
    let scale = Scale::holding(groups.iter().map(|group| group.values.iter().sum()), 5.0);
    let (top, low) = (sheet.top + 6.0, HEIGHT - BOTTOM);
    let y = |value: f64| top + (1.0 - value / scale.high) * (low - top);
    for (value, words) in scale.ticks() {
        sheet.grid([LEFT, y(value)], [WIDTH - RIGHT, y(value)]);
        sheet.text([LEFT - 6.0, y(value) + 4.0], "end", &format!("{words}{unit}"));
    }
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let lines = if groups.iter().all(|group| width(&group.name) < wide) { 1 } else { NAME_LINES };
    for (at, group) in groups.iter().enumerate() {
        let left = LEFT + wide * at as f64 + wide * 0.15;
        let mut sum = 0.0;
        for (index, value) in group.values.iter().enumerate() {
            let below = y(sum);
            sum += value;
            sheet.rect([left, y(sum), wide * 0.7, below - y(sum)], colour(index));
        }
        let below = low + 15.0 + 14.0 * (at % lines) as f64;
        sheet.text([left + wide * 0.35, below], "middle", &group.name);
        sheet.text([left + wide * 0.35, y(sum) - 4.0], "middle", &measured(sum, 2));
    }
    sheet.finish(HEIGHT)
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
