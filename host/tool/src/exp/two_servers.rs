//! Two web servers, one with twice the share of the other, up to and beyond what the machine can serve.
//!
//! Load rises with the connections of each server's clients, each of which asks for the next page if it has the last. Files and their
//! popularity are SPECweb99's; the clients' requests come from `experiments/two-servers/spec.lua`.

use gyre_machine_file::{Description, Image};

use super::{
    experiment::Experiment,
    plot::{self, Line},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, as_it_is, nothing},
    shares::{add_shares, plot_shares},
};
use crate::{cli::Kernel, failure::Result, view::sample::Tenant};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "two-servers",
    title: "Two web servers with shares 2:1, beside Linux with control groups",
    paper: "Vortex 2003, Figs 1 and 3",
    shows: "Beyond capacity the first serves twice as much as the second.",
    run,
};
const FILE: &str = "two-servers.toml";
const DIRECTORIES: u64 = 8;
/// The smallest file of each class, bytes; the others are its multiples up to nine (SPECweb99).
const CLASSES_BYTES: [u64; 4] = [102, 1_024, 10_240, 102_400];
/// Connections of each server's clients.
const LOADS: [u32; 5] = [1, 2, 4, 8, 16];
const SECONDS: u32 = 10;
const TENANTS: [&str; 2] = ["first", "second"];

/// The results of a load on a kernel.
struct Level {
    /// Requests answered a second, by tenant.
    pages: [f64; 2],
    /// Requests answered for each second that the virtual processors used.
    per_processor_second: f64,
}

impl Level {
    fn of(measured: &Measured) -> Self {
        let rate = |name: &&str| {
            let said = measured.clients.iter().find(|(tenant, _)| tenant == name);
            said.and_then(|(_, said)| requests_per_second(said)).unwrap_or(f64::NAN)
        };
        let pages = TENANTS.each_ref().map(rate);
        Self { pages, per_processor_second: (pages[0] + pages[1]) / measured.processors.max(1e-9) }
    }
}

/// Reads the rate from what wrk says at its end.
fn requests_per_second(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:")?.trim().parse().ok())
}

/// Measures each load here, and the highest on Linux.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let highest = LOADS[LOADS.len() - 1];
    let linux = Level::of(&measure(rig, Kernel::Linux, highest)?);
    let mut levels = vec![];
    let mut last = None;
    for connections in LOADS {
        let measured = measure(rig, Kernel::Gyre, connections)?;
        levels.push((connections, Level::of(&measured)));
        last = Some(measured);
    }
    let shares = last.iter().flat_map(|measured| measured.shares(|tenant: &Tenant| tenant.cpu_percent));
    let shares: Vec<_> = shares.collect();
    add_shares(&mut report, "CPU time beyond capacity of", &shares, 1.0);
    report.plot("two-servers-shares.svg", plot_shares("Part of the customers' CPU time, each second", &shares));
    if let Some((_, gyre)) = levels.last() {
        report.figures.extend(compare(gyre, &linux));
    }
    report.plot("two-servers.svg", plot_levels(&levels));
    report.notes.push(format!(
        "One core; nginx with one worker for each tenant, files and requests as in SPECweb99 (35 % below 1 KB, 50 % to 10 KB, 14 % to 100 KB, \
         1 % to 1 MB; {DIRECTORIES} directories by Zipf), all in the cache; wrk with 1 to {highest} connections for each. Linux: Debian's \
         cloud kernel, cpu.weight by share, same images, same emulator. The paper compares its own THTTPD with Linux 2.4."
    ));
    Ok(report)
}

fn compare(gyre: &Level, linux: &Level) -> [Figure; 2] {
    let ratio = |level: &Level| level.pages[0] / level.pages[1];
    let is_double = (ratio(gyre) - 2.0).abs() <= 0.1;
    let pages = gyre.per_processor_second;
    let ratio = Figure::new("pages of the first for one of the second", ratio(gyre), 2, "").linux(ratio(linux));
    let each = Figure::new("pages per CPU second of the machine", pages, 0, "").linux(linux.per_processor_second);
    [
        ratio.paper("approximately twice").goal("2.0 +- 0.1", is_double),
        each.paper("1.6 x Linux").goal(">= Linux", pages >= linux.per_processor_second),
    ]
}

fn plot_levels(levels: &[(u32, Level)]) -> String {
    let line = |(place, name): (usize, &&str)| Line {
        name: (*name).into(),
        points: levels.iter().map(|(load, level)| (f64::from(*load), level.pages[place])).collect(),
        level: None,
    };
    let lines: Vec<Line> = TENANTS.iter().enumerate().map(line).collect();
    plot::lines("Pages a second, by connections of each server's clients", ["", ""], &lines)
}

fn measure(rig: &Rig, on: Kernel, connections: u32) -> Result<Measured> {
    let prepare = |description: &mut Description| {
        description.images.values_mut().for_each(generate);
        let loads = description.tenants.iter_mut().filter_map(|tenant| tenant.load.as_mut());
        loads.for_each(|load| load.connections = connections);
    };
    let plan = Plan { file: FILE, on, warm_up: 4, seconds: SECONDS, change: &as_it_is, besides: &nothing };
    rig.measure_prepared(&plan, &prepare)
}

/// Puts SPECweb99's files into an image.
fn generate(image: &mut Image) {
    for directory in 0..DIRECTORIES {
        for (class, bytes) in CLASSES_BYTES.iter().enumerate() {
            let file = |number: u64| (format!("/srv/www/{directory}/{class}_{number}"), bytes * number);
            image.generate.extend((1..=9).map(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_what_the_tool_says() {
        let said = "  1234 requests in 10.00s, 4.2MB read\nRequests/sec:    123.40\nTransfer/sec:  0.4MB\n";
        assert_eq!(requests_per_second(said), Some(123.4));
        assert_eq!(requests_per_second("connection refused"), None);
    }

    #[test]
    fn an_image_holds_nine_files_of_each_class_in_each_directory() {
        let mut image = Image::default();
        generate(&mut image);
        assert_eq!(image.generate.len(), 8 * 4 * 9);
        assert_eq!(image.generate["/srv/www/7/3_9"], 921_600);
    }
}
