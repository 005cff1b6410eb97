//! Building what runs in the machine: the kernel, the agent, and the programs of experiments.
//!
//! Each is a `Product`: its package, target, and words for cargo. The public functions build one product each and
//! answer its path.
//!
//! * In a source tree cargo builds it, always in the release profile; cargo is silent if nothing changed.
//! * In an installation (`Project::library`) nothing is built: the file lies beside the tool, or the product is not
//!   part of it and the error says so.
//! * A kernel that fails on purpose has a target folder of its own, so that the two kernels do not replace each other.
//!
//! [`ahead`] builds all that most tests need, without a word, before they ask. A product with parts in C wants the
//! host's C compiler; all others need Rust alone. Errors are cargo's, with its last lines.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    command,
    failure::{Failure, Result},
    project::Project,
    ui::Step,
};

/// A program that runs in the machine.
struct Product {
    what: &'static str,
    /// Its package and the name of its file.
    package: &'static str,
    target: &'static str,
    /// The folder of what cargo makes.
    folder: &'static str,
    /// More words for cargo.
    extra: &'static [&'static str],
}

/// Cargo makes this, usually.
const TARGET: &str = "target";

const KERNEL: Product =
    Product { what: "the kernel", package: "gyre-kernel", target: "x86_64-unknown-none", folder: TARGET, extra: &[] };
/// A kernel that fails when a program asks it to.
const FAILING_KERNEL: Product = Product {
    what: "a kernel that fails on purpose",
    package: "gyre-kernel",
    target: "x86_64-unknown-none",
    folder: "target/fault-injection",
    extra: &["--features", "fault-injection", "--target-dir", "target/fault-injection"],
};
/// The kernel that does nothing but test and time the platform.
const BOOT_TEST: Product = Product {
    what: "the platform's test kernel",
    package: "gyre-boot-test",
    target: "x86_64-unknown-none",
    folder: TARGET,
    extra: &[],
};
const AGENT: Product = Product {
    what: "the agent",
    package: "gyre-agent",
    target: "x86_64-unknown-linux-musl",
    folder: TARGET,
    extra: STRIPPED,
};
const CELL: Product = Product {
    what: "the launcher of cells",
    package: "gyre-cell",
    target: "x86_64-unknown-linux-musl",
    folder: TARGET,
    extra: STRIPPED,
};
const PULSE: Product = Product {
    what: "the program with schedulers of its own",
    package: "gyre-pulse",
    target: "x86_64-unknown-linux-musl",
    folder: TARGET,
    extra: &[],
};
const FILTERS: Product = Product {
    what: "the service of event filters",
    package: "gyre-filters",
    target: "x86_64-unknown-linux-gnu",
    folder: TARGET,
    extra: WITH_C,
};
const FUZZER: Product = Product {
    what: "the fuzzer",
    package: "gyre-fuzz",
    target: "x86_64-unknown-linux-musl",
    folder: TARGET,
    extra: &[],
};

/// The agent travels in the boot module: its symbols would be four fifths of it.
const STRIPPED: &[&str] = &[
    "--config",
    "profile.release.strip=\"symbols\"",
    "--config",
    "profile.release.opt-level=\"s\"",
    "--config",
    "profile.release.lto=\"thin\"",
    "--config",
    "profile.release.codegen-units=16",
];

/// A program with parts in C, which want the headers of the host's C library: one file that needs no library beside.
const WITH_C: &[&str] = &[
    "--config",
    "target.x86_64-unknown-linux-gnu.rustflags=[\"-Ctarget-feature=+crt-static\"]",
    "--config",
    "profile.release.lto=false",
    "--config",
    "profile.release.strip=\"symbols\"",
    "--config",
    "profile.release.codegen-units=16",
];

/// Builds the kernel and returns its path; silent when nothing changed.
///
/// # Errors
/// When it does not compile.
pub fn kernel(project: &Project) -> Result<PathBuf> {
    KERNEL.build(project)
}

/// Builds a kernel that fails when a program asks it to, for experiments about that, and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn failing_kernel(project: &Project) -> Result<PathBuf> {
    FAILING_KERNEL.build(project)
}

/// Builds the kernel that tests and times the platform and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn boot_test(project: &Project) -> Result<PathBuf> {
    BOOT_TEST.build(project)
}

/// Builds the agent and returns its path; silent when nothing changed.
///
/// # Errors
/// When it does not compile.
pub fn agent(project: &Project) -> Result<PathBuf> {
    AGENT.build(project)
}

/// Builds the launcher of cells and returns its path; silent when nothing changed.
///
/// # Errors
/// When it does not compile.
pub fn cell(project: &Project) -> Result<PathBuf> {
    CELL.build(project)
}

/// Builds the program that makes calls at random and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn fuzzer(project: &Project) -> Result<PathBuf> {
    FUZZER.build(project)
}

/// Builds the service of event filters and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn filters(project: &Project) -> Result<PathBuf> {
    FILTERS.build(project)
}

/// Builds the program that shows and measures schedulers of its own and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn pulse(project: &Project) -> Result<PathBuf> {
    PULSE.build(project)
}

/// Builds all of these without a word, so that nothing is left to do when one of them is asked for.
///
/// # Errors
/// When one does not compile; who asks for it is told why.
pub fn ahead(project: &Project) -> Result<()> {
    [KERNEL, AGENT, CELL, FUZZER].iter().try_for_each(|product| command::output(&mut product.cargo(project)?).map(drop))
}

impl Product {
    fn cargo(&self, project: &Project) -> Result<Command> {
        let mut cargo = cargo_command()?;
        let words = ["build", "--release", "--package", self.package, "--target", self.target];
        cargo.current_dir(&project.root).args(words).args(self.extra);
        Ok(cargo)
    }

    fn build(&self, project: &Project) -> Result<PathBuf> {
        if let Some(library) = &project.library {
            return self.installed(library);
        }
        let step = Step::start(format!("building {}", self.what));
        command::watched(&mut self.cargo(project)?, &step)?;
        step.done();
        let path = project.root.join(self.folder).join(self.target).join("release").join(self.package);
        if path.exists() { Ok(path) } else { Err(Failure::new(format!("{} was not built", path.display()))) }
    }
}

impl Product {
    /// Finds it in an installation.
    fn installed(&self, library: &Path) -> Result<PathBuf> {
        let path = library.join(self.package);
        let help = "install the package again, or work in the source tree";
        match path.is_file() && self.folder == TARGET {
            true => Ok(path),
            false => Err(Failure::with_help(format!("{} is not part of this installation", self.what), help)),
        }
    }
}

/// Starts to describe a call of cargo.
///
/// # Errors
/// When it is not installed.
pub fn cargo_command() -> Result<Command> {
    command::program("cargo").or_else(|_| home_cargo())
}

/// Finds cargo in the folder that rustup uses, for shells that have not read its settings yet.
fn home_cargo() -> Result<Command> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = home.join(".cargo/bin/cargo");
    let help = "./gyre installs Rust by itself, or see https://rustup.rs";
    match path.is_file() {
        true => Ok(Command::new(path)),
        false => Err(Failure::with_help("cargo is not installed", help).kind(crate::failure::Kind::Environment)),
    }
}
