//! Signals of one thread: held back, let in, read by calls and by descriptors, and what handlers are told of them.

use std::{
    io::Error,
    mem::{MaybeUninit, zeroed},
    ptr::{null, null_mut},
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use libc::{SIGALRM, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2, c_int, siginfo_t, sigset_t};

static COME: AtomicU32 = AtomicU32::new(0);
/// `si_code` and sender of the last signal that [`note`] saw, the sender as a difference to this process.
static CODE: AtomicI32 = AtomicI32::new(0);
static SENDER: AtomicI32 = AtomicI32::new(-1);

/// A time for an alarm, microseconds: long enough that whoever waits for it does.
const SOON_US: i64 = 30_000;

extern "C" fn count(_: c_int) {
    COME.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn note(_: c_int, info: *mut siginfo_t, _: *mut libc::c_void) {
    // SAFETY: a handler with SA_SIGINFO gets one, and these signals have a sender.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    CODE.store(code, Ordering::Relaxed);
    SENDER.store(sender - pid(), Ordering::Relaxed);
}

/// The process.
fn pid() -> c_int {
    std::process::id().cast_signed()
}

/// A set of signals.
pub fn set_of(signals: &[c_int]) -> sigset_t {
    // SAFETY: the set is made here.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&raw mut set);
        signals.iter().for_each(|signal| _ = libc::sigaddset(&raw mut set, *signal));
        set
    }
}

/// Changes the mask of this thread.
pub fn mask(how: c_int, signals: &[c_int]) {
    let set = set_of(signals);
    // SAFETY: the set lives here.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &raw const set, null_mut()) }, 0);
}

/// Sets a handler.
pub fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: the handlers of this program touch atomic words alone, or make calls.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(libc::sigaction(signal, &raw const action, null_mut()), 0);
    }
}

/// From here on each SIGUSR1 is counted.
pub fn begin_counting() {
    handle(SIGUSR1, count as *const () as usize, 0);
}

/// The signals that were counted.
pub fn come() -> u32 {
    COME.load(Ordering::Relaxed)
}

fn raise(signal: c_int) {
    // SAFETY: it is held back, or has a handler.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn kill(signal: c_int) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(pid(), signal) }, 0);
}

/// Sends SIGALRM in a moment.
fn alarm() {
    let value = libc::timeval { tv_sec: 0, tv_usec: SOON_US };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: the time lives here.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) }, 0);
}

/// All of them.
pub fn all() {
    held_back();
    told();
    read_by_calls();
    read_by_a_descriptor();
    pending();
    faults();
}

/// To oneself, held back and let in.
fn held_back() {
    begin_counting();
    raise(SIGUSR1);
    println!("raised {}", come());
    mask(libc::SIG_BLOCK, &[SIGUSR1]);
    raise(SIGUSR1);
    println!("held back {}", come());
    mask(libc::SIG_UNBLOCK, &[SIGUSR1]);
    println!("let in {}", come());
    mask(libc::SIG_BLOCK, &[SIGUSR1]);
    kill(SIGUSR1);
    kill(SIGUSR1);
    mask(libc::SIG_UNBLOCK, &[SIGUSR1]);
    println!("let in {}", come());
}

/// What a handler is told.
fn told() {
    handle(SIGUSR2, note as *const () as usize, libc::SA_SIGINFO);
    for (name, send) in [("raise", raise as fn(c_int)), ("kill", kill)] {
        SENDER.store(-1, Ordering::Relaxed);
        send(SIGUSR2);
        println!("{name}: code {}, sender {}", CODE.load(Ordering::Relaxed), SENDER.load(Ordering::Relaxed));
    }
    handle(SIGUSR2, libc::SIG_DFL, 0);
}

fn wait_info(signals: &[c_int], seconds: Option<i64>) -> String {
    let (set, mut info) = (set_of(signals), MaybeUninit::<siginfo_t>::zeroed());
    let time = seconds.map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 });
    let time = time.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: all of them live here.
    match unsafe { libc::sigtimedwait(&raw const set, info.as_mut_ptr(), time) } {
        -1 => format!("{:?}", Error::last_os_error().raw_os_error()),
        signal => {
            // SAFETY: it is filled, or zeros.
            let info = unsafe { info.assume_init() };
            format!("{signal} {} {}", info.si_signo, info.si_code)
        }
    }
}

/// Signals without a handler that a call waits for.
fn read_by_calls() {
    mask(libc::SIG_BLOCK, &[SIGTERM, SIGUSR2, SIGALRM]);
    println!("nothing: {}", wait_info(&[SIGTERM], Some(0)));
    kill(SIGTERM);
    println!("of the process: {}", wait_info(&[SIGTERM, SIGALRM], None));
    raise(SIGUSR2);
    kill(SIGTERM);
    println!("of the thread: {}", wait_info(&[SIGUSR2], None));
    println!("of the process: {}", wait_info(&[SIGTERM], Some(0)));
    alarm();
    println!("waited for: {}", wait_info(&[SIGALRM, SIGTERM], None));
    println!("nothing: {}", wait_info(&[SIGTERM, SIGUSR2, SIGALRM], Some(0)));
    let real = libc::SIGRTMIN() + 3;
    mask(libc::SIG_BLOCK, &[real]);
    (0..3).for_each(|_| kill(real));
    println!("three: {}", (0..4).filter(|_| !wait_info(&[real], Some(0)).starts_with("Some")).count());
    let before = come();
    handle(real, count as *const () as usize, 0);
    (0..3).for_each(|_| kill(real));
    mask(libc::SIG_UNBLOCK, &[real]);
    while come() < before + 3 {
        std::thread::yield_now();
    }
    println!("let in {}", come() - before);
}

fn is_ready(file: c_int, ms: c_int) -> c_int {
    let mut entry = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
    // SAFETY: the entry lives here.
    unsafe { libc::poll(&raw mut entry, 1, ms) }
}

fn read_info(file: c_int) -> String {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    // SAFETY: there is room for one.
    let bytes = unsafe { libc::read(file, info.as_mut_ptr().cast(), size_of::<libc::signalfd_siginfo>()) };
    // SAFETY: it is filled, or zeros.
    let info = unsafe { info.assume_init() };
    let is_own = info.ssi_pid == std::process::id();
    format!("{bytes} bytes: {} {} {}", info.ssi_signo, info.ssi_code, info.ssi_code > 0 || is_own)
}

/// Signals as messages (signalfd(2)).
fn read_by_a_descriptor() {
    mask(libc::SIG_BLOCK, &[SIGTERM, SIGUSR2, SIGALRM]);
    let set = set_of(&[SIGTERM, SIGUSR2, SIGALRM]);
    // SAFETY: the set lives here.
    let file = unsafe { libc::signalfd(-1, &raw const set, 0) };
    println!("ready {}", is_ready(file, 0));
    kill(SIGUSR2);
    println!("ready {}, {}, ready {}", is_ready(file, 10_000), read_info(file), is_ready(file, 0));
    raise(SIGTERM);
    println!("ready {}, {}", is_ready(file, 10_000), read_info(file));
    alarm();
    println!("waited for: {}", read_info(file));
    alarm();
    println!("waited for: {} {}", is_ready(file, 10_000), read_info(file));
    // SAFETY: it is open.
    unsafe { libc::close(file) };
}

fn waiting(signals: &[c_int]) -> Vec<c_int> {
    let mut set = set_of(&[]);
    // SAFETY: the set lives here.
    assert_eq!(unsafe { libc::sigpending(&raw mut set) }, 0);
    // SAFETY: as above.
    signals.iter().copied().filter(|signal| unsafe { libc::sigismember(&raw const set, *signal) } == 1).collect()
}

/// What waits (sigpending(2)), and a handler that runs once when it is let in.
fn pending() {
    let all = [SIGUSR1, SIGTERM, SIGUSR2, libc::SIGCHLD];
    mask(libc::SIG_BLOCK, &all);
    println!("waiting {:?}", waiting(&all));
    raise(SIGUSR1);
    kill(SIGTERM);
    // It is ignored, and waits all the same.
    kill(libc::SIGCHLD);
    println!("waiting {:?}", waiting(&all));
    println!("read: {}", wait_info(&[SIGTERM], Some(0)));
    let before = come();
    mask(libc::SIG_UNBLOCK, &[SIGUSR1, libc::SIGCHLD]);
    println!("ran {}, waiting {:?}", come() - before, waiting(&all));
    // One that is ignored from now on waits no more.
    kill(SIGUSR2);
    handle(SIGUSR2, libc::SIG_IGN, 0);
    handle(SIGUSR2, libc::SIG_DFL, 0);
    println!("waiting {:?}", waiting(&all));
}

/// Waits under another mask, in calls of the kernel.
pub fn under_another_mask() {
    handle(SIGUSR1, count as *const () as usize, 0);
    mask(libc::SIG_BLOCK, &[SIGUSR1, SIGUSR2, SIGALRM]);
    handle(SIGALRM, count as *const () as usize, 0);
    let (before, open) = (come(), set_of(&[SIGTERM, SIGUSR2]));
    raise(SIGUSR1);
    // SAFETY: the sets and times live here, to the end of each call.
    unsafe {
        let result = libc::ppoll(null_mut(), 0, null(), &raw const open);
        println!("ppoll {result} {:?}, ran {}", Error::last_os_error().raw_os_error(), come() - before);
        alarm();
        let result = libc::pselect(0, null_mut(), null_mut(), null_mut(), null(), &raw const open);
        println!("pselect {result} {:?}, ran {}", Error::last_os_error().raw_os_error(), come() - before);
        kill(SIGUSR1);
        let result = libc::sigsuspend(&raw const open);
        println!("sigsuspend {result} {:?}, ran {}", Error::last_os_error().raw_os_error(), come() - before);
        let short = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let result = libc::ppoll(null_mut(), 0, &raw const short, &raw const open);
        let mut now = set_of(&[]);
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), &raw mut now);
        let held = [SIGUSR1, SIGUSR2, SIGALRM].map(|signal| libc::sigismember(&raw const now, signal));
        println!("ppoll {result}, held back {held:?}, ran {}", come() - before);
    }
    mask(libc::SIG_UNBLOCK, &[SIGUSR1, SIGALRM]);
}

static FAULT: AtomicI32 = AtomicI32::new(0);
const PAGE_BYTES: usize = 4096;

/// Says why, and lets the program write.
extern "C" fn mend(_: c_int, info: *mut siginfo_t, _: *mut libc::c_void) {
    // SAFETY: a fault's siginfo has an address, of a mapping of this program.
    unsafe {
        FAULT.store((*info).si_code, Ordering::Relaxed);
        libc::mprotect((*info).si_addr(), PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// A fault that its handler mends.
fn faults() {
    handle(SIGSEGV, mend as *const () as usize, libc::SA_SIGINFO);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping; the write faults until the handler has been there.
    unsafe {
        let page = libc::mmap(null_mut(), PAGE_BYTES, libc::PROT_READ, flags, -1, 0).cast::<u8>();
        page.write_volatile(7);
        println!("fault {}, written {}", FAULT.load(Ordering::Relaxed), page.read_volatile());
    }
    handle(SIGSEGV, libc::SIG_DFL, 0);
}
