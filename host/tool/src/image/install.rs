//! Packages installed as dpkg does it, on a small Debian system: their maintainer scripts make users, PAM's files, alternatives, lists of
//! certificates, locales.
//!
//! * The packages are unpacked first as for every image. Then dpkg installs them in the tree, by [`SCRIPT`]: in namespaces of its own without
//!   network, without the capabilities that reach the host.
//! * Files that the machine file puts into the image are there before, so they can answer what scripts ask: `/etc/locale.gen`, for one.
//! * Equal packages and files give equal trees: what depends on the time or on chance is removed, and ages are bounded. Host keys of sshd
//!   are among that; each tenant gets its own when its disk is made (`run/names.rs`).
//! * Only root can do it, because scripts give files to users.

use std::path::{Path, PathBuf};

use super::{packages, root::Root, tree};
use crate::{
    command,
    failure::{Failure, Kind, Result},
    project::Project,
    stop,
    ui::Step,
};

/// Installs the packages of a tree.
const SCRIPT: &str = include_str!("install.sh");
/// They make users and folders, and are installed before all others.
const USERS: &[&str] = &["base-passwd", "base-files"];
/// The system on which scripts run: Debian's essential packages, and what scripts may take for granted beside them. Their dependencies
/// come with them.
const BASE: &[&str] = &[
    "adduser",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "debconf",
    "debianutils",
    "diffutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "init-system-helpers",
    "libc-bin",
    "login",
    "mawk",
    "ncurses-base",
    "ncurses-bin",
    "passwd",
    "perl-base",
    "sed",
    "sysvinit-utils",
    "tar",
    "usr-is-merged",
    "util-linux",
];

/// Files of packages that were unpacked.
pub struct Unpacked {
    /// All.
    all: Vec<PathBuf>,
    /// Those of the system on which scripts run.
    base: Vec<PathBuf>,
}

/// Downloads packages with the system that their scripts need, and unpacks all, for [`run`].
///
/// # Errors
/// When packages cannot be had, the user interrupts, or is not root.
pub fn unpack(project: &Project, root: &Root, names: &[String], exclude: &[String], step: &Step) -> Result<Unpacked> {
    if !tree::may_give_away() {
        let help = "run as root, or take `scripts` out: the packages are unpacked only then";
        let message = "maintainer scripts give files to users, which only root can";
        return Err(Failure::with_help(message, help).kind(Kind::Environment));
    }
    let own: Vec<String> = USERS.iter().chain(BASE).map(|name| (*name).to_owned()).collect();
    let base = packages::fetch(project, &own, exclude, step)?;
    let others = names.iter().filter(|name| !own.contains(name)).cloned();
    let both: Vec<String> = own.iter().cloned().chain(others).collect();
    let all = packages::fetch(project, &both, exclude, step)?;
    for package in &all {
        stop::check()?;
        step.detail(&format!("unpacking {}", name_of(package)));
        packages::unpack(package, root)?;
    }
    Ok(Unpacked { all, base })
}

/// Runs the maintainer scripts of what was unpacked.
///
/// # Errors
/// When a script fails: the last lines that it wrote are told.
pub fn run(root: &Root, unpacked: &Unpacked, step: &Step) -> Result<()> {
    step.detail("running maintainer scripts");
    let Some(archives) = unpacked.all.first().and_then(|file| file.parent()) else { return Ok(()) };
    let mut install = command::program("unshare")?;
    install.args(["--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]);
    let [users, base, others] = unpacked.groups();
    install.args(["--", "sh", "-c", SCRIPT, "sh"]).arg(root.path()).arg(archives);
    install.arg(users.join(" ")).arg(base.join(" ")).args(others);
    command::output(&mut install).map(drop).map_err(|failure| {
        stop::check().err().unwrap_or_else(|| {
            let said = failure.report.help().map_or_else(String::new, |help| help.to_string());
            Failure::with_help("a maintainer script failed", said)
        })
    })
}

impl Unpacked {
    /// Returns the names of the files in three groups, which are installed one after the other.
    fn groups(&self) -> [Vec<String>; 3] {
        let mut groups = [vec![], vec![], vec![]];
        for file in &self.all {
            let name = name_of(file);
            let makes_users = USERS.iter().any(|package| name.starts_with(&format!("{package}_")));
            let group = if makes_users {
                0
            } else if self.base.contains(file) {
                1
            } else {
                2
            };
            groups[group].push(name);
        }
        groups
    }
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_before_whoever_needs_them_and_the_system_before_programs() {
        let paths = |names: &[&str]| names.iter().map(|name| Path::new("/cache").join(name)).collect();
        let unpacked = Unpacked {
            all: paths(&["adduser_3_all.deb", "base-files_12_amd64.deb", "libc6_2_amd64.deb", "zsh_5_amd64.deb"]),
            base: paths(&["adduser_3_all.deb", "base-files_12_amd64.deb", "libc6_2_amd64.deb"]),
        };
        let [users, base, others] = unpacked.groups();
        assert_eq!((users, others), (vec!["base-files_12_amd64.deb".to_owned()], vec!["zsh_5_amd64.deb".to_owned()]));
        assert_eq!(base, ["adduser_3_all.deb", "libc6_2_amd64.deb"]);
    }
}
