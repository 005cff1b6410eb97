//! Plots as SVG: lines, bars in groups, bars of parts that stand on each other. Colours and layout are those of the live page.
//!
//! * [`lines`], [`bars`] and [`stacks`] draw; [`scale`] chooses ticks, [`sheet`] is the paper with title and legend.
//! * Axes begin at 0. Ticks stand at round numbers, the last one at or below the end of a horizontal axis.
//! * A plot follows the reader's choice of light or dark by a style of its own, also as a file; on paper it is light.

mod bars;
mod lines;
mod scale;
mod sheet;
mod stacks;

pub use bars::{Group, bars};
pub use lines::{Line, lines};
pub use sheet::escaped;
pub use stacks::stacks;

const COLOURS: &[&str] = &["#d9a400", "#8a97a8", "#b8693a", "#3b82f6", "#10b981", "#a855f7", "#ef4444", "#14b8a6"];

fn colour(index: usize) -> &'static str {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or("#888")
}

/// Writes a value with so many decimals; one that they would make 0 has two digits behind its zeros.
fn measured(value: f64, decimals: usize) -> String {
    let size = value.abs();
    if size == 0.0 || size >= 10f64.powf(-(decimals as f64)) {
        return format!("{value:.decimals$}");
    }
    let digits = (1.0 - size.log10().floor()).clamp(2.0, 9.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_a_reader_needs() {
        let shown = [0.0, 12_345.6, 45.04, 0.5, 0.012_34].map(|value| measured(value, 1));
        assert_eq!(shown, ["0.0", "12345.6", "45.0", "0.5", "0.012"]);
        assert_eq!(measured(1e-7, 1), "0.00000010");
    }

    #[test]
    fn a_plot_without_points_is_still_a_plot() {
        let empty = Line { name: "a<b".into(), points: vec![], level: Some(50.0) };
        let svg = lines("t", [" s", " %"], &[empty]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf") && svg.contains("a&lt;b"));
        assert!(!bars("t", "", &["x"], &[]).contains("NaN"));
    }

    /// Returns plots as experiments draw them, with names that are long. GYRE_PICTURES=FOLDER keeps them.
    fn samples() -> Vec<String> {
        let group = |name: &str, values: &[f64]| Group { name: name.into(), values: values.to_vec() };
        let shares: Vec<Line> = [("gold", 50.0), ("silver", 33.0), ("bronze", 17.0)]
            .map(|(name, level)| Line {
                name: name.into(),
                points: (1..=37).map(|at| (f64::from(at), level + f64::from(at % 3))).collect(),
                level: Some(level),
            })
            .into();
        let few = [group("gyre", &[821.0, 1.5]), group("Linux with cgroups", &[1096.0, 0.012])];
        let many: Vec<Group> =
            (0..9).map(|at| group(&format!("open, write 4 KiB, fsync and close {at}"), &[0.4, 1.3])).collect();
        let series = ["received by the network path", "handled by tcp", "copied to the program", "scheduling", "idle"];
        let parts = ["cpu", "tcp", "network_write", "block"].map(|name| group(name, &[3.0, 2.0, 1.0, 0.5, 4.0]));
        let plots = vec![
            lines("CPU time, each second", [" s", " %"], &shares),
            bars("Pages a second", "", &["pages", "ms"], &few),
            bars("Instructions, of Linux'", "", &["here", "before"], &many),
            stacks("CPU time by resource", " %", &series, &parts),
        ];
        if let Some(folder) = std::env::var_os("GYRE_PICTURES") {
            std::fs::write(std::path::Path::new(&folder).join("plots.html"), plots.concat()).unwrap();
        }
        plots
    }

    #[test]
    fn nothing_is_drawn_beside_the_sheet() {
        for svg in samples() {
            for text in svg.split("<text ").skip(1) {
                let value = |name: &str| text.split(&format!("{name}='")).nth(1).unwrap().split('\'').next().unwrap();
                let words = text.split('>').nth(1).unwrap().split('<').next().unwrap();
                let (x, wide) = (value("x").parse::<f64>().unwrap(), sheet::width(words));
                let anchor = if text.contains("text-anchor") { value("text-anchor") } else { "start" };
                let left = match anchor {
                    "middle" => x - wide / 2.0,
                    "end" => x - wide,
                    _ => x,
                };
                assert!(left >= 0.0 && left + wide <= sheet::WIDTH, "{words} from {left} on");
            }
        }
    }

    #[test]
    fn plots_have_both_schemes_and_are_light_on_paper() {
        let group = Group { name: "a".into(), values: vec![1.0] };
        for svg in [lines("t", [" s", ""], &[]), bars("t", "", &["x"], &[group])] {
            assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("@media print"), "{svg}");
            assert!(!svg.contains("#fff'") && !svg.contains("#ddd"), "a colour that stays light: {svg}");
        }
    }
}
