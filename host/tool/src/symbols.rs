//! Names for the addresses of a kernel's trace, from its ELF file: symbols and DWARF 5. A line `trace: N 0xADDRESS` of its console has one, and
//! that of a zone's crash in the log of zones all of them.

use std::{
    cell::OnceCell,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use addr2line::Loader;

use crate::{
    cli,
    failure::{Context as _, Result},
    project::Project,
};

/// Longest line that is searched for an address, in bytes: longer than the kernel writes.
const LINE_MAX: usize = 1024;
/// How far names stand below their address.
const INDENT: &str = "        ";

/// A kernel's names; its file is read when the first address comes, and a file that cannot be read gives no names.
pub struct Symbols {
    kernel: PathBuf,
    loader: OnceCell<Option<Loader>>,
    line: Vec<u8>,
}

impl Symbols {
    /// Those of a kernel's file.
    pub fn of(kernel: &Path) -> Self {
        Self { kernel: kernel.into(), loader: OnceCell::new(), line: vec![] }
    }

    /// Passes on what a console says, with the names below each address.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            out.extend_from_slice(part);
            self.line.extend_from_slice(part.get(..LINE_MAX.saturating_sub(self.line.len())).unwrap_or(part));
            if part.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                out.extend(addresses(&line).flat_map(|address| self.below(address)).flat_map(String::into_bytes));
            }
        }
        out
    }

    /// Like `pass`, for a text that is complete.
    pub fn pass_text(&mut self, text: &str) -> String {
        let mut out = self.pass(text.as_bytes());
        if !text.ends_with('\n') {
            out.push(b'\n');
            out.extend(self.pass(b"\n").into_iter().skip(1));
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    fn below(&self, address: u64) -> Vec<String> {
        self.frames(address).into_iter().map(|frame| format!("{INDENT}{frame}\n")).collect()
    }

    /// Describes an address: the function, its file and line; if it was inlined, its callers outwards.
    fn frames(&self, address: u64) -> Vec<String> {
        let open = || Loader::new(&self.kernel).ok();
        let Some(loader) = self.loader.get_or_init(open) else { return vec![] };
        let symbol = loader.find_symbol(address).map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
        let mut frames = vec![];
        if let Ok(mut found) = loader.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
                let place = frame.location.and_then(|place| Some((shortened(place.file?).to_owned(), place.line?)));
                frames.push((name, place));
            }
        }
        told(symbol, frames)
    }
}

/// Puts names and places into words. Line tables know a function's last name only; the symbol has the whole one of the outermost.
fn told(symbol: Option<String>, mut frames: Vec<(Option<String>, Option<(String, u32)>)>) -> Vec<String> {
    match frames.last_mut() {
        Some((name, _)) => *name = symbol.or_else(|| name.take()),
        // Assembly has symbols only.
        None => frames.extend(symbol.map(|symbol| (Some(symbol), None))),
    }
    let words = |(depth, (name, place)): (usize, (Option<String>, Option<(String, u32)>))| {
        let how = if depth == 0 { "" } else { "inlined into " };
        let place = place.map(|(file, line)| format!(" at {file}:{line}")).unwrap_or_default();
        format!("{how}{}{place}", name.as_deref().unwrap_or("?"))
    };
    frames.into_iter().enumerate().map(words).collect()
}

/// Returns the addresses of a line of a trace; none of another line.
pub fn addresses(line: &str) -> impl Iterator<Item = u64> {
    let trace = line.split_once(" trace: ").and_then(|(_, rest)| rest.trim_start().split_once(' '));
    let places = trace.filter(|(depth, _)| depth.parse::<u32>().is_ok()).map_or("", |(_, places)| places);
    let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    places.split_ascii_whitespace().map_while(address)
}

/// Returns a source file's path from the project's root, or from the folder of the crate or library that it belongs to.
fn shortened(path: &str) -> &str {
    let root = Project::find().map(|project| format!("{}/", project.root.display())).unwrap_or_default();
    let known = |mark: &str| path.find(mark).and_then(|at| path.get(at + mark.len()..));
    let registry = || known("/registry/src/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
    let library = || path.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
    let own = path.strip_prefix(&root).filter(|_| !root.is_empty());
    own.or_else(registry).or_else(library).or_else(|| known("/lib/rustlib/src/rust/")).unwrap_or(path)
}

/// Runs `gyre symbolise [LOG]`.
///
/// # Errors
/// When the log cannot be read or standard output is closed.
pub fn symbolise(arguments: &cli::Symbolise) -> Result<ExitCode> {
    let built = |project: Project| match project.library {
        Some(library) => library.join("gyre-kernel"),
        None => project.root.join("target/x86_64-unknown-none/release/gyre-kernel"),
    };
    let kernel = arguments.kernel.clone().map_or_else(|| Project::find().map(built), Ok)?;
    std::fs::metadata(&kernel).context(|| format!("cannot read the kernel {}", kernel.display()))?;
    let mut symbols = Symbols::of(&kernel);
    let mut log: Box<dyn std::io::Read> = match &arguments.log {
        Some(path) => Box::new(std::fs::File::open(path).context(|| format!("cannot read {}", path.display()))?),
        None => Box::new(std::io::stdin()),
    };
    let mut bytes = [0; 4096];
    loop {
        let count = log.read(&mut bytes).context(|| "cannot read the log".into())?;
        let said = symbols.pass(bytes.get(..count).unwrap_or_default());
        std::io::stdout().write_all(&said).context(|| "cannot write".into())?;
        if count == 0 {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_lines_of_a_trace_only() {
        let found = |line: &str| addresses(line).collect::<Vec<_>>();
        assert_eq!(found("[    0.1] ERROR 0 trace: 3 0xffffffff804d5da2\r\n"), [0xffff_ffff_804d_5da2]);
        assert_eq!(found("        trace: 0 0x1 0x2 and 0x3\n"), [1, 2]);
        for line in
            ["", "x trace: ", "x trace: a 0x1", "x trace: 1 2", "x trace: 1 0xg", "trace: 1 0x1", "panic: at 0x10"]
        {
            assert_eq!(found(line), [0; 0], "{line}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_be_read_gives_no_names_and_loses_nothing() {
        let mut symbols = Symbols::of(Path::new("/no/such/kernel"));
        let said = b"one\n[0.1] ERROR 0 trace: 0 0x10\n\xff\n".as_slice();
        assert_eq!(said.chunks(3).flat_map(|chunk| symbols.pass(chunk)).collect::<Vec<_>>(), said);
    }

    /// This program is as good as a kernel: it has symbols and lines too.
    #[test]
    fn a_function_is_named_wherever_the_console_is_cut() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let entry = u64::from_le_bytes(bytes.get(24..32).unwrap().try_into().unwrap());
        let text = format!("[0.1] ERROR 0 trace: 0 {entry:#018x}\r\nmore\n");
        for size in [1, 7, 4096] {
            let mut symbols = Symbols::of(&path);
            let said: Vec<u8> = text.as_bytes().chunks(size).flat_map(|chunk| symbols.pass(chunk)).collect();
            let said = String::from_utf8(said).unwrap();
            assert!(said.ends_with("\r\n        _start\nmore\n"), "{said}");
        }
    }

    #[test]
    fn the_outermost_function_has_its_whole_name() {
        let place = |file: &str, line| Some((file.to_owned(), line));
        let frames = vec![(Some("read".to_owned()), place("a.rs", 1)), (Some("run".to_owned()), place("b.rs", 2))];
        assert_eq!(told(Some("x::run".into()), frames), ["read at a.rs:1", "inlined into x::run at b.rs:2"]);
        assert_eq!(told(None, vec![(None, place("a.rs", 1))]), ["? at a.rs:1"]);
        assert_eq!(told(Some("entry".into()), vec![]), ["entry"]);
        assert_eq!(told(None, vec![]), [] as [&str; 0]);
    }

    #[test]
    fn paths_are_short() {
        assert_eq!(shortened("/rustc/0a1b/library/core/src/panicking.rs"), "library/core/src/panicking.rs");
        assert_eq!(shortened("/h/.cargo/registry/src/index-1/log-0.4.1/src/lib.rs"), "log-0.4.1/src/lib.rs");
        assert_eq!(shortened("/h/lib/rustlib/src/rust/library/core/src/a.rs"), "library/core/src/a.rs");
        assert_eq!(shortened("src/main.rs"), "src/main.rs");
    }
}
