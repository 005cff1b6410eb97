//! One figure: a number with its unit, what others have, and what we promise.

use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The measured thing.
    pub name: String,
    /// Our measurement; none if there was nothing to measure.
    pub value: Option<f64>,
    /// Digits behind the point that mean something.
    pub decimals: u8,
    /// The unit, empty for a count.
    pub unit: String,
    /// Linux' measurement in the same run, in the same unit.
    pub linux: Option<f64>,
    /// The paper's value, in its words.
    pub paper: String,
    /// Our promise, in words.
    pub goal: String,
    /// True if the promise holds; none if nothing is promised.
    pub is_met: Option<bool>,
}

impl Figure {
    /// Makes a figure without a promise; what is no number counts as not measured.
    pub fn new(name: impl Into<String>, value: f64, decimals: u8, unit: &str) -> Self {
        Self {
            name: name.into(),
            value: rounded(value, decimals),
            decimals,
            unit: unit.into(),
            linux: None,
            paper: String::new(),
            goal: String::new(),
            is_met: None,
        }
    }

    /// Makes a count.
    pub fn count(name: impl Into<String>, value: u64) -> Self {
        Self::new(name, value as f64, 0, "")
    }

    /// Adds what Linux has, in the same unit.
    pub fn linux(mut self, value: f64) -> Self {
        self.linux = rounded(value, self.decimals);
        self
    }

    /// Adds what the paper has.
    pub fn paper(mut self, words: impl Into<String>) -> Self {
        self.paper = words.into();
        self
    }

    /// Adds the promise, and whether it holds.
    pub fn goal(mut self, words: impl Into<String>, is_met: bool) -> Self {
        (self.goal, self.is_met) = (words.into(), Some(is_met));
        self
    }

    /// Our number for people.
    pub fn ours(&self) -> String {
        self.show(self.value).unwrap_or_else(|| "not measured".into())
    }

    /// Returns Linux's number for people, empty if there is none.
    pub fn theirs(&self) -> String {
        self.show(self.linux).unwrap_or_default()
    }

    /// Returns our number divided by Linux's, empty unless both are positive: no other ratio says how much more one is.
    pub fn ratio(&self) -> String {
        match (self.value, self.linux) {
            (Some(ours), Some(linux)) if ours > 0.0 && linux > 0.0 => format!("{:.2}", ours / linux),
            _ => String::new(),
        }
    }

    /// Returns whether something is promised that does not hold.
    pub fn is_missed(&self) -> bool {
        self.is_met == Some(false)
    }

    /// Returns the promise's state as a mark.
    pub fn mark(&self) -> &'static str {
        match self.is_met {
            Some(true) => "✓",
            Some(false) => "✗",
            None => "",
        }
    }

    /// Returns the fault of a figure that was read from a file.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match () {
            () if self.name.trim().is_empty() => Some("a figure has no name"),
            () if self.goal.is_empty() != self.is_met.is_none() => Some("`goal` and `is_met` belong together"),
            () if self.value.is_none() && self.is_met == Some(true) => Some("what was not measured meets no goal"),
            () if [self.value, self.linux].iter().flatten().any(|value| !value.is_finite()) => Some("no number"),
            () => None,
        }
    }

    fn show(&self, value: Option<f64>) -> Option<String> {
        let number = format!("{:.*}", usize::from(self.decimals), value?);
        Some(if self.unit.is_empty() { number } else { format!("{number} {}", self.unit) })
    }
}

/// Returns a number as the digits that mean something say it.
fn rounded(value: f64, decimals: u8) -> Option<f64> {
    let text = format!("{value:.*}", usize::from(decimals));
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_with_its_digits_and_its_unit() {
        let figure = Figure::new("boot", 1.0, 2, "s").linux(4.4449).goal("<= 3 s", true);
        assert_eq!(
            (figure.ours(), figure.theirs(), figure.ratio(), figure.mark()),
            ("1.00 s".into(), "4.44 s".into(), "0.23".into(), "✓")
        );
        assert_eq!(Figure::count("crashes", 300).ours(), "300");
    }

    #[test]
    fn numbers_that_are_not_positive_have_no_ratio() {
        let ratio = |ours, linux| Figure::new("on its bill", ours, 1, "%").linux(linux).ratio();
        assert_eq!([ratio(52.5, -5.5), ratio(-5.5, 52.5), ratio(-2.0, -1.0)], ["", "", ""]);
        assert_eq!([ratio(0.0, 15.0), ratio(15.0, 0.0), ratio(66.4, 45.7)], ["", "", "1.45"]);
    }

    #[test]
    fn what_is_no_number_was_not_measured() {
        let figure = Figure::new("boot", f64::INFINITY, 2, "s").linux(f64::NAN);
        assert_eq!((figure.value, figure.linux, figure.ours()), (None, None, "not measured".into()));
    }

    #[test]
    fn a_promise_without_its_state_and_a_state_without_its_promise_are_faults() {
        let figure = Figure::new("x", 1.0, 0, "");
        assert_eq!(figure.fault(), None);
        assert!(Figure { goal: "< 2".into(), ..figure.clone() }.fault().is_some());
        assert!(Figure { is_met: Some(true), ..figure.clone() }.fault().is_some());
        assert!(Figure { value: None, ..figure.goal("< 2", true) }.fault().is_some());
    }
}
