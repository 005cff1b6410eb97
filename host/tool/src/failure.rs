//! What went wrong, for people, and the exit code, for programs.

use miette::Report;

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
    /// A program in a tenant is there but cannot run; what shells answer.
    NotExecutable = 126,
    /// A program in a tenant is not there; what shells answer.
    NotFound = 127,
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

    /// Makes a failure from a message and advice.
    pub fn with_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        let diagnostic = miette::MietteDiagnostic::new(message.into()).with_help(help.into());
        Self { kind: Kind::Failed, report: Report::new(diagnostic) }
    }

    /// Changes the kind.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
}

impl From<gyre_config::file::FileError> for Failure {
    fn from(error: gyre_config::file::FileError) -> Self {
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
