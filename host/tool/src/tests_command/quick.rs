//! `--quick`: what a change needs at once. The tests of the packages that it concerns, a few seeds, and one machine that boots.
//!
//! * A change is what differs from the last commit that is in `main`, too: commits since then, and what is not committed. On `main` itself it is
//!   the last commit, and what is not committed.
//! * It concerns the packages whose files differ, and those that name one of them in their manifest. Those further away are left to a whole run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use super::host::BARE;
use crate::{
    build, command,
    failure::{Context as _, Result},
    project::Project,
    ui::say,
};

/// The suite that boots a machine and has it serve, and takes the least time.
pub const SUITE: &str = "tests/boot/streams/run";
/// Seeds of the simulator.
pub const SEEDS: u32 = 4;
/// Names that `main` may have.
const MAINS: &[&str] = &["main", "origin/main"];

/// Returns the packages that a change concerns.
///
/// # Errors
/// When git or cargo does not answer.
pub fn packages(project: &Project) -> Result<Vec<String>> {
    let base = base(project)?;
    let mut changed = lines(&git(project, &["diff", "--name-only", &base])?);
    changed.extend(lines(&git(project, &["ls-files", "--others", "--exclude-standard"])?));
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&project.root).args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = command::output(&mut cargo)?;
    let all: Metadata = serde_json::from_str(&text).context(|| "cannot understand cargo metadata".into())?;
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    let found = concerned(&all.packages, &root, &changed);
    let short = base.get(..10).unwrap_or(&base);
    say(&format!("{} files differ from {short}; that concerns: {}", changed.len(), found.join(" ")));
    Ok(found)
}

/// Returns the commit from which a change is counted.
fn base(project: &Project) -> Result<String> {
    let head = git(project, &["rev-parse", "HEAD"])?;
    let shared = MAINS.iter().find_map(|main| git(project, &["merge-base", "HEAD", main]).ok());
    match shared {
        Some(base) if base != head => Ok(base),
        // A first commit has none before it.
        _ => Ok(git(project, &["rev-parse", "HEAD~1"]).unwrap_or(head)),
    }
}

fn git(project: &Project, words: &[&str]) -> Result<String> {
    let text = command::output(Command::new("git").current_dir(&project.root).args(words))?;
    Ok(text.trim().to_owned())
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The answer of `cargo metadata` (reference of cargo).
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// The folder of one that is in the tree.
    path: Option<PathBuf>,
}

/// Returns the packages of changed files, and those that depend on them directly; without those that no host runs.
fn concerned(packages: &[Package], root: &Path, changed: &[String]) -> Vec<String> {
    let owners: BTreeSet<&str> = changed.iter().filter_map(|file| owner(packages, &root.join(file))).collect();
    let depends = |package: &Package| {
        package.dependencies.iter().any(|one| one.path.is_some() && owners.contains(one.name.as_str()))
    };
    let is_concerned = |package: &&Package| owners.contains(package.name.as_str()) || depends(package);
    let names = packages.iter().filter(is_concerned).map(|package| package.name.clone());
    names.filter(|name| !BARE.contains(&name.as_str())).collect()
}

/// Returns the package whose folder holds a file: the innermost one.
fn owner<'a>(packages: &'a [Package], file: &Path) -> Option<&'a str> {
    let folder = |package: &&Package| package.manifest_path.parent().is_some_and(|folder| file.starts_with(folder));
    let holds = packages.iter().filter(folder).max_by_key(|package| package.manifest_path.as_os_str().len());
    holds.map(|package| package.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, needs: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: (*name).into(), path: Some("/t".into()) };
        let dependencies = needs.iter().map(dependency).collect();
        Package { name: name.into(), manifest_path: format!("/t/{folder}/Cargo.toml").into(), dependencies }
    }

    #[test]
    fn a_change_concerns_its_package_and_those_that_name_it() {
        let packages = [
            package("engine", "runtime/engine", &[]),
            package("inner", "runtime/engine/inner", &[]),
            package("net", "resources/net", &["engine"]),
            package("shop", "shop", &["net"]),
            package("gyre-kernel", "system/kernel", &["engine"]),
        ];
        let of = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            concerned(&packages, Path::new("/t"), &files)
        };
        assert_eq!(of(&["runtime/engine/src/lib.rs"]), ["engine", "net"]);
        assert_eq!(of(&["runtime/engine/inner/src/lib.rs", "docs/testing.md"]), ["inner"]);
        assert!(of(&["README.md", "runtime/engineer"]).is_empty());
    }

    #[test]
    fn the_suite_is_there() {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SUITE).is_file());
    }
}
