//! Memory by kind: Shmem, the lines of status and statm, the cgroup's files.

use super::world::{Surroundings, User, run, run_in, tmpfs};
use core::sync::atomic::Ordering;
use gyre_address_space::AddressSpace;
use gyre_address_space::flush::LocalFlush;
use gyre_machine::Access;
use linux_raw_sys::general as raw;
use std::string::String;

const PAGE: u64 = 4096;

async fn text(user: &User, path: &str) -> String {
    let file = user.open(path, raw::O_RDONLY, 0).await.unwrap();
    String::from_utf8(user.read(file, 8192).await.unwrap()).unwrap()
}

async fn figure(user: &User, path: &str, key: &str) -> u64 {
    let text = text(user, path).await;
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key} in {text}"));
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn call(user: &User, number: u64, arguments: [u64; 6]) -> u64 {
    crate::run::system_call(&user.thread, number, crate::Arguments(arguments)).await.unwrap()
}

/// Maps pages and writes to each.
async fn map(user: &User, pages: u64, flags: u32, descriptor: u64) -> u64 {
    let at = call(user, 9, [0, pages * PAGE, 3, u64::from(flags), descriptor, 0]).await;
    for page in 0..pages {
        user.thread.space().copy_out(at + page * PAGE, &[1]).await.unwrap();
    }
    at
}

#[test]
fn memory_without_a_disk_is_shared_memory_as_long_as_somebody_holds_it() {
    run(|user| async move {
        let user = &user;
        let shared = figure(user, "/proc/meminfo", "Shmem:").await;
        let own = figure(user, "/proc/self/status", "RssShmem:").await;
        user.file("/tmp/some", &[1; 3 * PAGE as usize]).await;
        assert_eq!(figure(user, "/proc/meminfo", "Shmem:").await - shared, 12);
        let at = map(user, 5, raw::MAP_SHARED | raw::MAP_ANONYMOUS, u64::MAX).await;
        assert_eq!(figure(user, "/proc/meminfo", "Shmem:").await - shared, 32);
        assert_eq!(figure(user, "/proc/meminfo", "Cached:").await, figure(user, "/proc/meminfo", "Shmem:").await);
        let file = user.open("/tmp/some", raw::O_RDWR, 0).await.unwrap();
        let before = user.thread.space().usage().await.anonymous.resident;
        map(user, 2, raw::MAP_PRIVATE | raw::MAP_ANONYMOUS, u64::MAX).await;
        map(user, 3, raw::MAP_SHARED, file).await;
        // A copy of a file's page is the program's own.
        map(user, 1, raw::MAP_PRIVATE, file).await;
        assert_eq!(user.thread.space().usage().await.anonymous.resident - before, 3 * PAGE);
        assert_eq!(figure(user, "/proc/self/status", "RssShmem:").await - own, 32);
        let status = text(user, "/proc/self/status").await;
        let of = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(of("VmRSS:"), of("RssAnon:") + of("RssFile:") + of("RssShmem:"));
        let statm = text(user, "/proc/self/statm").await;
        let pages: std::vec::Vec<u64> =
            statm.split_ascii_whitespace().take(3).map(|word| word.parse().unwrap()).collect();
        assert_eq!(pages[2] * 4, of("RssFile:") + of("RssShmem:"));
        call(user, 11, [at, 5 * PAGE, 0, 0, 0, 0]).await;
        assert_eq!(figure(user, "/proc/meminfo", "Shmem:").await - shared, 12, "nobody maps it any more");
        let group = "/sys/fs/cgroup/memory.stat";
        assert_eq!(figure(user, group, "shmem ").await, (shared + 12) * 1024);
        assert_eq!(figure(user, group, "file ").await, (shared + 12) * 1024);
        assert_eq!(figure(user, group, "file_dirty ").await, 0);
        let held = text(user, "/sys/fs/cgroup/memory.current").await.trim().parse::<u64>().unwrap();
        assert_eq!(held, 1 << 29, "memory of others of the group is not its own");
        let all = text(user, group).await;
        let of = |key: &str| all.lines().find_map(|line| line.strip_prefix(key)).unwrap().parse::<u64>().unwrap();
        assert!(of("anon ").is_multiple_of(PAGE) && of("anon ") > 0);
        assert_eq!(of("anon ") + of("file ") + of("kernel "), held);
        assert_eq!((of("anon_thp "), of("file_writeback ")), (0, 0));
        assert!(of("file_mapped ") >= 3 * PAGE, "a file in memory");
        assert_eq!(text(user, "/sys/fs/cgroup/io.stat").await, "", "it has no disk");
        assert_eq!(text(user, "/proc/diskstats").await, "", "it has no disk");
    });
}

#[test]
fn faults_of_memory_that_is_gone_stay_with_the_tenant() {
    run(|user| async move {
        let user = &user;
        let group = "/sys/fs/cgroup/memory.stat";
        let (process, limits) = (user.thread.process(), user.thread.process().limits());
        let new = AddressSpace::new(&LocalFlush, limits.of_memory(&process.credentials()), process.activity()).unwrap();
        let own = process.replace_space(new);
        for page in 1..=7 {
            // Nothing is there; a fault counts when it begins.
            process.space().fault((1 << 30) + page * PAGE, Access::Read).await.unwrap_err();
        }
        let new = process.replace_space(own);
        let before = figure(user, group, "pgfault ").await;
        assert_eq!(new.counters.faults.load(Ordering::Relaxed), 7);
        new.leave().await;
        drop(new);
        let after = figure(user, group, "pgfault ").await;
        assert!((before + 7..before + 14).contains(&after), "{before} and {after} faults");
        assert!(figure(user, "/proc/vmstat", "pgfault ").await >= after);
        assert!(figure(user, group, "pgmajfault ").await < before);
    });
}

#[test]
fn the_cpuset_names_the_cores_of_a_cell_in_time() {
    for (processors, shown) in [(0b10, "1\n"), (0b1101, "0,2-3\n"), (u64::MAX, "0-3\n"), (0b1_0000, "0-3\n")] {
        gyre_machine::set_core_count(4);
        gyre_machine::set_virtual_time(1_000_000_000);
        run_in(Surroundings { processors, ..Surroundings::of(tmpfs()) }, |user| async move {
            assert_eq!(text(&user, "/sys/fs/cgroup/cpuset.cpus.effective").await, shown);
            assert_eq!(text(&user, "/sys/fs/cgroup/cpuset.cpus").await, "0-3\n");
        });
    }
}
