//! The tool as a package: version and commit, and the tree of an installation (`gyre package`, of which packaging/deb makes a package).
//!
//! ```text
//! usr/bin/gyre
//! usr/lib/gyre/{gyre-kernel,gyre-agent,gyre-cell}     Project::find knows an installation by them
//! usr/share/man/man1/, usr/share/{bash-completion,zsh,fish}/...
//! ```

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::LazyLock,
};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{
    build,
    cli::{self, Cli},
    failure::{Context as _, Result},
    project::Project,
    record,
};

/// The commit, if whoever built it said so (tests/package does).
const COMMIT: Option<&str> = option_env!("GYRE_COMMIT");

/// Returns version and commit: that of the build, or of the source tree that it works in when it is asked first.
pub fn words() -> String {
    static WORDS: LazyLock<String> = LazyLock::new(read);
    WORDS.clone()
}

/// Returns who writes a document.
pub fn writer() -> String {
    format!("gyre {}", words())
}

fn read() -> String {
    let of_tree = || record::commit::of(&Project::find().ok().filter(|project| project.library.is_none())?).ok();
    let commit = COMMIT.map(str::to_owned).or_else(of_tree).unwrap_or_else(|| "unknown".into());
    format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"))
}

/// Returns whether the command line asks for nothing but the version.
pub fn is_asked() -> bool {
    let mut words = std::env::args().skip(1);
    words.next().is_some_and(|word| word == "-V" || word == "--version") && words.next().is_none()
}

/// Places of completions below `usr/share`.
const COMPLETIONS: &[(Shell, &str)] = &[
    (Shell::Bash, "bash-completion/completions/gyre"),
    (Shell::Zsh, "zsh/vendor-completions/_gyre"),
    (Shell::Fish, "fish/vendor_completions.d/gyre.fish"),
];

/// Runs `gyre package FOLDER`.
///
/// # Errors
/// When something cannot be built or the folder not be written.
pub fn package(arguments: &cli::Package) -> Result<ExitCode> {
    let project = Project::find()?;
    project.needs_tree("a package")?;
    let kernel = arguments.kernel.clone().map_or_else(|| build::kernel(&project), Ok)?;
    let programs =
        [("gyre-kernel", kernel), ("gyre-agent", build::agent(&project)?), ("gyre-cell", build::cell(&project)?)];
    let tool = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
    put(&tool, &arguments.folder.join("usr/bin/gyre"))?;
    for (name, from) in programs {
        put(&from, &arguments.folder.join("usr/lib/gyre").join(name))?;
    }
    share(&arguments.folder.join("usr/share"))?;
    Ok(ExitCode::SUCCESS)
}

fn put(from: &Path, to: &Path) -> Result<()> {
    folder_of(to)?;
    let copied = std::fs::copy(from, to).map(drop);
    let right = |()| std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755));
    copied.and_then(right).context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Writes manual and completions.
fn share(to: &Path) -> Result<()> {
    let man: PathBuf = to.join("man/man1");
    let cannot = || format!("cannot write {}", to.display());
    std::fs::create_dir_all(&man).context(cannot)?;
    clap_mangen::generate_to(Cli::command(), &man).context(cannot)?;
    for (shell, place) in COMPLETIONS {
        let (place, mut words) = (to.join(place), vec![]);
        folder_of(&place)?;
        clap_complete::generate(*shell, &mut Cli::command(), "gyre", &mut words);
        std::fs::write(place, words).context(cannot)?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_each_shell_completions() {
        let folder = tempfile::tempdir().unwrap();
        share(folder.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text("man/man1/gyre.1").contains("gyre\\-add") && text("man/man1/gyre-add.1").contains("spare"));
        COMPLETIONS.iter().for_each(|(_, place)| assert!(text(place).contains("restart"), "{place}"));
        assert!(words().starts_with(env!("CARGO_PKG_VERSION")) && words().contains("commit"));
    }
}
