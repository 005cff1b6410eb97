//! Bars in groups: upright if the names fit below them, else lying, each name before its bars.

use super::{
    colour, measured,
    scale::Scale,
    sheet::{LEFT, RIGHT, Sheet, WIDTH, width, wrapped},
};

const HEIGHT: f64 = 320.0;
/// Lines of a name below upright bars.
const NAME_LINES: usize = 3;
const LINE: f64 = 14.0;
/// The room for names before lying bars, and the height of those.
const NAMES: f64 = 232.0;
const LYING: f64 = 14.0;
/// The room behind a lying bar for its value.
const VALUES: f64 = 64.0;
/// An upright bar that is narrower has no room for its value.
const BAR_MIN: f64 = 26.0;

/// A group of bars: its name, and one value per series.
pub struct Group {
    /// Its name.
    pub name: String,
    /// Values in the order of the series.
    pub values: Vec<f64>,
}

/// Draws groups of bars.
pub fn bars(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let fits = |group: &Group| {
        let lines = wrapped(&group.name, wide - 8.0);
        lines.len() <= NAME_LINES && lines.iter().all(|line| width(line) <= wide - 8.0)
    };
    let bar = wide * 0.7 / series.len().max(1) as f64;
    if groups.iter().all(fits) && bar >= BAR_MIN {
        upright(title, unit, series, groups)
    } else {
        lying(title, unit, series, groups)
    }
}

/// A single series needs no legend: the title says what it is.
fn legend<'a>(series: &'a [&'a str]) -> &'a [&'a str] {
    if series.len() > 1 { series } else { &[] }
}

fn values(groups: &[Group]) -> impl Iterator<Item = f64> {
    groups.iter().flat_map(|group| group.values.iter().copied())
}

fn upright(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let mut sheet = Sheet::new(title, legend(series));
    let scale = Scale::holding(values(groups), 5.0);
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let bar = wide * 0.7 / series.len().max(1) as f64;
    let names: Vec<Vec<String>> = groups.iter().map(|group| wrapped(&group.name, wide - 8.0)).collect();
    let most = names.iter().map(Vec::len).max().unwrap_or(1);
    let (top, low) = (sheet.top + 6.0, HEIGHT - 10.0 - LINE * most as f64);
    let y = |value: f64| top + (1.0 - value / scale.high) * (low - top);
    for (value, words) in scale.ticks() {
        sheet.grid([LEFT, y(value)], [WIDTH - RIGHT, y(value)]);
        sheet.text([LEFT - 6.0, y(value) + 4.0], "end", &format!("{words}{unit}"));
    }
    for (at, (group, name)) in groups.iter().zip(&names).enumerate() {
        let left = LEFT + wide * at as f64 + wide * 0.15;
        for (index, value) in group.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let x = left + bar * index as f64;
            sheet.rect([x, y(*value), bar - 2.0, low - y(*value)], colour(index));
            sheet.text([x + bar / 2.0 - 1.0, y(*value) - 4.0], "middle", &measured(*value, 1));
        }
        for (number, line) in name.iter().enumerate() {
            sheet.text([left + wide * 0.35, low + LINE * (number as f64 + 1.0)], "middle", line);
        }
    }
    sheet.finish(HEIGHT)
}

fn lying(title: &str, unit: &str, series: &[&str], groups: &[Group]) -> String {
    let mut sheet = Sheet::new(title, legend(series));
    let scale = Scale::holding(values(groups), 4.0);
    let x = |value: f64| NAMES + value / scale.high * (WIDTH - NAMES - VALUES);
    let names: Vec<Vec<String>> = groups.iter().map(|group| wrapped(&group.name, NAMES - 20.0)).collect();
    let high =
        |group: &Group, name: &[String]| (LYING * group.values.len() as f64).max(LINE * name.len() as f64) + 10.0;
    let all: f64 = groups.iter().zip(&names).map(|(group, name)| high(group, name)).sum();
    let low = sheet.top + all;
    for (value, words) in scale.ticks() {
        sheet.grid([x(value), sheet.top], [x(value), low]);
        sheet.text([x(value), low + 16.0], "middle", &format!("{words}{unit}"));
    }
    let mut top = sheet.top;
    for (group, name) in groups.iter().zip(&names) {
        for (number, line) in name.iter().enumerate() {
            sheet.text([NAMES - 10.0, top + LINE * number as f64 + 11.0], "end", line);
        }
        for (index, value) in group.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let y = top + LYING * index as f64;
            sheet.rect([NAMES, y, x(*value) - NAMES, LYING - 2.0], colour(index));
            sheet.text([x(*value) + 5.0, y + 10.5], "start", &measured(*value, 1));
        }
        top += high(group, name);
    }
    sheet.finish(low + 26.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: usize, name: &str) -> Vec<Group> {
        (0..count).map(|index| Group { name: format!("{name} {index}"), values: vec![1.0, 2.0] }).collect()
    }

    #[test]
    fn names_that_do_not_fit_below_stand_before_their_bars() {
        let few = bars("t", " %", &["a", "b"], &groups(3, "short"));
        assert!(few.contains("viewBox='0 0 720 320'") && few.contains(">short 1<"), "{few}");
        let many = bars("t", " %", &["a", "b"], &groups(20, "a name that is long"));
        assert!(!many.contains("viewBox='0 0 720 320'") && many.contains(">a name that is long 19<"), "{many}");
    }

    #[test]
    fn what_is_no_number_has_no_bar() {
        let svg = bars("t", "", &["a", "b"], &[Group { name: "g".into(), values: vec![f64::NAN, 2.0] }]);
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
