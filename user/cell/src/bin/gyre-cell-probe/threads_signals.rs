//! Signals to one thread of several: it alone acts on them, whatever it waits for.

use std::{
    cell::UnsafeCell,
    io::Error,
    ptr::{null, null_mut},
    sync::{
        Arc, Barrier, Condvar, Mutex,
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use libc::{SIGUSR1, SIGUSR2, c_int, c_void, pthread_t};

use crate::signals::{handle, mask, set_of};

/// Turns of someone who waits for another thread, so that a failure ends.
const TURNS: u32 = 2000;
const TURN: Duration = Duration::from_millis(5);
/// A sleep that only a signal ends.
const LONG: libc::timespec = libc::timespec { tv_sec: 10, tv_nsec: 0 };

static RAN: AtomicU32 = AtomicU32::new(0);
/// The thread in which the handler ran last.
static RAN_IN: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(_: c_int) {
    RAN_IN.store(tid(), Ordering::Relaxed);
    RAN.fetch_add(1, Ordering::Release);
}

fn tid() -> c_int {
    // SAFETY: the call changes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) as c_int }
}

/// Waits until something is so; false if it never is.
fn until(is_so: impl Fn() -> bool) -> bool {
    (0..TURNS).any(|_| {
        thread::sleep(TURN);
        is_so()
    })
}

/// A thread by which others send it signals.
struct Target {
    thread: pthread_t,
    tid: c_int,
}

/// Starts a thread that says who it is before it begins.
fn start(work: impl FnOnce() + Send + 'static) -> (Target, thread::JoinHandle<()>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let joined = thread::spawn(move || {
        // SAFETY: the call changes nothing. C libraries have a number or an address here.
        let own = unsafe { libc::pthread_self() } as usize;
        sender.send((own, tid())).expect("somebody waits for it");
        work();
    });
    let (thread, tid) = receiver.recv().expect("the thread begins");
    (Target { thread: thread as pthread_t, tid }, joined)
}

/// Sends it a signal again and again until something is so: it may come before the thread waits.
fn send_until(target: &Target, signal: c_int, is_so: impl Fn() -> bool) -> bool {
    (0..TURNS).any(|_| {
        // SAFETY: the thread is not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(target.thread, signal) }, 0);
        thread::sleep(TURN);
        is_so()
    })
}

fn ran_in(target: &Target) -> bool {
    RAN_IN.load(Ordering::Relaxed) == target.tid
}

/// All but those that wait in a call of the kernel.
pub fn all() {
    handle(SIGUSR1, note as *const () as usize, 0);
    sleeper();
    waiter();
    reader_of_signals();
    cancelled();
    changes_user(|| {});
}

/// A thread that sleeps is woken, and acts.
fn sleeper() {
    static WOKEN: AtomicBool = AtomicBool::new(false);
    let (target, joined) = start(|| {
        // SAFETY: the time lives for ever.
        let result = unsafe { libc::nanosleep(&LONG, null_mut()) };
        println!("sleep {result} {:?}", Error::last_os_error().raw_os_error());
        WOKEN.store(true, Ordering::Release);
    });
    let is_woken = send_until(&target, SIGUSR1, || WOKEN.load(Ordering::Acquire));
    println!("woken {is_woken}, in its thread {}", ran_in(&target));
    joined.join().expect("the thread ends");
}

/// A thread that waits for others acts, and waits on.
fn waiter() {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = shared.clone();
    let (target, joined) = start(move || {
        let is_over = waits.0.lock().expect("no thread fails");
        drop(waits.1.wait_while(is_over, |is_over| !*is_over).expect("no thread fails"));
    });
    let before = RAN.load(Ordering::Acquire);
    let has_run = send_until(&target, SIGUSR1, || RAN.load(Ordering::Acquire) > before);
    println!("ran {has_run}, in its thread {}", ran_in(&target));
    *shared.0.lock().expect("no thread fails") = true;
    shared.1.notify_all();
    joined.join().expect("the thread ends");
}

/// A thread that reads signals gets those that are sent to it.
fn reader_of_signals() {
    mask(libc::SIG_BLOCK, &[SIGUSR2]);
    let (target, joined) = start(|| {
        let set = set_of(&[SIGUSR2]);
        // SAFETY: the set lives here.
        println!("read {}", unsafe { libc::sigwaitinfo(&raw const set, null_mut()) });
    });
    thread::sleep(TURN * 4);
    // SAFETY: the thread is not joined yet.
    assert_eq!(unsafe { libc::pthread_kill(target.thread, SIGUSR2) }, 0);
    joined.join().expect("the thread ends");
    mask(libc::SIG_UNBLOCK, &[SIGUSR2]);
}

/// Words of the C library that threads share.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: the library's own words, which it guards itself.
unsafe impl<T> Sync for Shared<T> {}

static MUTEX: Shared<libc::pthread_mutex_t> = Shared(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
static CONDITION: Shared<libc::pthread_cond_t> = Shared(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER));
static WAITS: AtomicBool = AtomicBool::new(false);

/// Waits for ever. It has nothing to be dropped, for a thread that is cancelled drops nothing.
unsafe extern "C-unwind" fn wait_for_ever(_: *mut c_void) -> *mut c_void {
    // SAFETY: both words live for ever.
    unsafe {
        libc::pthread_mutex_lock(MUTEX.0.get());
        WAITS.store(true, Ordering::Release);
        loop {
            libc::pthread_cond_wait(CONDITION.0.get(), MUTEX.0.get());
        }
    }
}

/// A thread that waits is cancelled.
fn cancelled() {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    let start = wait_for_ever as unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    let (mut thread, mut result) = (0 as pthread_t, null_mut::<c_void>());
    // SAFETY: the two kinds of function are called alike; the thread is joined once, and waits with its lock given up when that is taken.
    unsafe {
        let start = core::mem::transmute::<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(start);
        assert_eq!(libc::pthread_create(&raw mut thread, null(), start, null_mut()), 0);
        println!("waits {}", until(|| WAITS.load(Ordering::Acquire)));
        libc::pthread_mutex_lock(MUTEX.0.get());
        libc::pthread_mutex_unlock(MUTEX.0.get());
        println!("cancel {}", libc::pthread_cancel(thread));
        libc::pthread_join(thread, &raw mut result);
    }
    println!("cancelled {}", result as isize == -1);
}

/// The C library changes the user in each thread, by a signal to each.
fn changes_user(also: impl FnOnce()) {
    let barrier = Arc::new(Barrier::new(5));
    let all: Vec<_> = (0..4)
        .map(|_| {
            let barrier = barrier.clone();
            thread::spawn(move || _ = barrier.wait())
        })
        .collect();
    thread::sleep(TURN * 4);
    // SAFETY: the user stays as it is.
    println!("setuid {}", unsafe { libc::setuid(libc::getuid()) });
    also();
    barrier.wait();
    println!("joined {}", all.into_iter().map(thread::JoinHandle::join).filter(Result::is_ok).count());
}

/// A thread that waits in a call of the kernel.
pub fn in_calls() {
    static ENDED: AtomicBool = AtomicBool::new(false);
    handle(SIGUSR1, note as *const () as usize, 0);
    let mut ends = [0; 2];
    // SAFETY: there is room for both.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [from, to] = ends;
    let read = move || {
        let mut byte = 0u8;
        // SAFETY: there is room for it.
        let result = unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
        (result, if result < 0 { Error::last_os_error().raw_os_error() } else { None })
    };
    // Another one waits beside it, and hears of nothing.
    let (_, other) = start(move || println!("the other one: {:?}", read()));
    let (target, joined) = start(move || {
        println!("the target: {:?}", read());
        ENDED.store(true, Ordering::Release);
    });
    let has_ended = send_until(&target, SIGUSR1, || ENDED.load(Ordering::Acquire));
    println!("ended {has_ended}, in its thread {}", ran_in(&target));
    joined.join().expect("the thread ends");
    changes_user(move || {
        // SAFETY: the byte lives for ever.
        assert_eq!(unsafe { libc::write(to, b"x".as_ptr().cast(), 1) }, 1);
        other.join().expect("the thread ends");
    });
}

/// A thread that computes, without a call, on a core that it has for itself.
pub fn computing() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static BEFORE: AtomicU32 = AtomicU32::new(0);
    handle(SIGUSR1, note as *const () as usize, 0);
    let (target, joined) = start(|| {
        BEGUN.store(true, Ordering::Release);
        while RAN.load(Ordering::Acquire) == BEFORE.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    println!("begun {}", until(|| BEGUN.load(Ordering::Acquire)));
    // SAFETY: the thread is not joined yet.
    assert_eq!(unsafe { libc::pthread_kill(target.thread, SIGUSR1) }, 0);
    joined.join().expect("the thread ends");
    println!("in its thread {}", ran_in(&target));
}
