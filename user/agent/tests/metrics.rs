//! The page of figures, of a machine that exists in a formula only.
#![allow(missing_docs)]

mod fake;

use fake::Fake;
use gyre_agent::{metrics::text, source::Source as _};

#[test]
fn every_sample_line_is_a_name_labels_and_a_number() {
    let text = text(&Fake::default().snapshot().unwrap());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(name.starts_with("gyre_") || name.starts_with("container_"), "{line}");
        assert_eq!(name.matches('"').count() % 2, 0, "{line}");
    }
    assert!(text.contains("container_cpu_usage_seconds_total{name=\"gold\"}"));
    assert!(text.contains("gyre_core_seconds_total{core=\"1\",state=\"idle\"}"));
}
