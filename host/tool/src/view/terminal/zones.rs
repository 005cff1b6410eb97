//! The panel of zones in the live view.

use gyre_machine_file::units::show_bytes;
use ratatui::{
    layout::Constraint,
    style::{Color, Modifier, Style},
    text::Span,
    widgets::{Block, Row, Table},
};

use super::super::{
    harmless::harmless,
    sample::{Sample, Zone},
};

const STRONG: Modifier = Modifier::BOLD;

/// Shows each zone in a row, with the last line that its kernel has printed.
pub(super) fn table(last: &Sample) -> Table<'static> {
    let head = Row::new(["zone", "state", "cores", "memory", "up for", "restarts", "crashes", "console"])
        .style(Style::new().add_modifier(Modifier::DIM));
    let widths = [12, 12, 6, 10, 9, 9, 8].map(Constraint::Length);
    let widths = widths.into_iter().chain([Constraint::Fill(1)]);
    Table::new(last.zones.iter().map(row), widths).header(head).block(Block::bordered().title(" zones "))
}

fn row(zone: &Zone) -> Row<'static> {
    let colour = match zone.state.as_str() {
        "running" => Color::Green,
        state if state.starts_with("crashed") => Color::Red,
        _ => Color::DarkGray,
    };
    Row::new([
        Span::styled(zone.name.clone(), Style::new().add_modifier(STRONG)),
        Span::styled(zone.state.clone(), Style::new().fg(colour)),
        Span::raw(zone.cores.to_string()),
        Span::raw(show_bytes(zone.memory_bytes)),
        Span::raw(format!("{:.0} s", zone.uptime_s)),
        Span::raw(zone.restarts.to_string()),
        Span::raw(zone.crashed.to_string()),
        Span::styled(harmless(&zone.last_line), Style::new().add_modifier(Modifier::DIM)),
    ])
}
