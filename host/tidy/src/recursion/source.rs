//! The kernel's sources, parsed, with the notes that excuse recursion.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose crates run in the kernel.
const KERNEL: &[&str] = &["runtime", "resources", "personality", "system", "platform"];
/// Folders like these, which are crates themselves.
const KERNEL_CRATES: &[&str] = &["schedulers", "interface"];
/// Crates there that never run in it.
const OUTSIDE: &[&str] = &["platform/sim", "platform/vdso", "platform/boot_test"];
/// How a note begins. It says how often at most, and why.
pub const NOTE: &str = "// recursion:";

/// A source file.
pub struct Source {
    /// Path from the root of the tree.
    pub path: PathBuf,
    /// Number of its crate.
    pub krate: usize,
    /// Its contents.
    pub syntax: syn::File,
    /// For each line, numbered from 1, whether a note excuses the item that begins there.
    noted: Vec<bool>,
}

impl Source {
    /// Parses a file's text; `None` if it is no Rust.
    pub fn new(path: &Path, krate: usize, text: &str) -> Option<Source> {
        let syntax = syn::parse_file(text).ok()?;
        Some(Source { path: path.to_owned(), krate, syntax, noted: noted_lines(text) })
    }

    /// Returns true if a note stands above the item at a line: between them are only attributes and comments.
    pub fn is_noted(&self, line: usize) -> bool {
        self.noted.get(line).copied().unwrap_or(false)
    }
}

fn noted_lines(text: &str) -> Vec<bool> {
    let mut noted = vec![false];
    let mut pending = false;
    for line in text.lines().map(str::trim_start) {
        noted.push(pending);
        if line.starts_with(NOTE) {
            pending = line[NOTE.len()..].contains("at most") && line.contains("because");
        } else if !(line.starts_with("//") || line.starts_with("#[")) {
            pending = false;
        }
    }
    noted
}

/// Returns all sources of the kernel under `root`, tests apart.
pub fn read(root: &Path) -> Vec<Source> {
    let mut crates: Vec<PathBuf> = KERNEL_CRATES.iter().map(PathBuf::from).collect();
    for folder in KERNEL {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        crates.extend(entries.map(|entry| Path::new(folder).join(entry.file_name())));
    }
    crates.retain(|folder| !OUTSIDE.iter().any(|outside| folder == Path::new(outside)));
    crates.sort();
    crates.iter().enumerate().flat_map(|(krate, folder)| read_crate(root, folder, krate)).collect()
}

fn read_crate(root: &Path, folder: &Path, krate: usize) -> Vec<Source> {
    let files = crate::sources::rust_files(&root.join(folder).join("src"));
    let files = files.into_iter().filter(|path| !is_test(path)).map(|path| folder.join("src").join(path));
    files.filter_map(|path| Source::new(&path, krate, &fs::read_to_string(root.join(&path)).ok()?)).collect()
}

fn is_test(path: &Path) -> bool {
    let is_test = |name: &str| name == "tests" || name.ends_with("tests.rs");
    path.components().any(|part| part.as_os_str().to_str().is_some_and(is_test))
}
