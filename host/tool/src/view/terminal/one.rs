//! One tenant in the live view: its state, a chart, its processes, its last lines.

use gyre_contract::bill;
use gyre_machine_file::units::show_bytes;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    widgets::{Block, Paragraph},
};

use super::{
    super::{
        Sample, Sampler,
        harmless::{cut, harmless},
        sample::Tenant,
        wait,
    },
    chart::{self, Value},
};
use crate::{bill::process_table, machines::log::Excerpt, project::Project};

/// Characters of a line of the log that can be seen.
const LINE_MAX: usize = 400;
/// Lines of the chart, and lines of the screen from which on there is one.
const CHART_LINES: u16 = 10;
const CHART_FROM: u16 = 28;

/// The subject of the page.
pub(super) struct Shown<'a> {
    /// The tenant.
    pub name: &'a str,
    /// The value of its chart.
    pub value: Value,
}

/// Draws the page of a tenant, with the chart of a value. If there is little room, the chart goes first.
pub(super) fn draw(frame: &mut Frame, area: Rect, sampler: &Sampler, history: &[Sample], shown: &Shown) {
    let Shown { name, value } = *shown;
    let Some(last) = history.last() else { return };
    let chart = if area.height >= CHART_FROM { CHART_LINES } else { 0 };
    let rows = [Constraint::Length(4), Constraint::Length(chart), Constraint::Percentage(35), Constraint::Fill(1)];
    let [head, plot, processes, log] = Layout::vertical(rows).areas(area);
    let found = last.tenants.iter().enumerate().find(|(_, one)| one.name == name);
    let words = found.map_or_else(|| "it has left the machine".into(), |(_, one)| words(one));
    frame.render_widget(Paragraph::new(words).block(Block::bordered().title(format!(" {} ", harmless(name)))), head);
    if let Some(found) = found.filter(|_| chart > 0) {
        chart::draw(frame, plot, history, value, &[found]);
    }
    let table = Paragraph::new(table(sampler, name)).block(Block::bordered().title(" processes, since their start "));
    frame.render_widget(table, processes);
    let lines = lines(sampler, name);
    let first = lines.len().saturating_sub(usize::from(log.height.saturating_sub(2)));
    let text = lines.get(first..).unwrap_or_default().join("\n");
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" its last words ")), log);
}

/// Returns two lines: its state with the reason, and what it has now.
fn words(one: &Tenant) -> String {
    let state = if one.state.is_empty() { "the machine has not said how it is" } else { one.state.as_str() };
    let rights = if one.entitled_percent > 0.0 {
        format!("entitled to {:.1} %, gets {:.1} % · ", one.entitled_percent, one.sent_percent)
    } else {
        String::new()
    };
    let (held, limit) = (show_bytes(one.memory_bytes), show_bytes(one.memory_limit_bytes));
    let cpu = one.cpu_percent;
    format!("{}\n{rights}CPU {cpu:.1} % · {held} of {limit} · wait {}", harmless(state), wait(one.queued_us))
}

fn table(sampler: &Sampler, name: &str) -> String {
    let snapshots = sampler.last();
    let mut all: Vec<_> =
        snapshots.iter().flatten().flat_map(bill::processes).filter(|one| one.tenant == name).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.cycles));
    let rate = snapshots.iter().flatten().next().map_or(1, |snapshot| snapshot.cycles_per_second);
    if all.is_empty() { "it has none".into() } else { process_table(&all, rate) }
}

/// Returns the last lines that a tenant wrote, as `gyre run` keeps them.
fn lines(sampler: &Sampler, name: &str) -> Vec<String> {
    let folder = Project::find().and_then(|project| project.run_folder(&sampler.machine));
    let end = folder.and_then(|folder| Excerpt::read(&folder, name, None)).unwrap_or_default();
    end.lines.iter().map(|line| harmless(&cut(&line.text(), LINE_MAX))).collect()
}
