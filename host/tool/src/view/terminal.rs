//! The live view in the terminal.
//!
//! * [`watch`] shows it: a headline, zones, [`tenants`], a [`chart`], [`cores`], and lines for troubles and keys.
//! * [`one`] is the page of one tenant: its state, a chart, its processes and its last words.
//! * [`events`] is the page of the events, of the machine or of one tenant.
//! * Parts without room go: the chart first, then the cores; the table of tenants scrolls.
//!
//! [`keys`] are waited for here. They choose, sort, filter and scroll ([`choice`]); they change the view only, never the machine.
//!
//! The sampler gives a sample each second; the screen is drawn five times a second, so that keys are felt at once.

mod chart;
mod choice;
mod cores;
mod events;
mod keys;
mod one;
mod tenants;
mod zones;

use std::{
    io::{IsTerminal as _, stdout},
    sync::Arc,
    time::Duration,
};

use gyre_machine_file::units::show_bits_per_second;
use ratatui::{
    DefaultTerminal, Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::event::KeyEvent,
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{Sample, Sampler, harmless::harmless, sample::settled};
use crate::{
    failure::{Context as _, Result},
    terminal::{Held, Screen},
    ui,
};
use choice::{Choice, Page, Typing};
use events::Events;
pub use keys::Leaving;
use keys::{Input, Question, STEP, Wish};

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
    let mut view = View::of(sampler, title, leaving);
    let shown = view.run(&mut terminal, &held, &mut over)?;
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

/// The view: what it shows, and what the user has made of it.
struct View<'a> {
    sampler: &'a Sampler,
    title: &'a str,
    leaving: Leaving,
    question: Question,
    choice: Choice,
    events: Events,
}

impl<'a> View<'a> {
    fn of(sampler: &'a Sampler, title: &'a str, leaving: Leaving) -> Self {
        let events = Events::of(&sampler.machine);
        Self { sampler, title, leaving, question: Question::None, choice: Choice::default(), events }
    }

    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        held: &Held,
        over: &mut impl FnMut() -> Result<bool>,
    ) -> Result<Shown> {
        while held.is_ours() {
            let history = self.sampler.history();
            let history = settled(&history);
            terminal.draw(|frame| self.draw(frame, history)).context(|| "the terminal does not work".into())?;
            if over()? {
                return Ok(Shown::Over);
            }
            let keys = match keys::input()? {
                Input::Gone => return Ok(Shown::Over),
                Input::Nothing => vec![],
                Input::Ready => keys::keys()?,
            };
            if keys.into_iter().any(|key| self.take(key, history.last()) == Wish::Leave) {
                return Ok(Shown::Over);
            }
        }
        Ok(Shown::Lost)
    }

    /// Takes a key: it is the choice's, or else it may end the view.
    fn take(&mut self, key: KeyEvent, last: Option<&Sample>) -> Wish {
        let is_own = self.question == Question::None && !keys::is_control_c(key);
        if is_own && self.choice.key(key, last) {
            return Wish::Stay;
        }
        let (wish, question) = keys::answered(self.question, self.leaving, Some(key));
        self.question = question;
        wish
    }

    /// Draws the page that is chosen; without figures yet, that of the machine says so.
    fn draw(&mut self, frame: &mut Frame, history: &[Sample]) {
        let [page, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
        match (&self.choice.page, history) {
            (Page::Events(whose), _) => {
                self.events.look();
                let above = events::draw(frame, page, &self.events, whose.as_deref(), self.choice.events_above);
                self.choice.events_above = above;
            }
            (Page::Tenant(name), [_, ..]) => {
                one::draw(frame, page, self.sampler, history, &one::Shown { name, value: self.choice.chart });
            }
            _ => return draw(frame, self.title, history, self.question, &self.choice),
        }
        frame.render_widget(Paragraph::new(last_line(self.question, &self.choice)), foot);
    }
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
    frame.render_widget(cores::bars(last, partition), partition);
    frame.render_widget(footer(last, question, choice), foot);
}

/// Returns whether there are troubles to tell, and nothing that is asked or typed.
fn has_news(last: &Sample, question: Question, choice: &Choice) -> bool {
    question == Question::None && !last.troubles.is_empty() && choice.typing == Typing::Commands
}

/// Returns the troubles above the last line, if there are some.
fn footer(last: &Sample, question: Question, choice: &Choice) -> Paragraph<'static> {
    let end = last_line(question, choice);
    if has_news(last, question, choice) {
        return Paragraph::new(vec![Line::styled(harmless(&last.troubles.join(" · ")), bad()), end]);
    }
    Paragraph::new(end)
}

/// Returns the question, or else the keys, or what is typed.
fn last_line(question: Question, choice: &Choice) -> Line<'static> {
    match question {
        Question::End => Line::styled("End the machine for all its tenants? y: end it, any other key: go on", bad()),
        Question::None => Line::styled(choice.help(), Style::new().add_modifier(Modifier::DIM)),
    }
}

fn bad() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
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
}
