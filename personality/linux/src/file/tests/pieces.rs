//! Long lists that a program makes are walked in pieces: others run in between.
//!
//! The programs are the tests: a `User` of `world.rs` makes thousands of watches, timers, descriptors, mappings, sockets, threads or
//! children by calls. `turns` then polls a call and counts how often it let others run before it had its answer.
//!
//! The tests hold that closing, copying, listing and ending such lists takes several turns and yet does all of the work: names of events
//! are right after a move, texts read in parts fit together, whole processes end although threads end by themselves meanwhile, and
//! signals to all reach everyone and the sender last. The lowest free descriptor among very many is found at once.
//!
//! Bounds are counts of turns; their lengths in time on a machine are left out, but for that one search.

use super::world::{User, run};
use crate::task::exit;
use crate::{Process, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// Watches of one descriptor: fewer than nodes of the file system, more than a turn's pieces.
const WATCHES: u64 = 4000;
/// Pieces of a turn, and what else a closing call may do.
const TURN: u64 = 1100;

async fn files(user: &User, count: u64) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|at| std::format!("/{at}")).collect();
    for name in &names {
        user.file(name, b"").await;
    }
    names
}

async fn watched(user: &User, inotify: u64, path: &str) -> u64 {
    let path = user.text(path).await;
    user.call(254, &[inotify, path, u64::from(raw::IN_ALL_EVENTS)]).await.unwrap()
}

#[test]
fn the_watches_of_a_closed_descriptor_go_in_pieces_and_do_not_count() {
    run(|user| async move {
        let names = files(&user, WATCHES).await;
        let notices = || user.thread.process().files().tenant().clone();
        for _ in 0..2 {
            let inotify = user.call(294, &[0]).await.unwrap();
            for name in &names {
                watched(&user, inotify, name).await;
            }
            user.close(inotify).await.unwrap();
            let left = notices().notices.watched() as u64;
            assert!(left >= WATCHES - TURN, "{left} of {WATCHES} watches are left after the call");
        }
        gyre_message::sleep_ns(1_000_000).await;
        assert_eq!(notices().notices.watched(), 0);
    });
}

#[test]
fn events_below_directories_that_changed_places_come_under_their_names() {
    run(|user| async move {
        for directory in ["/a", "/a/x", "/b", "/b/y"] {
            user.with_path(83, directory, &[0o777]).await.unwrap();
        }
        let inotify = user.call(294, &[0x800]).await.unwrap();
        let (x, y) = (watched(&user, inotify, "/a/x").await, watched(&user, inotify, "/b/y").await);
        let (a, b) = (user.text("/a").await, user.text("/b").await);
        // renameat2 with RENAME_EXCHANGE.
        user.call(316, &[-100i64 as u64, a, -100i64 as u64, b, 2]).await.unwrap();
        for (path, watch) in [("/b/x/file", x), ("/a/y/file", y)] {
            user.file(path, b"").await;
            let event = user.read(inotify, 4096).await.unwrap();
            assert_eq!(event[..4], (watch as u32).to_le_bytes(), "{path}");
        }
    });
}

/// Lets a call run; returns how often others ran in between.
async fn turns<T>(call: impl Future<Output = T>) -> (T, u32) {
    let (mut turns, mut call) = (0, std::pin::pin!(call));
    let answer = std::future::poll_fn(|context| {
        turns += 1;
        call.as_mut().poll(context)
    });
    let answer = answer.await;
    (answer, turns - 1)
}

#[test]
fn the_timers_of_a_process_go_in_turns() {
    run(|user| async move {
        let call = async |number: u64, words: [u64; 3]| {
            let arguments = crate::Arguments([words[0], words[1], words[2], 0, 0, 0]);
            crate::table::calls::dispatch(&user.thread, number, arguments).await.unwrap()
        };
        let most = 10_000;
        let limit = user.put(&[most; 2].map(u64::to_le_bytes).concat()).await;
        // setrlimit of RLIMIT_SIGPENDING: each timer has a place for its signal.
        call(160, [11, limit, 0]).await.unwrap();
        let id = user.room(4);
        let process = user.thread.process();
        let make = async || {
            while process.signal_places_taken() < most {
                call(222, [1, 0, id]).await.unwrap();
            }
            assert_eq!(call(222, [1, 0, id]).await.err(), Some(crate::Errno::EAGAIN));
            assert_eq!(process.signal_places_taken(), most, "what was refused holds nothing");
        };
        make().await;
        let ((), between) = turns(process.timers.end()).await;
        assert!(between >= 9, "{between}");
        assert_eq!(call(226, [7, 0, 0]).await.err(), Some(crate::Errno::EINVAL));
        // Those of a process whose threads are lost: a task of the tenant goes on with them.
        make().await;
        process.timers.stop(process.tenant().activity());
        assert_eq!(call(226, [9_999, 0, 0]).await.err(), Some(crate::Errno::EINVAL));
        while process.signal_places_taken() > 0 {
            gyre_message::yield_now().await;
        }
    });
}

/// The limit of a table of many descriptors.
const MANY: u64 = 150_000;

#[test]
fn a_table_of_many_descriptors_is_copied_marked_and_given_up_in_turns() {
    run(|user| async move {
        let (read, _) = user.pipe(0).await;
        let files = user.thread.process().files();
        let (table, file) = (files.table(), files.table().get(read as i32).unwrap());
        for number in 10..MANY as i32 {
            table.replace(file.clone(), false, number, MANY).unwrap();
        }
        table.remove(77_777).unwrap();
        let (copy, between) = turns(files.duplicate(0)).await;
        let copy = copy.unwrap();
        assert!(between >= 2, "{between}");
        let numbers = |of: &crate::file::FileContext| of.table().all().into_iter().map(|(number, _)| number).collect();
        let (here, there): (Vec<i32>, Vec<i32>) = (numbers(&files), numbers(&copy));
        assert!(here == there && here.len() > 149_000 && !here.contains(&77_777));
        let ((), between) = turns(copy.table().mark_range(1000, u32::MAX)).await;
        assert!(between >= 2 && copy.table().closes_on_exec(1000).unwrap(), "{between}");
        let (executed, between) = turns(copy.executed(1, crate::file::context::Sharing::Stays)).await;
        assert!(between >= 2, "{between}");
        assert!(numbers(&executed).into_iter().eq(here.into_iter().filter(|number| *number < 1000)));
    });
}

/// Times of a call, the least of some.
async fn least_ns(mut call: impl AsyncFnMut()) -> u128 {
    let mut least = u128::MAX;
    for _ in 0..50 {
        let begun = std::time::Instant::now();
        call().await;
        least = least.min(begun.elapsed().as_nanos());
    }
    least
}

#[test]
fn the_lowest_free_descriptor_is_found_at_once_among_many() {
    run(|user| async move {
        let (read, _) = user.pipe(0).await;
        let files = user.thread.process().files();
        let (table, file) = (files.table(), files.table().get(read as i32).unwrap());
        let install = async || {
            let number = table.install(file.clone(), false, 0, MANY).unwrap();
            table.remove(number).unwrap();
        };
        let among_few = least_ns(install).await;
        for number in 0..MANY as i32 - 1 {
            table.replace(file.clone(), false, number, MANY).unwrap();
        }
        assert_eq!(table.install(file.clone(), false, 3, MANY), Ok(MANY as i32 - 1));
        assert_eq!(table.install(file.clone(), false, 3, MANY), Err(crate::Errno::EMFILE));
        assert!(table.check_room(MANY).is_err() && table.check_room(MANY + 1).is_ok());
        table.remove(MANY as i32 - 1).unwrap();
        let among_many = least_ns(install).await;
        assert!(among_many < 50 * among_few, "{among_few} ns among few, {among_many} ns among many");
        table.remove(77_777).unwrap();
        assert_eq!(table.install(file.clone(), false, 3, MANY), Ok(77_777));
    });
}

/// Reads a file in parts; returns its text and the most turns that a part took.
async fn read_in_parts(user: &User, path: &str, bytes: usize) -> (String, u32) {
    let fd = user.open(path, raw::O_RDONLY, 0).await.unwrap();
    let (mut text, mut most) = (Vec::new(), 0);
    loop {
        let (part, between) = turns(user.read(fd, bytes)).await;
        let part = part.unwrap();
        most = most.max(between);
        if part.is_empty() {
            user.close(fd).await.unwrap();
            return (String::from_utf8(text).unwrap(), most);
        }
        text.extend_from_slice(&part);
    }
}

#[test]
fn the_mappings_of_a_process_are_listed_in_turns_and_the_parts_fit() {
    const MAPPINGS: u64 = 10_000;
    run(|user| async move {
        let space = user.thread.process().space();
        for at in 0..MAPPINGS {
            let place = 0x20_0000_0000 + at * 8192;
            user.any(9, &[place, 4096, 3, 0x32, u64::MAX, 0]).await.unwrap();
        }
        let (parts, between) = read_in_parts(&user, "/proc/self/maps", 65_536).await;
        assert!(between >= 8, "{between}");
        let shown: Vec<(u64, u64)> = parts
            .lines()
            .map(|line| {
                let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
                (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap())
            })
            .collect();
        let there: Vec<_> = space.regions().into_iter().map(|(start, region)| (start, region.end)).collect();
        assert!(shown == there && there.len() as u64 >= MAPPINGS);
        let (rollup, _) = read_in_parts(&user, "/proc/self/smaps_rollup", 4096).await;
        let (first, last) = (there[0].0, there[there.len() - 1].1);
        assert!(rollup.starts_with(&std::format!("{first:08x}-{last:08x} ---p")));
    });
}

#[test]
fn the_end_of_smaps_is_reached_in_turns() {
    const MAPPINGS: u64 = 5000;
    run(|user| async move {
        for at in 0..MAPPINGS {
            user.any(9, &[0x20_0000_0000 + at * 8192, 4096, 3, 0x32, u64::MAX, 0]).await.unwrap();
        }
        let fd = user.open("/proc/self/smaps", raw::O_RDONLY, 0).await.unwrap();
        // The last mapping's part, and nothing of the others.
        let (maps, _) = read_in_parts(&user, "/proc/self/maps", 65_536).await;
        let lines = maps.lines().count() as u64;
        let before = (maps.len() as u64) + (lines - 1) * 25 * 28 - maps.lines().last().unwrap().len() as u64 - 1;
        user.call(8, &[fd, before, 0]).await.unwrap();
        let (part, between) = turns(user.read(fd, 4096)).await;
        let part = String::from_utf8(part.unwrap()).unwrap();
        assert!(between >= 4, "{between}");
        assert!(part.starts_with(maps.lines().last().unwrap()) && part.lines().count() == 26, "{part}");
    });
}

#[test]
fn the_descriptors_of_a_process_are_listed_some_at_a_time() {
    run(|user| async move {
        let (read, _) = user.pipe(0).await;
        let files = user.thread.process().files();
        let (table, file) = (files.table(), files.table().get(read as i32).unwrap());
        for number in 10..20_000 {
            table.replace(file.clone(), false, number, MANY).unwrap();
        }
        table.remove(7777).unwrap();
        for path in ["/proc/self/fd", "/proc/self/fdinfo"] {
            let fd = user.open(path, raw::O_RDONLY | raw::O_DIRECTORY, 0).await.unwrap();
            let out = user.room(1 << 20);
            let mut names: Vec<i32> = Vec::new();
            loop {
                let bytes = user.call(217, &[fd, out, 1 << 20]).await.unwrap() as usize;
                let (entries, mut at) = (user.get(out, bytes).await, 0);
                let before = names.len();
                while at < bytes {
                    let length = usize::from(u16::from_le_bytes([entries[at + 16], entries[at + 17]]));
                    let name = entries[at + 19..at + length].split(|byte| *byte == 0).next().unwrap();
                    names.extend(std::str::from_utf8(name).unwrap().parse::<i32>());
                    at += length;
                }
                assert!(names.len() - before <= 1024);
                if bytes == 0 {
                    break;
                }
            }
            let there: Vec<i32> = table.all().into_iter().map(|(number, _)| number).collect();
            assert!(names == there && there.len() > 19_000 && !there.contains(&7777), "{path}");
            user.close(fd).await.unwrap();
        }
    });
}

#[test]
fn the_sockets_of_a_tenant_are_listed_in_turns() {
    const SOCKETS: usize = 4000;
    run(|user| async move {
        let limit = user.put(&[8192u64.to_le_bytes(), 8192u64.to_le_bytes()].concat()).await;
        user.any(160, &[7, limit, 0]).await.unwrap();
        for _ in 0..SOCKETS {
            user.call(41, &[1, 1, 0]).await.unwrap();
        }
        let (text, between) = read_in_parts(&user, "/proc/net/unix", 4 << 20).await;
        assert!(between >= 12, "{between}");
        assert_eq!(text.lines().count(), SOCKETS + 1);
    });
}

impl User {
    /// Makes a call that is not one of files.
    async fn any(&self, number: u64, arguments: &[u64]) -> Result<u64, crate::Errno> {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        crate::table::calls::dispatch(&self.thread, number, crate::Arguments(all)).await.expect("the number is known")
    }

    /// Adds threads to the process, which run nothing.
    fn add_threads(&self, first: i32, count: i32) {
        let process = self.thread.process();
        for id in first..first + count {
            let thread = Thread::new(id, process.clone());
            self.thread.tenant().tree.lock().add_thread(thread.clone());
            process.add_thread(thread);
        }
    }
}

/// Lets the threads that must end do so, until none must; returns how many that were in each round.
fn rounds_of_death(all: impl Fn() -> Vec<Arc<Process>>) -> Vec<usize> {
    let dying = || -> Vec<Arc<Thread>> {
        let threads = all().into_iter().flat_map(|process| process.threads.lock().clone());
        threads.filter(|thread| thread.is_dying()).collect()
    };
    let rounds = std::iter::from_fn(|| Some(dying()).filter(|some| !some.is_empty()));
    rounds.inspect(|some| some.iter().for_each(exit::remove)).map(|some| some.len()).collect()
}

#[test]
fn a_process_of_a_thousand_threads_ends_in_pieces() {
    run(|user| async move {
        let child = user.fork(2).await;
        child.add_threads(1000, 1000);
        let process = child.thread.process().clone();
        child.any(231, &[7]).await.unwrap();
        let rounds = rounds_of_death(|| vec![process.clone()]);
        assert_eq!((rounds[0], rounds.iter().sum::<usize>()), (64, 1001), "{rounds:?}");
        assert!(process.threads.lock().is_empty());
        assert_eq!((process.end_status(), user.thread.tenant().tree.lock().state_letter(2)), (Some(7 << 8), Some('Z')));
    });
}

#[test]
fn threads_that_end_by_themselves_meanwhile_do_not_hide_the_others() {
    run(|user| async move {
        let child = user.fork(2).await;
        child.add_threads(1000, 1000);
        let process = child.thread.process().clone();
        process.end(9);
        let untold: Vec<_> =
            process.threads.lock().iter().filter(|thread| !thread.is_dying()).take(900).cloned().collect();
        untold.iter().for_each(exit::remove);
        rounds_of_death(|| vec![process.clone()]);
        assert!(process.threads.lock().is_empty());
    });
}

#[test]
fn the_processes_of_a_tenant_end_in_pieces_after_the_first_one() {
    run(|user| async move {
        let tenant = user.thread.tenant().clone();
        let mut last = user.fork(2).await;
        for id in 3..600 {
            // Children of the first one, and of one another.
            last = if id % 5 == 0 { user.fork(id).await } else { last.fork(id).await };
        }
        user.thread.process().end(9);
        let rounds = rounds_of_death(|| tenant.tree.lock().processes());
        assert!(rounds.len() > 4 && rounds.iter().all(|round| *round <= 64 * 65) && rounds[1] <= 64, "{rounds:?}");
        assert_eq!((rounds.iter().sum::<usize>(), tenant.tree.lock().counted().0), (599, 0));
    });
}

#[test]
fn a_signal_to_all_reaches_thousands_in_turns_and_the_sender_last() {
    run(|user| async move {
        let first = user.fork(2).await;
        for id in 3..4000 {
            first.fork(id).await;
        }
        let sender = first.fork(4000).await;
        let has = |id: i32, signal: i32| {
            let process = user.thread.tenant().tree.lock().process(id).unwrap();
            process.signals.lock().pending.set().has(signal)
        };
        let (sent, between) = turns(sender.any(62, &[-1i64 as u64, 12])).await;
        assert!(sent == Ok(0) && between >= 3, "{sent:?} {between}");
        assert!((2..4000).all(|id| has(id, 12)) && !has(1, 12) && !has(4000, 12));
        // A group of which the sender is the first by number.
        for id in 2..=4000 {
            user.thread.tenant().tree.lock().set_group(2, id, 2).unwrap();
        }
        let (sent, between) = turns(first.any(62, &[0, 9])).await;
        assert!(sent == Ok(0) && between >= 3, "{sent:?} {between}");
        let ends = |id: i32| user.thread.tenant().tree.lock().process(id).unwrap().is_ending();
        assert!((2..=4000).all(ends) && !ends(1));
        assert_eq!(user.any(62, &[-4711i64 as u64, 9]).await, Err(crate::Errno::ESRCH));
    });
}

#[test]
fn many_children_get_the_signal_of_their_parents_death_in_turns() {
    run(|user| async move {
        let parent = user.fork(2).await;
        for id in 3..1500 {
            let child = parent.fork(id).await;
            child.any(157, &[1, 10]).await.unwrap();
        }
        exit::remove(&parent.thread);
        let has = |id: i32| {
            let process = user.thread.tenant().tree.lock().process(id).unwrap();
            process.signals.lock().pending.set().has(10)
        };
        assert!((3..1500).filter(|id| has(*id)).count() < 1100);
        gyre_message::sleep_ns(1_000_000).await;
        assert!((3..1500).all(has));
    });
}
