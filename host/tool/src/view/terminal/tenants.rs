//! The table of tenants in the live view: as many columns as fit with whole names and units, sorted, filtered, scrolled.
//!
//! * [`Choice`] is the user's: order, filter, place.
//! * [`chosen`] lists the tenants that are shown, in their order.
//! * [`Columns`] have an order on the screen and another one in which they are given up if there is no room. A column is as wide as its
//!   widest cell among all tenants, so that it does not jump while one scrolls.
//!
//! Everything here is pure: the choice and the sample in, rows out.

use gyre_machine_file::units::{show_bits_per_second, show_bytes};
use ratatui::{
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style},
    text::Span,
    widgets::{Block, Row, Table},
};

use super::{
    super::{
        harmless::harmless,
        sample::{Sample, Tenant},
        wait,
    },
    choice::{Choice, Order},
    colour,
};

/// Returns the tenants that are shown, each with its place in the sample, which gives it its colour.
pub fn chosen<'a>(last: &'a Sample, choice: &Choice) -> Vec<(usize, &'a Tenant)> {
    let has = |name: &str| name.contains(&choice.filter);
    let is_wanted =
        |tenant: &Tenant| has(&tenant.name) || has(&tenant.state) || tenant.zone.as_deref().is_some_and(has);
    let mut all: Vec<_> = last.tenants.iter().enumerate().filter(|(_, tenant)| is_wanted(tenant)).collect();
    let mut by = |value: fn(&Tenant) -> f64| all.sort_by(|(_, a), (_, b)| value(b).total_cmp(&value(a)));
    match choice.order {
        Order::File => {}
        Order::Cpu => by(|tenant| tenant.cpu_percent),
        Order::Memory => by(|tenant| tenant.memory_bytes as f64),
        Order::Sent => by(|tenant| tenant.sent_bits_per_second),
        Order::Wait => by(|tenant| tenant.queued_us),
        Order::Name => all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name)),
    }
    all
}

/// A column: its head and its cells.
struct Column {
    head: &'static str,
    /// The smaller, the longer it stays on a narrow screen.
    rank: u8,
    cell: fn(&Tenant) -> String,
}

/// A part in percent; nothing for who has none.
fn part(tenant: &Tenant, value: f64) -> String {
    if tenant.entitled_percent > 0.0 { format!("{value:.1} %") } else { String::new() }
}

const COLUMNS: &[Column] = &[
    Column { head: "tenant", rank: 0, cell: |one| name(one) },
    Column { head: "state", rank: 2, cell: |one| short(&one.state) },
    Column { head: "entitled", rank: 5, cell: |one| part(one, one.entitled_percent) },
    Column { head: "of wanting", rank: 10, cell: |one| part(one, one.entitled_now_percent) },
    Column { head: "gets", rank: 4, cell: |one| part(one, one.sent_percent) },
    Column { head: "sends", rank: 6, cell: |one| show_bits_per_second(one.sent_bits_per_second) },
    Column { head: "CPU", rank: 1, cell: |one| format!("{:.1} %", one.cpu_percent) },
    Column { head: "memory", rank: 3, cell: |one| show_bytes(one.memory_bytes) },
    Column { head: "limit", rank: 9, cell: |one| show_bytes(one.memory_limit_bytes) },
    Column { head: "wait", rank: 7, cell: |one| wait(one.queued_us) },
    Column { head: "read", rank: 11, cell: |one| format!("{}/s", show_bytes(one.read_bytes_per_second as u64)) },
    Column { head: "written", rank: 12, cell: |one| format!("{}/s", show_bytes(one.written_bytes_per_second as u64)) },
    Column { head: "latency", rank: 8, cell: |one| latency(one) },
    Column { head: "messages/s", rank: 13, cell: |one| format!("{:.0}", one.messages_per_second) },
    Column { head: "TLB/s", rank: 14, cell: |one| format!("{:.0}", one.tlb_shootdowns_per_second) },
];

/// The time that 99 of 100 answers keep; nothing for who gave none.
fn latency(tenant: &Tenant) -> String {
    tenant.answers.map_or_else(String::new, |answers| wait(answers.p99_ms * 1000.0))
}

/// Blanks between columns.
const GAP: usize = 2;

fn name(tenant: &Tenant) -> String {
    harmless(&tenant.zone.as_ref().map_or_else(|| tenant.name.clone(), |zone| format!("{zone}:{}", tenant.name)))
}

/// A state's first words: the whole of it stands on the tenant's page and among the troubles.
fn short(state: &str) -> String {
    state.split([':', '(']).next().unwrap_or_default().trim().to_owned()
}

/// Returns the columns that fit into so many characters, with their widths.
fn fitting(last: &Sample, room: usize) -> Vec<(&'static Column, usize)> {
    let widest = |column: &Column| {
        let cells = last.tenants.iter().map(|tenant| (column.cell)(tenant).chars().count());
        cells.max().unwrap_or(0).max(column.head.len())
    };
    let mut all: Vec<(&Column, usize)> = COLUMNS.iter().map(|column| (column, widest(column))).collect();
    let needs = |all: &[(&Column, usize)]| all.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP);
    while needs(&all) > room && all.len() > 1 {
        let last_rank = all.iter().map(|(column, _)| column.rank).max();
        all.retain(|(column, _)| Some(column.rank) != last_rank);
    }
    all
}

/// Returns the table for a room of so many characters and lines, its frame included.
pub fn table(last: &Sample, choice: &Choice, room: Rect) -> Table<'static> {
    let columns = fitting(last, usize::from(room.width.saturating_sub(2)));
    let shown = chosen(last, choice);
    let lines = usize::from(room.height.saturating_sub(3)).max(1);
    let first = choice.cursor.saturating_sub(lines.saturating_sub(1)).min(shown.len().saturating_sub(lines));
    let row = |(place, (index, tenant)): (usize, &(usize, &Tenant))| {
        let cells = columns.iter().map(|(column, width)| cell(column, *width, *index, tenant));
        let style = if place == choice.cursor { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    };
    let rows: Vec<Row> = shown.iter().enumerate().skip(first).take(lines).map(row).collect();
    let until = first + rows.len();
    let heads = columns.iter().map(|(column, width)| aligned(column, *width, column.head.to_owned()));
    let head = Row::new(heads.map(Span::raw).collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::DIM));
    let count = if rows.len() < shown.len() { format!(" {}-{until} of", first + 1) } else { String::new() };
    let title = format!("{count} {} tenants {} ", shown.len(), choice.order.words());
    let widths = columns.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    Table::new(rows, widths.collect::<Vec<_>>())
        .column_spacing(GAP as u16)
        .header(head)
        .block(Block::bordered().title(title))
}

fn cell(column: &Column, width: usize, index: usize, tenant: &Tenant) -> Span<'static> {
    let style = match column.head {
        "tenant" => Style::new().fg(colour(index)),
        "state" => Style::new().fg(match tenant.state.as_str() {
            "running" | "" => Color::Green,
            "starting" | "stopped" | "leaving" | "away" => Color::DarkGray,
            _ => Color::Red,
        }),
        "gets" => Style::new().add_modifier(Modifier::BOLD),
        _ => Style::new(),
    };
    Span::styled(aligned(column, width, (column.cell)(tenant)), style)
}

/// Words stand at the left, figures at the right.
fn aligned(column: &Column, width: usize, text: String) -> String {
    match column.head {
        "tenant" | "state" => text,
        _ => format!("{text:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{
        Terminal,
        backend::TestBackend,
        crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    };

    use super::{super::choice::Page, *};

    fn sample(count: usize) -> Sample {
        let tenant = |number: usize| Tenant {
            name: format!("customer-with-a-long-name-{number:02}"),
            entitled_percent: 100.0 / count as f64,
            cpu_percent: number as f64,
            queued_us: 12_236.3,
            sent_bits_per_second: 9_771_234.0,
            memory_bytes: 123 << 20,
            state: "running".into(),
            ..Tenant::default()
        };
        Sample { tenants: (0..count).map(tenant).collect(), ..Sample::default() }
    }

    fn drawn(sample: &Sample, choice: &Choice, size: (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| frame.render_widget(table(sample, choice, frame.area()), frame.area())).unwrap();
        let cells: Vec<&str> = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(size.0)).map(|line| line.concat()).collect()
    }

    fn keys(choice: &mut Choice, sample: &Sample, codes: &[KeyCode]) {
        for code in codes {
            choice.key(KeyEvent::new(*code, KeyModifiers::NONE), Some(sample));
        }
    }

    #[test]
    fn at_80_columns_names_and_units_are_whole_and_what_is_hidden_is_said() {
        let sample = sample(60);
        let lines = drawn(&sample, &Choice::default(), (80, 20));
        assert!(lines[0].contains("1-17 of 60 tenants"), "{}", lines[0]);
        assert!(lines[2].contains("customer-with-a-long-name-00") && lines[2].contains("123 MiB"), "{}", lines[2]);
        let wide = drawn(&sample, &Choice::default(), (160, 20));
        assert!(wide[2].contains("12.2 ms") && wide[2].contains("9.77 Mbit/s"), "{}", wide[2]);
        assert!(drawn(&sample, &Choice::default(), (40, 10))[2].contains("customer-with-a-long-name-00"));
    }

    #[test]
    fn tenants_are_scrolled_sorted_and_filtered() {
        let sample = sample(60);
        let mut choice = Choice::default();
        keys(&mut choice, &sample, &[KeyCode::End]);
        assert!(drawn(&sample, &choice, (80, 20))[0].contains("44-60 of 60"));
        keys(&mut choice, &sample, &[KeyCode::Home, KeyCode::Char('s')]);
        assert!(drawn(&sample, &choice, (80, 20))[2].contains("name-59"), "the busiest is the first");
        keys(&mut choice, &sample, &[KeyCode::Char('/'), KeyCode::Char('0'), KeyCode::Char('7'), KeyCode::Enter]);
        assert_eq!(chosen(&sample, &choice).len(), 1);
        keys(&mut choice, &sample, &[KeyCode::Enter]);
        assert_eq!(choice.page, Page::Tenant("customer-with-a-long-name-07".into()));
        keys(&mut choice, &sample, &[KeyCode::Esc, KeyCode::Esc]);
        assert!(choice.page == Page::Machine && chosen(&sample, &choice).len() == 60);
    }

    #[test]
    fn times_have_their_units() {
        assert_eq!([wait(12.34), wait(12_236.3), wait(2e6)], ["12.3 us", "12.2 ms", "2.0 s"]);
    }
}
