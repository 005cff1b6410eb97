//! Processes of the host: whose children they are, and how much processor time they took (proc(5): stat).

use std::{collections::BTreeSet, path::Path, time::Duration};

/// Ticks of a second in `stat`; Linux gives programs this many on every architecture that it runs on here.
const TICKS_PER_SECOND: u64 = 100;

/// A process that lives, or has ended and is still listed.
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Its name, 15 bytes at most.
    pub name: String,
    /// Somebody has stopped it (state T).
    pub is_stopped: bool,
    parent: u32,
    group: u32,
    /// Its own ticks, and those of its children that have ended.
    ticks: u64,
}

impl Process {
    /// Reads a `stat`. Its second word is the name in brackets and may hold blanks: the last bracket counts.
    fn parse(id: u32, stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let words: Vec<&str> = rest.split_whitespace().collect();
        // The third word is the first one here: parent and group are the fourth and fifth, times the fourteenth to the seventeenth.
        let number = |word: usize| words.get(word - 3)?.parse::<u64>().ok();
        let ticks = [14, 15, 16, 17].into_iter().filter_map(number).sum();
        let is_stopped = words.first() == Some(&"T");
        Some(Self {
            id,
            name,
            is_stopped,
            parent: number(4)?.try_into().ok()?,
            group: number(5)?.try_into().ok()?,
            ticks,
        })
    }

    /// Returns the processor time of it and of its children that have ended.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.ticks * (1000 / TICKS_PER_SECOND))
    }
}

/// Returns all processes of the host that can be read.
pub fn all() -> Vec<Process> {
    numbers(Path::new("/proc"))
        .into_iter()
        .filter_map(|id| Process::parse(id, &stat(format!("/proc/{id}/stat"))))
        .collect()
}

/// Returns a process' threads without its first one, each read as a process; those that took most time come first.
pub fn threads(process: u32) -> Vec<Process> {
    let folder = format!("/proc/{process}/task");
    let others = numbers(Path::new(&folder)).into_iter().filter(|id| *id != process);
    let mut threads: Vec<_> =
        others.filter_map(|id| Process::parse(id, &stat(format!("{folder}/{id}/stat")))).collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.ticks));
    threads
}

/// Returns a process, those of its group, and the children of all of these, and so on.
pub fn tree(all: &[Process], root: u32) -> Vec<&Process> {
    let mut ids = BTreeSet::from([root]);
    loop {
        let before = ids.len();
        let belongs = |one: &&Process| one.group == root || ids.contains(&one.parent);
        let found: Vec<u32> = all.iter().filter(belongs).map(|one| one.id).collect();
        ids.extend(found);
        if ids.len() == before {
            return all.iter().filter(|one| ids.contains(&one.id)).collect();
        }
    }
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn stat(path: String) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, parent: u32, group: u32) -> Process {
        let stat = format!("{id} (a (b) c) S {parent} {group} 1 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 5 0 0");
        Process::parse(id, &stat).unwrap()
    }

    #[test]
    fn a_line_of_stat_says_whose_child_it_is_and_what_it_took() {
        let process = line(7, 3, 2);
        assert_eq!((process.name.as_str(), process.parent, process.group), ("a (b) c", 3, 2));
        assert!(!process.is_stopped && Process::parse(1, "1 (a) T 1 1").unwrap().is_stopped);
        assert_eq!(process.time(), Duration::from_millis(1270));
        assert!(Process::parse(1, "").is_none() && Process::parse(1, "1 (a) S").is_none());
    }

    #[test]
    fn a_tree_has_children_of_children_and_orphans_of_its_group() {
        let all = [line(9, 5, 9), line(5, 2, 2), line(2, 1, 2), line(3, 1, 3), line(8, 1, 2), line(4, 8, 4)];
        let ids: Vec<u32> = tree(&all, 2).iter().map(|one| one.id).collect();
        assert_eq!(ids, [9, 5, 2, 8, 4]);
    }

    #[test]
    fn this_process_and_its_threads_are_found() {
        let own = std::process::id();
        let all = all();
        assert!(tree(&all, own).iter().any(|one| one.id == own));
        assert!(threads(own).iter().all(|thread| thread.id != own));
    }
}
