//! Futures must stay small: they lie in the kernel's heap, and pieces of them pass over one small stack.
use super::script::*;
use crate::{Arguments, Thread};
use alloc::sync::Arc;
use gyre_message::direct::block_on;

#[test]
fn the_life_of_a_thread_is_little_more_than_its_largest_call() {
    block_on(async {
        let tenant = tenant().await;
        let mut script = Script::default();
        script.exit(0);
        let process = start(&tenant, script).await;
        let thread: Arc<Thread> = Thread::new(99, process.clone());
        let a = Arguments([0; 6]);
        let mut running = crate::run::Running::new(gyre_machine::UserContext::new().unwrap());
        let life =
            size_of_val(&crate::run::run_thread(&SCRIPTS, thread.clone(), gyre_machine::UserContext::new().unwrap()));
        let call = size_of_val(&crate::run::system_call(&thread, 0, a));
        let execve = size_of_val(&crate::exec::execve(&thread, &mut running, a));
        std::println!("life of a thread {life} bytes, system call {call}, execve {execve}");
        assert!(call <= 5 * 1024, "a system call's future has {call} bytes");
        assert!(life <= call + 2 * 1024, "a thread's future has {life} bytes");
        end_of(&process).await;
    });
}
