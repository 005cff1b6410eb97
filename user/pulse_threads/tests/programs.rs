//! Programs that know nothing of a scheduler of their own have one: `tests/native/pulse_threads.c`, and coreutils' sort.
#![allow(missing_docs)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const POLICIES: [&str; 4] = ["round-robin", "earliest-deadline", "speed-balancing", "work-stealing"];

/// The library, where cargo has put it for this test.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("libgyre_pulse_threads");
    let found = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path());
    let libraries = found.filter(|path| path.extension().is_some_and(|kind| kind == "so")).filter(is_it);
    libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("a library")
}

fn under(policy: &str, cores: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    // A limit of time, which only what is lost uses up: it would wait for ever.
    let mut command = Command::new("timeout");
    command.arg("1200").arg(program).env("LD_PRELOAD", library());
    command.env("GYRE_PULSE_POLICY", policy).env("GYRE_PULSE_CORES", cores.to_string());
    command
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {:?}: {said}", output.status);
    output
}

#[test]
fn pthreads_run_under_each_policy() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pulse_threads");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/native/pulse_threads.c");
    run(Command::new("cc").args(["-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source));
    for policy in POLICIES {
        for cores in [1, 2] {
            let said = run(&mut under(policy, cores, &program)).stdout;
            assert!(String::from_utf8_lossy(&said).contains("right 8"), "{policy} on {cores}");
        }
    }
}

#[test]
fn an_unmodified_program_does_the_same_work() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (lines, sorted) = (folder.join("lines"), folder.join("sorted"));
    let text: String = (0..200_000u64).map(|at| format!("{}\n", at.wrapping_mul(2_654_435_761) % 1_000_003)).collect();
    std::fs::write(&lines, text).unwrap();
    let plain = run(Command::new("sort").arg("-n").arg(&lines).env("LC_ALL", "C")).stdout;
    let mut command = under("work-stealing", 2, "sort");
    run(command.args(["-n", "--parallel=4", "-S", "64M", "-o"]).arg(&sorted).arg(&lines).env("LC_ALL", "C"));
    assert!(std::fs::read(&sorted).unwrap() == plain, "other lines");
}

#[test]
fn settings_that_cannot_be_are_named() {
    let refused = |policy: &str, cores: u32, tick: &str| {
        let output = under(policy, cores, "true").env("GYRE_PULSE_TICK_US", tick).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused("fifo", 1, "1000").contains("not fifo"));
    assert!(refused("round-robin", 0, "1000").contains("too many threads or virtual cores, or none"));
    assert!(refused("round-robin", 65, "1000").contains("too many threads or virtual cores, or none"));
    assert!(refused("round-robin", 1, "49").contains("50 us to 10 s"));
    assert!(refused("round-robin", 1, "soon").contains("GYRE_PULSE_TICK_US is no number: soon"));
}
