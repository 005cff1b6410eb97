//! The cores in the live view: who has each one's time.

use ratatui::{
    layout::Rect,
    style::{Color, Style},
    text::{Line, Span},
    widgets::{Block, Paragraph},
};

use super::{
    super::sample::{Core, Sample},
    colour,
};

/// Returns each core as one bar: tenants in their colours, then scheduling and time without a tenant, idle empty.
pub(super) fn bars(last: &Sample, area: Rect) -> Paragraph<'static> {
    if last.cores.is_empty() {
        return Paragraph::new("the machine's agent does not answer").block(Block::bordered().title(" cores "));
    }
    let width = usize::from(area.width.saturating_sub(12));
    let lines: Vec<Line> = last.cores.iter().map(|core| line(core, last, width)).collect();
    Paragraph::new(lines).block(Block::bordered().title(" cores: who has each one's time "))
}

fn line(core: &Core, last: &Sample, width: usize) -> Line<'static> {
    let name = core.zone.as_ref().map_or_else(|| format!("core {:<2} ", core.core), |zone| zone_core(zone, core.core));
    let mut spans = vec![Span::raw(name)];
    let (mut sum, mut drawn) = (0.0, 0);
    for (name, percent) in &core.parts {
        sum += percent;
        let until = (sum / 100.0 * width as f64).round() as usize;
        let cell = if name == "idle" { "·" } else { "█" };
        let index = last.tenants.iter().position(|tenant| tenant.name == *name);
        let style = match (index, name.as_str()) {
            (Some(index), _) => Style::new().fg(colour(index)),
            (None, "idle") => Style::new().fg(Color::DarkGray),
            (None, "unattributed") => Style::new().fg(Color::Red),
            (None, _) => Style::new().fg(Color::Blue),
        };
        spans.push(Span::styled(cell.repeat(until.saturating_sub(drawn)), style));
        drawn = drawn.max(until);
    }
    Line::from(spans)
}

/// A core of a zone, in the room that cores have.
fn zone_core(zone: &str, core: u16) -> String {
    let short: String = zone.chars().take(5).collect();
    format!("{short:<5}{core:<2} ")
}
