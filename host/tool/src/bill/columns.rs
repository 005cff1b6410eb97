//! The columns of the bill: one entry each, and all that the terminal and spreadsheets show comes from it.
//!
//! * [`COLUMNS`] is the list, in the order of both forms; [`accounts`] are the rows that are not tenants.
//! * [`heads`], [`tenant_cells`] and [`account_cells`] are for the terminal, the others for spreadsheets.
//!
//! A row that is not a tenant is a [`Line`] too, with cycles alone; its other cells are empty.

use gyre_contract::bill::{Bill, Line};
use gyre_machine_file::units::show_bytes;

use super::percent;
use crate::view::wait;

/// The columns behind the account's name.
const COLUMNS: &[Column] = &[
    Column::of(|line| line.share.into()).csv("share").shown("share", share),
    Column::of(|line| line.cycles).csv("cycles").shown("CPU time", seconds).of_every_account(),
    Column::of(|line| line.cycles).shown("of machine", part_of_machine).of_every_account(),
    Column::of(|line| line.user_cycles).csv("user_cycles"),
    Column::of(|line| line.messages).csv("messages"),
    Column::of(|line| line.sent_bytes).csv("sent_bytes").shown("sent", bytes),
    Column::of(|line| line.received_bytes).csv("received_bytes").shown("received", bytes),
    Column::of(|line| line.read_bytes).csv("read_bytes").shown("disk read", bytes),
    Column::of(|line| line.written_bytes).csv("written_bytes").shown("written", bytes),
    Column::of(|line| line.memory_bytes).csv("memory_bytes").shown("memory", bytes),
    Column::of(|line| line.memory_byte_seconds).csv("memory_byte_seconds").shown("over time", byte_seconds),
    Column::of(|line| line.queued_ns).csv("queued_ns").shown("mean wait", mean_wait),
];

/// A column; it may be in one of the two forms alone.
struct Column {
    figure: fn(&Line) -> u64,
    csv_name: Option<&'static str>,
    shown: Option<Shown>,
    rows: Rows,
}

/// How the terminal shows a column.
#[derive(Clone, Copy)]
struct Shown {
    head: &'static str,
    write: fn(&Cell<'_>) -> String,
}

/// The rows that have a figure in a column.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    Tenants,
    Every,
}

/// A figure, with the line and the bill that its words may need.
struct Cell<'a> {
    figure: u64,
    line: &'a Line,
    bill: &'a Bill,
}

impl Column {
    /// Makes a column of tenants that no form shows yet.
    const fn of(figure: fn(&Line) -> u64) -> Self {
        Self { figure, csv_name: None, shown: None, rows: Rows::Tenants }
    }

    const fn csv(self, name: &'static str) -> Self {
        Self { csv_name: Some(name), ..self }
    }

    const fn shown(self, head: &'static str, write: fn(&Cell<'_>) -> String) -> Self {
        Self { shown: Some(Shown { head, write }), ..self }
    }

    /// Makes infrastructure, scheduling, idle time and the other rows that are not tenants have it too.
    const fn of_every_account(self) -> Self {
        Self { rows: Rows::Every, ..self }
    }

    fn is_of(&self, rows: Rows) -> bool {
        rows == Rows::Tenants || self.rows == Rows::Every
    }
}

/// Returns the heads in the terminal; that of the accounts is empty.
pub fn heads() -> Vec<String> {
    let shown = COLUMNS.iter().filter_map(|column| column.shown);
    [""].into_iter().chain(shown.map(|shown| shown.head)).map(str::to_owned).collect()
}

/// Returns a tenant's row for the terminal.
pub fn tenant_cells(bill: &Bill, line: &Line) -> Vec<String> {
    cells(bill, line, Rows::Tenants)
}

/// Returns the row for the terminal of an account that is not a tenant.
pub fn account_cells(bill: &Bill, line: &Line) -> Vec<String> {
    cells(bill, line, Rows::Every)
}

fn cells(bill: &Bill, line: &Line, rows: Rows) -> Vec<String> {
    let cell = |column: &Column| {
        let cell = Cell { figure: (column.figure)(line), line, bill };
        column.shown.map(|shown| if column.is_of(rows) { (shown.write)(&cell) } else { String::new() })
    };
    [line.tenant.clone()].into_iter().chain(COLUMNS.iter().filter_map(cell)).collect()
}

/// Returns the head for spreadsheets.
pub fn csv_head() -> String {
    let names: Vec<&str> = ["account"].into_iter().chain(COLUMNS.iter().filter_map(|column| column.csv_name)).collect();
    names.join(",") + "\n"
}

/// Returns a tenant's row for spreadsheets.
pub fn tenant_csv(line: &Line) -> String {
    csv_row(line, Rows::Tenants)
}

/// Returns the row for spreadsheets of an account that is not a tenant.
pub fn account_csv(line: &Line) -> String {
    csv_row(line, Rows::Every)
}

fn csv_row(line: &Line, rows: Rows) -> String {
    let cell = |column: &Column| if column.is_of(rows) { (column.figure)(line).to_string() } else { String::new() };
    let figures = COLUMNS.iter().filter(|column| column.csv_name.is_some()).map(cell);
    let cells: Vec<String> = [line.tenant.clone()].into_iter().chain(figures).collect();
    cells.join(",") + "\n"
}

/// Returns the accounts that are not tenants; the last one is the machine.
pub fn accounts(bill: &Bill) -> [Line; 6] {
    [
        account("infrastructure", bill.infrastructure_cycles),
        account("scheduling", bill.scheduling_cycles),
        account("interrupt", bill.interrupt_cycles),
        account("idle", bill.idle_cycles),
        account("unattributed", bill.unattributed_cycles),
        account("machine", bill.machine_cycles),
    ]
}

/// Returns the line of an account that is not a tenant.
pub fn account(name: &str, cycles: u64) -> Line {
    Line { tenant: name.into(), cycles, ..Line::default() }
}

fn share(cell: &Cell<'_>) -> String {
    let customers = cell.bill.tenants.iter().filter(|line| line.tenant != "system");
    let sum: u32 = customers.map(|line| line.share).sum();
    // A zone has none.
    if cell.line.tenant == "system" || cell.figure == 0 {
        return String::new();
    }
    format!("{:.1} %", percent(cell.figure, sum.into()))
}

fn seconds(cell: &Cell<'_>) -> String {
    format!("{:.3} s", cell.figure as f64 / cell.bill.cycles_per_second.max(1) as f64)
}

fn part_of_machine(cell: &Cell<'_>) -> String {
    format!("{:.3} %", percent(cell.figure, cell.bill.machine_cycles))
}

fn bytes(cell: &Cell<'_>) -> String {
    show_bytes(cell.figure)
}

fn byte_seconds(cell: &Cell<'_>) -> String {
    format!("{} s", show_bytes(cell.figure))
}

fn mean_wait(cell: &Cell<'_>) -> String {
    wait(cell.figure as f64 / 1e3 / cell.line.messages.max(1) as f64)
}
