//! `gyre test`: every test of the project, and one last line that says how many passed.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use crate::{
    build, cli, command,
    failure::{Context as _, Result},
    project::Project,
    ui::{Paint, Step, paint, say},
};

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
}

/// `gyre test [FILTER]`.
///
/// # Errors
/// When a test cannot even be started.
pub fn test(arguments: &cli::Test) -> Result<ExitCode> {
    let project = Project::find()?;
    let mut tally = Tally::default();
    host_tests(&project, arguments, &mut tally)?;
    tidy(&project, &mut tally)?;
    if !arguments.no_boot {
        boot_tests(&project, arguments, &mut tally)?;
    }
    for name in &tally.failed {
        say(&format!("{} {name}", paint(Paint::Bad, "failed:")));
    }
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

/// Crates that run on the bare machine only.
const BARE: &[&str] = &["gyre-kernel", "gyre-boot-test"];

fn host_tests(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&project.root).args(["test", "--workspace", "--no-fail-fast", "--features", "gyre-config/std"]);
    for package in BARE.iter().filter(|package| is_member(project, package)) {
        cargo.args(["--exclude", package]);
    }
    if let Some(filter) = &arguments.filter {
        cargo.args(["--", filter]);
    }
    let before = tally.failed.len();
    let ok = read_tests(&mut cargo, "testing on the host", tally)?;
    if !ok && tally.failed.len() == before {
        tally.failed.push("cargo test (does not build)".into());
    }
    Ok(())
}

fn is_member(project: &Project, package: &str) -> bool {
    let lock = std::fs::read_to_string(project.root.join("Cargo.lock")).unwrap_or_default();
    lock.contains(&format!("name = \"{package}\"\n"))
}

/// Runs a command that speaks as `cargo test` does; each line "test NAME ... ok" counts.
fn read_tests(command: &mut Command, title: &str, tally: &mut Tally) -> Result<bool> {
    let step = Step::start(title);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("cannot start: {title}"))?;
    let progress = child.stderr.take();
    let errors = std::thread::spawn(move || {
        progress.map_or(String::new(), |pipe| std::io::read_to_string(pipe).unwrap_or_default())
    });
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            step.detail(&line);
            count(&line, tally);
            said += &line;
            said.push('\n');
        }
    }
    let status = child.wait().context(|| format!("cannot wait: {title}"))?;
    let errors = errors.join().unwrap_or_default();
    if status.success() {
        step.done_with(&format!("{} passed so far", tally.passed));
    } else {
        drop(step);
        say(&failures(&said));
        say(&command::last_lines(&errors, 40));
    }
    Ok(status.success())
}

/// Counts one line of a test's output.
fn count(line: &str, tally: &mut Tally) {
    // Boot scripts say "ok NAME" and "FAILED NAME".
    if line.starts_with("ok  ") {
        tally.passed += 1;
    } else if let Some(name) = line.strip_prefix("FAILED  ") {
        tally.failed.push(name.to_owned());
    }
    let Some(rest) = line.strip_prefix("test ") else {
        return;
    };
    if let Some(name) = rest.strip_suffix(" ... FAILED") {
        tally.failed.push(name.to_owned());
    } else if rest.ends_with(" ... ok") {
        tally.passed += 1;
    }
}

/// What the failed tests said: of each test program what lies between its first "failures:" and its result.
fn failures(said: &str) -> String {
    let blocks = said.split("\nfailures:\n").skip(1).map(|rest| rest.split("\ntest result:").next().unwrap_or(rest));
    let told: Vec<_> =
        blocks.filter(|block| block.contains("---- ")).map(|block| command::last_lines(block, 80)).collect();
    // Boot scripts say it in lines of their own, at the end.
    if told.is_empty() { command::last_lines(said, 20) } else { told.join("\n") }
}

fn tidy(project: &Project, tally: &mut Tally) -> Result<()> {
    if !project.root.join("host/tidy/Cargo.toml").exists() {
        return Ok(());
    }
    let step = Step::start("reading the source (tidy)");
    let mut cargo = build::cargo_command()?;
    let run = command::output(cargo.current_dir(&project.root).args(["run", "--quiet", "--package", "gyre-tidy"]));
    match run {
        Ok(_) => {
            step.done();
            tally.passed += 1;
        }
        Err(failure) => {
            say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
            tally.failed.push("tidy".into());
        }
    }
    Ok(())
}

/// Runs every executable `tests/boot/*/run` and `tests/boot/*.sh`: it boots machines itself and speaks as `cargo test` does, or its exit code counts.
fn boot_tests(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_failed_test_said_is_shown_and_nothing_else() {
        let program = |name: &str, why: &str| {
            format!(
                "test {name} ... FAILED\n\nfailures:\n\n---- {name} stdout ----\n{why}\n\nfailures:\n    {name}\n\ntest result: FAILED.\n"
            )
        };
        let said = program("a", "panicked: one")
            + "test b ... ok\ntest result: ok. 1 passed\n"
            + &program("c", "panicked: two");
        let shown = failures(&said);
        assert!(shown.contains("panicked: one") && shown.contains("panicked: two"), "{shown}");
        assert!(!shown.contains("test result") && !shown.contains("test b"), "{shown}");
        assert!(failures("test boots ... FAILED\nboots: no answer\n").contains("boots: no answer"));
    }

    #[test]
    fn only_lines_of_tests_count() {
        let mut tally = Tally::default();
        for line in [
            "test a::b ... ok",
            "test c ... FAILED",
            "test result: ok. 3 passed",
            "test d ... ignored",
            "running 3 tests",
            "ok      q35, 4 cores",
            "FAILED  microvm",
        ] {
            count(line, &mut tally);
        }
        assert_eq!((tally.passed, tally.failed), (2, vec!["c".to_owned(), "microvm".to_owned()]));
    }
}
