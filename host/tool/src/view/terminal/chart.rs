//! The chart of the live view: one value of the tenants that have most of it, over wall clock time.
//!
//! * [`Value`] is what is drawn; a key chooses the next one.
//! * Axes begin at 0 and end at a round number, so that their half is one, too. Seconds without figures leave a gap, no zero.
//! * More tenants than there are colours cannot be told from each other: those that have most now are drawn, and the title says so.

use gyre_machine_file::units::show_bytes;
use ratatui::{
    Frame,
    layout::Rect,
    style::{Modifier, Style},
    symbols::Marker,
    widgets::{Axis, Block, Chart, Dataset, GraphType},
};

use super::{
    super::{
        sample::{Sample, Tenant},
        wait,
    },
    colour,
};

/// Seconds that the chart shows.
const SECONDS: usize = 60;
/// Lines that can be told from each other.
const LINES_MAX: usize = 8;
/// Dots of a level.
const DOTS: u32 = 40;

/// The value that is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// The part of the link, with the entitlement.
    #[default]
    Link,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes read and written.
    Disk,
    /// The mean wait of messages.
    Wait,
    /// The time that 99 of 100 answers keep.
    Latency,
}

impl Value {
    /// Returns the one after it.
    pub fn next(self) -> Self {
        match self {
            Self::Link => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Disk,
            Self::Disk => Self::Wait,
            Self::Wait => Self::Latency,
            Self::Latency => Self::Link,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Link => "part of the link (dotted: entitled)",
            Self::Cpu => "part of all cores",
            Self::Memory => "memory",
            Self::Disk => "disk, read and written",
            Self::Wait => "mean wait of messages",
            Self::Latency => "99 of 100 answers take at most",
        }
    }

    fn of(self, tenant: &Tenant) -> Option<f64> {
        match self {
            Self::Link => Some(tenant.sent_percent).filter(|_| tenant.entitled_percent > 0.0),
            Self::Cpu => Some(tenant.cpu_percent),
            Self::Memory => Some(tenant.memory_bytes as f64),
            Self::Disk => Some(tenant.read_bytes_per_second + tenant.written_bytes_per_second),
            Self::Wait => Some(tenant.queued_us),
            Self::Latency => tenant.answers.map(|answers| answers.p99_ms * 1000.0),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Link | Self::Cpu => format!("{value:.0} %"),
            Self::Memory => show_bytes(value as u64),
            Self::Disk => format!("{}/s", show_bytes(value as u64)),
            Self::Wait | Self::Latency => wait(value),
        }
    }

    /// The least height of the axis.
    fn floor(self) -> f64 {
        match self {
            Self::Link | Self::Cpu => 1.0,
            Self::Memory | Self::Disk => 1024.0,
            Self::Wait | Self::Latency => 1.0,
        }
    }

    /// Returns the height of the axis: a round number, of which the half is one, too.
    fn high(self, most: f64) -> f64 {
        let most = most.max(self.floor()) * 0.999_999;
        let base: f64 = if matches!(self, Self::Memory | Self::Disk) { 2.0 } else { 10.0 };
        let power = base.powf(most.log(base).floor());
        [1.0, 2.0, 4.0, 6.0, 8.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|high| *high >= most)
            .unwrap_or(most)
    }
}

/// A line: its name and colour, its points, and the level that it should have.
struct Line {
    name: String,
    index: usize,
    points: Vec<(f64, f64)>,
    level: Option<f64>,
}

/// Draws a value of these tenants, each with its place in the sample.
pub(super) fn draw(frame: &mut Frame, area: Rect, history: &[Sample], value: Value, tenants: &[(usize, &Tenant)]) {
    let recent = history.get(history.len().saturating_sub(SECONDS)..).unwrap_or_default();
    let (Some(first), Some(last)) = (recent.first(), recent.last()) else { return };
    let lines = lines(recent, value, tenants);
    let seconds = [first.at_s, last.at_s.max(first.at_s + 10.0)];
    let top = lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y).chain(line.level)).fold(0.0, f64::max);
    let high = value.high(top);
    let levels: Vec<Vec<(f64, f64)>> = lines.iter().map(|line| level(line, seconds)).collect();
    let levels = lines.iter().zip(&levels).map(|(line, points)| {
        let style = Style::new().fg(colour(line.index)).add_modifier(Modifier::DIM);
        Dataset::default().marker(Marker::Dot).style(style).data(points)
    });
    let drawn = lines.iter().map(|line| {
        Dataset::default()
            .name(line.name.clone())
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(colour(line.index)))
            .data(&line.points)
    });
    let x = Axis::default().bounds(seconds).labels(seconds.map(|second| clock(last, second)));
    let y = Axis::default().bounds([0.0, high]).labels([0.0, high / 2.0, high].map(|mark| value.show(mark)));
    let few = if lines.len() == LINES_MAX && tenants.len() > LINES_MAX { ", who has most" } else { "" };
    let title = format!(" {}, each second{few} ", value.title());
    frame.render_widget(
        Chart::new(levels.chain(drawn).collect()).block(Block::bordered().title(title)).x_axis(x).y_axis(y),
        area,
    );
}

/// Returns the lines of those tenants that have most now.
fn lines(recent: &[Sample], value: Value, tenants: &[(usize, &Tenant)]) -> Vec<Line> {
    let line = |(index, tenant): &(usize, &Tenant)| {
        let is_it = |one: &&Tenant| one.name == tenant.name && one.zone == tenant.zone;
        let answered = recent.iter().filter(|sample| sample.uptime_s.is_some() || sample.sent_bits_per_second > 0.0);
        let point = |sample: &Sample| Some((sample.at_s, value.of(sample.tenants.iter().find(is_it)?)?));
        let points: Vec<(f64, f64)> = answered.filter_map(point).collect();
        let level = (value == Value::Link).then_some(tenant.entitled_percent);
        (!points.is_empty()).then(|| Line { name: tenant.name.clone(), index: *index, points, level })
    };
    let mut lines: Vec<Line> = tenants.iter().filter_map(line).collect();
    let now = |line: &Line| line.points.last().map_or(0.0, |(_, y)| *y);
    if lines.len() > LINES_MAX {
        lines.sort_by(|a, b| now(b).total_cmp(&now(a)));
        lines.truncate(LINES_MAX);
    }
    lines
}

fn level(line: &Line, [begin, end]: [f64; 2]) -> Vec<(f64, f64)> {
    let at = |step: u32| begin + f64::from(step) / f64::from(DOTS) * (end - begin);
    line.level.map_or_else(Vec::new, |level| (0..DOTS).map(|step| (at(step), level)).collect())
}

/// Returns the wall clock time of a second of the view; the last sample is of now.
fn clock(last: &Sample, second: f64) -> String {
    let ago = jiff::SignedDuration::from_secs_f64((second - last.at_s).clamp(-1e6, 1e6));
    (jiff::Timestamp::now() + ago).strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_and_times_have_their_units() {
        let show = |value: Value, most| value.show(value.high(most));
        assert_eq!(show(Value::Cpu, 33.0), "40 %");
        assert_eq!(show(Value::Memory, 300e6), "512 MiB");
        assert_eq!(show(Value::Wait, 12_236.3), "20.0 ms");
        assert_eq!(show(Value::Disk, 0.0), "1.00 KiB/s");
        assert_eq!(show(Value::Latency, 900.0), "1.0 ms");
    }

    #[test]
    fn of_many_tenants_those_with_most_have_lines() {
        let tenant =
            |number: usize| Tenant { name: number.to_string(), cpu_percent: number as f64, ..Tenant::default() };
        let sample = Sample { uptime_s: Some(1.0), tenants: (0..60).map(tenant).collect(), ..Sample::default() };
        let all: Vec<(usize, &Tenant)> = sample.tenants.iter().enumerate().collect();
        let found = lines(std::slice::from_ref(&sample), Value::Cpu, &all);
        assert_eq!((found.len(), found[0].name.as_str(), found[0].index), (LINES_MAX, "59", 59));
        assert!(lines(std::slice::from_ref(&sample), Value::Latency, &all).is_empty(), "nobody has answered");
        let silent = Sample { uptime_s: None, ..sample.clone() };
        assert!(lines(&[silent], Value::Cpu, &all).is_empty(), "a second without figures is no zero");
    }
}
