//! Cost of a message on this host: the benchmark of the engine (`runtime/engine/examples/hop.rs`).

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    build, command,
    failure::{Failure, Result},
    ui::Step,
};

/// The goals, in nanoseconds a hop.
const GOALS: [(&str, f64); 2] = [("inline", 35.0), ("queued", 80.0)];
/// The first lines are the ways a message goes; the others are those under load, with names too long for a plot.
const PLOTTED: usize = 3;

/// One line of the benchmark: ns a hop.
#[derive(Debug, PartialEq)]
struct Line {
    name: String,
    best: f64,
    median: f64,
}

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hop",
    title: "A message's cost on this host",
    paper: "",
    shows: "Handing a message on costs tens of nanoseconds.",
    run,
};

/// Builds and runs the benchmark.
///
/// # Errors
/// When it does not build, or says something else.
pub fn run(rig: &Rig) -> Result<Report> {
    let step = Step::start("sending messages on this host");
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&rig.project.root).args(["run", "--quiet", "--release", "-p", "gyre-engine", "--example", "hop"]);
    let said = command::output(&mut cargo)?;
    step.done();
    report(&said)
}

fn report(said: &str) -> Result<Report> {
    let lines: Vec<Line> = said.lines().filter_map(parse).collect();
    if lines.len() < PLOTTED {
        return Err(Failure::with_help("the benchmark of messages said something unexpected", said.to_owned()));
    }
    let mut report = EXPERIMENT.report();
    report.figures = lines.iter().flat_map(figures).collect();
    let groups = lines.iter().take(PLOTTED);
    let groups: Vec<_> =
        groups.map(|line| Group { name: line.name.clone(), values: vec![line.best, line.median] }).collect();
    report.plot(
        "hop.svg",
        plot::bars("A message's cost, stamps and ledger included", " ns", &["best", "median"], &groups),
    );
    report.notes.push(
        "A client and a chain of four resources, replies all the way back: eight hops a request. Best and median of 300 samples, caches warm, handlers \
         empty; the paper's figure is of a message processed, 2013."
            .into(),
    );
    Ok(report)
}

fn figures(line: &Line) -> [Figure; 2] {
    let figure = |what, value| Figure::new(format!("{}: {what}", line.name), value, 1, "ns a hop");
    let best = figure("best", line.best);
    let best = match GOALS.iter().find(|(name, _)| *name == line.name) {
        Some((_, most)) => best.paper("2-15 us").goal(format!("<= {most} ns"), line.best <= *most),
        None => best,
    };
    [best, figure("median", line.median)]
}

/// Reads "NAME best 1 median 2 ns/request 3 / 4 ns/hop scheduling 5 %".
fn parse(line: &str) -> Option<Line> {
    let (name, rest) = line.split_once(" best ")?;
    let (_, hops) = rest.split_once("ns/request")?;
    let (best, median) = hops.split_once("ns/hop")?.0.split_once('/')?;
    Some(Line { name: name.trim().into(), best: best.trim().parse().ok()?, median: median.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
inline                                       best    412 median    430 ns/request    51.5 /  53.8 ns/hop   scheduling 12 %
queued                                       best    600 median    640 ns/request    75.0 /  80.0 ns/hop   scheduling 40 %
queued, policy asked for each                best    900 median    999 ns/request   112.5 / 124.9 ns/hop   scheduling 44 %
";

    #[test]
    fn the_benchmarks_lines_become_figures_with_goals() {
        let report = report(SAID).unwrap();
        let of = |name: &str| report.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!((of("inline: best").value, of("inline: best").is_met), (Some(51.5), Some(false)));
        assert_eq!((of("queued: best").value, of("queued: best").is_met), (Some(75.0), Some(true)));
        assert_eq!(of("queued, policy asked for each: median").ours(), "124.9 ns a hop");
        assert_eq!(report.plots.len(), 1);
    }

    #[test]
    fn silence_is_no_result() {
        assert!(report("error: no such example\n").is_err());
    }
}
