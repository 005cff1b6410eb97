//! Debian packages: resolved by apt as if nothing were installed, downloaded, unpacked.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::{
    command,
    failure::{Context as _, Failure, Kind, Result},
    project::Project,
    ui::Step,
};

/// Downloads packages and what they depend on (but not recommend), and returns the files in a stable order.
///
/// # Errors
/// When apt does not know a package or cannot reach its archive.
pub fn fetch(project: &Project, packages: &[String], exclude: &[String], step: &Step) -> Result<Vec<PathBuf>> {
    let archives = project.cache("packages")?;
    std::fs::create_dir_all(archives.join("partial")).context(|| "cannot make the package cache".into())?;
    let status = archives.join("nothing-installed");
    std::fs::write(&status, "").context(|| "cannot write to the package cache".into())?;
    let wanted = resolve(&archives, &status, packages)?;
    step.detail(&format!("downloading {} packages", wanted.len()));
    let mut install = apt(&archives, &status)?;
    install.args(["install", "--download-only", "--yes"]).args(packages);
    command::output(&mut install).map_err(unreachable)?;
    let excluded = |name: &str| exclude.iter().any(|package| name.starts_with(&format!("{package}_")));
    let kept = wanted.into_iter().filter(|name| !excluded(name));
    Ok(kept.map(|name| archives.join(name)).collect())
}

/// Asks apt for the names of the files that an installation from nothing would take.
fn resolve(archives: &Path, status: &Path, packages: &[String]) -> Result<Vec<String>> {
    // An empty folder makes apt list every file, also those that are downloaded already.
    let empty = archives.join("empty");
    std::fs::create_dir_all(empty.join("partial")).context(|| "cannot make the package cache".into())?;
    let mut list = apt(&empty, status)?;
    list.args(["install", "--print-uris", "--yes", "--quiet=2"]).args(packages);
    let text = command::output(&mut list).map_err(|failure| unknown(failure, packages))?;
    let name = |line: &str| line.strip_prefix('\'').and_then(|_| line.split_whitespace().nth(1)).map(str::to_owned);
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    Ok(names)
}

fn apt(archives: &Path, status: &Path) -> Result<std::process::Command> {
    let mut apt = command::program("apt-get")?;
    for option in [
        "Debug::NoLocking=1",
        "APT::Install-Recommends=0",
        "APT::Sandbox::User=root",
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
    ] {
        apt.args(["-o", option]);
    }
    apt.arg("-o").arg(format!("Dir::State::status={}", status.display()));
    apt.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
    apt.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(apt)
}

fn unknown(failure: Failure, packages: &[String]) -> Failure {
    let message = format!("apt cannot resolve {}", packages.join(", "));
    let help = format!("{}\nIf the names are right, run apt-get update.", advice(&failure));
    Failure::with_help(message, help).kind(Kind::Environment)
}

fn unreachable(failure: Failure) -> Failure {
    Failure::with_help("packages could not be downloaded", advice(&failure)).kind(Kind::Environment)
}

fn advice(failure: &Failure) -> String {
    failure.report.help().map_or_else(String::new, |help| help.to_string())
}

/// Unpacks one package into a tree whose /bin, /sbin and /lib are links into /usr, as Debian 12 has them.
///
/// # Errors
/// When the package is damaged.
pub fn unpack(package: &Path, tree: &Path) -> Result<()> {
    let failed = || Failure::new(format!("cannot unpack {}", package.display()));
    let mut read = command::program("dpkg-deb")?
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|_| failed())?;
    let stdout = read.stdout.take().ok_or_else(failed)?;
    let mut write = command::program("tar")?;
    write.args(["--extract", "--keep-directory-symlink", "--file=-", "--directory"]).arg(tree).stdin(stdout);
    let written = write.status().map_err(|_| failed())?;
    let was_read = read.wait().map_err(|_| failed())?;
    if written.success() && was_read.success() { Ok(()) } else { Err(failed()) }
}
