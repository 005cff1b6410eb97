//! An encoder whose content changes, led by POTA: thirty frames a second with what they need, not with what the worst phase needs.

use gyre_contract::goals::BrokerPolicy;

use super::{
    experiment::Experiment,
    film::{self, Second},
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result};

const FILE: &str = "encoder.toml";
/// Seconds in which the controller begins: not judged.
const WARM_UP: usize = 5;
const FRAMES: f64 = 30.0;
const FRAMES_LEAST: f64 = 28.0;
/// Goals: percent of the seconds, percent of the static allocation, points above the ideal.
const SECONDS_LEAST: f64 = 95.0;
const STATIC_MOST: f64 = 70.0;
const ABOVE_IDEAL_MOST: f64 = 3.0;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "encoder",
    title: "An encoder's frames led by measured heartbeats",
    paper: "Tessellation (2013): 69 % of the static allocation",
    shows: "A goal costs what its content needs, not what the worst phase needs.",
    run,
};

/// The outcome of one film.
struct Film {
    /// Seconds with enough frames, percent.
    kept: f64,
    /// The mean part of a core that it used, percent.
    used: f64,
    /// The part that exactly thirty frames a second would have used, percent.
    ideal: f64,
}

impl Film {
    fn of(seconds: &[Second]) -> Film {
        let judged = seconds.get(WARM_UP..).unwrap_or_default();
        let count = judged.len().max(1) as f64;
        let kept = judged.iter().filter(|second| second.frames >= FRAMES_LEAST).count() as f64;
        let mean = |of: &dyn Fn(&Second) -> f64| 100.0 * judged.iter().map(of).sum::<f64>() / count;
        Film {
            kept: 100.0 * kept / count,
            used: mean(&|second| second.used),
            ideal: mean(&|second| second.used / second.frames.max(1.0) * FRAMES),
        }
    }
}

/// Runs all policies on both.
///
/// # Errors
/// When a machine does not run.
fn run(rig: &Rig) -> Result<Report> {
    let film = |on, policy| -> Result<Film> {
        let played = film::play(rig, FILE, on, policy)?;
        Ok(Film::of(played.first().map(|(_, seconds)| &seconds[..]).unwrap_or_default()))
    };
    let fixed = film(Kernel::Gyre, BrokerPolicy::Static)?;
    let led = film(Kernel::Gyre, BrokerPolicy::Pota)?;
    let linux_fixed = film(Kernel::Linux, BrokerPolicy::Static)?;
    let linux_led = film(Kernel::Linux, BrokerPolicy::Pota)?;
    let by_pressure = film(Kernel::Gyre, BrokerPolicy::Pressure)?;
    let linux_by_pressure = film(Kernel::Linux, BrokerPolicy::Pressure)?;
    Ok(report(&[fixed, led, linux_fixed, linux_led], &[by_pressure, linux_by_pressure]))
}

fn report([fixed, led, linux_fixed, linux_led]: &[Film; 4], [by_pressure, linux_by_pressure]: &[Film; 2]) -> Report {
    let mut report = EXPERIMENT.report();
    let of_static = |led: &Film, fixed: &Film| 100.0 * led.used / fixed.used.max(1e-9);
    let (part, linux_part) = (of_static(led, fixed), of_static(linux_led, linux_fixed));
    let (above, linux_above) = (led.used - led.ideal, linux_led.used - linux_led.ideal);
    report.figures.extend([
        Figure::new("static share: seconds with 28 frames", fixed.kept, 1, "%").linux(linux_fixed.kept),
        Figure::new("static share: used of a core", fixed.used, 1, "%").linux(linux_fixed.used),
        Figure::new("POTA: seconds with 28 frames", led.kept, 1, "%")
            .linux(linux_led.kept)
            .goal(">= 95", led.kept >= SECONDS_LEAST),
        Figure::new("POTA: used of a core", led.used, 1, "%").linux(linux_led.used),
        Figure::new("POTA: of the static allocation", part, 1, "%")
            .linux(linux_part)
            .paper("69")
            .goal("<= 70", part <= STATIC_MOST),
        Figure::new("POTA: ideal, exactly 30 frames", led.ideal, 1, "%").linux(linux_led.ideal),
        Figure::new("POTA: above the ideal", above, 1, "points")
            .linux(linux_above)
            .goal("<= 3", above <= ABOVE_IDEAL_MOST),
        Figure::new("pressure: seconds with 28 frames", by_pressure.kept, 1, "%").linux(linux_by_pressure.kept),
        Figure::new("pressure: used of a core", by_pressure.used, 1, "%").linux(linux_by_pressure.used),
    ]);
    let group = |name: &str, film: &Film| Group { name: name.into(), values: vec![film.kept, film.used, film.ideal] };
    let groups = [
        group("Gyre static", fixed),
        group("Gyre POTA", led),
        group("Gyre pressure", by_pressure),
        group("Linux static", linux_fixed),
        group("Linux POTA", linux_led),
        group("Linux pressure", linux_by_pressure),
    ];
    let title = "Seconds with 28 frames; used of a core; ideal";
    report.plot("encoder.svg", plot::bars(title, " %", &["kept", "used", "ideal"], &groups));
    report.notes.push("One core, an instruction each 4 ns (-icount shift=2); 100 s of a film whose phases need 45 to 81 % of the core, beside batch work. On Linux the same broker writes cpu.weight. Pressure: a rule that knows the time in which work waited for a core, and no goal; on Linux that is cpu.pressure (PSI).".into());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_is_judged_after_its_warm_up() {
        let second = |frames, used| Second { frames, used, late: 0 };
        let mut seconds = vec![second(1.0, 1.0); WARM_UP];
        seconds.extend([second(30.0, 0.6), second(27.0, 0.54)]);
        let film = Film::of(&seconds);
        assert_eq!((film.kept, film.used.round(), film.ideal.round()), (50.0, 57.0, 60.0));
    }

    #[test]
    fn goals_are_of_the_led_film() {
        let film = |kept, used| Film { kept, used, ideal: 59.0 };
        let pressure = [film(90.0, 70.0), film(90.0, 70.0)];
        let met = |led| report(&[film(100.0, 90.0), led, film(100.0, 90.0), film(90.0, 80.0)], &pressure).is_met();
        assert!(met(film(95.0, 61.0)));
        assert!(!met(film(94.0, 61.0)) && !met(film(99.0, 62.5)) && !met(film(99.0, 64.0)));
    }
}
