//! One run of a program that boots machines: its count, its words, and the folder that keeps both.
//!
//! The folder is `target/test/NAME/TRY`, with `--repeat` `target/test/NAME/round-N/1`. It holds `output.log`, and what the program puts there by itself: tests/boot/machine.py copies the
//! console of each machine. A second try does not remove what the first one has left.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
};

use super::{
    plan::Plan,
    tally::{Check, Heard, Tally, follow_tests},
};
use crate::{
    command,
    failure::{Context as _, Result},
    project::Project,
    ui::Step,
};

/// Names the folder of the attempt to the program.
const FOLDER: &str = "GYRE_SUITE";
/// Tells the program which try it is.
const TRY: &str = "GYRE_TRY";
/// The end of the names of files that hold consoles.
const CONSOLE: &str = "console.log";

/// The number of a run of one program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Try {
    /// Beside others.
    First,
    /// Alone, at the end, after the first one failed.
    Second,
    /// One of several rounds, as if it were the first try.
    Round(u32),
}

impl Try {
    fn number(self) -> &'static str {
        match self {
            Self::First | Self::Round(_) => "1",
            Self::Second => "2",
        }
    }

    /// Returns its folder in that of its suite.
    fn place(self) -> PathBuf {
        match self {
            Self::First | Self::Second => self.number().into(),
            Self::Round(round) => Path::new(&format!("round-{round}")).join(self.number()),
        }
    }

    /// Returns whether it is the first of this call of the command.
    fn begins(self) -> bool {
        matches!(self, Self::First | Self::Round(1))
    }
}

/// A run that has ended.
pub struct Attempt {
    /// Its count.
    pub tally: Tally,
    /// The words about the checks that failed; empty if none did.
    pub reason: String,
    /// The folder that keeps its words.
    pub folder: PathBuf,
    /// It was ended since it hung.
    pub has_hung: bool,
}

impl Attempt {
    /// Runs a program of the project.
    ///
    /// # Errors
    /// When it cannot be started, or its folder cannot be made.
    pub fn run(project: &Project, plan: &Plan, name: &str, path: &Path, which: Try) -> Result<Self> {
        let folder = folder(project, name, which)?;
        let tool = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
        // It ends with the thread that starts it, and has a group, so that it can be ended as a whole.
        let mut command = command::program("setpriv")?;
        command.args(["--pdeathsig", "TERM", "--"]).arg(path).process_group(0);
        command.current_dir(&project.root).env("GYRE", tool).env("GYRE_ROOT", &project.root);
        command.envs(plan.environment()).env(FOLDER, &folder).env(TRY, which.number());
        let (mut tally, title) = (Tally::default(), format!("booting {name}"));
        let step = Step::start(&title);
        let heard = follow_tests(&mut command, name, plan.bound(), &step, &mut tally)?;
        if tally.failed.is_empty() && (!heard.is_success || tally.passed == 0) {
            tally.take(Check { name: name.to_owned(), has_passed: heard.is_success });
        }
        if heard.is_success {
            step.done_with(&format!("{} passed", tally.passed));
        }
        keep(&heard, &folder)?;
        tally.stories.iter_mut().for_each(|story| story.folder = Some(folder.clone()));
        let reason = if heard.is_success { String::new() } else { heard.reason() };
        Ok(Self { tally, reason, folder, has_hung: heard.hang.is_some() })
    }

    /// Returns whether a check failed.
    pub fn has_failed(&self) -> bool {
        !self.tally.failed.is_empty()
    }

    /// Returns the consoles that the folder holds, each with its file's name.
    pub fn consoles(&self) -> Vec<(String, String)> {
        consoles(&self.folder)
    }
}

/// Returns the consoles that a folder holds, each with its file's name.
pub fn consoles(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut names: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    names.retain(|path| path.to_string_lossy().ends_with(CONSOLE));
    names.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    names.iter().map(|path| (name(path), String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into())).collect()
}

/// Makes the folder of an attempt; a first one removes those of an earlier run of the command.
fn folder(project: &Project, name: &str, which: Try) -> Result<PathBuf> {
    let suite = project.root.join("target/test").join(name.replace('/', "-"));
    if which.begins() && suite.exists() {
        fs::remove_dir_all(&suite).context(|| format!("cannot remove {}", suite.display()))?;
    }
    let folder = suite.join(which.place());
    fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn keep(heard: &Heard, folder: &Path) -> Result<()> {
    let path = folder.join("output.log");
    let text = format!("{}\n--- standard error ---\n{}", heard.said, heard.errors);
    fs::write(&path, text).context(|| format!("cannot write {}", path.display()))
}
