//! The live view in the terminal.
//!
//! * [`watch`] shows it: a headline, zones, [`tenants`], a [`chart`], cores, and lines for troubles and keys.
//! * [`one`] is the page of one tenant: its state, a chart, its processes and its last words.
//! * Parts without room go: the chart first, then the cores; the table of tenants scrolls.
//!
//! Keys choose, sort, filter and scroll; they change the view only, never the machine.
//!
//! The sampler gives a sample each second; the screen is drawn five times a second, so that keys are felt at once.

mod chart;
mod one;
mod tenants;
mod zones;

use std::{
    io::{IsTerminal as _, stdout},
    os::fd::AsFd as _,
    sync::Arc,
    time::Duration,
};

use gyre_machine_file::units::show_bits_per_second;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ratatui::{
    DefaultTerminal, Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Paragraph},
};

use super::{Sample, Sampler, harmless::harmless, sample::settled};
use crate::{
    failure::{Context as _, Result},
    terminal::{Held, Screen},
    ui,
};
use tenants::Choice;

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
/// One step of the loop: short enough for keys, long enough to cost nothing.
const STEP: Duration = Duration::from_millis(200);

/// The user's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Stay,
    /// End.
    Leave,
}

/// Returns whether a live view can be shown: the terminal is one.
pub fn is_possible() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Shows the view until the user or `over` ends it. The terminal is as before at the end, also after an error.
///
/// # Errors
/// An error of `over`, or of the terminal.
pub fn watch(
    sampler: &Arc<Sampler>,
    title: &str,
    leaving: Leaving,
    mut over: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let held = Held::take(Screen::Own)?;
    let failed = || "the terminal does not work".to_owned();
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout())).context(failed)?;
    terminal.clear().context(failed)?;
    let shown = run(&mut terminal, &held, sampler, title, leaving, &mut over)?;
    if shown == Shown::Lost {
        // The text of a panic stands on the screen; what runs goes on.
        while !over()? {
            std::thread::sleep(STEP);
        }
    }
    Ok(())
}

/// The way in which a view came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// It is over.
    Over,
    /// The terminal is ours no more.
    Lost,
}

fn run(
    terminal: &mut DefaultTerminal,
    held: &Held,
    sampler: &Sampler,
    title: &str,
    leaving: Leaving,
    over: &mut impl FnMut() -> Result<bool>,
) -> Result<Shown> {
    let (mut question, mut choice) = (Question::None, Choice::default());
    loop {
        if !held.is_ours() {
            return Ok(Shown::Lost);
        }
        let history = sampler.history();
        let history = settled(&history);
        terminal
            .draw(|frame| match (&choice.page, history.last()) {
                (Some(name), Some(_)) => draw_one(frame, sampler, history, name, &choice),
                _ => draw(frame, title, history, question, &choice),
            })
            .context(|| "the terminal does not work".into())?;
        if over()? {
            return Ok(Shown::Over);
        }
        let keys = match input()? {
            Input::Gone => return Ok(Shown::Over),
            Input::Nothing => vec![],
            Input::Ready => keys()?,
        };
        for key in keys {
            let is_own = question == Question::None && !is_control_c(key);
            if is_own && choice.key(key, history.last()) {
                continue;
            }
            let (wish, next) = answered(question, leaving, Some(key));
            question = next;
            if wish == Wish::Leave {
                return Ok(Shown::Over);
            }
        }
    }
}

/// The question on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Nothing.
    None,
    /// Whether the machine is to end.
    End,
}

/// The effect of leaving the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The view ends and nothing else.
    View,
    /// The machine ends for all its tenants: it is asked for.
    Machine,
}

fn is_control_c(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Returns the meaning of a key; Ctrl-C is clear by itself.
fn answered(question: Question, leaving: Leaving, key: Option<KeyEvent>) -> (Wish, Question) {
    let Some(key) = key else { return (Wish::Stay, question) };
    let is_leave = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    match (question, key.code) {
        _ if is_control_c(key) => (Wish::Leave, Question::None),
        (Question::End, KeyCode::Char('y' | 'Y')) => (Wish::Leave, Question::None),
        (Question::End, _) => (Wish::Stay, Question::None),
        (Question::None, _) if is_leave && leaving == Leaving::View => (Wish::Leave, Question::None),
        (Question::None, _) if is_leave => (Wish::Stay, Question::End),
        _ => (Wish::Stay, Question::None),
    }
}

/// The terminal's news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// None within a step.
    Nothing,
    /// Something was typed.
    Ready,
    /// The terminal has vanished.
    Gone,
}

/// Waits for a step at most. crossterm reads the end of a terminal that has vanished again and again, so it is not asked then.
fn input() -> Result<Input> {
    let stdin = std::io::stdin();
    let mut waited = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let step = PollTimeout::try_from(STEP).unwrap_or(PollTimeout::ZERO);
    match poll(&mut waited, step) {
        Ok(0) | Err(Errno::EINTR) => return Ok(Input::Nothing),
        Ok(_) => {}
        Err(error) => return Err(error).context(|| "the terminal does not work".into()),
    }
    let told = waited.iter().filter_map(PollFd::revents).fold(PollFlags::empty(), |all, one| all | one);
    let is_gone = told.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL);
    Ok(if is_gone { Input::Gone } else { Input::Ready })
}

/// Returns all keys that were pressed: crossterm may have read several at once, and those are not waited for again.
fn keys() -> Result<Vec<KeyEvent>> {
    let failed = || "the terminal does not work".to_owned();
    let mut keys = vec![];
    while event::poll(Duration::ZERO).context(failed)? {
        match event::read().context(failed)? {
            Event::Key(key) if key.kind == KeyEventKind::Press => keys.push(key),
            _ => {}
        }
    }
    Ok(keys)
}

fn draw_one(frame: &mut Frame, sampler: &Sampler, history: &[Sample], name: &str, choice: &Choice) {
    let [page, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    one::draw(frame, page, sampler, history, &one::Shown { name, value: choice.chart });
    frame.render_widget(Paragraph::new(choice.help()).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

/// Least lines of a chart that says something.
const CHART_LINES: u16 = 8;

/// Draws the machine. If there is little room, the chart goes first, then the cores: who has what stays.
fn draw(frame: &mut Frame, title: &str, history: &[Sample], question: Question, choice: &Choice) {
    let Some(last) = history.last() else {
        frame.render_widget(Paragraph::new("waiting for the first second ..."), frame.area());
        return;
    };
    let all = frame.area().height;
    let zones = if last.zones.is_empty() { 0 } else { last.zones.len() as u16 + 3 };
    let cores = last.cores.len().max(1) as u16 + 2;
    let wanted = u16::try_from(tenants::chosen(last, choice).len()).unwrap_or(u16::MAX).saturating_add(3);
    let feet = 1 + u16::from(has_news(last, question, choice));
    let left = all.saturating_sub(1).saturating_sub(feet).saturating_sub(zones);
    let cores = if left >= cores.saturating_add(6) { cores } else { 0 };
    let left = left.saturating_sub(cores);
    let chart = if left >= wanted.saturating_add(CHART_LINES) { left.saturating_sub(wanted) } else { 0 };
    let rows = [
        Constraint::Length(1),
        Constraint::Length(zones),
        Constraint::Fill(1),
        Constraint::Length(chart),
        Constraint::Length(cores),
        Constraint::Length(feet),
    ];
    let [head, panel, table, chart, partition, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(headline(title, last), head);
    frame.render_widget(zones::table(last), panel);
    frame.render_widget(tenants::table(last, choice, table), table);
    if chart.height >= CHART_LINES {
        chart::draw(frame, chart, history, choice.chart, &tenants::chosen(last, choice));
    }
    frame.render_widget(core_bars(last, partition), partition);
    frame.render_widget(footer(last, question, choice), foot);
}

/// Returns whether there are troubles to tell, and nothing that is asked or typed.
fn has_news(last: &Sample, question: Question, choice: &Choice) -> bool {
    question == Question::None && !last.troubles.is_empty() && choice.typing == tenants::Typing::Commands
}

/// Returns the question, or else the troubles and the keys, or what is typed.
fn footer(last: &Sample, question: Question, choice: &Choice) -> Paragraph<'static> {
    let bad = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    let keys = Line::styled(choice.help(), Style::new().add_modifier(Modifier::DIM));
    let troubles = || harmless(&last.troubles.join(" · "));
    match question {
        Question::End => {
            Paragraph::new("End the machine for all its tenants? y: end it, any other key: go on").style(bad)
        }
        Question::None if has_news(last, question, choice) => Paragraph::new(vec![Line::styled(troubles(), bad), keys]),
        Question::None => Paragraph::new(keys),
    }
}

fn headline<'a>(title: &'a str, last: &Sample) -> Paragraph<'a> {
    let used = show_bits_per_second(last.sent_bits_per_second);
    let link = last.link_bits_per_second.map_or(String::new(), |rate| {
        format!(" of {} ({:.1} %)", show_bits_per_second(rate as f64), last.sent_bits_per_second * 100.0 / rate as f64)
    });
    let clock = jiff::Timestamp::now().strftime("%H:%M:%S UTC").to_string();
    let up = last.uptime_s.map_or_else(|| "no answer".into(), |seconds| format!("up {}", up(seconds)));
    let rest = format!("   {clock}   {up}   sending {used}{link}");
    Paragraph::new(Line::from(vec![Span::styled(title, Style::new().add_modifier(Modifier::BOLD)), Span::raw(rest)]))
}

/// Writes how long a machine runs.
fn up(seconds: f64) -> String {
    ui::age(Duration::from_secs_f64(seconds.clamp(0.0, 1e12)))
}

/// The system tenant is grey; customers follow the palette.
fn colour(index: usize) -> Color {
    match index.checked_sub(1) {
        None => Color::DarkGray,
        Some(index) => COLOURS.get(index % COLOURS.len()).copied().unwrap_or(Color::Reset),
    }
}

/// Returns each core as one bar: tenants in their colours, then scheduling and time without a tenant, idle empty.
fn core_bars(last: &Sample, area: Rect) -> Paragraph<'static> {
    if last.cores.is_empty() {
        return Paragraph::new("the machine's agent does not answer").block(Block::bordered().title(" cores "));
    }
    let width = usize::from(area.width.saturating_sub(12));
    let lines: Vec<Line> = last.cores.iter().map(|core| core_line(core, last, width)).collect();
    Paragraph::new(lines).block(Block::bordered().title(" cores: who has each one's time "))
}

fn core_line(core: &super::sample::Core, last: &Sample, width: usize) -> Line<'static> {
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

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::view::sample::{Core, Tenant};

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
            cores: vec![Core { core: 0, zone: None, parts }],
            ..Sample::default()
        }
    }

    #[test]
    fn the_view_shows_who_gets_what_at_any_size() {
        for (width, height) in [(120, 30), (80, 24), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let history: Vec<Sample> = (0..5).map(|at| sample(f64::from(at))).collect();
            terminal.draw(|frame| draw(frame, "three", &history, Question::None, &Choice::default())).unwrap();
            let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
            assert!(
                width < 100 || (text.contains("gold") && text.contains("60.0 %") && text.contains("99.5 %")),
                "{text}"
            );
        }
    }

    #[test]
    fn zones_have_a_panel_and_their_tenants_stand_below_their_names() {
        let tenant = |zone: &str, name: &str| Tenant {
            name: name.into(),
            zone: Some(zone.into()),
            entitled_percent: 100.0,
            ..Tenant::default()
        };
        let zone = crate::view::sample::Zone {
            name: "search".into(),
            state: "running".into(),
            cores: 2,
            restarts: 3,
            last_line: "stands".into(),
            ..Default::default()
        };
        let sample = Sample { tenants: vec![tenant("search", "gold")], zones: vec![zone], ..sample(1.0) };
        let mut terminal = Terminal::new(TestBackend::new(130, 40)).unwrap();
        terminal
            .draw(|frame| draw(frame, "m", std::slice::from_ref(&sample), Question::None, &Choice::default()))
            .unwrap();
        let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        for word in [" zones ", "search", "running", "stands", "gold"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.find("search").unwrap() < text.find("gold").unwrap());
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
}
