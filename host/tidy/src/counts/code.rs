//! Habits of Rust code.

use std::path::Path;

use syn::{FnArg, Pat, Signature, Type, Visibility, visit::Visit};

use super::{Counts, Habit, prose};

/// Files of more lines begin with a head.
pub const SHORT_FILE_LINES: usize = 200;
/// Files of tests of more lines do.
pub const SHORT_TEST_LINES: usize = 300;
/// Lines of a head.
pub const HEAD_LINES_MIN: usize = 8;
const UNSAFE_BLOCK: &str = concat!("unsafe", " {");

/// Counts in one file.
pub fn count(counts: &mut Counts, path: &Path, text: &str) {
    let is_test = path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"));
    counts.add(Habit::UnsafeBlocks, text.matches(UNSAFE_BLOCK).count());
    counts.add(Habit::HeadlessComments, headless_comments(text));
    let lines_max = if is_test { SHORT_TEST_LINES } else { SHORT_FILE_LINES };
    counts.add(Habit::ShortHeads, usize::from(has_short_head(text, lines_max)));
    if let Ok(file) = syn::parse_file(text) {
        let mut found = Found::default();
        found.visit_file(&file);
        counts.add(Habit::BooleanParameters, found.booleans);
        counts.add(Habit::TupleParameters, found.tuples);
        counts.add(Habit::HiddenModules, found.hidden_modules);
    }
}

/// Doc comments (a run of lines each) whose first word is no subject.
fn headless_comments(text: &str) -> usize {
    let mut before = "";
    let mut headless = 0;
    for line in text.lines().map(str::trim_start) {
        let begins = ["/// ", "//! "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark).filter(|_| !before.starts_with(mark.trim_end())));
        headless += usize::from(begins.is_some_and(prose::is_headless));
        before = line;
    }
    headless
}

/// Looks at files of more than `lines_max` lines, tests at their ends left out.
fn has_short_head(text: &str, lines_max: usize) -> bool {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let head = text.lines().take_while(|line| line.starts_with("//!")).count();
    code.lines().count() > lines_max && head < HEAD_LINES_MIN
}

#[derive(Default)]
struct Found {
    booleans: usize,
    tuples: usize,
    hidden_modules: usize,
}

impl Found {
    fn signature(&mut self, signature: &Signature) {
        for argument in &signature.inputs {
            let FnArg::Typed(typed) = argument else { continue };
            self.booleans += usize::from(matches!(&*typed.ty, Type::Path(path) if path.path.is_ident("bool")));
            let is_tuple = matches!(&*typed.ty, Type::Tuple(_)) || matches!(&*typed.pat, Pat::Tuple(_));
            self.tuples += usize::from(is_tuple);
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !matches!(function.vis, Visibility::Inherited) {
            self.signature(&function.sig);
        }
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !matches!(function.vis, Visibility::Inherited) {
            self.signature(&function.sig);
        }
        syn::visit::visit_impl_item_fn(self, function);
    }

    /// Rules of a macro are no call of it.
    fn visit_item_macro(&mut self, called: &'ast syn::ItemMacro) {
        if called.ident.is_none() {
            let words = called.mac.tokens.to_string();
            let mut before = "";
            for word in words.split_whitespace() {
                let is_declared = before == "mod" && !word.starts_with('$');
                self.hidden_modules +=
                    usize::from(is_declared && words.contains(&format!("mod {} ;", word.trim_end_matches(';'))));
                before = word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(habit: Habit, text: &str) -> usize {
        let mut counts = Counts::default();
        count(&mut counts, Path::new("x/src/a.rs"), text);
        counts.of(habit)
    }

    #[test]
    fn booleans_and_tuples_of_public_functions_are_counted() {
        let text =
            "pub fn a(x: bool, y: (u8, u8)) {} impl A { pub fn b(&self, (p, q): Pair, on: bool) {} fn c(x: bool) {} }";
        assert_eq!((of(Habit::BooleanParameters, text), of(Habit::TupleParameters, text)), (2, 2));
        assert_eq!(of(Habit::BooleanParameters, "fn a(x: bool) {} pub(crate) fn b(x: bool) {}"), 1);
    }

    #[test]
    fn a_doc_comment_without_a_subject_is_counted_once() {
        let text = "/// What it does.\n/// The same again.\nfn a() {}\n\n/// The same of b.\nfn b() {}\n/// Says what.\nfn c() {}\n";
        assert_eq!(of(Habit::HeadlessComments, text), 2);
    }

    #[test]
    fn a_long_file_has_a_head_and_so_has_one_of_tests_that_is_longer_still() {
        let headed = |body: &str| format!("{}{body}", "//! Says a thing.\n".repeat(HEAD_LINES_MIN));
        let short_heads = |path: &str, text: &str| {
            let mut counts = Counts::default();
            count(&mut counts, Path::new(path), text);
            counts.of(Habit::ShortHeads)
        };
        for (path, lines_max) in [
            ("x/src/a.rs", SHORT_FILE_LINES),
            ("x/src/a_tests.rs", SHORT_TEST_LINES),
            ("x/src/a/tests.rs", SHORT_TEST_LINES),
            ("x/tests/a.rs", SHORT_TEST_LINES),
        ] {
            let (short, long) = ("fn a() {}\n".repeat(lines_max), "fn a() {}\n".repeat(lines_max + 1));
            let found = [&short, &long, &headed(&long)].map(|text| short_heads(path, text));
            assert_eq!(found, [0, 1, 0], "{path}");
        }
    }

    #[test]
    fn modules_that_a_macro_declares_are_counted_and_rules_and_inner_modules_are_not() {
        assert_eq!(of(Habit::HiddenModules, "all! { mod a; pub mod b; }"), 2);
        assert_eq!(of(Habit::HiddenModules, "macro_rules! all { (mod $name:ident;) => { mod $name; } }"), 0);
        assert_eq!(of(Habit::HiddenModules, "protocol! { pub mod files { fn a(); } }"), 0);
    }

    #[test]
    fn unsafe_blocks_are_counted() {
        assert_eq!(of(Habit::UnsafeBlocks, &format!("fn a() {{ {UNSAFE_BLOCK} }} }}")), 1);
    }
}
