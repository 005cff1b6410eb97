//! Tidy as a program: lists of offenders.
//!
//! Since this test exists, `cargo test` builds the program too, and `gyre test` runs that one.

use std::{
    path::Path,
    process::{Command, Output},
};

fn files_of(habit: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_gyre-tidy")).args(["--files", habit]).current_dir(root).output().unwrap()
}

#[test]
fn offenders_of_a_habit_are_listed_with_their_numbers() {
    let done = files_of("unsafe-blocks");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    let is_whole = |line: &str| {
        line.trim_start()
            .split_once(' ')
            .is_some_and(|(number, path)| number.parse::<u32>().is_ok() && path.ends_with(".rs"))
    };
    assert!(!said.is_empty() && said.lines().all(is_whole), "{said}");
}

#[test]
fn a_habit_that_nobody_counts_is_named() {
    let done = files_of("haste");
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("`haste` is no habit"));
}
