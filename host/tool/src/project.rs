//! Where things are: the source tree, the cache, a running machine's folder.

use std::path::{Path, PathBuf};

use crate::failure::{Context as _, Failure, Result};

/// The project's source tree.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its root.
    pub root: PathBuf,
}

impl Project {
    /// Finds the tree: `GYRE_ROOT` (the start script sets it), or the nearest ancestor that holds it.
    ///
    /// # Errors
    /// When neither is there.
    pub fn find() -> Result<Self> {
        let given = std::env::var_os("GYRE_ROOT").map(PathBuf::from);
        let here = std::env::current_dir().context(|| "cannot tell the current directory".into())?;
        let is_root = |path: &&Path| path.join("host/tool/Cargo.toml").exists();
        let found = given.iter().map(PathBuf::as_path).chain(here.ancestors()).find(is_root).map(Path::to_owned);
        let help = "run it as ./gyre from the project's root, or set GYRE_ROOT";
        found
            .map(|root| Self { root })
            .ok_or_else(|| Failure::with_help("the project's source tree was not found", help))
    }

    /// What can be made again: images, packages, runs.
    pub fn cache(&self, name: &str) -> Result<PathBuf> {
        make(self.root.join(".gyre").join(name))
    }

    /// The folder of one machine's run: disks, log of the console, sockets.
    pub fn run_folder(&self, machine: &str) -> Result<PathBuf> {
        make(self.root.join(".gyre/run").join(machine))
    }

    /// Where results of experiments go.
    pub fn report_folder(&self) -> Result<PathBuf> {
        make(self.root.join("report"))
    }
}

fn make(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&path).context(|| format!("cannot make the folder {}", path.display()))?;
    Ok(path)
}
