//! One web server under equal clients, here and on Linux in the same emulator: pages a second, and the boot.

use std::time::Duration;

use gyre_contract::boot::Machine;
use gyre_machine_file::Description;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, nothing},
};
use crate::{cli::Kernel, failure::Result};

/// Page, what to call it, and the part of Linux's rate that we promise.
const PAGES: [(&str, &str); 2] = [("/4k", "4 KiB"), ("/1m", "1 MiB")];
const RATIO_GOAL: f64 = 0.7;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "speed",
    title: "nginx beside Linux in the same emulator",
    paper: "",
    shows: "A page costs about as much as on Linux.",
    run,
};

/// Measures requests a second, and their ratio to Linux'.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for (path, name) in PAGES {
        let linux = serve(rig, Kernel::Linux, path)?;
        let gyre = serve(rig, Kernel::Gyre, path)?;
        let rates = [&linux, &gyre].map(|measured| requests_per_second(&said(measured)));
        let ratio = rates[1] / rates[0].max(1e-9);
        let figure = Figure::new(format!("{name} pages a second"), rates[1], 1, "").linux(rates[0]);
        report.figures.push(figure.goal(format!(">= {RATIO_GOAL} of Linux"), ratio >= RATIO_GOAL));
        if path == PAGES[0].0 {
            boot(&mut report, linux.first_page, gyre.first_page);
        }
        groups.push(Group { name: name.into(), values: rates.to_vec() });
    }
    report.plot("speed.svg", plot::bars("Pages a second", "", &["Linux", "Gyre"], &groups));
    report.notes.push("One core, link without limit, wrk with 16 connections, one nginx with two workers.".into());
    Ok(report)
}

fn boot(report: &mut Report, linux: Option<Duration>, gyre: Option<Duration>) {
    let seconds = |time: Option<Duration>| time.map_or(f64::INFINITY, |time| time.as_secs_f64());
    let (linux, gyre) = (seconds(linux), seconds(gyre));
    let figure = Figure::new("QEMU's start to the first page", gyre, 2, "s").linux(linux);
    report.figures.push(figure.goal("<= 3 s", gyre <= 3.0));
}

/// Serves one page to 16 connections.
fn serve(rig: &Rig, on: Kernel, path: &str) -> Result<Measured> {
    let prepare = |description: &mut Description| {
        for load in description.tenants.iter_mut().filter_map(|tenant| tenant.load.as_mut()) {
            load.path = path.to_owned();
        }
    };
    let change = |machine: &mut Machine| machine.cores = 1;
    let plan = Plan { file: "overhead.toml", on, warm_up: 2, seconds: 10, change: &change, besides: &nothing };
    rig.measure_prepared(&plan, &prepare)
}

fn said(measured: &Measured) -> String {
    measured.clients.first().map_or(String::new(), |(_, said)| said.clone())
}

/// Reads what wrk says: "Requests/sec:   905.12".
fn requests_per_second(said: &str) -> f64 {
    let found = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    found.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_wrk_says() {
        assert_eq!(requests_per_second("x\nRequests/sec:    905.12\nTransfer/sec: 3MB"), 905.12);
        assert_eq!(requests_per_second("unable to connect"), 0.0);
    }
}
