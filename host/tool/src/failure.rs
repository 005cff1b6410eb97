//! A failure: a message for people, and an exit code for programs.

use gyre_machine_file::{FileError, Finding};
use miette::Report;
use serde::Serialize;

/// Everything that can fail here fails like this.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Exit codes of the tool, documented in `gyre --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something failed; the message says what.
    Failed = 1,
    /// The machine file is wrong.
    File = 3,
    /// The host lacks something; `gyre doctor` says what.
    Environment = 4,
    /// The machine stopped by itself (panic, or QEMU ended).
    Machine = 5,
    /// A tenant did not run, or its disk failed; the machine went on.
    Tenant = 6,
    /// The machine no longer answered.
    Silent = 7,
    /// A program in a tenant is there but cannot run; what shells answer.
    NotExecutable = 126,
    /// A program in a tenant is not there; what shells answer.
    NotFound = 127,
    /// The user interrupted it; what shells answer after Ctrl-C.
    Interrupted = 130,
}

impl Kind {
    /// Returns the kind of another `gyre`'s exit code.
    pub fn of_code(code: i32) -> Self {
        let all = [Self::File, Self::Environment, Self::Machine, Self::Tenant, Self::Silent, Self::Interrupted];
        all.into_iter().find(|kind| *kind as i32 == code).unwrap_or(Self::Failed)
    }
}

/// The document that `--json` writes if there is no result.
#[derive(Serialize)]
struct Told {
    exit_code: u8,
    errors: Vec<Finding>,
}

/// A failure with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: Kind,
    /// The message, its causes and advice.
    pub report: Report,
}

impl Failure {
    /// Makes a failure from a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, report: Report::msg(message.into()) }
    }

    /// The user has interrupted what was being done.
    pub fn interrupted() -> Self {
        Self::new("interrupted").kind(Kind::Interrupted)
    }

    /// Makes a failure from a message and advice.
    pub fn with_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        let diagnostic = miette::MietteDiagnostic::new(message.into()).with_help(help.into());
        Self { kind: Kind::Failed, report: Report::new(diagnostic) }
    }

    /// Returns the failure for programs: an exit code, and each fault with its place if it has one.
    pub fn json(&self) -> String {
        let told = Told { exit_code: self.kind as u8, errors: self.findings() };
        serde_json::to_string_pretty(&told).map_or_else(|_| "{}".into(), |text| text + "\n")
    }

    fn findings(&self) -> Vec<Finding> {
        match self.report.downcast_ref::<FileError>() {
            Some(error) => error.findings(),
            None => vec![Finding {
                message: self.report.to_string(),
                suggestion: self.report.help().map(|help| help.to_string()),
                ..Finding::default()
            }],
        }
    }

    /// Changes the kind.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
}

impl From<gyre_machine_file::FileError> for Failure {
    fn from(error: gyre_machine_file::FileError) -> Self {
        Self { kind: Kind::File, report: Report::new(error) }
    }
}

/// Says what was being done when an error came.
pub trait Context<T> {
    /// Adds what was being done, as a whole sentence without a dot: "cannot write module.bin".
    ///
    /// # Errors
    /// The original error below this message.
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", doing())))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(failure: &Failure) -> serde_json::Value {
        serde_json::from_str(&failure.json()).unwrap()
    }

    #[test]
    fn a_wrong_file_is_told_to_programs_with_every_place() {
        let error = gyre_machine_file::parse(Path::new("m.toml"), "cores = 99\nmemory = \"1 XB\"\n").unwrap_err();
        let told = read(&Failure::from(error));
        let errors = told["errors"].as_array().unwrap();
        let of = |expected: &str| errors.iter().find(|error| error["expected"] == expected).unwrap();
        assert_eq!(told["exit_code"], 3);
        assert_eq!((&of("1 to 8")["file"], &of("1 to 8")["column"]), (&"m.toml".into(), &9.into()));
        assert!(errors.iter().any(|error| error["line"] == 2), "{told}");
    }

    #[test]
    fn another_failure_has_no_place_but_a_suggestion() {
        let told = read(&Failure::with_help("no machine is running", "start one"));
        assert_eq!((told["exit_code"].as_u64(), &told["errors"][0]["line"]), (Some(1), &serde_json::Value::Null));
        assert_eq!(told["errors"][0]["suggestion"], "start one");
    }
}
