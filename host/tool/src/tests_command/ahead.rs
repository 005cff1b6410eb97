//! Kernel, agent and the programs of boot tests are built while the tests on the host run: those leave a core idle at times, and scripts that
//! measure want the host alone, without a compiler.

use std::process::Command;

use super::plan::{Depth, Plan};
use crate::{build, command, project::Project};

/// Scripts that build something of their own; with the word [`ONLY_BUILD`] they do only that.
const SCRIPTS: &[&str] = &[
    "tests/boot/containment/run",
    "tests/boot/filters/run",
    "tests/boot/pulse/run",
    "tests/boot/programs/run",
    "tests/boot/services/run",
    "tests/boot/zones/run",
    "tests/boot/platform.sh",
];
const ONLY_BUILD: &str = "build";

/// Builds, if everything is to be tested. Whoever needs it builds again, which takes a moment then and says what is wrong; so no failure is
/// told here.
pub fn build(project: &Project, plan: &Plan) {
    if !matches!(plan.depth, Depth::Whole | Depth::Long(_)) || !plan.has_boot || plan.filter.is_some() {
        return;
    }
    let _ = build::ahead(project);
    for name in SCRIPTS {
        let mut script = Command::new(project.root.join(name));
        let _ = command::output(script.arg(ONLY_BUILD).current_dir(&project.root).env("GYRE_ROOT", &project.root));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_build_know_the_word() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in SCRIPTS {
            let script = std::fs::read_to_string(root.join(name)).unwrap();
            let quoted = format!("\"{ONLY_BUILD}\"");
            assert!(script.contains(&quoted) || script.contains(&format!("= {ONLY_BUILD} ]")), "{name}");
        }
    }
}
