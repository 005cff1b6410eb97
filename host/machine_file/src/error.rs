//! Errors of a machine file, shown with the line and a caret.

use std::{ops::Range, path::Path};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use serde::Serialize;

use super::suggest;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error, in one line.
    pub message: String,
    /// Its places: bytes of the text, and a word beneath the caret. The first is the main one.
    pub labels: Vec<(Range<usize>, String)>,
    /// Advice.
    pub help: Option<String>,
}

impl Problem {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { message: message.into(), labels: vec![(span, label.into())], help: None }
    }

    pub(super) fn and(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.labels.push((span, label.into()));
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// One thing that is wrong, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file; none if no file is meant, or it cannot be read.
    pub file: Option<String>,
    /// The line, from 1 on; none if the whole file is meant.
    pub line: Option<usize>,
    /// The character in it, from 1 on.
    pub column: Option<usize>,
    /// The error.
    pub message: String,
    /// The expectation there, or the text that stands there.
    pub expected: Option<String>,
    /// Advice.
    pub suggestion: Option<String>,
}

/// A machine file that cannot be used, with its text and every problem found.
#[derive(Debug)]
pub struct FileError {
    source: Option<NamedSource<String>>,
    first: Problem,
    rest: Vec<FileError>,
    severity: Option<miette::Severity>,
}

impl FileError {
    pub(super) fn new(path: &Path, text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.labels.first().map_or(0, |(span, _)| span.start));
        let mut each = problems.into_iter().map(|problem| Self::one(path, text, problem));
        // `check` never fails with an empty list; a message beats a panic if it ever does.
        let mut first = each.next().unwrap_or_else(|| Self::one(path, text, Problem::new(0..0, "unusable", "")));
        first.rest = each.collect();
        first
    }

    /// Makes a warning that is shown in the same form.
    #[must_use]
    pub fn warning(path: &Path, text: &str, problem: Problem) -> Self {
        Self { severity: Some(miette::Severity::Warning), ..Self::one(path, text, problem) }
    }

    fn one(path: &Path, text: &str, problem: Problem) -> Self {
        let source = NamedSource::new(path.display().to_string(), text.to_owned()).with_language("TOML");
        Self { source: Some(source), first: problem, rest: vec![], severity: None }
    }

    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        let message = format!("{} cannot be read: {error}", path.display());
        let help = "give the path of a machine file, such as examples/three-tenants.toml";
        let first = Problem { message, labels: vec![], help: Some(help.into()) };
        Self { source: None, first, rest: vec![], severity: None }
    }

    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        let (message, label, help) = suggest::explain(error.message());
        let problem = Problem { help, ..Problem::new(visible(text, span), message, label) };
        Self::new(path, text, vec![problem])
    }

    /// Returns every problem for programs, in the order of the file.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let (file, text) = self.source.as_ref().map_or(("", ""), |source| (source.name(), source.inner().as_str()));
        self.problems().map(|problem| finding(file, text, problem)).collect()
    }

    /// Returns every problem, in the order of the file.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|error| &error.first))
    }
}

fn finding(file: &str, text: &str, problem: &Problem) -> Finding {
    let first = problem.labels.first();
    let place = first.map(|(span, _)| position(text, span.start));
    Finding {
        file: Some(file.to_owned()).filter(|file| !file.is_empty()),
        line: place.map(|(line, _)| line),
        column: place.map(|(_, column)| column),
        message: problem.message.clone(),
        expected: first.map(|(_, label)| expectation(label)).filter(|label| !label.is_empty()),
        suggestion: problem.help.clone(),
    }
}

/// Returns the expectation, without its introduction: the key says it.
fn expectation(label: &str) -> String {
    label.strip_prefix("expected ").unwrap_or(label).to_owned()
}

/// Line and character of a byte, from 1 on.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// A missing key's span is its whole table: mark the table's first line only, a caret under forty lines does not help.
fn visible(text: &str, span: Range<usize>) -> Range<usize> {
    let end = text.get(span.clone()).and_then(|part| part.find('\n')).map_or(span.end, |at| span.start + at);
    span.start..end
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.first.message)
    }
}

impl std::error::Error for FileError {}

impl Diagnostic for FileError {
    fn severity(&self) -> Option<miette::Severity> {
        self.severity
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.first.help.as_ref().map(|help| Box::new(help) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = |(at, (span, text)): (usize, &(Range<usize>, String))| {
            let text = Some(text.clone()).filter(|text| !text.is_empty());
            let make = if at == 0 { LabeledSpan::new_primary_with_span } else { LabeledSpan::new_with_span };
            make(text, (span.start, span.len()))
        };
        Some(Box::new(self.first.labels.iter().enumerate().map(label)))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.rest.iter().map(|error| error as &dyn Diagnostic)))
    }
}
