//! The C program of `tests/native/pulse.c`, linked with this library as a C program is, on this kernel.
#![allow(missing_docs)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The library for C, where cargo has put it for this test.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libgyre_pulse_c") && name.ends_with(".a")
    };
    let found = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path()).filter(is_it);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("a static library")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {:?}: {said}", output.status);
    output
}

#[test]
fn a_scheduler_in_c_runs_its_threads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pulse");
    let source = root.join("tests/native/pulse.c");
    run(Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).arg(library()));
    let said = String::from_utf8(run(&mut Command::new(&program)).stdout).unwrap();
    assert!(said.contains("right-1 8") && said.contains("right-2 8") && said.contains("turns 100"), "{said}");
}
