//! The events of the machine in the live view: as `gyre events` has them, the newest first.
//!
//! * [`Events`] keeps those of the file, and reads it again only if that has changed: the screen is drawn several times a second.
//! * [`draw`] shows those of a tenant, or all. Those of earlier runs are dim.

use std::path::PathBuf;

use jiff::Timestamp;
use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    widgets::{Block, Row, Table},
};

use super::super::harmless::{cut, harmless};
use crate::{
    machines::{
        events::{self, Event},
        info::Info,
    },
    project::Project,
};

/// Characters of an event that can be seen.
const EVENT_MAX: usize = 400;
/// Characters of a tenant's name that have room.
const NAME_WIDTH: u16 = 16;
/// Characters of a time: "11-29 01:02:03".
const TIME_WIDTH: u16 = 14;

/// The events of a machine.
#[derive(Default)]
pub(super) struct Events {
    /// The folder of the run; none if there is none.
    folder: Option<PathBuf>,
    /// When this run began.
    began: Timestamp,
    /// The length of the file that was read.
    bytes: u64,
    /// The oldest first.
    all: Vec<Event>,
}

impl Events {
    /// Finds the events of a machine.
    pub(super) fn of(machine: &str) -> Self {
        let folder = Project::find().and_then(|project| project.run_folder(machine)).ok();
        Self { folder, ..Self::default() }
    }

    /// Reads them if there are others than before. A file that cannot be read has none.
    pub(super) fn look(&mut self) {
        let Some(folder) = &self.folder else { return };
        let bytes = std::fs::metadata(events::path(folder)).map_or(0, |data| data.len());
        if bytes != self.bytes {
            let began = Info::read(folder).and_then(|info| Timestamp::from_millisecond(info.started_unix_ms).ok());
            self.began = began.unwrap_or(Timestamp::UNIX_EPOCH);
            (self.bytes, self.all) = (bytes, events::read(folder).unwrap_or_default());
        }
    }
}

/// Draws the events of a tenant, or all, below so many that are scrolled away; returns how many are.
pub(super) fn draw(frame: &mut Frame, area: Rect, events: &Events, whose: Option<&str>, above: usize) -> usize {
    let is_wanted = |event: &&Event| whose.is_none() || event.tenant.as_deref() == whose;
    let wanted: Vec<&Event> = events.all.iter().rev().filter(is_wanted).collect();
    let lines = usize::from(area.height.saturating_sub(2)).max(1);
    let above = above.min(wanted.len().saturating_sub(lines));
    let rows: Vec<Row> = wanted.iter().skip(above).take(lines).map(|event| row(event, events.began)).collect();
    let place = match wanted.len() {
        0 => "no events".to_owned(),
        all if all > rows.len() => format!("{}-{} of {all} events", above + 1, above + rows.len()),
        all => format!("{all} events"),
    };
    let of = whose.map_or_else(String::new, |name| format!(" of {}", harmless(name)));
    let widths = [Constraint::Length(TIME_WIDTH), Constraint::Length(NAME_WIDTH), Constraint::Fill(1)];
    let title = format!(" {place}{of}, the newest first ");
    frame.render_widget(Table::new(rows, widths).column_spacing(2).block(Block::bordered().title(title)), area);
    above
}

fn row(event: &Event, began: Timestamp) -> Row<'static> {
    let time = event.at().strftime("%m-%d %H:%M:%S").to_string();
    let tenant = harmless(event.tenant.as_deref().unwrap_or("-"));
    let style = if event.at() < began { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
    Row::new([time, tenant, harmless(&cut(&event.event, EVENT_MAX))]).style(style)
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    fn lines(events: &Events, whose: Option<&str>, above: usize) -> (Vec<String>, usize) {
        let mut terminal = Terminal::new(TestBackend::new(80, 6)).unwrap();
        let mut shown = 0;
        terminal.draw(|frame| shown = draw(frame, frame.area(), events, whose, above)).unwrap();
        let cells: Vec<&str> = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        (cells.chunks(80).map(|line| line.concat()).collect(), shown)
    }

    #[test]
    fn the_newest_is_the_first_and_no_event_writes_on_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Events { folder: Some(folder.path().to_owned()), ..Events::default() };
        kept.look();
        assert!(lines(&kept, None, 0).0[0].contains("no events"));
        for number in 0..9 {
            let tenant = (number % 2 == 0).then_some("gold");
            events::add(folder.path(), &Event::now(tenant, &format!("\x1b[2Jevent {number}"))).unwrap();
        }
        kept.look();
        let (all, _) = lines(&kept, None, 0);
        assert!(
            all[0].contains("1-4 of 9 events") && all[1].contains("gold") && all[1].contains("␛[2Jevent 8"),
            "{all:?}"
        );
        let (last, above) = lines(&kept, None, usize::MAX);
        assert!(last[4].contains("event 0") && above == 5, "{last:?}");
        let (golden, _) = lines(&kept, Some("gold"), 0);
        assert!(golden[0].contains("of 5 events of gold") && golden[2].contains("event 6"), "{golden:?}");
    }
}
