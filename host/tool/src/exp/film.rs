//! Machines whose tenants encode films (`experiments/encoder/encoder.c`) and say for each second what they did.
//!
//! Time is counted in instructions, four nanoseconds each, so that a busy host changes nothing.

use std::time::{Duration, Instant};

use gyre_contract::goals::BrokerPolicy;
use gyre_machine_file as file;

use super::{program, rig::Rig};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    qemu::Clock,
    run,
    ui::Step,
};

/// No film takes longer.
const LIMIT: Duration = Duration::from_secs(1500);
/// Between two looks at the films, each of which costs the machine a part of its core.
const PAUSE: Duration = Duration::from_secs(2);
const HOG: &str = "hog";

/// One second of a film.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Frames.
    pub frames: f64,
    /// The part of a core that it used, 0 to 1.
    pub used: f64,
    /// Frames that came too late.
    pub late: u32,
}

/// Boots `experiments/FILE` with a policy of the broker and waits for the ends of all films; answers their seconds, in the order of the tenants.
///
/// # Errors
/// When the machine does not run, or a film fails.
pub fn play(rig: &Rig, file_name: &str, on: Kernel, policy: BrokerPolicy) -> Result<Vec<(String, Vec<Second>)>> {
    let path = rig.project.root.join("experiments").join(file_name);
    let mut description = file::read(&path)?;
    let program = program::compile(&rig.project, "encoder/encoder.c")?;
    for image in description.images.values_mut() {
        image.files.insert("/encoder".into(), program.clone());
    }
    description.machine.broker.policy = Some(policy);
    let encodes = |tenant: &&gyre_contract::boot::Tenant| {
        tenant.program.as_ref().is_some_and(|program| program.argv.last().is_some_and(|last| last != HOG))
    };
    let customers = description.machine.tenants.iter().skip(1);
    let names: Vec<String> = customers.filter(encodes).map(|tenant| tenant.name.clone()).collect();
    let arguments = rig.arguments(path, on);
    let mut running = run::start_with_clock(&rig.project, description, &arguments, &rig.stop, Clock::SlowInstructions)?;
    let step = Step::start(format!("films on {on:?}, policy {}", policy.name()));
    let started = Instant::now();
    loop {
        let log = |name: &String| running.agent.get(&format!("/logs/{name}")).unwrap_or_default();
        let texts: Vec<String> = names.iter().map(log).collect();
        if texts.iter().all(|text| text.contains("encoder: done")) {
            step.done();
            return Ok(names.into_iter().zip(texts.iter().map(|text| seconds(text))).collect());
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if started.elapsed() > LIMIT || texts.iter().any(|text| text.contains("FAILED")) {
            return Err(Failure::new(format!("a film did not come to its end: {texts:?}")));
        }
        let most = texts.iter().map(|text| seconds(text).len()).max().unwrap_or(0);
        step.detail(&format!("{most} s of the film"));
        std::thread::sleep(PAUSE);
    }
}

/// Reads the seconds that a program has said.
fn seconds(text: &str) -> Vec<Second> {
    let second = |line: &str| {
        let mut words = line.trim().strip_prefix("encoder: second ")?.split_whitespace();
        let mut number = || words.next()?.parse::<f64>().ok();
        Some(Second { frames: number()? / 1000.0, used: number()? / 1e6, late: number()? as u32 })
    };
    text.lines().filter_map(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_from_a_log() {
        let text = "x\nencoder: second 29500 640000 2\r\nencoder: second 3\nencoder: done 0\n";
        assert_eq!(seconds(text), [Second { frames: 29.5, used: 0.64, late: 2 }]);
    }
}
