//! `gyre doctor`: what this host has, what it lacks, what to do.

use std::process::ExitCode;

use serde::Serialize;

use crate::{
    check::print_json,
    cli, command, debian,
    failure::Result,
    project::Project,
    qemu,
    ui::{Paint, paint},
};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// It works, with less.
    Note,
    /// Something will not work.
    Missing,
}

#[derive(Serialize)]
struct Finding {
    what: String,
    state: State,
    found: String,
    advice: String,
}

/// Programs, and what they are for.
const PROGRAMS: &[(&str, &str)] = &[
    ("cargo", "building the kernel and the agent"),
    ("qemu-system-x86_64", "running machines"),
    ("mke2fs", "making images"),
    ("dpkg-deb", "unpacking Debian packages"),
    ("apt-get", "getting Debian packages"),
    ("ip", "the machine's network"),
    ("setpriv", "ending QEMU when this tool dies"),
    ("wrk", "loading web servers"),
    ("ab", "loading web servers"),
];

/// Runs `gyre doctor`; fails when something is missing.
///
/// # Errors
/// When standard output is closed.
pub fn doctor(arguments: &cli::Doctor) -> Result<ExitCode> {
    let mut findings: Vec<Finding> = PROGRAMS.iter().map(|(name, purpose)| program(name, purpose)).collect();
    findings.extend([rust_targets(), kvm(), tun(), privileges(), package_lists(), memory(), disk()]);
    let healthy = findings.iter().all(|finding| finding.state != State::Missing);
    if arguments.json {
        print_json(&findings)?;
    } else {
        findings.iter().for_each(show);
        println!(
            "{}",
            if healthy {
                "This host can run Gyre."
            } else {
                "This host lacks something; see above. ./gyre installs Debian packages and Rust by itself."
            }
        );
    }
    Ok(ExitCode::from(if healthy { 0 } else { 4 }))
}

fn show(finding: &Finding) {
    let mark = match finding.state {
        State::Good => paint(Paint::Good, "✓"),
        State::Note => paint(Paint::Odd, "·"),
        State::Missing => paint(Paint::Bad, "✗"),
    };
    println!("{mark} {:<22} {}", finding.what, finding.found);
    if !finding.advice.is_empty() {
        println!("  {:<22} {}", "", paint(Paint::Dim, &finding.advice));
    }
}

fn finding(what: &str, state: State, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    let advice = if state == State::Good { String::new() } else { advice.into() };
    Finding { what: what.into(), state, found: found.into(), advice }
}

fn program(name: &str, purpose: &str) -> Finding {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    let cargo = Some(home.join(".cargo/bin/cargo")).filter(|path| name == "cargo" && path.is_file());
    match command::find(name).or(cargo) {
        Some(path) => finding(name, State::Good, path.display().to_string(), ""),
        None => {
            let advice = command::package_of(name)
                .map_or("./gyre installs it".into(), |package| format!("apt-get install {package}"));
            finding(name, State::Missing, format!("not installed (for {purpose})"), advice)
        }
    }
}

fn rust_targets() -> Finding {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    let rustup = command::find("rustup").unwrap_or(home.join(".cargo/bin/rustup"));
    let root = Project::find().map(|project| project.root).unwrap_or_default();
    let mut list = std::process::Command::new(rustup);
    list.args(["target", "list", "--installed"]);
    if root.is_dir() {
        list.current_dir(root);
    }
    let listed = command::output(&mut list).unwrap_or_default();
    let wanted = ["x86_64-unknown-none", "x86_64-unknown-linux-musl"];
    let missing: Vec<&str> = wanted.into_iter().filter(|target| !listed.lines().any(|line| line == *target)).collect();
    match missing.is_empty() {
        true => finding("Rust targets", State::Good, wanted.join(", "), ""),
        false => finding(
            "Rust targets",
            State::Missing,
            format!("lacks {}", missing.join(", ")),
            format!("rustup target add {}", missing.join(" ")),
        ),
    }
}

fn kvm() -> Finding {
    match qemu::has_kvm() {
        true => finding("processor", State::Good, "runs guests itself (KVM)", ""),
        false => finding(
            "processor",
            State::Note,
            "guests are interpreted (no vmx or svm, or /dev/kvm does not open)",
            "it works, 10 to 50 times slower",
        ),
    }
}

fn tun() -> Finding {
    match std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => finding("/dev/net/tun", State::Good, "opens", ""),
        Err(error) => finding(
            "/dev/net/tun",
            State::Missing,
            error.to_string(),
            "modprobe tun, and give yourself access to /dev/net/tun",
        ),
    }
}

fn privileges() -> Finding {
    if nix::unistd::geteuid().is_root() {
        return finding("privileges", State::Good, "root", "");
    }
    let tried = command::program("unshare")
        .and_then(|mut unshare| command::output(unshare.args(["--user", "--map-root-user", "--net", "true"])));
    match tried {
        Ok(_) => finding("privileges", State::Good, "user namespaces are allowed", ""),
        Err(_) => finding(
            "privileges",
            State::Missing,
            "neither root nor user namespaces",
            "sysctl kernel.unprivileged_userns_clone=1, or run as root",
        ),
    }
}

fn package_lists() -> Finding {
    match debian::has_lists(debian::LISTS.as_ref()) {
        true => finding("package lists", State::Good, "present", ""),
        false => finding("package lists", State::Missing, "apt knows no packages", "apt-get update"),
    }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).unwrap_or_default();
    let kib: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let found = format!("{} available", gyre_machine_file::units::show_bytes(kib * 1024));
    let state = if kib >= 2 << 20 { State::Good } else { State::Note };
    finding("memory", state, found, "building takes 2 GiB, a machine what its file says")
}

fn disk() -> Finding {
    let root = Project::find().map(|project| project.root).unwrap_or_else(|_| "/".into());
    let free =
        command::output(std::process::Command::new("df").args(["--output=avail", "-B1"]).arg(root)).unwrap_or_default();
    let bytes: u64 = free.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    let state = if bytes >= 6 << 30 { State::Good } else { State::Note };
    finding(
        "disk",
        state,
        format!("{} free", gyre_machine_file::units::show_bytes(bytes)),
        "builds and images take up to 6 GiB",
    )
}
