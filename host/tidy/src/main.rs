//! Tests of the source: prints what is wrong and exits with 1, or prints the size of the tree and exits with 0.
#![forbid(unsafe_code)]

mod layers;
mod recursion;
mod results;
mod sources;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let root = Path::new(&root);
    let mut faults = layers::faults(root);
    let (figures, source_faults) = sources::check(root);
    faults.extend(source_faults);
    faults.extend(results::faults(root));
    faults.extend(recursion::faults(root));
    for fault in &faults {
        println!("{fault}");
    }
    println!("tidy: {figures}, {} faults", faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
