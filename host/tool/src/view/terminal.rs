//! The live view in the terminal.

use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use gyre_config::file::units::{show_bits_per_second, show_bytes};
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::Marker,
    text::{Line, Span},
    widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table},
};

use super::{Sample, Sampler, sample::Tenant};
use crate::failure::{Context as _, Result};

const COLOURS: &[Color] = &[
    Color::Rgb(217, 164, 0),
    Color::Rgb(150, 163, 180),
    Color::Rgb(190, 112, 62),
    Color::Rgb(59, 130, 246),
    Color::Rgb(16, 185, 129),
    Color::Rgb(168, 85, 247),
    Color::Rgb(239, 68, 68),
    Color::Rgb(20, 184, 166),
];
/// Seconds that the chart shows.
const CHART_SECONDS: usize = 60;
/// One step of the loop: short enough for keys, long enough to cost nothing.
const STEP: Duration = Duration::from_millis(200);

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Stay,
    /// End.
    Leave,
}

/// Whether a live view can be shown: the terminal is one.
pub fn is_possible() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Shows the view until the user or `over` ends it; the terminal is as before at the end, whatever happens.
///
/// # Errors
/// What `over` says, or the terminal.
pub fn watch(
    sampler: &Arc<Sampler>,
    title: &str,
    leaving: Leaving,
    mut over: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let mut terminal = ratatui::try_init().context(|| "the terminal does not work".into())?;
    let cleared = terminal.clear().context(|| "the terminal does not work".into());
    let ended = cleared.and_then(|()| run(&mut terminal, sampler, title, leaving, &mut over));
    ratatui::restore();
    ended
}

fn run(
    terminal: &mut DefaultTerminal,
    sampler: &Sampler,
    title: &str,
    leaving: Leaving,
    over: &mut impl FnMut() -> Result<bool>,
) -> Result<()> {
    let mut question = Question::None;
    loop {
        let history = sampler.history();
        terminal
            .draw(|frame| draw(frame, title, &history, question))
            .context(|| "the terminal does not work".into())?;
        if over()? {
            return Ok(());
        }
        let (wish, next) = answered(question, leaving, key()?);
        question = next;
        if wish == Wish::Leave {
            return Ok(());
        }
    }
}

/// What is asked on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Nothing.
    None,
    /// Whether the machine is to end.
    End,
}

/// What leaving the view means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The view ends and nothing else.
    View,
    /// The machine ends for all its tenants: it is asked for.
    Machine,
}

/// What a key means; Ctrl-C is clear by itself.
fn answered(question: Question, leaving: Leaving, key: Option<KeyEvent>) -> (Wish, Question) {
    let Some(key) = key else { return (Wish::Stay, question) };
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_leave = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    match (question, key.code) {
        _ if is_control_c => (Wish::Leave, Question::None),
        (Question::End, KeyCode::Char('y' | 'Y')) => (Wish::Leave, Question::None),
        (Question::End, _) => (Wish::Stay, Question::None),
        (Question::None, _) if is_leave && leaving == Leaving::View => (Wish::Leave, Question::None),
        (Question::None, _) if is_leave => (Wish::Stay, Question::End),
        _ => (Wish::Stay, Question::None),
    }
}

fn key() -> Result<Option<KeyEvent>> {
    let failed = || "the terminal does not work".to_owned();
    if !event::poll(STEP).context(failed)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read().context(failed)? else { return Ok(None) };
    Ok(Some(key).filter(|key| key.kind == KeyEventKind::Press))
}

fn draw(frame: &mut Frame, title: &str, history: &[Sample], question: Question) {
    let Some(last) = history.last() else {
        frame.render_widget(Paragraph::new("waiting for the first second ..."), frame.area());
        return;
    };
    let tenants = last.tenants.len() as u16 + 3;
    let cores = last.cores.len().max(1) as u16 + 2;
    let rows = [
        Constraint::Length(1),
        Constraint::Length(tenants),
        Constraint::Min(6),
        Constraint::Length(cores),
        Constraint::Length(1),
    ];
    let [head, table, chart, partition, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(headline(title, last), head);
    frame.render_widget(tenant_table(last), table);
    draw_chart(frame, chart, history);
    frame.render_widget(core_bars(last, partition), partition);
    frame.render_widget(footer(last, question), foot);
}

/// The question, else what is wrong, else the keys.
fn footer(last: &Sample, question: Question) -> Paragraph<'static> {
    let bad = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    match (question, last.troubles.is_empty()) {
        (Question::End, _) => {
            Paragraph::new("End the machine for all its tenants? y: end it, any other key: go on").style(bad)
        }
        (Question::None, false) => Paragraph::new(last.troubles.join(" · ")).style(bad),
        (Question::None, true) => Paragraph::new("q or Ctrl-C: end").style(Style::new().add_modifier(Modifier::DIM)),
    }
}

fn headline<'a>(title: &'a str, last: &Sample) -> Paragraph<'a> {
    let used = show_bits_per_second(last.sent_bits_per_second);
    let link = last.link_bits_per_second.map_or(String::new(), |rate| {
        format!(" of {} ({:.1} %)", show_bits_per_second(rate as f64), last.sent_bits_per_second * 100.0 / rate as f64)
    });
    let rest = format!("   {:.0} s   sending {used}{link}", last.at_s);
    Paragraph::new(Line::from(vec![Span::styled(title, Style::new().add_modifier(Modifier::BOLD)), Span::raw(rest)]))
}

fn tenant_table(last: &Sample) -> Table<'static> {
    let head = Row::new(["tenant", "entitled", "gets", "", "sends", "CPU", "memory", "messages/s", "wait"])
        .style(Style::new().add_modifier(Modifier::DIM));
    let rows = last.tenants.iter().enumerate().map(|(index, tenant)| tenant_row(index, tenant));
    let widths = [12, 9, 8, 22, 13, 8, 22, 11, 10].map(Constraint::Length);
    Table::new(rows, widths).header(head).block(Block::bordered().title(" tenants "))
}

fn tenant_row(index: usize, tenant: &Tenant) -> Row<'static> {
    let customer = tenant.entitled_percent > 0.0;
    let of_customers = |text: String| if customer { text } else { String::new() };
    let memory = format!("{} of {}", show_bytes(tenant.memory_bytes), show_bytes(tenant.memory_limit_bytes));
    let cells = vec![
        Span::styled(tenant.name.clone(), Style::new().fg(colour(index))),
        Span::raw(of_customers(format!("{:5.1} %", tenant.entitled_percent))),
        Span::styled(of_customers(format!("{:5.1} %", tenant.sent_percent)), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(of_customers(bar(tenant.sent_percent, 20)), Style::new().fg(colour(index))),
        Span::raw(show_bits_per_second(tenant.sent_bits_per_second)),
        Span::raw(format!("{:5.1} %", tenant.cpu_percent)),
        Span::raw(if tenant.memory_limit_bytes > 0 { memory } else { "-".into() }),
        Span::raw(format!("{:.0}", tenant.messages_per_second)),
        Span::raw(format!("{:.1} us", tenant.queued_us)),
    ];
    Row::new(cells)
}

/// The system tenant is grey; customers follow the palette.
fn colour(index: usize) -> Color {
    match index.checked_sub(1) {
        None => Color::DarkGray,
        Some(index) => COLOURS.get(index % COLOURS.len()).copied().unwrap_or(Color::Reset),
    }
}

fn bar(percent: f64, width: usize) -> String {
    let eighths = (percent.clamp(0.0, 100.0) / 100.0 * width as f64 * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8).copied().unwrap_or("");
    "█".repeat(eighths / 8) + rest
}

fn draw_chart(frame: &mut Frame, area: Rect, history: &[Sample]) {
    let recent = history.get(history.len().saturating_sub(CHART_SECONDS)..).unwrap_or_default();
    let (Some(first), Some(last)) = (recent.first(), recent.last()) else {
        return;
    };
    let customers: Vec<(usize, &Tenant)> =
        last.tenants.iter().enumerate().filter(|(_, tenant)| tenant.entitled_percent > 0.0).collect();
    let point = |index: usize| move |sample: &Sample| Some((sample.at_s, sample.tenants.get(index)?.sent_percent));
    let series: Vec<Vec<(f64, f64)>> =
        customers.iter().map(|(index, _)| recent.iter().filter_map(point(*index)).collect()).collect();
    let dots = |percent: f64| -> Vec<(f64, f64)> {
        (0..40)
            .map(|step| (first.at_s + f64::from(step) / 40.0 * (last.at_s - first.at_s).max(10.0), percent))
            .collect()
    };
    let levels: Vec<Vec<(f64, f64)>> = customers.iter().map(|(_, tenant)| dots(tenant.entitled_percent)).collect();
    let entitled = customers.iter().zip(&levels).map(|((index, _), points)| {
        let style = Style::new().fg(colour(*index)).add_modifier(Modifier::DIM);
        Dataset::default().marker(Marker::Dot).style(style).data(points)
    });
    let lines = customers.iter().zip(&series).map(|((index, tenant), points)| {
        let style = Style::new().fg(colour(*index));
        Dataset::default()
            .name(tenant.name.clone())
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(style)
            .data(points)
    });
    let top = customers.iter().map(|(_, tenant)| tenant.entitled_percent.max(tenant.sent_percent)).fold(50.0, f64::max);
    let top = (top / 10.0).ceil() * 10.0;
    let seconds = [first.at_s, last.at_s.max(first.at_s + 10.0)];
    let x = Axis::default().bounds(seconds).labels(seconds.map(|second| format!("{second:.0} s")));
    let y = Axis::default().bounds([0.0, top]).labels([
        "0 %".to_owned(),
        format!("{:.0} %", top / 2.0),
        format!("{top:.0} %"),
    ]);
    let chart = Chart::new(entitled.chain(lines).collect())
        .block(Block::bordered().title(" part of the link, each second (dotted: entitled) "))
        .x_axis(x)
        .y_axis(y);
    frame.render_widget(chart, area);
}

/// Each core as one bar: tenants in their colours, then scheduling and what is nobody's, idle empty.
fn core_bars(last: &Sample, area: Rect) -> Paragraph<'static> {
    if last.cores.is_empty() {
        return Paragraph::new("the machine's agent does not answer").block(Block::bordered().title(" cores "));
    }
    let width = usize::from(area.width.saturating_sub(12));
    let lines: Vec<Line> = last.cores.iter().map(|core| core_line(core, last, width)).collect();
    Paragraph::new(lines).block(Block::bordered().title(" cores: who has each one's time "))
}

fn core_line(core: &super::sample::Core, last: &Sample, width: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("core {:<2} ", core.core))];
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

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::view::sample::Core;

    fn sample(at_s: f64) -> Sample {
        let tenant = |name: &str, entitled_percent| Tenant {
            name: name.into(),
            entitled_percent,
            sent_percent: entitled_percent,
            ..Tenant::default()
        };
        let parts = vec![("gold".to_owned(), 40.0), ("scheduling".to_owned(), 10.0), ("idle".to_owned(), 50.0)];
        Sample {
            at_s,
            link_bits_per_second: Some(20_000_000),
            sent_bits_per_second: 19_900_000.0,
            tenants: vec![tenant("system", 0.0), tenant("gold", 60.0), tenant("silver", 40.0)],
            cores: vec![Core { core: 0, parts }],
            ..Sample::default()
        }
    }

    #[test]
    fn the_view_shows_who_gets_what_at_any_size() {
        for (width, height) in [(120, 30), (80, 24), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let history: Vec<Sample> = (0..5).map(|at| sample(f64::from(at))).collect();
            terminal.draw(|frame| draw(frame, "three", &history, Question::None)).unwrap();
            let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
            assert!(
                width < 100 || (text.contains("gold") && text.contains("60.0 %") && text.contains("99.5 %")),
                "{text}"
            );
        }
    }

    #[test]
    fn q_asks_before_it_ends_a_machine_and_leaves_a_view_at_once() {
        let key = |code| Some(KeyEvent::new(code, KeyModifiers::NONE));
        let q = key(KeyCode::Char('q'));
        assert_eq!(answered(Question::None, Leaving::View, q), (Wish::Leave, Question::None));
        assert_eq!(answered(Question::None, Leaving::Machine, q), (Wish::Stay, Question::End));
        assert_eq!(answered(Question::End, Leaving::Machine, None), (Wish::Stay, Question::End));
        assert_eq!(answered(Question::End, Leaving::Machine, key(KeyCode::Char('n'))), (Wish::Stay, Question::None));
        assert_eq!(answered(Question::End, Leaving::Machine, key(KeyCode::Char('y'))), (Wish::Leave, Question::None));
        let control_c = Some(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(answered(Question::None, Leaving::Machine, control_c), (Wish::Leave, Question::None));
    }

    #[test]
    fn bars_are_proportional() {
        assert_eq!(bar(50.0, 4), "██");
        assert_eq!(bar(-5.0, 4), "");
        assert_eq!(bar(1000.0, 4), "████");
    }
}
