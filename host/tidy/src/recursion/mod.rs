//! Recursion in the kernel: functions that call themselves, directly or through others, and types that own themselves, whose drop does.
//! A kernel stack is small, and a depth that a program chooses ends the machine.
//!
//! A bounded one says so above the function or type: `// recursion: at most N, because ...`. Without that it is a fault; so is
//! a note above what has no part in a ring. Calls are found by names and declared types, without the compiler: a call through a
//! value of unknown type is not seen.

mod body;
mod cycles;
mod source;
mod types;

use source::Source;
use std::collections::BTreeSet;
use std::path::Path;
use types::Tables;

/// A node of a graph, to be told of.
struct Node {
    name: String,
    file: usize,
    line: usize,
}

/// Returns every ring without a bound, and every note without a ring.
pub fn faults(root: &Path) -> Vec<String> {
    faults_in(&source::read(root))
}

fn faults_in(sources: &[Source]) -> Vec<String> {
    let tables = Tables::new(sources);
    let mut faults = ring_faults(sources, "calls itself", &functions(&tables), &call_edges(&tables, sources));
    faults.extend(ring_faults(
        sources,
        "owns itself, and is dropped by recursion",
        &types(&tables),
        &owner_edges(&tables, sources),
    ));
    faults
}

fn functions(tables: &Tables) -> Vec<Node> {
    let of =
        |function: &types::Function| function.of.map(|of| format!("{}::", tables.types[of].name)).unwrap_or_default();
    let node = |function: &types::Function| Node {
        name: format!("{}{}", of(function), function.name),
        file: function.file,
        line: function.line,
    };
    tables.functions.iter().map(node).collect()
}

fn types(tables: &Tables) -> Vec<Node> {
    tables.types.iter().map(|ty| Node { name: ty.name.clone(), file: ty.file, line: ty.line }).collect()
}

fn call_edges(tables: &Tables, sources: &[Source]) -> Vec<Vec<usize>> {
    tables.functions.iter().map(|function| body::calls(tables, sources, function).into_iter().collect()).collect()
}

/// From each type to those that it owns; a trait stands for its implementers.
fn owner_edges(tables: &Tables, sources: &[Source]) -> Vec<Vec<usize>> {
    let edges = |ty: &types::Type| {
        let owned: BTreeSet<usize> = ty.owned.iter().flat_map(|name| tables.find(sources, ty.file, name)).collect();
        owned.into_iter().chain(ty.implementors.iter().copied()).collect()
    };
    tables.types.iter().map(edges).collect()
}

fn ring_faults(sources: &[Source], does: &str, nodes: &[Node], edges: &[Vec<usize>]) -> Vec<String> {
    let noted: Vec<bool> = nodes.iter().map(|node| sources[node.file].is_noted(node.line)).collect();
    let in_rings: BTreeSet<usize> = cycles::cycles(edges).into_iter().flatten().collect();
    let place = |node: &Node| format!("{}:{}", sources[node.file].path.display(), node.line);
    let idle = (0..nodes.len()).filter(|node| noted[*node] && !in_rings.contains(node));
    let mut faults: Vec<String> = idle
        .map(|node| {
            format!("{}: {} has a note on recursion, and no part in one", place(&nodes[node]), nodes[node].name)
        })
        .collect();
    let unnoted: Vec<Vec<usize>> = edges
        .iter()
        .zip(&noted)
        .map(
            |(to, noted)| {
                if *noted { Vec::new() } else { to.iter().copied().filter(|to| in_rings.contains(to)).collect() }
            },
        )
        .collect();
    for ring in cycles::cycles(&unnoted) {
        let names: Vec<String> =
            ring.iter().map(|node| format!("{} ({})", nodes[*node].name, place(&nodes[*node]))).collect();
        faults.push(format!("{}: {does} without a bound: {}", place(&nodes[ring[0]]), names.join(", ")));
    }
    faults
}

#[cfg(test)]
mod tests;
