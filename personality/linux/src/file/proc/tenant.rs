//! /proc's view of a tenant's tables of processes.

use super::view::{Doings, ProcessView, Processes};
use crate::time::cycles_to_ns;
use crate::{Process, Tenant};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_address_space::{AddressSpace, Options, Provider, Rights};

/// Resource limits there are.
const LIMITS: u32 = 16;

impl Processes for Tenant {
    fn all(&self) -> Vec<i32> {
        self.tree.lock().processes().iter().map(|process| process.id()).collect()
    }

    fn threads(&self, process: i32) -> Vec<i32> {
        let process = self.tree.lock().process(process);
        let threads = process.map(|process| process.threads.lock().clone()).unwrap_or_default();
        threads.iter().map(|thread| thread.id()).collect()
    }

    fn view(&self, id: i32) -> Option<ProcessView> {
        let (process, letter, parent, group_id, session) = {
            let tree = self.tree.lock();
            let process = tree.process(id).or_else(|| tree.thread(id).map(|thread| thread.process().clone()))?;
            let number = process.id();
            let family = (tree.parent_of(number), tree.group_of(number), tree.session_of(number));
            let letter = tree.state_letter(number);
            (process, letter, family.0, family.1, family.2)
        };
        let mut view = describe(&process);
        view.thread = id;
        view.state = letter.unwrap_or('S');
        view.parent = parent.unwrap_or(0);
        view.group_id = group_id.unwrap_or(0);
        view.session = session.unwrap_or(0);
        if view.state != 'Z' {
            view.files = Some(process.files());
            view.space = Some(process.space());
        }
        Some(view)
    }

    fn host_name(&self) -> String {
        String::from_utf8_lossy(&self.host_name.lock()).into_owned()
    }

    fn memory_bytes(&self) -> (u64, u64) {
        let memory = self.host().memory(self.activity());
        (memory.total_bytes, memory.free_bytes)
    }

    fn doings(&self) -> Doings {
        let (started, running) = {
            let tree = self.tree.lock();
            let runs = |process: &&Arc<Process>| tree.state_letter(process.id()) == Some('R');
            (tree.processes_started(), tree.processes().iter().filter(runs).count())
        };
        let used = self.used();
        Doings { user_ns: used.user_ns, system_ns: used.system_ns, started, running, load: self.load_after(used) }
    }
}

fn describe(process: &Arc<Process>) -> ProcessView {
    let space = process.space();
    let used = process.used();
    let (ignored, caught) = process.signals.lock().actions.handled();
    let first = process.threads.lock().first().cloned();
    let blocked = first.map_or(0, |thread| thread.signals.lock().blocked.0);
    let program = process.program.lock().clone();
    let limits = process.limits();
    let count = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    ProcessView {
        process: process.id(),
        credentials: process.credentials(),
        gains_nothing: process.no_new_privileges.load(core::sync::atomic::Ordering::Relaxed),
        name: process.name(),
        arguments: program.arguments,
        environment: program.environment,
        program: program.path,
        threads: process.threads.lock().len(),
        virtual_bytes: space.mapped_bytes(),
        resident_bytes: space.resident_bytes(),
        user_ns: used.user_ns,
        system_ns: used.system_ns,
        started_ns: cycles_to_ns(process.started_cycles),
        faults: (count(&space.counters.faults), count(&space.counters.faults_waited)),
        maps: maps(&space),
        limits: (0..LIMITS).map(|resource| limits.get(resource)).map(|limit| (limit.soft, limit.hard)).collect(),
        signals: [process.signals.lock().pending.set().0, blocked, ignored.0, caught.0],
        ..ProcessView::default()
    }
}

/// The lines of /proc/PID/maps.
fn maps(space: &AddressSpace) -> String {
    let mut text = String::new();
    for (start, region) in space.regions() {
        let has = |right, letter| if region.rights.contains(right) { letter } else { '-' };
        let shared =
            if region.options.contains(Options::SHARED) && !region.options.contains(Options::VDSO) { 's' } else { 'p' };
        let (path, node) = match &region.provider {
            Provider::File(file) => (String::from_utf8_lossy(file.path()).into_owned(), file.node().0),
            _ if region.options.contains(Options::HEAP) => ("[heap]".into(), 0),
            _ if region.options.contains(Options::STACK) => ("[stack]".into(), 0),
            _ if region.options.contains(Options::VDSO) => ("[vdso]".into(), 0),
            _ => (String::new(), 0),
        };
        let line = format!(
            "{start:08x}-{:08x} {}{}{}{shared} {:08x} 00:{:02x} {node} ",
            region.end,
            has(Rights::READ, 'r'),
            has(Rights::WRITE, 'w'),
            has(Rights::EXECUTE, 'x'),
            region.first_index.offset_bytes(),
            u8::from(node != 0),
        );
        text.push_str(&line);
        if !path.is_empty() {
            let pad = 73usize.saturating_sub(line.len());
            text.push_str(&format!("{:pad$}{path}", ""));
        }
        text.push('\n');
    }
    text
}
