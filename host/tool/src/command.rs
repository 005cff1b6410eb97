//! Other programs, run to completion, with their last words when they fail.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    failure::{Context as _, Failure, Kind, Result},
    ui::Step,
};

/// Debian packages of the programs that we call.
const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("ssh-keygen", "openssh-client"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("dpkg-deb", "dpkg"),
    ("cc", "gcc"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];

/// Returns the Debian package that holds a program.
pub fn package_of(program: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package)
}

/// Finds a program in PATH and in the system's own folders, which a user's PATH may lack.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|full| full.is_file())
}

/// Starts to describe a call of a program.
///
/// # Errors
/// When the program is not installed; the message names its package.
pub fn program(name: &str) -> Result<Command> {
    let path = find(name).ok_or_else(|| {
        let help = match package_of(name) {
            Some(package) => format!("apt-get install {package} (./gyre does that by itself)"),
            None => "gyre doctor lists what is needed".to_owned(),
        };
        Failure::with_help(format!("the program `{name}` is not installed"), help).kind(Kind::Environment)
    })?;
    Ok(Command::new(path))
}

/// Runs a command to its end and returns what it wrote.
///
/// # Errors
/// When it cannot start or fails: with the last lines that it wrote.
pub fn output(command: &mut Command) -> Result<String> {
    let name = short(command);
    let output = command.stdin(Stdio::null()).output().context(|| format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(Failure::with_help(format!("{name} failed ({})", output.status), last_lines(&text, 12)))
}

/// Runs a command to its end, showing its last line as progress.
///
/// # Errors
/// As [`output`].
pub fn watched(command: &mut Command, step: &Step) -> Result<()> {
    let name = short(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context(|| format!("cannot start {name}"))?;
    let mut tail = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr.take(64 << 20)).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            step.detail(line.trim());
            tail = last_lines(&(tail + &line + "\n"), 30);
        }
    }
    let status = child.wait().context(|| format!("cannot wait for {name}"))?;
    if status.success() { Ok(()) } else { Err(Failure::with_help(format!("{name} failed ({status})"), tail)) }
}

fn short(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("?")).to_string_lossy();
    let first = command.get_args().next().map(|arg| arg.to_string_lossy().into_owned());
    first
        .filter(|arg| !arg.starts_with('-') && !arg.starts_with('/'))
        .map_or(name.to_string(), |arg| format!("{name} {arg}"))
}

/// Returns the last lines of a text.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of packages that each Debian has (policy 3.8), and those of the source tree, which an installed tool does not have.
    const WITHOUT: &[&str] = &["cp", "timeout", "ldconfig", "dpkg-deb", "cargo", "cc", "git"];

    fn sources(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = entries.map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![std::fs::read_to_string(&path).unwrap_or_default()],
        });
        texts.flatten().collect()
    }

    #[test]
    fn the_debian_package_asks_for_each_program_that_is_called() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let control = std::fs::read_to_string(root.join("../../packaging/deb")).unwrap();
        let asks = |line: &&str| line.starts_with("Depends: ") || line.starts_with("Recommends: ");
        let words = |c: char| c != '-' && !c.is_ascii_alphanumeric();
        let asked: Vec<&str> = control.lines().filter(asks).flat_map(|line| line.split(words)).collect();
        let texts = sources(&root.join("src"));
        let calls = texts
            .iter()
            .flat_map(|text| text.split("command::program(\"").skip(1))
            .filter_map(|rest| rest.split('"').next());
        let called: Vec<&str> = calls.filter(|name| !name.is_empty() && !WITHOUT.contains(name)).collect();
        assert!(called.contains(&"qemu-system-x86_64") && called.contains(&"ssh-keygen"), "{called:?}");
        for name in called {
            let package = package_of(name).unwrap_or_else(|| panic!("no package of `{name}` is named"));
            assert!(asked.contains(&package), "packaging/deb does not ask for {package}, which holds `{name}`");
        }
    }
}
