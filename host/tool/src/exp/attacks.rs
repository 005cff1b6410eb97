//! Attacks of one tenant on its neighbours, one after the other, on both kernels (`experiments/attacks/attacks.c`).
//!
//! * B, the fidelity of the bill: work of the victim for each second that it is billed, attacked / while the attacker rests.
//! * A, amplification: cycles that are neither the victim's nor the bystander's, above those while the attacker rests, / cycles billed to the
//!   attacker. The neighbours always want more, so the machine has no idle time.
//! * D, recovery: the victim's part of what it and the bystander get in the second after the attack, against the shares.
//!
//! [`liar`] adds a tenant that lies to the broker.
//!
//! Time is counted in instructions, so that a busy host changes nothing. Bills are read while the machine runs, and only pairs of looks that lie
//! inside an attack are used.

mod liar;

use std::time::{Duration, Instant};

use gyre_contract::{
    catalogue::Resource,
    goals::Goals,
    native::Change,
    promise::{Promise, Together, Wish},
};
use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    agent::Agent,
    cli::Kernel,
    failure::{Failure, Result},
    qemu::Clock,
    run,
    ui::Step,
};

const FILE: &str = "attacks.toml";
const VICTIM: &str = "victim";
const BYSTANDER: &str = "bystander";
const ATTACKER: &str = "attacker";
/// While it does nothing.
const REST: &str = "rest";
/// Goals.
const FIDELITY_LEAST: f64 = 0.99;
const AMPLIFICATION_MOST: f64 = 1.01;
/// The most of D, points.
const DEVIATION_MOST: f64 = 0.5;
/// The victim's share and the bystander's.
const SHARES: (f64, f64) = (50.0, 33.0);
/// The time after an attack that is looked at: the attacker rests so long.
const AFTER_NS: f64 = 1e9;
/// No run takes that long.
const LIMIT: Duration = Duration::from_secs(1500);
/// Looks at the bill for each look at the attacker's words, and the time between them.
const LOOKS: u32 = 4;
/// The longest boot.
const BOOT_MOST: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(150);
/// Part of an attack that is left out at its begin, in which what was before it ends.
const BEGIN: f64 = 0.1;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attacks",
    title: "Attacks of a neighbour: what is billed to whom, beside Linux with control groups",
    paper: "",
    shows: "An attacker pays for what it causes, and its neighbours get what they pay for.",
    run,
};

/// One line of the victim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    count: f64,
    billed_ns: f64,
    at_ns: f64,
    /// Frames so far, of a victim that has frames.
    frames: f64,
    /// Those that came late.
    late: f64,
}

/// One attack.
#[derive(Clone, Debug, PartialEq)]
struct Attack {
    name: String,
    begins_ns: f64,
    ends_ns: f64,
}

/// All that was seen of a machine.
#[derive(Default)]
struct Seen {
    victim: Vec<Work>,
    attacks: Vec<Attack>,
    bills: Vec<Goals>,
}

/// The harm of one attack.
#[derive(Clone, Debug, PartialEq)]
struct Harm {
    name: String,
    fidelity: f64,
    amplification: Option<f64>,
    /// Points.
    deviation: Option<f64>,
}

fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let ours = harms(&measure(rig, Kernel::Gyre, FILE)?);
    let linux = harms(&measure(rig, Kernel::Linux, FILE)?);
    report.figures.extend(figures(&ours, &linux));
    let worst = |harms: &[Harm]| harms.iter().filter_map(|harm| harm.deviation).reduce(f64::max);
    if let Some(deviation) = worst(&ours) {
        let figure = Figure::new("D in the second after an attack, worst", deviation, 2, "points");
        let figure = figure.goal("<= 0.5", deviation <= DEVIATION_MOST);
        report.figures.push(figure.linux(worst(&linux).unwrap_or(f64::NAN)));
    }
    report.notes.push("B: the victim's work for each billed second, attacked / at rest. A: cycles outside of victim and bystander above those at rest / cycles billed to the attacker; none for attacks that use less than 1 % of the core. One core, an instruction each 4 ns; shares 50 / 33 / 17.".into());
    liar::add(rig, &mut report)?;
    Ok(report)
}

/// B and A of each attack.
fn figures(ours: &[Harm], linux: &[Harm]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for harm in ours {
        let beside = linux.iter().find(|other| other.name == harm.name);
        let is_met = harm.fidelity >= FIDELITY_LEAST;
        let fidelity = Figure::new(format!("{}: B", harm.name), harm.fidelity, 3, "").goal(">= 0.99", is_met);
        figures.push(fidelity.linux(beside.map_or(f64::NAN, |other| other.fidelity)));
        if let Some(times) = harm.amplification {
            let is_met = times <= AMPLIFICATION_MOST;
            let figure = Figure::new(format!("{}: A", harm.name), times, 3, "").goal("<= 1.01", is_met);
            figures.push(figure.linux(beside.and_then(|other| other.amplification).unwrap_or(f64::NAN)));
        }
    }
    figures
}

/// The limits at the processor, which Linux' start does not write.
fn limits(description: &file::Description) -> Option<Together> {
    let limit = |tenant: &gyre_contract::boot::Tenant| {
        let cpu = tenant.entitlements.iter().find(|one| one.resource == Resource::Cpu)?;
        let limit = Wish::Be(cpu.limit?);
        Some(Change::Promise(Promise { limit, ..Promise::none(&tenant.name, Resource::Cpu) }))
    };
    let changes: Vec<Change> = description.machine.tenants.iter().filter_map(limit).collect();
    (!changes.is_empty()).then(|| Together { by: "attacks".into(), reason: "the machine file".into(), changes })
}

/// Boots the machine and looks at it until all attacks are over.
fn measure(rig: &Rig, on: Kernel, file_name: &str) -> Result<Seen> {
    let path = rig.project.root.join("experiments").join(file_name);
    let mut description = file::read(&path)?;
    let program = program::compile(&rig.project, "attacks/attacks.c")?;
    for image in description.images.values_mut() {
        image.files.insert("/attacks".into(), program.clone());
    }
    let limits = limits(&description).filter(|_| on == Kernel::Linux);
    let arguments = rig.arguments(path, on);
    let clock = Clock::SlowInstructions;
    let mut running = run::start_with_clock(&rig.project, description, &arguments, &rig.stop, clock)?;
    if let Some(limits) = limits {
        wait_for(&running.agent)?;
        running.agent.change(&limits)?;
    }
    let step = Step::start(format!("{file_name} on {on:?}"));
    let started = Instant::now();
    let mut seen = Seen::default();
    loop {
        let log = |name: &str| running.agent.get(&format!("/logs/{name}")).unwrap_or_default();
        let text = log(ATTACKER);
        for _ in 0..LOOKS {
            seen.bills.extend(running.agent.goals().ok().map(|shown| shown.goals));
            std::thread::sleep(PAUSE);
        }
        if text.contains("attacks: done") {
            seen.victim = works(&log(VICTIM));
            seen.attacks = attacks(&text);
            step.done();
            return Ok(seen);
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if started.elapsed() > LIMIT || text.contains("FAILED") {
            return Err(Failure::new(format!("the attacks did not come to their end: {text}")));
        }
        step.detail(text.lines().last().unwrap_or_default());
    }
}

/// Waits until a machine's agent answers: the port of one that boots is open before.
fn wait_for(agent: &Agent) -> Result<()> {
    let begin = Instant::now();
    while let Err(failure) = agent.goals() {
        if begin.elapsed() > BOOT_MOST {
            return Err(failure);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn works(text: &str) -> Vec<Work> {
    let one = |line: &str| {
        let mut words = line.trim().strip_prefix("attacks: work ")?.split_whitespace();
        let mut number = || words.next()?.parse::<f64>().ok();
        let (count, billed_ns, at_ns) = (number()?, number()?, number()?);
        Some(Work { count, billed_ns, at_ns, frames: number().unwrap_or(0.0), late: number().unwrap_or(0.0) })
    };
    text.lines().filter_map(one).collect()
}

fn attacks(text: &str) -> Vec<Attack> {
    let words = |word: &'static str| {
        text.lines().filter_map(move |line| {
            let (name, at) = line.trim().strip_prefix("attacks: ")?.strip_prefix(word)?.trim().split_once(' ')?;
            Some((name.to_owned(), at.parse::<f64>().ok()?))
        })
    };
    let ends: Vec<(String, f64)> = words("ends").collect();
    let whole = |(name, begins_ns): (String, f64)| {
        let ends_ns = ends.iter().find(|(other, _)| *other == name)?.1;
        Some(Attack { name, begins_ns, ends_ns })
    };
    words("begins").filter_map(whole).collect()
}

/// Returns what each attack but the rest did.
fn harms(seen: &Seen) -> Vec<Harm> {
    let Some(rest) = seen.attacks.iter().find(|attack| attack.name == REST) else { return vec![] };
    let (rate, outside) = (rate(seen, rest), outside(seen, rest));
    let harm = |attack: &Attack| {
        let fidelity = self::rate(seen, attack)? / rate?;
        let amplification = self::outside(seen, attack).zip(outside).and_then(|(now, rest)| {
            let above = now.outside - rest.outside;
            (now.billed >= 0.01).then(|| above / now.billed)
        });
        Some(Harm { name: attack.name.clone(), fidelity, amplification, deviation: deviation_after(seen, attack) })
    };
    seen.attacks.iter().filter(|attack| attack.name != REST).filter_map(harm).collect()
}

fn is_inside(attack: &Attack, at_ns: f64) -> bool {
    at_ns >= attack.begins_ns + BEGIN * (attack.ends_ns - attack.begins_ns) && at_ns <= attack.ends_ns
}

/// How far the victim's part is from its share in the second after an attack, points; `None` if fewer than two looks were in it.
fn deviation_after(seen: &Seen, attack: &Attack) -> Option<f64> {
    let is_after = |bill: &&Goals| (attack.ends_ns..=attack.ends_ns + AFTER_NS).contains(&(bill.now_ns as f64));
    let after: Vec<&Goals> = seen.bills.iter().filter(is_after).collect();
    let (first, last) = (after.first()?, after.last()?);
    let used = |name: &str| cycles(last, name).saturating_sub(cycles(first, name)) as f64;
    let (victim, bystander) = (used(VICTIM), used(BYSTANDER));
    let entitled = SHARES.0 / (SHARES.0 + SHARES.1);
    (victim + bystander > 0.0).then(|| (victim / (victim + bystander) - entitled).abs() * 100.0)
}

fn cycles(goals: &Goals, name: &str) -> u64 {
    goals.tenants.iter().find(|one| one.name == name).map_or(0, |one| one.cycles)
}

/// The victim's work for each nanosecond that it was billed.
fn rate(seen: &Seen, attack: &Attack) -> Option<f64> {
    let inside: Vec<&Work> = seen.victim.iter().filter(|work| is_inside(attack, work.at_ns)).collect();
    let (first, last) = (inside.first()?, inside.last()?);
    let billed_ns = last.billed_ns - first.billed_ns;
    (billed_ns > 0.0).then(|| (last.count - first.count) / billed_ns)
}

/// Parts of the machine.
#[derive(Clone, Copy)]
struct Outside {
    /// Neither the neighbours' nor that of the tool's questions.
    outside: f64,
    /// The attacker's on the bill.
    billed: f64,
}

fn outside(seen: &Seen, attack: &Attack) -> Option<Outside> {
    let inside: Vec<&Goals> = seen.bills.iter().filter(|bill| is_inside(attack, bill.now_ns as f64)).collect();
    let (first, last) = (inside.first()?, inside.last()?);
    let ns = last.now_ns.checked_sub(first.now_ns).filter(|ns| *ns > 0)? as f64;
    let whole = ns / 1e9 * last.cycles_per_second as f64 * f64::from(last.cores);
    let part = |name: &str| cycles(last, name).saturating_sub(cycles(first, name)) as f64 / whole;
    let others: f64 = [VICTIM, BYSTANDER, "system"].map(part).iter().sum();
    Some(Outside { outside: 1.0 - others, billed: part(ATTACKER) })
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::TenantGoal;

    use super::*;

    fn bill(now_ns: u64, cycles: [u64; 4]) -> Goals {
        let names = ["system", VICTIM, BYSTANDER, ATTACKER];
        let tenant = |(name, cycles): (&str, u64)| TenantGoal { name: name.into(), cycles, ..TenantGoal::default() };
        let tenants = names.into_iter().zip(cycles).map(tenant).collect();
        Goals { now_ns, cores: 1, cycles_per_second: 1_000_000_000, tenants, ..Goals::default() }
    }

    #[test]
    fn an_attack_that_others_pay_for_is_seen() {
        let attacks = attacks(
            "attacks: begins rest 0\nattacks: ends rest 1000\r\nattacks: begins x 2000\nattacks: ends x 3000\nattacks: begins y 4000\n",
        );
        assert_eq!(attacks.len(), 2, "what has not ended is left out: {attacks:?}");
        let work = |at_ns, count, billed_ns| Work { count, billed_ns, at_ns, ..Work::default() };
        let victim = vec![
            work(200.0, 0.0, 0.0),
            work(900.0, 70.0, 700.0),
            work(2200.0, 80.0, 800.0),
            work(2900.0, 115.0, 1150.0 + 350.0),
        ];
        // At rest a twentieth is nobody's; attacked the attacker is billed a tenth and causes two.
        let bills = vec![
            bill(200, [0, 0, 0, 0]),
            bill(1000, [0, 400, 360, 0]),
            bill(2200, [0, 400, 360, 0]),
            bill(3000, [0, 740, 620, 80]),
        ];
        let harms = harms(&Seen { victim, attacks, bills });
        assert_eq!(harms.len(), 1);
        assert!((harms[0].fidelity - 0.5).abs() < 1e-9, "{harms:?}");
        assert!((harms[0].amplification.unwrap() - 2.0).abs() < 1e-9, "{harms:?}");
    }

    #[test]
    fn a_share_that_is_not_back_within_a_second_is_seen() {
        let attack = Attack { name: "x".into(), begins_ns: 0.0, ends_ns: 2e9 };
        let second = 1_000_000_000;
        let seen = |victim: u64| Seen {
            bills: vec![bill(2 * second, [0, 100, 100, 9]), bill(3 * second, [0, 100 + victim, 100 + 33, 9])],
            ..Seen::default()
        };
        assert!(deviation_after(&seen(50), &attack).unwrap() < 1e-9);
        assert!((deviation_after(&seen(33), &attack).unwrap() - (50.0 / 83.0 - 0.5) * 100.0).abs() < 1e-9);
        assert_eq!(deviation_after(&Seen::default(), &attack), None, "nobody looked");
    }

    #[test]
    fn the_victims_lines_are_read() {
        assert_eq!(
            works("attacks: work 3 40 50\r\nattacks: work 3\nattacks: work 4 50 60 7 1\n"),
            [
                Work { count: 3.0, billed_ns: 40.0, at_ns: 50.0, ..Work::default() },
                Work { count: 4.0, billed_ns: 50.0, at_ns: 60.0, frames: 7.0, late: 1.0 }
            ]
        );
    }
}
