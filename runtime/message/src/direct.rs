//! A runtime for host tests: requests are served by tasks of one thread, virtual time jumps to the next timer when all wait.

use crate::runtime::{Late, LocalTask, Runtime, TaskMaker};
use crate::{Labels, Link, Port};
use gyre_account::{ActivityId, set_current_activity};
use std::boxed::Box;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::vec::Vec;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Task {
    activity: ActivityId,
    flag: Arc<Flag>,
    future: LocalTask,
}

#[derive(Default)]
struct World {
    fresh: VecDeque<Task>,
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    is_serving: bool,
    late: Vec<&'static dyn Late>,
}

std::thread_local! {
    static WORLD: Rc<RefCell<World>> = Rc::default();
}

/// The runtime of host tests; one world per thread.
pub struct Direct;

static DIRECT: Direct = Direct;

impl Runtime for Direct {
    fn spawn(&self, activity: ActivityId, task: LocalTask) {
        let task = Task { activity, flag: Arc::new(Flag(AtomicBool::new(true))), future: task };
        WORLD.with(|world| world.borrow_mut().fresh.push_back(task));
    }

    fn spawn_on(&self, _core: usize, activity: ActivityId, maker: TaskMaker) {
        self.spawn(activity, maker());
    }

    fn wake_at(&self, deadline_cycles: u64, waker: Waker) -> u64 {
        WORLD.with(|world| {
            let mut world = world.borrow_mut();
            world.next_timer += 1;
            let timer = world.next_timer;
            world.timers.insert((deadline_cycles, timer), waker);
            timer
        })
    }

    fn cancel_wake(&self, timer: u64) {
        // A task dropped at the thread's end finds the world gone, and its timers with it.
        let _ = WORLD.try_with(|world| world.borrow_mut().timers.retain(|key, _| key.1 != timer));
    }

    fn put_off(&self, work: &'static dyn Late) -> bool {
        WORLD.with(|world| {
            let mut world = world.borrow_mut();
            let is_it = |late: &&dyn Late| std::ptr::addr_eq(std::ptr::from_ref(*late), std::ptr::from_ref(work));
            if world.is_serving && !world.late.iter().any(is_it) {
                world.late.push(work);
            }
            world.is_serving
        })
    }
}

/// A port that hands each request to a function which makes its handler.
pub struct DirectPort<R> {
    serve: Box<dyn Fn(R) -> LocalTask + Send + Sync>,
}

impl<R: 'static> Port<R> for DirectPort<R> {
    fn send(&self, request: R, _labels: Labels) {
        DIRECT.spawn(gyre_account::current_activity(), (self.serve)(request));
    }

    fn visit(&self, _labels: Labels, work: &mut dyn FnMut()) -> bool {
        work();
        true
    }
}

/// Makes a link to a server without queues: `direct_link(|request| Box::pin(block::serve(server, request)))`.
pub fn direct_link<R: 'static>(serve: impl Fn(R) -> LocalTask + Send + Sync + 'static) -> Link<R> {
    Link::new(Box::leak(Box::new(DirectPort { serve: Box::new(serve) })))
}

/// Runs a future and all tasks it starts until it is done; virtual time advances when everybody waits.
///
/// # Panics
/// When nothing can ever go on: a lost wake-up or a deadlock.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    crate::set_runtime(&DIRECT);
    // From here on time passes only while all wait: a short sleep must let the others run, however slow the host is.
    gyre_machine::begin_virtual_time();
    let mut future = Box::pin(future);
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let mut tasks: Vec<Task> = Vec::new();
    loop {
        let mut progress = false;
        if flag.0.swap(false, Ordering::SeqCst) {
            progress = true;
            let waker = Waker::from(flag.clone());
            gyre_object::budget::begin(gyre_machine::now());
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                WORLD.with(|world| world.borrow_mut().fresh.extend(tasks));
                return value;
            }
        }
        tasks.extend(WORLD.with(|world| std::mem::take(&mut world.borrow_mut().fresh)));
        WORLD.with(|world| world.borrow_mut().is_serving = true);
        let mut index = 0;
        while index < tasks.len() {
            match poll_task(&mut tasks[index]) {
                None => index += 1,
                Some(done) => {
                    progress = true;
                    if done {
                        // in order: tasks that were started first go first, as in the queues of the engine
                        drop(tasks.remove(index));
                    } else {
                        index += 1;
                    }
                }
            }
        }
        end_turn();
        let fresh = WORLD.with(|world| !world.borrow().fresh.is_empty());
        assert!(progress || fresh || advance_time(), "everybody waits and no timer is armed: a wake-up was lost");
    }
}

/// `None` if the task was not woken; else whether it is done.
fn poll_task(task: &mut Task) -> Option<bool> {
    if !task.flag.0.swap(false, Ordering::SeqCst) {
        return None;
    }
    let before = set_current_activity(task.activity);
    let waker = Waker::from(task.flag.clone());
    gyre_object::budget::begin(gyre_machine::now());
    let done = Pin::as_mut(&mut task.future).poll(&mut Context::from_waker(&waker)).is_ready();
    set_current_activity(before);
    Some(done)
}

/// One look at all tasks is a turn: what they put off is done.
fn end_turn() {
    let late = WORLD.with(|world| {
        let mut world = world.borrow_mut();
        world.is_serving = false;
        std::mem::take(&mut world.late)
    });
    late.into_iter().for_each(Late::do_late);
}

fn advance_time() -> bool {
    let next = WORLD.with(|world| world.borrow_mut().timers.pop_first());
    let Some(((deadline, _), waker)) = next else {
        return false;
    };
    gyre_machine::set_virtual_time(deadline.max(gyre_machine::now()));
    waker.wake();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gone, protocol};

    #[derive(Debug, PartialEq)]
    pub struct Nobody;
    impl From<Gone> for Nobody {
        fn from(_: Gone) -> Nobody {
            Nobody
        }
    }
    protocol! {
        /// Adds numbers.
        pub mod adder {
            /// Adds, after a while.
            async fn add(a: u32, b: u32) -> Result<u32, Nobody>;
            /// Never answers.
            async fn lose(a: u32) -> Result<u32, Nobody>;
        }
    }
    struct Adder;
    impl adder::Server for Adder {
        async fn add(&'static self, a: u32, b: u32) -> Result<u32, Nobody> {
            crate::sleep_ns(1_000_000_000).await;
            Ok(a + b)
        }
        async fn lose(&'static self, _a: u32) -> Result<u32, Nobody> {
            Ok(0)
        }
    }
    static ADDER: Adder = Adder;

    #[test]
    fn a_call_is_answered_after_virtual_time() {
        let client = adder::Client::new(direct_link(|request| Box::pin(adder::serve(&ADDER, request))));
        assert_eq!(block_on(async { client.add(2, 3).await }), Ok(5));
    }

    #[test]
    fn a_dropped_request_answers_gone() {
        let client = adder::Client::new(direct_link(|request: adder::Request| {
            drop(request);
            Box::pin(async {})
        }));
        assert_eq!(block_on(async { client.lose(2).await }), Err(Nobody));
    }
}
