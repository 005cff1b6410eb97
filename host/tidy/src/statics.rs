//! Statics that hold state: two instances in one process of the simulator would share a plain one.
//!
//! State in a static is declared by `per_instance!`. Such a static stands within a macro, as a thread's own does, so neither
//! is found here. Only crates of the kernel are looked at, tests apart, and only types that name their state are seen.

use std::{
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, ItemMod, ItemStatic, PathSegment, StaticMutability, visit::Visit};

use crate::sources::rust_files;

/// Folders whose statics are no kernel's: the machine itself, and programs, of which each process has its own.
const ELSEWHERE: [&str; 6] = ["platform", "simulation", "user", "host", "tests", "experiments"];

/// A static that may hold state.
struct Allowed {
    file: &'static str,
    name: &'static str,
}

/// All that may.
const ALLOWED: [Allowed; 3] = [
    // On a host alone: all instances of a process draw words of locks from one sequence.
    Allowed { file: "runtime/object/src/held.rs", name: "WORDS" },
    Allowed { file: "runtime/object/src/held.rs", name: "OVER" },
    // The bootable binary, which the simulator does not run: an image is one instance.
    Allowed { file: "system/kernel/src/kernel.rs", name: "KERNEL" },
];

/// Returns every plain static of the kernel that holds state, and every exception that stands for none.
pub fn faults(root: &Path) -> Vec<String> {
    let is_kernel = |path: &&Path| !ELSEWHERE.iter().any(|folder| path.starts_with(folder)) && !is_test(path);
    let files = rust_files(root);
    let read = |path: &Path| Some((path.to_owned(), fs::read_to_string(root.join(path)).ok()?));
    let texts: Vec<_> = files.iter().map(PathBuf::as_path).filter(is_kernel).filter_map(read).collect();
    let found: Vec<_> = texts
        .iter()
        .flat_map(|(path, text)| stateful(text).into_iter().map(move |name| (path.as_path(), name)))
        .collect();
    let is_found = |one: &Allowed| found.iter().any(|(path, name)| one.is(path, name));
    let is_allowed = |path: &Path, name: &str| ALLOWED.iter().any(|one| one.is(path, name));
    let wrong = found.iter().filter(|(path, name)| !is_allowed(path, name));
    let wrong = wrong.map(|(path, name)| format!("{}: static {name} holds state (per_instance!)", path.display()));
    let gone = ALLOWED.iter().filter(|one| !is_found(one));
    wrong.chain(gone.map(|one| format!("{}: has no static {} that may hold state", one.file, one.name))).collect()
}

impl Allowed {
    fn is(&self, path: &Path, name: &str) -> bool {
        Path::new(self.file) == path && self.name == name
    }
}

fn is_test(path: &Path) -> bool {
    let is_named = path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"));
    is_named || path.components().any(|part| part.as_os_str() == "tests")
}

/// Returns the names of the plain statics of a file that hold state, those within functions too.
fn stateful(text: &str) -> Vec<String> {
    let mut found = Found::default();
    if let Ok(file) = syn::parse_file(text) {
        found.visit_file(&file);
    }
    found.names
}

#[derive(Default)]
struct Found {
    names: Vec<String>,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !module.attrs.iter().any(is_for_tests) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        let mut state = State(matches!(item.mutability, StaticMutability::Mut(_)));
        state.visit_type(&item.ty);
        if state.0 && !item.attrs.iter().any(is_for_tests) {
            self.names.push(item.ident.to_string());
        }
        syn::visit::visit_item_static(self, item);
    }
}

/// Returns whether an attribute is `cfg(test)`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let condition = attribute.path().is_ident("cfg").then(|| attribute.parse_args::<syn::Path>().ok());
    condition.flatten().is_some_and(|condition| condition.is_ident("test"))
}

/// Whether a type names state.
struct State(bool);

impl<'ast> Visit<'ast> for State {
    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        let name = segment.ident.to_string();
        let is_cell = ["Lock", "Cell", "Mutex"].iter().any(|end| name.ends_with(end));
        self.0 |= is_cell || name.starts_with("Atomic") || name == "SetOnce";
        syn::visit::visit_path_segment(self, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_statics_that_hold_state_are_found_wherever_they_stand() {
        let text = "static A: AtomicU64 = x; mod b { pub static B: [core::sync::atomic::AtomicU8; 4] = x; } \
            fn c() { static C: SpinLock<u8> = x; } static D: &Wrapped<core::cell::RefCell<u8>> = x; \
            pub(crate) static E: SetOnce<u8> = x; static F: std::sync::Mutex<()> = x; static mut G: u8 = 0;";
        assert_eq!(stateful(text), ["A", "B", "C", "D", "E", "F", "G"]);
    }

    #[test]
    fn constant_statics_and_those_of_instances_threads_and_tests_are_none() {
        let text = "static A: [u8; 4] = [0; 4]; static B: &dyn Block = x; per_instance! { static C: AtomicU64 = x; } \
            std::thread_local! { static D: Cell<u8> = x; } #[cfg(test)] mod t { static E: AtomicU8 = x; } \
            #[cfg(test)] static F: AtomicU8 = x; fn g(h: &AtomicU8) {}";
        assert_eq!(stateful(text), Vec::<String>::new());
    }

    /// Makes a tree with one file.
    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            fs::write(root.path().join(path), text).unwrap();
        };
        write("runtime/object/src/held.rs", "static WORDS: AtomicU32 = x; static OVER: Mutex<u8> = x;");
        write("system/kernel/src/kernel.rs", "pub static KERNEL: SetOnce<u8> = x;");
        write(path, text);
        faults(root.path())
    }

    #[test]
    fn only_the_kernels_own_files_are_judged() {
        let text = "static COUNT: AtomicU64 = x;";
        let said = faults_of("resources/net/src/a.rs", text);
        assert_eq!(said, ["resources/net/src/a.rs: static COUNT holds state (per_instance!)"]);
        for path in
            ["platform/sim/src/a.rs", "user/fuzz/src/a.rs", "resources/net/src/a/tests.rs", "parts/x/tests/a.rs"]
        {
            assert_eq!(faults_of(path, text), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn an_exception_that_stands_for_nothing_is_a_fault() {
        let said = faults_of("system/kernel/src/kernel.rs", "pub static KERNEL: u8 = 0;");
        assert_eq!(said, ["system/kernel/src/kernel.rs: has no static KERNEL that may hold state"]);
    }

    #[test]
    fn this_tree_has_no_such_static() {
        assert_eq!(faults(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")), Vec::<String>::new());
    }
}
