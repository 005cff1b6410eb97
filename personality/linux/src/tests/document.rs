//! docs/guide/system-calls.md is written from the tables. `GYRE_WRITE_DOCUMENT=1 cargo test -p gyre-linux document` writes
//! it anew; without that the test fails if it says something else.

use crate::state::{Call, State};
use std::collections::BTreeMap;
use std::format;
use std::path::Path;
use std::string::{String, ToString as _};
use std::vec::Vec;

/// Calls of the header that Linux 6.1 itself answers with ENOSYS.
const NONE_ON_LINUX: &[&str] = &[
    "_sysctl",
    "afs_syscall",
    "create_module",
    "epoll_ctl_old",
    "epoll_wait_old",
    "get_kernel_syms",
    "get_thread_area",
    "getpmsg",
    "lookup_dcookie",
    "nfsservctl",
    "putpmsg",
    "query_module",
    "security",
    "set_thread_area",
    "sysfs",
    "tuxcall",
    "uselib",
    "vserver",
];

/// set_mempolicy_home_node.
const LAST_OF_LINUX_6_1: u64 = 450;

const HEAD: &str = "# System calls

All calls of Linux on x86-64, and how much of each Gyre offers. The table is written from the dispatch tables of the
personality (`personality/linux/src/table.rs`, `file/table.rs`, `run.rs`); a test fails if it says something else.

* **done**: a program sees what it sees on Linux. Differences that are known stand in [V17](../status/V17.md) and
  [V21](../status/V21.md).
* **partly**: something is left out, which the last column says.
* **refused**: it always answers this error, by intention.
* **missing**: it answers ENOSYS, and the tenant's log names it once.

";

fn rows() -> BTreeMap<u64, Call> {
    let all = [crate::table::CALLS, crate::file::table::CALLS, crate::run::CALLS_ON_REGISTERS].concat();
    let count = all.len();
    let rows: BTreeMap<u64, Call> = all.into_iter().map(|call| (call.number, call)).collect();
    assert_eq!(rows.len(), count, "a number has two rows");
    rows
}

/// Returns the words of a state, and what the last column says.
fn words(call: Option<&Call>, (number, name): (u64, &str)) -> (String, String) {
    match call.map(|call| call.state) {
        Some(State::Done) => ("done".into(), String::new()),
        Some(State::Partly(what)) => ("partly".into(), what.into()),
        Some(State::Refused(errno)) => (format!("refused ({errno:?})"), String::new()),
        None if NONE_ON_LINUX.contains(&name) => ("missing".into(), "Linux 6.1 answers ENOSYS, too.".into()),
        None if number > LAST_OF_LINUX_6_1 => ("missing".into(), "Newer than Linux 6.1.".into()),
        None => ("missing".into(), String::new()),
    }
}

fn document() -> String {
    let rows = rows();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for call in syscalls::Sysno::iter() {
        let (state, what) = words(rows.get(&(call.id() as u64)), (call.id() as u64, call.name()));
        *counts.entry(state.split(' ').next().unwrap_or_default().into()).or_default() += 1;
        lines.push(format!("| {} | {} | {state} | {what} |", call.id(), call.name()).replace("  |", " |"));
    }
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let summary = format!(
        "Of {} calls: {}.\n\n| number | call | state | left out |\n|---|---|---|---|\n",
        lines.len(),
        counts.join(", ")
    );
    [HEAD.to_string(), summary, lines.join("\n"), "\n".into()].concat()
}

#[test]
fn the_document_says_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/system-calls.md");
    if std::env::var_os("GYRE_WRITE_DOCUMENT").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document(), "write it anew: GYRE_WRITE_DOCUMENT=1 cargo test -p gyre-linux document");
}

#[test]
fn every_row_has_the_name_that_linux_gives_its_number() {
    for (number, call) in rows() {
        assert_eq!(crate::table::name_of(number), call.name, "{number}");
        assert!(!matches!(call.state, State::Partly("")), "{}: say what is left out", call.name);
    }
}
