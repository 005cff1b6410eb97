//! /proc's view of a tenant's tables of processes.
//!
//! Each method of [`Processes`] answers one question of /proc, with copies: nothing of a process is borrowed across a
//! read.
//!
//! * The tree's lock is held to find processes, then let go; their own locks are taken one at a time. So figures of
//!   two processes may be from two times.
//! * A process that has ended and is not waited for (state Z) has no files and no memory.
//! * Writes (names, out_of_memory_adjustment) check value and rights first, then change one word.
//! * Times are in ns and become ticks in the texts ([`super::fixed::ticks`]).
//!
//! The shapes of texts are in [`super::process_files`].

use super::tree::Name;
use super::view::{Bounds, Doings, ProcessView, Processes, SignalSets};
use crate::credentials::{Capability, login::Rights};
use crate::file::context::FileContext;
use crate::ipc;
use crate::task::{shortage, system};
use crate::tenant::{CacheUse, DiskUse};
use crate::time::cpu_clock::used_by;
use crate::time::cycles_to_ns;
use crate::{Process, Tenant};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_address_space::AddressSpace;
use gyre_interface::files::FileError;

/// Numbers of processes or threads that are answered at once.
const NUMBERS_AT_ONCE: usize = 512;
/// Resource limits there are.
const LIMITS: u32 = 16;

impl Processes for Tenant {
    fn some_from(&self, first: i32) -> Vec<i32> {
        self.tree.lock().numbers_from(first).take(NUMBERS_AT_ONCE).collect()
    }

    fn counted(&self) -> (usize, i32) {
        self.tree.lock().counted()
    }

    fn threads_from(&self, process: i32, first: i32) -> Vec<i32> {
        let Some(process) = self.tree.lock().process(process) else { return Vec::new() };
        let threads = process.threads.lock();
        let mut numbers: Vec<i32> = threads.iter().map(|thread| thread.id()).filter(|id| *id >= first).collect();
        drop(threads);
        if numbers.len() > NUMBERS_AT_ONCE {
            numbers.select_nth_unstable(NUMBERS_AT_ONCE);
            numbers.truncate(NUMBERS_AT_ONCE);
        }
        numbers.sort_unstable();
        numbers
    }

    fn view(&self, id: i32) -> Option<ProcessView> {
        let (process, thread, letter, parent, group_id, session) = {
            let tree = self.tree.lock();
            let thread = tree.thread(id);
            let process = tree.process(id).or_else(|| thread.as_ref().map(|thread| thread.process().clone()))?;
            let number = process.id();
            let family = (tree.parent_of(number), tree.group_of(number), tree.session_of(number));
            let letter = tree.state_letter(number);
            (process, thread, letter, family.0, family.1, family.2)
        };
        let mut view = describe(&process);
        view.thread = id;
        view.state = letter.unwrap_or('S');
        if let Some(thread) = thread {
            view.used_by_thread = used_by(&thread);
            view.tracer = thread.tracee.tracer().map_or(0, |tracer| tracer.id());
            let signals = thread.signals.lock();
            (view.signals.pending, view.signals.blocked) = (signals.pending.set().0, signals.blocked.0);
            drop(signals);
            // Of several threads each has a state of its own, also the first one, whose the process's files show.
            if view.threads > 1 && matches!(view.state, 'R' | 'S' | 'D' | 't') {
                view.state = thread.state_letter();
            }
            let name = *thread.name.lock();
            view.name = name.iter().copied().take_while(|byte| *byte != 0).collect();
        }
        view.parent = parent.unwrap_or(0);
        view.group_id = group_id.unwrap_or(0);
        view.session = session.unwrap_or(0);
        if view.state != 'Z' {
            view.files = Some(process.files());
            view.space = Some(process.space());
        }
        Some(view)
    }

    fn tables(&self) -> Vec<Arc<FileContext>> {
        let tree = self.tree.lock();
        let lives = |process: &&Arc<Process>| tree.state_letter(process.id()) != Some('Z');
        let processes: Vec<Arc<Process>> = tree.processes().iter().filter(lives).cloned().collect();
        drop(tree);
        processes.iter().map(|process| process.files()).collect()
    }

    fn name(&self, name: Name) -> String {
        let bytes = match name {
            Name::Host => &self.host_name,
            Name::Domain => &self.domain_name,
        };
        String::from_utf8_lossy(&bytes.lock()).into_owned()
    }

    fn set_name(&self, name: Name, text: &[u8]) -> Result<(), FileError> {
        if text.len() > system::NAME_BYTES_MAX {
            return Err(FileError::Invalid);
        }
        match name {
            Name::Host => *self.host_name.lock() = text.to_vec(),
            Name::Domain => *self.domain_name.lock() = text.to_vec(),
        }
        Ok(())
    }

    fn set_thread_name(&self, id: i32, text: &[u8]) -> Result<(), FileError> {
        let thread = {
            let tree = self.tree.lock();
            let first = || tree.process(id).and_then(|process| process.threads.lock().first().cloned());
            tree.thread(id).or_else(first)
        };
        let thread = thread.ok_or(FileError::NotFound)?;
        let mut name = [0; 16];
        let shown = text.strip_suffix(b"\n").unwrap_or(text);
        name.iter_mut().take(15).zip(shown).for_each(|(place, byte)| *place = *byte);
        *thread.name.lock() = name;
        Ok(())
    }

    fn set_out_of_memory_adjustment(&self, id: i32, to: i32) -> Result<(), FileError> {
        let process = self.tree.lock().process(id).ok_or(FileError::NotFound)?;
        if !(-1000..=1000).contains(&to) {
            return Err(FileError::Invalid);
        }
        let may = process.credentials().capabilities.effective.has(Capability::SysResource);
        if to < process.out_of_memory_adjustment.load(Ordering::Relaxed) && !may {
            return Err(FileError::Denied);
        }
        process.out_of_memory_adjustment.store(to, Ordering::Relaxed);
        Ok(())
    }

    fn set_login(&self, id: i32, text: &[u8]) -> Result<(), FileError> {
        let process = {
            let tree = self.tree.lock();
            tree.process(id).or_else(|| tree.thread(id).map(|thread| thread.process().clone()))
        };
        let process = process.ok_or(FileError::NotFound)?;
        let is_free = process.credentials().capabilities.effective.has(Capability::AuditControl);
        let rights = if is_free { Rights::Control } else { Rights::First };
        process.login.write(text, rights, &self.login_sessions)
    }

    fn out_of_memory_score(&self, id: i32) -> Option<i32> {
        let process = self.tree.lock().process(id)?;
        Some(shortage::score(&process))
    }

    fn ipc_lines(&self, kind: ipc::Kind, first: u32) -> Vec<(u32, String)> {
        Tenant::ipc_lines(self, kind, first)
    }

    fn faults(&self) -> (u64, u64) {
        let count = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let spaces = self.spaces();
        let counters = spaces.iter().map(|space| &space.counters).chain([&*self.space_counts]);
        counters.fold((0, 0), |(all, waited), counters| {
            let (faults, slow) = (count(&counters.faults), count(&counters.faults_waited));
            (u64::saturating_add(all, faults), u64::saturating_add(waited, slow))
        })
    }

    fn bounds(&self) -> Bounds {
        let processes = self.tree.lock().processes();
        let threads = processes.iter().map(|process| process.threads.lock().len()).sum();
        Bounds {
            threads,
            threads_max: self.limits.lock().threads,
            cores_max_milli: self.kernel().processor_limit_milli(self.activity()),
            processors: self.kernel().processors(self.activity()),
        }
    }

    fn memory_bytes(&self) -> (u64, u64) {
        let memory = self.kernel().memory(self.activity());
        (memory.total_bytes, memory.free_bytes)
    }

    fn held_bytes(&self) -> u64 {
        self.kernel().memory(self.activity()).held_bytes
    }

    fn shared_bytes(&self) -> u64 {
        self.shared_pages.load(Ordering::Relaxed).saturating_mul(gyre_machine::PAGE_BYTES as u64)
    }

    fn cache(&self) -> CacheUse {
        self.kernel().cache(self.activity())
    }

    fn disks(&self) -> Vec<DiskUse> {
        self.kernel().disks(self.activity())
    }

    fn spaces(&self) -> Vec<Arc<AddressSpace>> {
        let processes = self.tree.lock().processes();
        let mut spaces: Vec<_> = processes.iter().map(|process| process.space()).collect();
        spaces.sort_unstable_by_key(|space| Arc::as_ptr(space).addr());
        spaces.dedup_by(|one, other| Arc::ptr_eq(one, other));
        spaces
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
    // Before its files and its memory (see [`super::looker`]).
    let program = process.program.lock().clone();
    let space = process.space();
    let used = process.used();
    let (pending_shared, (ignored, caught)) = {
        let signals = process.signals.lock();
        (signals.pending.set().0, signals.actions.handled())
    };
    let first = process.threads.lock().first().cloned();
    let limits = process.limits();
    let count = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    ProcessView {
        of: Some(process.clone()),
        process: process.id(),
        credentials: process.credentials(),
        gains_nothing: process.no_new_privileges.load(core::sync::atomic::Ordering::Relaxed),
        name: process.name(),
        program,
        threads: process.threads.lock().len(),
        virtual_bytes: space.mapped_bytes(),
        resident_bytes: space.resident_bytes(),
        used,
        started_ns: cycles_to_ns(process.started_cycles),
        faults: (count(&space.counters.faults), count(&space.counters.faults_waited)),
        limits: (0..LIMITS).map(|resource| limits.get(resource)).map(|limit| (limit.soft, limit.hard)).collect(),
        signals: SignalSets { pending_shared, ignored: ignored.0, caught: caught.0, ..SignalSets::default() },
        out_of_memory_adjustment: process.out_of_memory_adjustment.load(Ordering::Relaxed),
        login_user: process.login.user(),
        login_session: process.login.session(),
        timer_slack_ns: first.map_or(0, |thread| thread.timer_slack_ns.load(Ordering::Relaxed)),
        tenant: process.tenant().activity().index() as u32,
        signal_places: (process.signal_places_taken(), limits.get(linux_raw_sys::general::RLIMIT_SIGPENDING).soft),
        ..ProcessView::default()
    }
}
