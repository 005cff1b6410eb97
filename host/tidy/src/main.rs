//! Tests of the source: prints what is wrong and exits with 1, or prints the size of the tree and exits with 0.
//!
//! `gyre-tidy [ROOT]` checks; `gyre-tidy --files HABIT` lists the files with offenders of a habit of `limits.toml`.
#![forbid(unsafe_code)]

mod counts;
mod glossary;
mod layers;
mod recursion;
mod results;
mod sources;
mod statics;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let root = match arguments.next() {
        Some(option) if option == "--files" => return list(&arguments.next().unwrap_or_default()),
        root => root.unwrap_or_else(|| ".".into()),
    };
    let root = Path::new(&root);
    let mut faults = layers::faults(root);
    let (figures, source_faults) = sources::check(root, layers::table(root).ok().as_ref());
    faults.extend(source_faults);
    faults.extend(statics::faults(root));
    faults.extend(results::faults(root));
    faults.extend(recursion::faults(root));
    faults.extend(glossary::faults(root));
    let counts = counts::of_tree(root);
    let verdict = counts::verdict(root, &counts);
    faults.extend(verdict.faults);
    for advice in &verdict.advice {
        println!("{advice}");
    }
    for fault in &faults {
        println!("{fault}");
    }
    println!("counts: {counts}");
    println!("tidy: {figures}, {} faults", faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists the files with offenders of a habit.
fn list(habit: &str) -> ExitCode {
    let Some(offenders) = counts::offenders(Path::new("."), habit) else {
        eprintln!("`{habit}` is no habit; host/tidy/limits.toml has their names");
        return ExitCode::FAILURE;
    };
    offenders.iter().for_each(|(path, number)| println!("{number:4} {}", path.display()));
    ExitCode::SUCCESS
}
