//! Downloads from a tenant of the same kernel, from one of another zone by the link, and by the cards (R6 of the Horizontal OS' paper).
//!
//! The cost of a download is CPU time of all virtual processors, programs included: a busy host stretches the clock, not this. Near and far take
//! turns on one machine, and the ratio is the median of the rounds'.

use std::time::Duration;

use gyre_machine_file::Description;

use super::{
    company::{Company, as_it_is, median},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, ui::Step};

const CLIENT: &str = "client";
const ROUNDS: u32 = 5;
const WINDOW: Duration = Duration::from_secs(4);
const MIB: f64 = 16.0;
/// The paper's ratios, which are the goals' origin (its Section 6).
const LOOPBACK_GOAL: f64 = 0.63;
const CARDS_GOAL: f64 = 5.0;
const PAPER_CARDS: &str = "15.95 x";

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-net",
    title: "Bytes between zones beside the loopback and the cards",
    paper: "",
    shows: "Two zones of a machine speak by its memory, not by its cards.",
    run,
};

/// MiB for each second of processor time: from the same kernel, and from the other.
#[derive(Clone, Default)]
struct Rates {
    near: Vec<f64>,
    far: Vec<f64>,
}

impl Rates {
    fn ratio(&self) -> f64 {
        median(self.far.iter().zip(&self.near).map(|(far, near)| far / near))
    }
}

/// Measures links, cards, and Linux' loopback.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let linux = measure(rig, "zone-net-linux.toml", Kernel::Linux, &as_it_is, &["near"])?;
    let links = measure(rig, "zone-net.toml", Kernel::Gyre, &as_it_is, &["near", "far"])?;
    let cards = measure(rig, "zone-net.toml", Kernel::Gyre, &without_links, &["near", "far"])?;
    Ok(report(&links, &cards, &linux))
}

fn without_links(description: &mut Description) {
    description.machine.zones.iter_mut().for_each(|zone| zone.links.clear());
}

fn measure(rig: &Rig, file: &str, on: Kernel, change: &dyn Fn(&mut Description), kinds: &[&str]) -> Result<Rates> {
    let mut company = Company::start(rig, file, on, change)?;
    let step = Step::start(format!("downloads on {on:?}"));
    let mut rates = Rates::default();
    // The first round brings the files into the caches.
    for number in 0..=rig.count.unwrap_or(ROUNDS) {
        step.detail(&format!("round {number}"));
        for kind in kinds {
            let works = company.work(rig, &[(CLIENT, kind)], WINDOW)?;
            let rate = works.first().map_or(f64::NAN, |work| MIB * 1e6 / work.machine_us);
            let to = if *kind == "near" { &mut rates.near } else { &mut rates.far };
            to.extend((number > 0).then_some(rate));
        }
    }
    step.done();
    Ok(rates)
}

fn report(links: &Rates, cards: &Rates, linux: &Rates) -> Report {
    let mut report = EXPERIMENT.report();
    let rate = |name: &str, rates: &[f64]| Figure::new(name, median(rates.iter().copied()), 1, "MiB/s of CPU time");
    let near: Vec<f64> = links.near.iter().chain(&cards.near).copied().collect();
    let (ratio, by_card) = (links.ratio(), cards.ratio());
    report.figures.extend([
        rate("loopback of one kernel", &near).linux(median(linux.near.iter().copied())),
        rate("between zones by the link", &links.far),
        rate("between zones by the cards (virtio-net)", &cards.far),
        Figure::new("the link, of the loopback", ratio, 2, "x")
            .paper(format!("{LOOPBACK_GOAL} x"))
            .goal(format!(">= {LOOPBACK_GOAL}"), ratio >= LOOPBACK_GOAL),
        Figure::new("the link, times the cards", ratio / by_card, 1, "x")
            .paper(PAPER_CARDS)
            .goal(format!(">= {CARDS_GOAL}"), ratio / by_card >= CARDS_GOAL),
    ]);
    let bar = |name: &str, rates: &[f64]| Group { name: name.into(), values: vec![median(rates.iter().copied())] };
    let groups = [
        bar("loopback", &near),
        bar("link", &links.far),
        bar("cards", &cards.far),
        bar("Linux' loopback", &linux.near),
    ];
    report
        .plot("zone-net.svg", plot::bars("Bytes for CPU time of all virtual processors", " MiB/s", &["rate"], &groups));
    report.notes.push(
        "Downloads of 16 MiB from nginx, one after the other. CPU time of all virtual processors, both programs included; by the cards the emulator's \
         own threads work too and are not counted. Linux: its loopback within one kernel."
            .into(),
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_compared_with_loopback_and_cards() {
        let rates = |near: f64, far: f64| Rates { near: vec![near], far: vec![far] };
        let report = report(&rates(100.0, 60.0), &rates(100.0, 10.0), &Rates { near: vec![50.0], far: vec![] });
        let ratios: Vec<_> = report.figures.iter().skip(3).map(|figure| (figure.value, figure.is_met)).collect();
        assert_eq!(ratios, [(Some(0.6), Some(false)), (Some(6.0), Some(true))]);
        assert_eq!(report.figures[0].linux, Some(50.0));
    }
}
