//! Places of the project: the source tree or the installation, the state (images, packages, runs), reports.
//!
//! | | programs | state |
//! |---|---|---|
//! | source tree | cargo builds them | `.gyre` in the tree |
//! | installation | `../lib/gyre` beside the tool's folder | `/var/lib/gyre` for root, else `$XDG_STATE_HOME/gyre` or `~/.local/state/gyre` |
//!
//! `GYRE_ROOT` (the start script sets it) names a source tree, `GYRE_STATE` another folder for the state.

use std::path::{Path, PathBuf};

use crate::{
    failure::{Context as _, Failure, Result},
    namespace,
};

/// The folder of an installation's programs, from that of the tool.
const LIBRARY: &str = "../lib/gyre";
/// The state of an installation that root uses.
const STATE_OF_ROOT: &str = "/var/lib/gyre";
/// A program that each installation has.
const KERNEL: &str = "gyre-kernel";

/// The project's places.
#[derive(Clone, Debug)]
pub struct Project {
    /// The root of the source tree; of an installation its programs' folder.
    pub root: PathBuf,
    /// The folder of the state.
    state: PathBuf,
    /// The folder with the programs of an installation; none in a source tree.
    pub library: Option<PathBuf>,
}

impl Project {
    /// Finds it: `GYRE_ROOT`, the installation that this tool belongs to, or the nearest ancestor that is a source tree.
    ///
    /// # Errors
    /// When there is none of them.
    pub fn find() -> Result<Self> {
        let tool = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
        let given = std::env::var_os("GYRE_ROOT").map(PathBuf::from);
        if let Some(library) = library_of(&tool).filter(|_| given.is_none()) {
            return Ok(Self { root: library.clone(), state: state(), library: Some(library) });
        }
        let here = std::env::current_dir().context(|| "cannot tell the current directory".into())?;
        let is_root = |path: &&Path| path.join("host/tool/Cargo.toml").exists();
        let found = given.iter().map(PathBuf::as_path).chain(here.ancestors()).find(is_root);
        let help = "run it as ./gyre from the project's root, set GYRE_ROOT, or install the package";
        found.map(Self::of_tree).ok_or_else(|| Failure::with_help("the project's source tree was not found", help))
    }

    /// Returns the places of a source tree.
    pub fn of_tree(root: &Path) -> Self {
        let state = std::env::var_os("GYRE_STATE").map_or_else(|| root.join(".gyre"), PathBuf::from);
        Self { root: root.to_owned(), state, library: None }
    }

    /// Checks that this is a source tree, for what an installation does not have.
    ///
    /// # Errors
    /// When it is an installation.
    pub fn needs_tree(&self, what: &str) -> Result<()> {
        match &self.library {
            None => Ok(()),
            Some(_) => {
                let help = "get the source, and run ./gyre there";
                Err(Failure::with_help(format!("{what} needs the project's source tree"), help))
            }
        }
    }

    /// Returns the folder of things that can be made again: images, packages, runs.
    pub fn cache(&self, name: &str) -> Result<PathBuf> {
        make(self.state.join(name))
    }

    /// Returns the folder of one machine's run: disks, log of the console, sockets.
    pub fn run_folder(&self, machine: &str) -> Result<PathBuf> {
        make(self.state.join("run").join(machine))
    }

    /// Returns the folder for results of experiments.
    pub fn report_folder(&self) -> Result<PathBuf> {
        make(self.root.join("report"))
    }
}

/// Returns the programs' folder of the installation that a tool belongs to, if it belongs to one.
fn library_of(tool: &Path) -> Option<PathBuf> {
    let library = tool.parent()?.join(LIBRARY);
    library.join(KERNEL).is_file().then(|| library.canonicalize().unwrap_or(library))
}

fn state() -> PathBuf {
    // A user who is root only in a namespace that this tool has made is no root.
    let is_root = nix::unistd::geteuid().is_root() && std::env::var_os(namespace::INSIDE).is_none();
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(state) = variable("GYRE_STATE") {
        return state;
    }
    if is_root {
        return STATE_OF_ROOT.into();
    }
    let home = || variable("HOME").unwrap_or_default().join(".local/state");
    variable("XDG_STATE_HOME").unwrap_or_else(home).join("gyre")
}

fn make(path: PathBuf) -> Result<PathBuf> {
    let help = "GYRE_STATE names another folder that you can write to";
    std::fs::create_dir_all(&path)
        .map_err(|error| Failure::with_help(format!("cannot make the folder {}: {error}", path.display()), help))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_told_by_the_kernel_beside_the_tool() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("bin/gyre");
        assert_eq!(library_of(&tool), None);
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("lib/gyre")).unwrap();
        assert_eq!(library_of(&tool), None);
        std::fs::write(folder.path().join("lib/gyre/gyre-kernel"), "").unwrap();
        let library = library_of(&tool).unwrap();
        assert!(library.ends_with("lib/gyre"));
        let installed = Project { root: library.clone(), state: folder.path().join("state"), library: Some(library) };
        assert!(installed.needs_tree("gyre exp").is_err());
        assert_eq!(installed.run_folder("m").unwrap(), folder.path().join("state/run/m"));
        assert!(Project::of_tree(folder.path()).needs_tree("gyre exp").is_ok());
    }
}
