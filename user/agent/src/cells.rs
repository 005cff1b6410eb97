//! The cells in time over HTTP: `GET /cells` and `POST /cells`, and their families of metrics.
//!
//! * Both answer `gyre_contract::cells::View`; a change that is refused answers 409 with the refusal.
//! * A machine that never had a cell has no such families.

use std::{io, net::TcpStream, sync::Arc};

use gyre_contract::cells::{CellView, CoreFigures, Request as Wish, View};

use crate::{
    http::{self, Request},
    metrics::family,
    source::Source,
};

const JSON: &str = "application/json";

/// Answers a request for `/cells`: the cells as JSON. A change that is refused is its reason as JSON.
///
/// # Errors
/// When the client has gone.
pub fn answer(request: &Request, mut out: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    let wish: Wish = match request.method.as_str() {
        "GET" => Wish::new(),
        _ => match serde_json::from_slice(&request.body) {
            Ok(wish) => wish,
            Err(error) => {
                return http::refuse(&mut out, "400 Bad Request", &format!("this is no list of cells: {error}"));
            }
        },
    };
    match source.cells(&wish) {
        Ok(Ok(view)) => http::respond(&mut out, "200 OK", JSON, &serde_json::to_vec(&view)?),
        Ok(Err(refusal)) => http::respond(&mut out, "409 Conflict", JSON, &serde_json::to_vec(&refusal)?),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            http::refuse(&mut out, "501 Not Implemented", "this kernel knows no cells")
        }
        Err(error) => http::refuse(&mut out, "500 Internal Server Error", &format!("cells: {error}")),
    }
}

/// Writes the families of cells; nothing on a machine that never had any.
pub fn metrics(source: &Arc<dyn Source>) -> String {
    match source.cells(&Wish::new()) {
        Ok(Ok(view)) if view.number > 0 => text(&view),
        _ => String::new(),
    }
}

fn text(view: &View) -> String {
    let mut text = String::new();
    let mut each = |name: &str, help: &str, value: &dyn Fn(&CoreFigures) -> f64| {
        let samples =
            view.cells.iter().flat_map(|cell| cell.cores.iter().map(|core| (labels(cell, core), value(core))));
        family(&mut text, name, "counter", help, samples);
    };
    each("gyre_cell_active_seconds_total", "Time for which the cell's gang had its cores.", &|core| {
        core.active_ns as f64 / 1e9
    });
    each("gyre_cell_served_seconds_total", "Time for which the cell was served.", &|core| core.served_ns as f64 / 1e9);
    each("gyre_cell_stolen_seconds_total", "Time that the kernel's own work took in its slots.", &|core| {
        core.stolen_ns as f64 / 1e9
    });
    each("gyre_cell_slots_total", "Slots that have begun.", &|core| core.slots as f64);
    each("gyre_cell_late_seconds_total", "Delays from a slot's beginning to the core's look.", &|core| {
        core.late_ns as f64 / 1e9
    });
    let number = [(vec![], view.number as f64)];
    family(&mut text, "gyre_cell_tables_total", "counter", "Tables of cells since the machine's start.", number);
    text
}

fn labels(cell: &CellView, core: &CoreFigures) -> Vec<(&'static str, String)> {
    let name = cell.tenant.clone().unwrap_or_else(|| "(others)".to_owned());
    vec![("name", name), ("core", core.core.to_string())]
}
