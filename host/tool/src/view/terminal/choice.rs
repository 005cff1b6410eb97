//! The user's choice in the live view: the page, and the order and the filter of the tenants. Keys change it.
//!
//! ```text
//! machine --Enter--> tenant --e--> its events
//!    |    <--Esc----        <-Esc-
//!    +--e--> all events
//! ```
//! [`Choice::key`] is pure: a key and the sample in, the next choice out. [`Choice::help`] says what each key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::{super::sample::Sample, chart::Value, tenants::chosen};

/// Lines that a key for a page moves.
const PAGE_LINES: usize = 10;

/// The order of the tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the machine file, those of a zone together.
    #[default]
    File,
    /// By processor time, most first.
    Cpu,
    /// By memory.
    Memory,
    /// By bytes sent.
    Sent,
    /// By the mean wait of their messages.
    Wait,
    /// By name.
    Name,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::File => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Sent,
            Self::Sent => Self::Wait,
            Self::Wait => Self::Name,
            Self::Name => Self::File,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::File => "as in the file",
            Self::Cpu => "by CPU",
            Self::Memory => "by memory",
            Self::Sent => "by bytes sent",
            Self::Wait => "by wait",
            Self::Name => "by name",
        }
    }
}

/// The meaning of the letters that are typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Typing {
    /// Commands.
    #[default]
    Commands,
    /// The filter.
    Filter,
}

/// The page that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// The machine.
    #[default]
    Machine,
    /// A tenant.
    Tenant(String),
    /// The events of a tenant, or all.
    Events(Option<String>),
}

/// The user's choice; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub(super) order: Order,
    pub(super) filter: String,
    /// The place of the line under the cursor.
    pub(super) cursor: usize,
    /// Events above the first one on the page of events.
    pub(super) events_above: usize,
    pub(super) typing: Typing,
    /// The value of the chart.
    pub(super) chart: Value,
    pub(super) page: Page,
}

impl Choice {
    /// Takes a key; returns false for one that means nothing here.
    pub fn key(&mut self, key: KeyEvent, last: Option<&Sample>) -> bool {
        let is_taken = match (self.typing, &self.page) {
            (Typing::Filter, _) => self.filter_key(key.code) || self.cursor_key(key.code),
            (Typing::Commands, Page::Events(_)) => self.events_key(key.code),
            (Typing::Commands, Page::Tenant(_)) => self.tenant_key(key.code) || self.cursor_key(key.code),
            (Typing::Commands, Page::Machine) => self.machine_key(key.code, last) || self.cursor_key(key.code),
        };
        let shown = last.map_or(0, |last| chosen(last, self).len());
        self.cursor = self.cursor.min(shown.saturating_sub(1));
        is_taken
    }

    fn filter_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = Typing::Commands,
            KeyCode::Esc => (self.typing, self.filter) = (Typing::Commands, String::new()),
            _ => return false,
        }
        true
    }

    fn machine_key(&mut self, code: KeyCode, last: Option<&Sample>) -> bool {
        match code {
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Char('/') => self.typing = Typing::Filter,
            KeyCode::Char('c') => self.chart = self.chart.next(),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('e') => self.turn_to(Page::Events(None)),
            KeyCode::Enter => {
                let under = last.and_then(|last| chosen(last, self).get(self.cursor).map(|(_, one)| one.name.clone()));
                self.turn_to(under.map_or(Page::Machine, Page::Tenant));
            }
            _ => return false,
        }
        true
    }

    fn tenant_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Esc | KeyCode::Enter => self.turn_to(Page::Machine),
            KeyCode::Char('c') => self.chart = self.chart.next(),
            KeyCode::Char('e') => self.turn_to(Page::Events(self.tenant().map(str::to_owned))),
            _ => return false,
        }
        true
    }

    /// Scrolls the events; the page knows how many there are.
    fn events_key(&mut self, code: KeyCode) -> bool {
        let above = self.events_above;
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('e') => {
                self.turn_to(self.tenant().map_or(Page::Machine, |name| Page::Tenant(name.to_owned())));
            }
            KeyCode::Down => self.events_above = above.saturating_add(1),
            KeyCode::Up => self.events_above = above.saturating_sub(1),
            KeyCode::PageDown => self.events_above = above.saturating_add(PAGE_LINES),
            KeyCode::PageUp => self.events_above = above.saturating_sub(PAGE_LINES),
            KeyCode::Home => self.events_above = 0,
            KeyCode::End => self.events_above = usize::MAX,
            _ => return false,
        }
        true
    }

    /// Moves the cursor; the caller keeps it among the tenants.
    fn cursor_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Down => self.cursor = self.cursor.saturating_add(1),
            KeyCode::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::PageDown => self.cursor = self.cursor.saturating_add(PAGE_LINES),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(PAGE_LINES),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = usize::MAX,
            _ => return false,
        }
        true
    }

    fn turn_to(&mut self, page: Page) {
        (self.page, self.events_above) = (page, 0);
    }

    /// Returns the tenant that the page is about.
    fn tenant(&self) -> Option<&str> {
        match &self.page {
            Page::Machine => None,
            Page::Tenant(name) => Some(name),
            Page::Events(whose) => whose.as_deref(),
        }
    }

    /// Says which keys there are.
    pub fn help(&self) -> String {
        match (self.typing, &self.page) {
            (Typing::Filter, _) => format!("filter: {}▏  Enter: keep it, Esc: all tenants", self.filter),
            (Typing::Commands, Page::Events(_)) => "↑↓: scroll · e or Esc: back · q: end".into(),
            (Typing::Commands, Page::Tenant(_)) => "Enter or Esc: back · e: its events · c: chart · q: end".into(),
            (Typing::Commands, Page::Machine) => {
                "↑↓: scroll · Enter: tenant · e: events · s: sort · /: filter · c: chart · q: end".into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyModifiers;

    use super::{super::super::sample::Tenant, *};

    fn press(choice: &mut Choice, code: KeyCode) -> bool {
        let sample = Sample { tenants: vec![Tenant { name: "gold".into(), ..Tenant::default() }], ..Sample::default() };
        choice.key(KeyEvent::new(code, KeyModifiers::NONE), Some(&sample))
    }

    #[test]
    fn e_leads_to_all_events_and_from_a_tenant_to_its_own_and_back() {
        let mut choice = Choice::default();
        let e = KeyCode::Char('e');
        assert!(press(&mut choice, e) && choice.page == Page::Events(None));
        assert!(press(&mut choice, KeyCode::End) && choice.events_above > 0);
        assert!(press(&mut choice, e) && choice == Choice::default());
        press(&mut choice, KeyCode::Enter);
        assert!(press(&mut choice, e) && choice.page == Page::Events(Some("gold".into())));
        assert!(press(&mut choice, KeyCode::Esc) && choice.page == Page::Tenant("gold".into()));
        assert!(!press(&mut choice, KeyCode::Char('q')), "it ends the view, whatever the page");
    }

    #[test]
    fn a_filter_takes_letters_that_are_commands_elsewhere() {
        let mut choice = Choice::default();
        assert!(['/', 'e', 's'].into_iter().all(|letter| press(&mut choice, KeyCode::Char(letter))));
        assert!(choice.filter == "es" && choice.page == Page::Machine);
    }

    #[test]
    fn the_keys_fit_into_80_columns() {
        let pages = [Page::Machine, Page::Tenant("gold".into()), Page::Events(None)];
        let wide = pages.map(|page| Choice { page, ..Choice::default() }.help().chars().count());
        assert!(wide.iter().all(|width| *width <= 80), "{wide:?}");
    }
}
