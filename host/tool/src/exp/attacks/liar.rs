//! A tenant that lies to the broker (adversary 17): heartbeats that are always late, that go back, that are absurd. Beside it a victim that tells
//! the truth about its goal, and a bystander that always wants more.

use gyre_contract::goals::Goals;

use super::{ATTACKER, Attack, REST, Seen, Work, cycles, figures, harms, is_inside, measure};
use crate::{
    cli::Kernel,
    exp::{
        report::{Figure, Report},
        rig::Rig,
    },
    failure::Result,
};

const FILE: &str = "liar.toml";
/// The attacker's limit, and what a bill may exceed it by: percent of the core.
const LIMIT: f64 = 25.0;
const LIMIT_ERROR: f64 = 0.5;
/// Frames of the victim that may come late, percent: its goal is that nine of ten are in time.
const LATE_MOST: f64 = 10.0;

/// Adds what lies do.
///
/// # Errors
/// When a machine does not run.
pub(super) fn add(rig: &Rig, report: &mut Report) -> Result<()> {
    let (ours, linux) = (measure(rig, Kernel::Gyre, FILE)?, measure(rig, Kernel::Linux, FILE)?);
    report.figures.extend(figures(&harms(&ours), &harms(&linux)));
    let most = most(&ours);
    let figure =
        Figure::new("lies: the attacker gets at most", most, 1, "%").goal("<= 25", most <= LIMIT + LIMIT_ERROR);
    report.figures.push(figure.linux(self::most(&linux)));
    let late = late(&ours, is_lie);
    let figure = Figure::new("lies: frames of the victim that are late", late, 1, "%").goal("<= 10", late <= LATE_MOST);
    report.figures.push(figure.linux(self::late(&linux, is_lie)));
    let rest = |attack: &&Attack| !is_lie(attack);
    let figure = Figure::new("no lies: frames of the victim that are late", self::late(&ours, rest), 1, "%");
    report.figures.push(figure.linux(self::late(&linux, rest)));
    report.notes.push("Lies: the broker follows PACORA with windows of 0.5 s on both kernels; the attacker's limit is a quarter of the core (cpu.max on Linux), the victim wants 25 % of the core by a clock of 15 frames a second.".into());
    Ok(())
}

fn is_lie(attack: &&Attack) -> bool {
    attack.name != REST
}

/// The largest part of the machine that the attacker had in an attack, percent.
fn most(seen: &Seen) -> f64 {
    let part = |attack: &Attack| {
        let inside: Vec<&Goals> = seen.bills.iter().filter(|bill| is_inside(attack, bill.now_ns as f64)).collect();
        let (first, last) = (inside.first()?, inside.last()?);
        let ns = last.now_ns.checked_sub(first.now_ns).filter(|ns| *ns > 0)? as f64;
        let whole = ns / 1e9 * last.cycles_per_second as f64 * f64::from(last.cores);
        Some(cycles(last, ATTACKER).saturating_sub(cycles(first, ATTACKER)) as f64 / whole * 100.0)
    };
    seen.attacks.iter().filter_map(part).reduce(f64::max).unwrap_or(f64::NAN)
}

/// Late frames of the victim in some attacks, percent of all.
fn late(seen: &Seen, of: impl Fn(&&Attack) -> bool) -> f64 {
    let counted = |attack: &Attack| {
        let inside: Vec<&Work> = seen.victim.iter().filter(|work| is_inside(attack, work.at_ns)).collect();
        let (first, last) = (inside.first()?, inside.last()?);
        Some((last.frames - first.frames, last.late - first.late))
    };
    let sums =
        seen.attacks.iter().filter(of).filter_map(counted).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    100.0 * sums.1 / sums.0
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::TenantGoal;

    use super::*;

    #[test]
    fn parts_and_late_frames_are_those_of_the_attack() {
        let attack = |name: &str, begins_ns| Attack { name: name.into(), begins_ns, ends_ns: begins_ns + 1e9 };
        let bill = |now_ns, cycles| Goals {
            now_ns,
            cores: 1,
            cycles_per_second: 1_000_000_000,
            tenants: vec![TenantGoal { name: ATTACKER.into(), cycles, ..TenantGoal::default() }],
            ..Goals::default()
        };
        let work = |at_ns, frames, late| Work { at_ns, frames, late, ..Work::default() };
        let seen = Seen {
            attacks: vec![attack(REST, 0.0), attack("tells-late", 2e9)],
            bills: vec![bill(2_200_000_000, 0), bill(2_600_000_000, 100_000_000), bill(4_000_000_000, 900_000_000)],
            victim: vec![work(0.5e9, 5.0, 0.0), work(0.9e9, 15.0, 0.0), work(2.2e9, 20.0, 0.0), work(2.9e9, 30.0, 2.0)],
        };
        assert!((most(&seen) - 25.0).abs() < 1e-9, "{}", most(&seen));
        assert!((late(&seen, is_lie) - 20.0).abs() < 1e-9);
        assert_eq!(late(&seen, |attack| !is_lie(attack)), 0.0);
        assert!(late(&Seen::default(), is_lie).is_nan() && most(&Seen::default()).is_nan());
    }
}
