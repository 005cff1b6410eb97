//! The files: sizes, the ban on unsafe code, words that mean unfinished work.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file that is accepted, in lines, tests apart.
const FILE_LINES_MAX: usize = 600;
/// Crates that may hold unsafe code.
const UNSAFE_CRATES: &[&str] = &[
    "platform/x86_64",
    "platform/sim",
    "platform/vdso",
    "runtime/object",
    "runtime/engine",
    "system",
    "user",
    "host/net",
    "host/tool",
    "tests",
];
/// Macros that stand for work not done.
const UNFINISHED: &[&str] =
    &[concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME"), concat!("dbg", "!(")];

/// Sizes of the tree.
#[derive(Default)]
pub struct Figures {
    files: usize,
    lines: usize,
    unsafe_blocks: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} lines, {} unsafe blocks", self.files, self.lines, self.unsafe_blocks)
    }
}

/// Reads all Rust files under `root`.
pub fn check(root: &Path) -> (Figures, Vec<String>) {
    let mut figures = Figures::default();
    let mut faults = Vec::new();
    for path in rust_files(root) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else {
            continue;
        };
        figures.files += 1;
        figures.lines += text.lines().count();
        figures.unsafe_blocks += text.matches("unsafe {").count();
        faults.extend(file_faults(&path, &text));
    }
    (figures, faults)
}

fn file_faults(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
    let lines = code.lines().count();
    if lines > FILE_LINES_MAX && !is_test {
        faults.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display()));
    }
    let may = UNSAFE_CRATES.iter().any(|folder| path.starts_with(folder));
    if path.ends_with("src/lib.rs") && !may && !text.contains("#![forbid(unsafe_code)]") {
        faults.push(format!("{}: does not forbid unsafe code", path.display()));
    }
    for word in UNFINISHED.iter().filter(|word| text.contains(**word)) {
        faults.push(format!("{}: contains {word}", path.display()));
    }
    faults
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
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
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
