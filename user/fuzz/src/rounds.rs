//! Rounds: one seed each, until the time is over.
//!
//! States of a round: an empty folder, a leader, workers that make calls and are replaced up to [`LIVES`] times, the
//! end of its time, and a wait until no process is left ([`KILLS_MAX`]).
//!
//! * The seed chooses the calls (few that meet, or all), the user, and all arguments. So a round can be made again.
//! * The leader has a session of its own: a signal to its group reaches the round alone.
//! * On a host the fuzzer begins a world of its own with namespaces; in a tenant it is the first process already.
//! * With `--rest` it gives back all that it holds and stays, so that the tenant's memory can be looked at.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::{
    calls,
    clear::clear,
    counts::Counts,
    ipc,
    options::{Options, User},
    slots,
    sys::{self, Scratch},
    trail::Trails,
    worker::{self, Round, mixed},
    world,
};

/// How often a worker that died is replaced in a round.
const LIVES: u64 = 30;
/// How often the processes of a round may be killed without a change of any of them. Counted, as the machine may stand still.
const KILLS_MAX: u32 = 10_000;
/// Kills from one look at the processes to the next.
const KILLS_PER_LOOK: u32 = 50;
const NOBODY: u64 = 65534;
/// The first process never ends for want of memory: the search would.
const NEVER: &str = "-1000";
const AS_ALL: &str = "0";
/// The answer of wait4 if there is no child to wait for.
const NO_CHILD: i64 = -(libc::ECHILD as i64);

/// Makes rounds.
///
/// # Errors
/// When something that is needed cannot be had, or processes do not end.
pub fn run(options: &Options) -> Result<(), String> {
    become_first()?;
    spare(NEVER);
    let started = Instant::now();
    let scratch = Scratch::map().ok_or("no memory for the leader")?;
    let counts = Counts::map().ok_or("no memory for the counters")?;
    let trails = Trails::map((options.workers * options.threads) as usize).ok_or("no memory for the trails")?;
    let mut number = 0;
    while number < options.rounds && started.elapsed() < options.length {
        let seed = options.seed.wrapping_add(number);
        let user = as_whom(options, seed);
        println!("round {number} seed {seed} as {user}, {} calls so far", counts.sum());
        let chosen = chosen(options, seed);
        let (calls, window, threads) = (options.calls, options.window, options.threads);
        let round = Round { number, seed, chosen, calls, window, threads, trails: &trails, counts };
        one(options, &round, user).inspect_err(|wrong| println!("fuzz gave up: {wrong}"))?;
        ipc::remove_all(scratch);
        number += 1;
    }
    if !options.quiet {
        print!("{}", counts.table());
    }
    println!("fuzz ended: {number} rounds, {} calls in {} s", counts.sum(), started.elapsed().as_secs());
    if options.rest {
        rest(options);
    }
    Ok(())
}

/// Leaves nothing behind, then stays, so that a look at the tenant's memory shows what it still holds.
fn rest(options: &Options) -> ! {
    // A name of the calls that lies elsewhere: its file outlives the rounds, and is memory.
    let _ = std::fs::remove_file("/dev/shm/m0");
    [Path::new(&options.folder), Path::new("/dev/shm/m0")].into_iter().for_each(clear);
    // Kept parts of files: gyre_evict of the own tenant.
    sys::short(0x1029, [u64::MAX, 0, 0]);
    println!("fuzz rests");
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

fn as_whom(options: &Options, seed: u64) -> &'static str {
    match options.user {
        User::Root => "root",
        User::Both if seed.is_multiple_of(4) => "root",
        User::Nobody | User::Both => "nobody",
    }
}

/// Returns the calls of a round: few of them, so that they meet, or all.
fn chosen(options: &Options, seed: u64) -> Vec<usize> {
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let is_known = |name: &str| options.without.iter().any(|without| without == name);
    let wanted = calls::all().enumerate().filter(|(_, call)| is_wanted(call.name) && !is_known(call.name));
    let mut all: Vec<usize> = wanted.map(|(index, _)| index).collect();
    let mut random = Rng::with_seed(mixed(seed, [7, 7, 7]));
    random.shuffle(&mut all);
    let some = match random.u32(0..4) {
        0 => all.len(),
        1 => 12,
        2 => 30,
        _ => 70,
    };
    all.truncate(if options.only.is_empty() { some } else { all.len() });
    all
}

/// Makes one round in an empty folder.
fn one(options: &Options, round: &Round, user: &str) -> Result<(), String> {
    let folder = Path::new(&options.folder);
    clear(folder);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let _ = std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let leader = sys::short(libc::SYS_fork as u64, []);
    match leader {
        0 => lead(options, round, user),
        1.. => follow(leader, options.round),
        error => Err(format!("cannot fork: error {}", -error)),
    }
}

/// Waits for a leader's end or the end of its time; then no process is left.
fn follow(leader: i64, limit: Duration) -> Result<(), String> {
    let started = Instant::now();
    while started.elapsed() < limit && !reap(leader) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (mut kills, mut seen) = (0, String::new());
    loop {
        sys::short(libc::SYS_kill as u64, [u64::MAX, 9]);
        if reap(NO_CHILD) {
            return Ok(());
        }
        kills += 1;
        if kills % KILLS_PER_LOOK == 0 {
            let living = living();
            if living != seen {
                (kills, seen) = (0, living);
            } else if kills >= KILLS_MAX {
                return Err(format!("processes of the round do not end: {living}"));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes the ends of all that have ended, orphans among them; says whether `awaited` was one of them.
fn reap(awaited: i64) -> bool {
    loop {
        let ended = sys::short(libc::SYS_wait4 as u64, [u64::MAX, 0, 1, 0]);
        if ended == awaited || ended <= 0 {
            return ended == awaited;
        }
    }
}

/// Lists the processes that there are, with their state.
fn living() -> String {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stat = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
    let names = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    names.filter_map(stat).map(|stat| stat.chars().take(40).collect::<String>()).collect::<Vec<_>>().join("; ")
}

/// Says how readily this process, and those that it makes, end if the tenant is out of memory (proc(5), oom_score_adj). On a host the fuzzer is nobody and
/// may not.
fn spare(adjustment: &str) {
    let _ = std::fs::write("/proc/self/oom_score_adj", adjustment);
}

/// The leader of a round: makes what is there at first, starts workers and replaces those that die.
fn lead(options: &Options, round: &Round, user: &str) -> ! {
    // A signal to one's group reaches only processes of the round.
    sys::short(libc::SYS_setsid as u64, []);
    world::hush();
    spare(AS_ALL);
    let _ = std::env::set_current_dir(&options.folder);
    limits();
    if user == "nobody" {
        become_nobody();
    }
    if let Some(scratch) = Scratch::map() {
        world::make(scratch);
    }
    let mut workers: Vec<(u64, u64, i64)> =
        (0..options.workers).map(|worker| (worker, 0, start(round, worker, 0))).collect();
    while !workers.is_empty() {
        let ended = sys::short(libc::SYS_wait4 as u64, [u64::MAX, 0, 0, 0]);
        if ended == -i64::from(libc::ECHILD) {
            break;
        }
        for (worker, life, process) in workers.iter_mut().filter(|(_, _, process)| *process == ended) {
            *life += 1;
            *process = if *life < LIVES { start(round, *worker, *life) } else { 0 };
        }
        workers.retain(|(_, _, process)| *process > 0);
    }
    worker::end(0)
}

fn start(round: &Round, worker: u64, life: u64) -> i64 {
    let process = sys::short(libc::SYS_fork as u64, []);
    if process == 0 {
        worker::work(round, worker, life);
    }
    slots::add(crate::kinds::Kind::Child, process);
    process
}

/// Chains need descriptors; a core file does not help.
fn limits() {
    for (resource, value) in [(libc::RLIMIT_NOFILE, 4096u64), (libc::RLIMIT_CORE, 0)] {
        let limit = [value, value];
        sys::short(libc::SYS_setrlimit as u64, [resource as u64, limit.as_ptr() as u64]);
    }
}

fn become_nobody() {
    sys::short(libc::SYS_setgroups as u64, [0, 0]);
    sys::short(libc::SYS_setresgid as u64, [NOBODY; 3]);
    sys::short(libc::SYS_setresuid as u64, [NOBODY; 3]);
}

/// Becomes the first process of a world of its own: a process that is killed by number or with all others is ours. In a tenant it is that already.
///
/// # Errors
/// When the kernel does not let us.
fn become_first() -> Result<(), String> {
    if sys::short(libc::SYS_getpid as u64, []) == 1 {
        return Ok(());
    }
    become_nobody();
    let spaces =
        libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNET | libc::CLONE_NEWUTS;
    let answer = sys::short(libc::SYS_unshare as u64, [spaces as u64]);
    if answer < 0 {
        return Err(format!("neither the first process nor able to become it: error {}", -answer));
    }
    let first = sys::short(libc::SYS_fork as u64, []);
    if first == 0 {
        sys::short(libc::SYS_prctl as u64, [libc::PR_SET_PDEATHSIG as u64, 9]);
        let limit = [64u64 << 20; 2];
        sys::short(libc::SYS_setrlimit as u64, [libc::RLIMIT_FSIZE as u64, limit.as_ptr() as u64]);
        loopback();
        return Ok(());
    }
    let mut status = [0u32; 2];
    while sys::short(libc::SYS_wait4 as u64, [first as u64, status.as_mut_ptr() as u64, 0, 0])
        == -i64::from(libc::EINTR)
    {}
    worker::end(u64::from(status[0] >> 8 & 0xff))
}

/// Switches the loopback interface of the new world on: struct ifreq, IFF_UP and IFF_RUNNING.
fn loopback() {
    let mut request = [0u8; 40];
    let (name, flags) = request.split_at_mut(16);
    name[..2].copy_from_slice(b"lo");
    flags[0] = 0x41;
    let socket = sys::short(libc::SYS_socket as u64, [2, 2, 0]);
    sys::short(libc::SYS_ioctl as u64, [socket as u64, 0x8914, request.as_ptr() as u64]);
}
