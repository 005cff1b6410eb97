//! The manifests: which crates there are, and which of each other they use, and for which purpose.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::files;

/// Sections of a manifest, and of each of its targets, that hold dependencies.
const SECTIONS: [(&str, Purpose); 3] =
    [("dependencies", Purpose::Build), ("build-dependencies", Purpose::Build), ("dev-dependencies", Purpose::Test)];

/// A crate.
pub struct Manifest {
    pub name: String,
    pub folder: PathBuf,
    pub uses: Vec<Arrow>,
}

/// A dependency, by the package's own name.
pub struct Arrow {
    pub package: String,
    pub purpose: Purpose,
}

/// Purpose of a dependency.
#[derive(Clone, Copy)]
pub enum Purpose {
    /// The crate, or the program that builds it, is not made without it.
    Build,
    /// Tests, benchmarks and examples alone use it.
    Test,
}

/// Reads all crates below a folder, whether the workspace names them or not. Returns what is wrong with the first that cannot be read.
pub fn read(root: &Path) -> Result<Vec<Manifest>, String> {
    let workspace = parse(root, Path::new("Cargo.toml"))?;
    let common = workspace.get("workspace").and_then(|table| table.get("dependencies"));
    let paths = files(root, |path| path.ends_with("Cargo.toml") && path != Path::new("Cargo.toml"));
    paths.iter().map(|path| read_crate(root, path, common)).collect()
}

fn read_crate(root: &Path, path: &Path, common: Option<&toml::Value>) -> Result<Manifest, String> {
    let manifest = parse(root, path)?;
    let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
    let name = name.ok_or_else(|| format!("{}: names no package", path.display()))?.to_owned();
    let folder = path.parent().unwrap_or(path).to_owned();
    Ok(Manifest { name, folder, uses: arrows(&manifest, common) })
}

fn parse(root: &Path, path: &Path) -> Result<toml::Table, String> {
    let text = fs::read_to_string(root.join(path)).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
    text.parse().map_err(|wrong| format!("{}: {wrong}", path.display()))
}

/// Returns the dependencies of a crate, those of each target included.
fn arrows(manifest: &toml::Table, common: Option<&toml::Value>) -> Vec<Arrow> {
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let targets = targets.into_iter().flat_map(|targets| targets.values().filter_map(|target| target.as_table()));
    let mut arrows = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for (section, purpose) in SECTIONS {
            let used = table.get(section).and_then(|section| section.as_table()).into_iter().flatten();
            arrows.extend(used.map(|(key, given)| Arrow { package: package(key, given, common), purpose }));
        }
    }
    arrows
}

/// Returns the package that a key stands for: the key, unless the crate or the workspace gives the package another name.
fn package(key: &str, given: &toml::Value, common: Option<&toml::Value>) -> String {
    let renamed = |value: &toml::Value| value.get("package")?.as_str().map(str::to_owned);
    renamed(given).or_else(|| renamed(common?.get(key)?)).unwrap_or_else(|| key.to_owned())
}
