//! The tests that boot machines.

use std::{path::PathBuf, process::Command};

use super::tally::{Tally, read_tests};
use crate::{
    build, cli,
    failure::{Context as _, Result},
    project::Project,
    ui::say,
};

/// Runs every executable `tests/boot/*/run` and `tests/boot/*.sh`: it boots machines itself and speaks as `cargo test` does, or its exit code counts.
///
/// # Errors
/// When a script cannot be started.
pub fn tests(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    let name_of = |script: &PathBuf| script.strip_prefix(&project.root).unwrap_or(script).display().to_string();
    let is_wanted = |name: &String| arguments.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let chosen: Vec<_> = scripts(project)?.into_iter().filter(|script| is_wanted(&name_of(script))).collect();
    // Scripts wait for machines with a limit, which is not for compilers.
    if !chosen.is_empty()
        && let Err(failure) = build::kernel(project).and_then(|_| build::agent(project))
    {
        say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
        tally.failed.push("the kernel or the agent (does not build)".into());
        return Ok(());
    }
    for script in chosen {
        let name = name_of(&script);
        let before = (tally.passed, tally.failed.len());
        let tool = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
        let mut run = Command::new(&script);
        run.current_dir(&project.root).env("GYRE", tool).env("GYRE_ROOT", &project.root);
        let ok = read_tests(&mut run, &format!("booting {name}"), tally)?;
        match (ok, (tally.passed, tally.failed.len()) == before) {
            (true, true) => tally.passed += 1,
            (false, _) if tally.failed.len() == before.1 => tally.failed.push(name),
            _ => {}
        }
    }
    Ok(())
}

fn scripts(project: &Project) -> Result<Vec<PathBuf>> {
    let folder = project.root.join("tests/boot");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(vec![]);
    };
    let script = |path: PathBuf| match path.is_dir() {
        true => Some(path.join("run")).filter(|run| run.is_file()),
        false => Some(path).filter(|path| path.extension().is_some_and(|extension| extension == "sh")),
    };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| script(entry.ok()?.path())).collect();
    all.sort();
    Ok(all)
}
