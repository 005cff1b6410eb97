//! A program that uses what a runtime of cells answers by itself, and says what it saw: the same in a cell and outside of one.
//!
//! The first word says which part. A part that sees something wrong ends by a panic, so its words and its code differ from those outside.
//!
//! * `threads`, `sleep`: fibers, their locks and times. Signals: tests/linux/held_signals.c and thread_signals.c.
//! * `rounds`, `compute`: threads that wait for each other, or make no call at all, until SIGUSR1 comes.
//! * `memory`, `wrong`: mappings, heaps, and arguments that are refused.
//! * `files`: reads in a row while positions and files change; it writes a file of its own in the folder for such files.
//!
//! `null` and `read` tell times, which differ anyway; they are for figures.

use std::{
    io::{Error, Read as _},
    process::ExitCode,
    sync::{
        Arc, Barrier, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const ROUNDS: u32 = 1000;

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    match what.as_str() {
        "threads" => threads(),
        "memory" => memory(),
        "rounds" => rounds(),
        "compute" => compute(),
        "sleep" => sleep(),
        "wrong" => wrong(),
        "null" => null_calls(),
        "read" => read(),
        "files" => files(),
        _ => {
            eprintln!(
                "gyre-cell-probe threads | rounds | compute | memory | sleep | wrong | files | null | read FILE COUNT"
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Reads of 4 KiB in a row from a file; says the cycles of each.
fn read() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let count: u64 = words[1].parse().expect("a number of reads");
    let mut file = std::fs::File::open(&words[0]).expect("the file opens");
    let mut bytes = vec![0; 4096];
    let begin = stamp();
    for _ in 0..count {
        file.read_exact(&mut bytes).expect("there is so much");
    }
    println!("{} cycles", (stamp() - begin) / count.max(1));
}

/// A file that is read in a row, and everything that others may do to it, or to its position, meanwhile.
fn files() {
    let path = std::env::temp_dir().join(format!("gyre-cell-probe-{}", std::process::id()));
    let bytes: Vec<u8> = (0..200_000u32).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&path, &bytes).expect("there is room");
    let mut file = std::fs::File::open(&path).expect("the file opens");
    assert_eq!(file.metadata().expect("it has a state").len(), 200_000);
    let mut at = 0;
    let mut next = |file: &mut std::fs::File, count: usize| {
        let mut part = vec![0; count];
        let got = file.read(&mut part).expect("it can be read");
        assert!(part[..got] == bytes[at..at + got], "{got} bytes at {at}");
        at += got;
        got
    };
    for _ in 0..10 {
        assert_eq!(next(&mut file, 1000), 1000);
    }
    // A copy has the same position, whoever reads.
    let mut copy = file.try_clone().expect("there is a descriptor");
    for _ in 0..5 {
        assert_eq!([next(&mut copy, 700), next(&mut file, 300)], [700, 300]);
    }
    drop(copy);
    let mut file = positions(&path, &bytes);
    changes(&path, &mut file);
    let at_end = (0..).map_while(|_| file.read(&mut [0; 999]).ok().filter(|got| *got > 0)).last();
    println!("the last read has {at_end:?} bytes");
    std::fs::remove_file(&path).expect("it can go");
}

/// Positions that the program chooses; returns the file with some bytes read ahead.
fn positions(path: &std::path::Path, bytes: &[u8]) -> std::fs::File {
    use std::{io::Seek as _, os::unix::fs::FileExt as _};
    let mut file = std::fs::File::open(path).expect("the file opens");
    let _ = file.metadata();
    let mut part = [0; 512];
    for (from, steps) in [(0u64, 9usize), (100_000, 12), (50_000, 3), (199_000, 2)] {
        assert_eq!(file.seek(std::io::SeekFrom::Start(from)).expect("it is there"), from);
        for step in 0..steps {
            let got = file.read(&mut part).expect("it can be read");
            let at = from as usize + step * 512;
            assert!(part[..got] == bytes[at..(at + 512).min(bytes.len())], "{got} bytes at {at}");
        }
        println!(
            "{} {:?}",
            file.stream_position().expect("it has one"),
            file.seek(std::io::SeekFrom::Current(-300_000)).is_err()
        );
        assert_eq!(file.read_at(&mut part, 1000).expect("it can be read"), 512);
        assert!(part == bytes[1000..1512]);
    }
    println!("{}", file.seek(std::io::SeekFrom::End(-10)).expect("it is there"));
    println!(
        "{} then {}",
        file.read(&mut part).expect("it can be read"),
        file.read(&mut part).expect("it can be read")
    );
    file.rewind().expect("it has a beginning");
    for _ in 0..4 {
        file.read_exact(&mut part).expect("there is so much");
    }
    file
}

/// Writes by another descriptor, which the next read sees.
fn changes(path: &std::path::Path, file: &mut std::fs::File) {
    use std::os::unix::fs::FileExt as _;
    let other = std::fs::File::options().write(true).open(path).expect("it can be written");
    let mut part = [0; 512];
    for round in 0..40u8 {
        let at = std::io::Seek::stream_position(file).expect("it has one");
        other.write_all_at(&[round; 256], at).expect("there is room");
        file.read_exact(&mut part).expect("there is so much");
        assert!(part[..256] == [round; 256], "round {round}");
        file.read_exact(&mut part).expect("there is so much");
    }
    let length = std::io::Seek::stream_position(file).expect("it has one") + 3000;
    other.set_len(length).expect("it can be cut");
    let rest: usize = (0..).map_while(|_| file.read(&mut part).ok().filter(|got| *got > 0)).sum();
    println!("{rest} bytes after it was cut");
    other.write_all_at(b"more", length).expect("there is room");
    println!("{} more", file.read(&mut part).expect("it can be read"));
}

fn stamp() -> u64 {
    gyre_cell::machine::privileged::stamp()
}

/// Threads that wait for each other; says what they did.
fn threads() {
    let (joined, sum) = together();
    println!("joined {joined}");
    println!("sum {sum}");
}

/// Does so again and again until a signal comes; says in how many rounds they did something else than in the first one.
fn rounds() {
    wait_for_signals();
    let first = together();
    println!("begins");
    let mut others = 0;
    while COME.load(Ordering::Relaxed) == 0 {
        others += u32::from(together() != first);
    }
    println!("each round {first:?}, others {others}");
}

/// Two threads that compute until a signal comes.
fn compute() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    wait_for_signals();
    let one = || {
        if BEGUN.fetch_add(1, Ordering::Relaxed) == 1 {
            println!("begins");
        }
        while COME.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
    };
    let all: Vec<_> = (0..2).map(|_| thread::spawn(one)).collect();
    println!("joined {}", all.into_iter().map(|thread| thread.join()).filter(Result::is_ok).count());
}

/// Threads that wait for each other at locks, conditions and barriers, some of them in the kernel; how many ended, and their sum.
fn together() -> (usize, u32) {
    let sum = Arc::new((Mutex::new(0u32), Condvar::new()));
    let barrier = Arc::new(Barrier::new(8));
    let all: Vec<_> = (0..8)
        .map(|id| {
            let (sum, barrier) = (sum.clone(), barrier.clone());
            thread::spawn(move || {
                barrier.wait();
                for round in 0..ROUNDS {
                    *sum.0.lock().expect("no thread fails") += 1;
                    if round % 100 == id {
                        thread::sleep(Duration::from_micros(10));
                    }
                }
                sum.1.notify_all();
            })
        })
        .collect();
    let mut done = sum.0.lock().expect("no thread fails");
    while *done < 8 * ROUNDS {
        done = sum.1.wait(done).expect("no thread fails");
    }
    drop(done);
    let joined = all.into_iter().map(|thread| thread.join()).filter(Result::is_ok).count();
    (joined, *sum.0.lock().expect("no thread fails"))
}

/// Memory that grows, shrinks and moves.
fn memory() {
    let mut lists: Vec<Vec<u8>> = (1..20usize).map(|size| vec![size as u8; size << 16]).collect();
    for list in &mut lists {
        list.resize(list.len() * 2, 0xff);
    }
    lists.retain(|list| list[0] % 3 != 0);
    lists.iter_mut().for_each(Vec::shrink_to_fit);
    let zeros = vec![0u64; 1 << 18];
    let sum: u64 = lists.iter().flatten().map(|byte| u64::from(*byte)).sum();
    println!("sum {sum}, zeros {}", zeros.iter().all(|word| *word == 0));
}

static COME: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: i32) {
    COME.fetch_add(1, Ordering::Relaxed);
}

/// From here on each SIGUSR1 is counted.
fn wait_for_signals() {
    // SAFETY: the handler adds to a number.
    unsafe { libc::signal(libc::SIGUSR1, count as *const () as usize) };
}

/// Threads that sleep for long hold up no others, which sleep as long as they want to.
fn sleep() {
    static WOKEN: AtomicU32 = AtomicU32::new(0);
    let all_begin = Arc::new(Barrier::new(4));
    for _ in 0..3 {
        let begins = all_begin.clone();
        drop(thread::spawn(move || {
            begins.wait();
            thread::sleep(Duration::from_secs(600));
            WOKEN.fetch_add(1, Ordering::Relaxed);
        }));
    }
    all_begin.wait();
    let begin = Instant::now();
    let all: Vec<_> = (0..4).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(300)))).collect();
    let joined = all.into_iter().map(|thread| thread.join()).filter(Result::is_ok).count();
    let elapsed = begin.elapsed();
    println!("{joined} slept, too early: {}", elapsed < Duration::from_millis(300));
    println!("others were awake first: {}", WOKEN.load(Ordering::Relaxed));
}

/// Wrong arguments get errors.
fn wrong() {
    let error = |result: i64| if result < 0 { Error::last_os_error().raw_os_error() } else { None };
    let wild = 0x1234_5000u64 as *mut libc::c_void;
    // SAFETY: no call here has a buffer that is written.
    unsafe {
        println!("write {:?}", error(libc::write(1, wild, 10) as i64));
        println!("futex {:?}", error(libc::syscall(libc::SYS_futex, wild, libc::FUTEX_WAIT, 0, 0)));
        println!("unaligned {:?}", error(libc::syscall(libc::SYS_futex, 1, libc::FUTEX_WAIT, 0, 0)));
        println!("munmap {:?}", error(libc::munmap(wild.wrapping_byte_add(1), 10).into()));
        println!(
            "mmap {:?}",
            error(libc::mmap(std::ptr::null_mut(), 0, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) as i64)
        );
        println!("nanosleep {:?}", error(libc::nanosleep(wild.cast(), std::ptr::null_mut()).into()));
        println!("sigaction {:?}", error(libc::syscall(libc::SYS_rt_sigaction, 65, 0, 0, 8)));
        println!("tgkill {:?}", error(libc::syscall(libc::SYS_tgkill, std::process::id(), 1, 0)));
        println!("call {:?}", error(libc::syscall(9999)));
    }
}

/// Calls that are timed as one, so few that nothing else has a turn in most rounds.
const CALLS_OF_A_ROUND: u32 = 10_000;

/// The cost of the least call: that of the best of a hundred rounds, so that a busy host does not change it. No test compares it with a figure.
fn null_calls() {
    let best = (0..100).map(|_| round_of_calls()).min().unwrap_or_default();
    println!("{} ns for a null call", best / u128::from(CALLS_OF_A_ROUND));
}

/// Returns the time of one round of calls, nanoseconds.
fn round_of_calls() -> u128 {
    let begin = Instant::now();
    for _ in 0..CALLS_OF_A_ROUND {
        // SAFETY: the call changes nothing.
        unsafe { libc::syscall(libc::SYS_getpid) };
    }
    begin.elapsed().as_nanos()
}
