//! The files: sizes, the ban on unsafe code outside of the crates whose row of `ARCHITECTURE.md` allows it, words that mean
//! unfinished work.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::layers::Table;

/// Longest file that is accepted, in lines, tests apart.
const FILE_LINES_MAX: usize = 600;
/// Words of unsafe code, and of what lets it in again.
const UNSAFE: &[&str] = &[
    concat!("unsafe", " {"),
    concat!("unsafe", " fn"),
    concat!("unsafe", " impl"),
    concat!("unsafe", " extern"),
    concat!("#[", "unsafe("),
    concat!("allow(", "unsafe_code"),
];
/// Attributes of a root against unsafe code; the kernel's may only deny it, because the macro that declares its main function
/// has an exception of its own.
const FORBIDS: &[&str] = &["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"];
/// Crates that handle numbers which a program, a file, a packet or a device chose: clippy refuses each sum in them that could overflow.
const CHECKED_CRATES: &[&str] = &[
    "interface",
    "parts/address_space",
    "resources/async_io",
    "parts/cell_device",
    "parts/cell_memory",
    "parts/flow",
    "parts/overload",
    "resources/io_stream",
    "resources/memory",
    "parts/segments",
    "platform/line",
    "personality",
    "system",
];
/// Attributes of a root with which clippy refuses such sums; tests may panic.
const CHECKS: &str = "#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]";
/// Attributes that allow such sums again.
const UNCHECKED: &str = concat!("allow(", "clippy::arithmetic_side_effects");
/// Languages of blocks in comments that rustdoc does not run.
const NO_EXAMPLES: &[&str] = &["text", "sh", "ignore"];
/// Macros that stand for work not done.
const UNFINISHED: &[&str] =
    &[concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME"), concat!("dbg", "!(")];

/// Sizes of the tree.
#[derive(Default)]
pub struct Figures {
    files: usize,
    lines: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} lines", self.files, self.lines)
    }
}

/// Reads all Rust files under `root`. Without a table of layers nothing is said of unsafe code.
pub fn check(root: &Path, table: Option<&Table>) -> (Figures, Vec<String>) {
    let mut figures = Figures::default();
    let mut faults = Vec::new();
    for path in rust_files(root) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else {
            continue;
        };
        figures.files += 1;
        figures.lines += text.lines().count();
        faults.extend(file_faults(&path, &text, table));
    }
    (figures, faults)
}

fn file_faults(path: &Path, text: &str, table: Option<&Table>) -> Vec<String> {
    let mut faults = Vec::new();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
    let lines = code.lines().count();
    if lines > FILE_LINES_MAX && !is_test {
        faults.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display()));
    }
    if table.is_some_and(|table| !table.may_hold_unsafe(path)) && !is_test {
        faults.extend(unsafe_fault(path, text));
    }
    if CHECKED_CRATES.iter().any(|folder| path.starts_with(folder)) {
        faults.extend(sums_fault(path, text));
    }
    if let Some(line) = runnable_example(text) {
        faults.push(format!(
            "{}:{line}: an example that rustdoc would run: no test does, so make it one",
            path.display()
        ));
    }
    for word in UNFINISHED.iter().filter(|word| text.contains(**word)) {
        faults.push(format!("{}: contains {word}", path.display()));
    }
    faults
}

/// Returns the fault of a file of a crate that may hold no unsafe code.
fn unsafe_fault(path: &Path, text: &str) -> Option<String> {
    if is_root(path) && !FORBIDS.iter().any(|words| text.contains(words)) {
        return Some(format!("{}: does not forbid unsafe code", path.display()));
    }
    let found = UNSAFE.iter().find(|word| text.contains(**word))?;
    Some(format!("{}: contains `{found}`, which its crate may not", path.display()))
}

/// Returns the line of the first example in a comment that rustdoc would run: `cargo test --doc` starts once per crate, for minutes in all, so the
/// tests do without it. A block of code without a word for another language, or with five spaces in front of it, is one.
fn runnable_example(text: &str) -> Option<usize> {
    let (mut is_within, mut after_blank) = (false, true);
    for (line, number) in text.lines().map(str::trim_start).zip(1..) {
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (is_within, after_blank) = (false, true);
            continue;
        };
        let said = comment.trim();
        if let Some(words) = said.strip_prefix("```").or_else(|| said.strip_prefix("~~~")) {
            is_within = !is_within;
            if is_within && !NO_EXAMPLES.contains(&words.trim()) {
                return Some(number);
            }
        } else if !is_within && after_blank && comment.starts_with("     ") && !said.is_empty() {
            return Some(number);
        }
        after_blank = said.is_empty();
    }
    None
}

/// Returns the fault of a file of a crate that may hold no sum that could overflow.
fn sums_fault(path: &Path, text: &str) -> Option<String> {
    if is_root(path) && !text.contains(CHECKS) {
        return Some(format!("{}: does not say {CHECKS}", path.display()));
    }
    text.contains(UNCHECKED).then(|| format!("{}: contains `{UNCHECKED}`, which its crate may not", path.display()))
}

/// Returns whether a file is the root of a library or of a program.
fn is_root(path: &Path) -> bool {
    let is_main = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    is_main || path.parent().is_some_and(|folder| folder.ends_with("src/bin"))
}

/// Returns all Rust files below a folder, by their paths from there.
pub fn rust_files(root: &Path) -> Vec<PathBuf> {
    files(root, |path| path.extension().is_some_and(|extension| extension == "rs"))
}

/// Returns the wanted files below a folder, by their paths from there; hidden folders and those of builds are left out.
pub fn files(root: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = folder.join(&name);
            let hidden = name.to_string_lossy().starts_with('.') || name == "target";
            if entry.path().is_dir() && !hidden {
                folders.push(path);
            } else if is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| layer | folder | contents | unsafe |\n|---|---|---|---|\n\
        | platform | `platform/x86_64` | words | yes |\n| runtime | `runtime/engine` | words | yes |\n\
        | system | `system/kernel` | words | no |\n| host | `host/*` | words | no |\n";

    fn of(path: &str, text: &str) -> usize {
        file_faults(Path::new(path), text, Some(&Table::parse(TABLE).unwrap())).len()
    }

    #[test]
    fn every_root_forbids_unsafe_code_but_those_of_crates_that_may_hold_it() {
        for root in
            ["system/kernel/src/main.rs", "host/tool/src/main.rs", "interface/src/lib.rs", "host/x/src/bin/a.rs"]
        {
            let (forbids, checks) = (format!("#![forbid(unsafe_code)]\n{CHECKS}"), CHECKS);
            assert_eq!((of(root, checks), of(root, &forbids)), (1, 0), "{root}");
        }
        assert_eq!(of("runtime/engine/src/lib.rs", ""), 0);
        assert_eq!(of("host/tool/src/ui.rs", ""), 0);
    }

    #[test]
    fn unsafe_code_and_exceptions_are_found_in_every_file() {
        for word in UNSAFE {
            assert_eq!(of("system/kernel/src/grid.rs", word), 1, "{word}");
            assert_eq!(of("platform/x86_64/src/mmio.rs", word), 0, "{word}");
        }
    }

    #[test]
    fn roots_of_what_handles_numbers_of_others_check_sums_and_nothing_in_them_does_not() {
        assert_eq!(of("personality/linux/src/lib.rs", "#![forbid(unsafe_code)]"), 1);
        assert_eq!(of("host/tool/src/main.rs", "#![forbid(unsafe_code)]"), 0);
        assert_eq!(of("parts/flow/src/flow.rs", &format!("#[{UNCHECKED})]")), 1);
    }

    #[test]
    fn examples_that_rustdoc_would_run_are_found() {
        let found = |text: &str| runnable_example(text);
        let fence = "```";
        for words in NO_EXAMPLES {
            assert_eq!(
                found(&format!("//! {fence}{words}\n//! a\n//! {fence}\n/// b\n///     c\nfn f() {{}}")),
                None,
                "{words}"
            );
        }
        for words in ["", "rust", "no_run", "should_panic"] {
            assert_eq!(
                found(&format!("/// A.\n    /// {fence}{words}\n    /// a\n    /// {fence}")),
                Some(2),
                "{words}"
            );
        }
        assert_eq!(found(&format!("//! {fence}text\n//!     a\n//! {fence}\n/// {fence}\n/// a")), Some(4));
        assert_eq!(found("/// A.\n///\n///     assert!(true);\nfn f() {}"), Some(3));
    }

    #[test]
    fn every_folder_of_the_lists_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in CHECKED_CRATES {
            assert!(root.join(folder).is_dir(), "{folder}");
        }
    }
}
