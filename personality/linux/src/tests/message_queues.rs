//! Programs that use message queues of both kinds, by the real loop of threads and in virtual time.

use super::script::*;
use gyre_message::direct::block_on;

const SEMGET: u64 = 64;
const MSGGET: u64 = 68;
const MSGSND: u64 = 69;
const MSGRCV: u64 = 70;
const MSGCTL: u64 = 71;
const MQ_OPEN: u64 = 240;
const MQ_UNLINK: u64 = 241;
const MQ_SEND: u64 = 242;
const MQ_RECEIVE: u64 = 243;
const MQ_NOTIFY: u64 = 244;
const CLOSE: u64 = 3;
const FORK: u64 = 57;
const WAIT4: u64 = 61;
const KILL: u64 = 62;
const YIELD: u64 = 24;
const SETRESUID: u64 = 117;
const REMOVE: u64 = 0;
const SET: u64 = 1;
const NO_WAIT: u64 = 0o4000;
/// The first queue of a tenant.
const QUEUE: u64 = 0;
/// The places of things: messages of type 1 and 2, a buffer, a name, a size of one message, a time that has passed.
const ONE: u64 = DATA;
const TWO: u64 = DATA + 16;
const BUFFER: u64 = DATA + 64;
const NAME: u64 = DATA + 0x100;
const SIZE: u64 = DATA + 0x200;
const PAST: u64 = DATA + 0x300;
/// `struct msqid64_ds` of 16,384 bytes for all, and for the owner.
const FOR_ALL: u64 = DATA + 0x400;
const FOR_OWNER: u64 = DATA + 0x500;
/// O_CREAT and O_RDWR.
const MAKE: u64 = 0o102;

fn pad(script: &mut Script, to: usize) {
    while script.here() < to {
        script.exit(99);
    }
}

/// Lets other processes come to their waits.
fn pause(script: &mut Script) {
    for _ in 0..4 {
        script.call(YIELD, &[]);
    }
}

fn run_it(script: Script) -> i32 {
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let write = |address, value: u64| {
            let space = process.space();
            async move { space.write_struct(address, &value).await.unwrap() }
        };
        write(ONE, 1).await;
        write(TWO, 2).await;
        for (status, mode) in [(FOR_ALL, 0o666), (FOR_OWNER, 0o600)] {
            write(status + 20, mode).await;
            write(status + 88, 16_384).await;
        }
        write(SIZE + 8, 1).await;
        write(SIZE + 16, 8).await;
        process.space().copy_out(NAME, b"queue\0").await.unwrap();
        end_of(&process).await
    })
}

fn with_queue() -> Script {
    let mut script = Script::default();
    script.call(MSGGET, &[0, 0o600]).expect(QUEUE as i64);
    script
}

#[test]
fn messages_are_chosen_by_type() {
    let mut script = with_queue();
    script.call(MSGSND, &[QUEUE, TWO, 3, 0]).expect(0).call(MSGSND, &[QUEUE, ONE, 5, 0]).expect(0);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 1, NO_WAIT]).expect(5);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 1, NO_WAIT]).expect(-42);
    script.call(MSGRCV, &[QUEUE, BUFFER, 2, 0, NO_WAIT]).expect(-7);
    script.call(MSGRCV, &[QUEUE, BUFFER, 2, 0, 0o10_000]).expect(2);
    script.call(MSGSND, &[QUEUE, DATA + 8, 1, 0]).expect(-22).call(MSGSND, &[QUEUE, ONE, 8193, 0]).expect(-22);
    script.call(MSGCTL, &[QUEUE, REMOVE]).expect(0).call(MSGSND, &[QUEUE, ONE, 1, 0]).expect(-22).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_receiver_gets_what_is_sent_and_a_killed_one_nothing() {
    let mut script = with_queue();
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2).call(FORK, &[]).jump_if_zero(|| 70).expect(3);
    pause(&mut script);
    script.call(KILL, &[2, 9]).call(WAIT4, &[2, 0, 0, 0]).expect(2);
    script.call(MSGSND, &[QUEUE, TWO, 4, 0]).expect(0).call(WAIT4, &[3, 0, 0, 0]).expect(3).exit(0);
    pad(&mut script, 60);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 0, 0]).exit(98);
    pad(&mut script, 70);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 2, 0]).expect(4).exit(0);
    assert_eq!(run_it(script), 0);
}

/// Changes the mode of a queue (IPC_SET), its owner and size as they are.
fn set_mode(script: &mut Script, place: u64) {
    script.call(MSGCTL, &[QUEUE, SET, place]).expect(0);
}

#[test]
fn a_receiver_that_loses_its_rights_learns_it_at_once() {
    let mut script = Script::default();
    script.call(MSGGET, &[0, 0o666]).expect(QUEUE as i64);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    set_mode(&mut script, FOR_ALL);
    pause(&mut script);
    script.call(WAIT4, &[2, 0, 1, 0]).expect(0);
    set_mode(&mut script, FOR_OWNER);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).call(MSGSND, &[QUEUE, ONE, 5, 0]).expect(0).exit(0);
    pad(&mut script, 60);
    script.call(SETRESUID, &[9, 9, 9]).expect(0);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 0, 0]).expect(-13);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8, 0, 0]).expect(-13).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_sender_that_loses_its_rights_learns_it_when_there_is_room() {
    let mut script = Script::default();
    script.call(MSGGET, &[0, 0o666]).expect(QUEUE as i64);
    script.call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0).call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    set_mode(&mut script, FOR_OWNER);
    pause(&mut script);
    script.call(WAIT4, &[2, 0, 1, 0]).expect(0).call(MSGRCV, &[QUEUE, BUFFER, 8192, 0, 0]).expect(8192);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2);
    // The second one had waited for nothing: there is room for one message.
    script
        .call(MSGSND, &[QUEUE, ONE, 8192, NO_WAIT])
        .expect(0)
        .call(MSGSND, &[QUEUE, ONE, 1, NO_WAIT])
        .expect(-11)
        .exit(0);
    pad(&mut script, 60);
    script.call(SETRESUID, &[9, 9, 9]).expect(0);
    script.call(MSGSND, &[QUEUE, TWO, 8000, 0]).expect(-13).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_full_queue_lets_its_sender_wait_until_there_is_room_or_no_queue() {
    let mut script = with_queue();
    script.call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0).call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0);
    script.call(MSGSND, &[QUEUE, ONE, 1, NO_WAIT]).expect(-11);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8192, 0, 0]).expect(8192);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).call(FORK, &[]).jump_if_zero(|| 70).expect(3);
    pause(&mut script);
    script.call(MSGCTL, &[QUEUE, REMOVE]).expect(0).call(WAIT4, &[3, 0, 0, 0]).expect(3).exit(0);
    pad(&mut script, 60);
    script.call(MSGSND, &[QUEUE, TWO, 8192, 0]).expect(0).exit(0);
    pad(&mut script, 70);
    script.call(MSGSND, &[QUEUE, TWO, 8192, 0]).expect(-43).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_killed_sender_sends_nothing_and_leaves_its_room_to_others() {
    let mut script = with_queue();
    script.call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0).call(MSGSND, &[QUEUE, ONE, 8192, 0]).expect(0);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    script.call(KILL, &[2, 9]).call(WAIT4, &[2, 0, 0, 0]).expect(2);
    script.call(MSGRCV, &[QUEUE, BUFFER, 8192, 0, 0]).expect(8192);
    script
        .call(MSGSND, &[QUEUE, ONE, 8192, NO_WAIT])
        .expect(0)
        .call(MSGRCV, &[QUEUE, BUFFER, 8192, 2, NO_WAIT])
        .expect(-42);
    script.exit(0);
    pad(&mut script, 60);
    script.call(MSGSND, &[QUEUE, TWO, 8192, 0]).exit(98);
    assert_eq!(run_it(script), 0);
}

#[test]
fn those_who_are_killed_at_a_queue_with_a_name_take_and_send_nothing() {
    let mut script = Script::default();
    script.call(MQ_OPEN, &[NAME, MAKE, 0o600, SIZE]).expect(0).call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    script.call(KILL, &[2, 9]).call(WAIT4, &[2, 0, 0, 0]).expect(2).call(MQ_SEND, &[0, ONE, 8, 0, 0]).expect(0);
    script.call(FORK, &[]).jump_if_zero(|| 70).expect(3);
    pause(&mut script);
    script.call(KILL, &[3, 9]).call(WAIT4, &[3, 0, 0, 0]).expect(3);
    script.call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).expect(8).call(MQ_RECEIVE, &[0, BUFFER, 8, 0, PAST]).expect(-110);
    script.call(MQ_SEND, &[0, ONE, 3, 0, PAST]).expect(0).call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).expect(3).exit(0);
    pad(&mut script, 60);
    script.call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).exit(98);
    pad(&mut script, 70);
    script.call(MQ_SEND, &[0, TWO, 7, 9, 0]).exit(98);
    assert_eq!(run_it(script), 0);
}

fn set_over_limit(script: &mut Script, to: bool) {
    script.step(move |_| {
        IS_OVER_LIMIT.set(to);
        None
    });
}

#[test]
fn a_tenant_without_memory_makes_no_object_and_holds_none() {
    let mut script = Script::default();
    set_over_limit(&mut script, true);
    for _ in 0..3 {
        script.call(MSGGET, &[7, 0o1600]).expect(-12).call(SEMGET, &[7, 2, 0o1600]).expect(-12);
        script.call(MQ_OPEN, &[NAME, MAKE, 0o600, SIZE]).expect(-12);
    }
    set_over_limit(&mut script, false);
    // There is room for little, and none for what a large set takes.
    script.call(SEMGET, &[7, 32_000, 0o1600]).expect(-12).call(SEMGET, &[7, 0, 0]).expect(-2);
    script.call(MSGGET, &[7, 0]).expect(-2).call(MQ_OPEN, &[NAME, 2, 0, 0]).expect(-2);
    // The first of each kind, and the first descriptor.
    script.call(MSGGET, &[7, 0o3600]).expect(QUEUE as i64).call(SEMGET, &[7, 2, 0o3600]).expect(0);
    script.call(MQ_OPEN, &[NAME, MAKE | 0o200, 0o600, SIZE]).expect(0);
    set_over_limit(&mut script, true);
    script.call(MSGSND, &[QUEUE, ONE, 8, NO_WAIT]).expect(-12).call(MQ_SEND, &[0, ONE, 8, 0, 0]).expect(-12);
    // Calls that give memory back go on.
    script.call(MSGCTL, &[QUEUE, REMOVE]).expect(0).call(MQ_UNLINK, &[NAME]).expect(0).call(CLOSE, &[0]).expect(0);
    set_over_limit(&mut script, false);
    script.exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn room_that_other_threads_take_is_made_again_a_few_times() {
    let mut script = Script::default();
    let set_rooms = |script: &mut Script, rooms: usize| {
        script.step(move |_| {
            (IS_OVER_LIMIT.set(true), ROOMS.set(rooms));
            None
        });
    };
    set_rooms(&mut script, 4);
    script.call(MSGGET, &[7, 0o3600]).expect(QUEUE as i64);
    set_rooms(&mut script, 100);
    script.call(MSGGET, &[8, 0o3600]).expect(-12);
    set_over_limit(&mut script, false);
    script.call(MSGCTL, &[QUEUE, REMOVE]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_queue_with_a_name_has_priorities_and_room_for_its_messages() {
    let mut script = Script::default();
    script.call(MQ_OPEN, &[NAME, 2, 0, 0]).expect(-2).call(MQ_OPEN, &[NAME, MAKE, 0o600, SIZE]).expect(0);
    script.call(MQ_OPEN, &[NAME, MAKE | 0o200, 0o600, SIZE]).expect(-17);
    script.call(MQ_SEND, &[0, ONE, 8, 5, 0]).expect(0).call(MQ_SEND, &[0, ONE, 9, 5, 0]).expect(-90);
    script.call(MQ_SEND, &[0, ONE, 8, 5, PAST]).expect(-110).call(MQ_SEND, &[0, ONE, 8, 32_768, 0]).expect(-22);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2);
    pause(&mut script);
    script.call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).expect(8).call(WAIT4, &[2, 0, 0, 0]).expect(2);
    script.call(MQ_UNLINK, &[NAME]).expect(0).call(MQ_UNLINK, &[NAME]).expect(-2);
    script.call(MQ_RECEIVE, &[0, BUFFER, 7, 0, 0]).expect(-90).call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).expect(2);
    script.call(MQ_RECEIVE, &[0, BUFFER, 8, 0, PAST]).expect(-110);
    script.call(CLOSE, &[0]).expect(0).call(MQ_RECEIVE, &[0, BUFFER, 8, 0, 0]).expect(-9).exit(0);
    pad(&mut script, 60);
    script.call(MQ_SEND, &[0, ONE, 2, 9, 0]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn one_process_at_a_time_is_told_of_a_message() {
    let mut script = Script::default();
    // A sigevent of zeroes is a signal with number 0: nothing.
    script.call(MQ_OPEN, &[NAME, MAKE, 0o600, SIZE]).expect(0).call(MQ_NOTIFY, &[0, BUFFER]).expect(0);
    script.call(FORK, &[]).jump_if_zero(|| 60).expect(2).call(WAIT4, &[2, 0, 0, 0]).expect(2);
    script.call(MQ_NOTIFY, &[0, BUFFER]).expect(-16).call(MQ_NOTIFY, &[0, 0]).expect(0);
    script.call(FORK, &[]).jump_if_zero(|| 70).expect(3).call(WAIT4, &[3, 0, 0, 0]).expect(3);
    script.call(MQ_NOTIFY, &[0, BUFFER]).expect(0).call(MQ_SEND, &[0, ONE, 1, 0, 0]).expect(0);
    script.call(MQ_NOTIFY, &[0, BUFFER]).expect(0).exit(0);
    pad(&mut script, 60);
    script.call(MQ_NOTIFY, &[0, BUFFER]).expect(-16).call(MQ_NOTIFY, &[0, 0]).expect(0).exit(0);
    pad(&mut script, 70);
    script.call(MQ_NOTIFY, &[0, BUFFER]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}
