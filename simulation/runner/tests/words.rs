//! The runner as a program: words that make no sense, and a seed that holds.
//!
//! Since this test exists, `cargo test` builds the program too, with the crates that all tests share.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gyre-simulation")).args(words).output().unwrap()
}

#[test]
fn words_that_make_no_sense_get_the_usage_and_run_nothing() {
    for words in [&["--seeds"][..], &["--from", "first"], &["--only", "nothing"], &["--instances"], &["seed"]] {
        let done = run(words);
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&done.stderr).starts_with("usage: gyre-simulation"), "{words:?}");
        assert!(done.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn instances_that_a_world_cannot_have_are_refused_with_the_numbers_that_it_can() {
    for count in ["0", "9", "many"] {
        let done = run(&["--seed", "12", "--instances", count]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.is_empty()), (Some(2), true), "{said}");
        assert!(said.starts_with(&format!("--instances {count}: a world has 1 to 8 instances")), "{said}");
    }
}

#[test]
fn a_seed_that_holds_is_told_with_its_trace() {
    let done = run(&["--seed", "2", "--only", "stages"]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    assert!(said.lines().any(|line| line.starts_with("seed ") && line.contains("  trace ")), "{said}");
    assert!(said.contains("1 seeds from 2 on: all invariants hold"), "{said}");
}

#[test]
fn an_eighth_of_the_seeds_runs_once_more_with_cores_that_move() {
    let lines = |words: &[&str]| {
        let done = run(words);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said}");
        let seeds: Vec<String> = said.lines().filter(|line| line.starts_with("seed ")).map(String::from).collect();
        seeds
    };
    let both = lines(&["--seed", "6", "--only", "stages"]);
    let [still, moving] = &both[..] else { panic!("{both:?}") };
    assert!(
        !still.contains("moving") && moving.contains("  cores moving  trace ") && moving.contains(", cores left "),
        "{both:?}"
    );
    assert_eq!(lines(&["--seed", "6", "--only", "stages", "--cores", "moving"]), [moving.clone()]);
    assert_eq!(lines(&["--seed", "5", "--only", "stages"]).len(), 1);
    let linked = lines(&["--seed", "5", "--only", "whole"]);
    assert!(linked.iter().any(|line| line.starts_with("seed     5  linked  cores moving  trace ")), "{linked:?}");
}
