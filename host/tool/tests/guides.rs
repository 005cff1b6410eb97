//! Follows guides literally, in a copy of the tree: what a guide says is all that must be done.
//!
//! The first word after a code block's language is a file of the tree, and the block its contents. `after LINE` behind it means that the block is put
//! behind that line. Blocks of `sh` are run, line by line; each line of a block of `text` stands in what the block of `sh` before it has said.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A code block of a guide.
struct Block<'a> {
    language: &'a str,
    /// The words after the language: the file, and the place in it.
    place: &'a str,
    text: &'a str,
}

fn blocks(guide: &str) -> Vec<Block<'_>> {
    let fenced = guide.split("\n```").skip(1).step_by(2);
    fenced
        .filter_map(|fenced| {
            let (head, text) = fenced.split_once('\n')?;
            let (language, place) = head.split_once(' ').unwrap_or((head, ""));
            Some(Block { language, place, text: text.trim_end() })
        })
        .collect()
}

/// A copy of the tree as git knows it, with what is not committed.
struct Copy {
    root: PathBuf,
    target: PathBuf,
    said: String,
}

impl Copy {
    fn new(name: &str) -> Copy {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let root = temporary.join("guides").join(name);
        let _ = fs::remove_dir_all(&root);
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").current_dir(&tree).args(list).output().unwrap();
        assert!(listed.status.success(), "git cannot list the tree");
        for name in String::from_utf8(listed.stdout).unwrap().split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (tree.join(name), root.join(name));
            if from.is_file() {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
        }
        // cargo takes crates of the same name in another copy for those of the tree itself: each copy has results of its own.
        let target = temporary.join("guides-target").join(name);
        if !target.exists() {
            take_over_foreign_crates(&target);
        }
        Copy { root, target, said: String::new() }
    }

    fn follow(&mut self, block: &Block) {
        match (block.language, block.place.split_once(" after ")) {
            ("sh", _) => self.run(block.text),
            ("text", _) => {
                for line in block.text.lines() {
                    assert!(self.said.contains(line), "`{line}` is not in what was said:\n{}", self.said);
                }
            }
            (_, Some((file, line))) => self.insert(file, line, block.text),
            (_, None) if !block.place.is_empty() => {
                let path = self.root.join(block.place);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                assert!(!path.exists(), "{} exists already", block.place);
                fs::write(path, format!("{}\n", block.text)).unwrap();
            }
            _ => {}
        }
    }

    fn insert(&self, file: &str, line: &str, text: &str) {
        let path = self.root.join(file);
        let before = fs::read_to_string(&path).unwrap();
        let whole = format!("{line}\n");
        assert_eq!(before.matches(&whole).count(), 1, "`{line}` stands once in {file}");
        fs::write(path, before.replace(&whole, &format!("{whole}{text}\n"))).unwrap();
    }

    fn run(&mut self, lines: &str) {
        self.said.clear();
        for line in lines.lines() {
            let output = Command::new("sh")
                .args(["-c", line])
                .current_dir(&self.root)
                .env("CARGO_TARGET_DIR", &self.target)
                // Nobody builds here a second time or reads a trace: a third less to do.
                .envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
                .env_remove("GYRE_ROOT")
                .output()
                .unwrap();
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            assert!(output.status.success(), "{line}\n{said}");
            assert!(!tests_nothing(&said), "{line} tests nothing:\n{said}");
            self.said += &said;
        }
    }
}

/// Gives a new target folder what is built already of crates that are not of this tree, which are the same in each copy. cargo judges whether
/// they are; for what is missing here it builds them again.
fn take_over_foreign_crates(target: &Path) {
    let program = std::env::current_exe().unwrap();
    let built = program.ancestors().nth(2).unwrap();
    // Files of libraries are never changed in place, so that they can be links; the others are small.
    for (folder, how) in [("deps", "-al"), (".fingerprint", "-a"), ("build", "-a")] {
        let to = target.join("debug").join(folder);
        fs::create_dir_all(&to).unwrap();
        let entries = fs::read_dir(built.join(folder)).unwrap().map(|entry| entry.unwrap());
        let foreign = entries.filter(|entry| is_foreign(folder, &entry.file_name().to_string_lossy()));
        let paths: Vec<_> = foreign.map(|entry| entry.path()).collect();
        // A file may vanish meanwhile: other programs are being built.
        let _ = Command::new("cp").arg(how).args(paths).arg(to).output().unwrap();
    }
}

/// Returns true for the results of a crate that is not of this tree; of the programs among them nobody needs any.
fn is_foreign(folder: &str, name: &str) -> bool {
    !name.trim_start_matches("lib").starts_with("gyre") && (folder != "deps" || name.starts_with("lib"))
}

/// Returns true if a command ran tests and none of them was one.
fn tests_nothing(said: &str) -> bool {
    let results: Vec<&str> = said.lines().filter(|line| line.starts_with("test result:")).collect();
    !results.is_empty() && results.iter().all(|line| line.contains(" 0 passed"))
}

fn follow(name: &str) {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(tree.join("docs/guide").join(name)).unwrap();
    let blocks = blocks(&guide);
    assert!(blocks.iter().any(|block| block.language == "sh"), "{name} runs nothing");
    let mut copy = Copy::new(name);
    blocks.iter().for_each(|block| copy.follow(block));
    fs::remove_dir_all(copy.root).unwrap();
}

#[test]
fn the_guide_to_a_scheduler_says_all_places() {
    follow("first-scheduler.md");
}

#[test]
fn the_guide_to_a_scheduler_of_a_programs_own_runs() {
    follow("first-user-level-scheduler.md");
}
