//! Sockets of a process that a failure of the kernel ended: the failed work holds them for ever, and they are closed all the same.

use super::depth::{pair, send};
use super::world::{User, run};
use crate::file::open_file::OpenFile;
use std::sync::Arc;
use std::vec;

const READ: u16 = 1;
const HANG_UP: u16 = 16;

/// Ends a process as after a failure; the work that failed holds one of its files.
async fn fail(user: User, held: u64) -> Arc<OpenFile> {
    let files = user.thread.process().files();
    let lost = files.table().get(held as i32).unwrap();
    files.ended_by_failure().await;
    lost
}

#[test]
fn a_socket_that_failed_work_holds_is_closed_with_its_process() {
    run(|user| async move {
        let (here, there) = pair(&user).await;
        let child = user.fork(2).await;
        user.close(there).await.unwrap();
        child.close(here).await.unwrap();
        assert_eq!(user.poll(here, READ).await, 0);
        let lost = fail(child, there).await;
        assert_eq!(user.poll(here, READ).await & HANG_UP, HANG_UP);
        assert_eq!(user.read(here, 10).await, Ok(vec![]));
        drop(lost);
    });
}

#[test]
fn a_socket_of_another_process_too_stays_open() {
    run(|user| async move {
        let (here, there) = pair(&user).await;
        let child = user.fork(2).await;
        let lost = fail(child, there).await;
        assert_eq!(user.poll(here, READ).await, 0);
        user.write(there, b"still").await.unwrap();
        assert_eq!(user.read(here, 10).await, Ok(b"still".to_vec()));
        user.close(there).await.unwrap();
        drop(lost);
        assert_eq!(user.poll(here, READ).await & HANG_UP, HANG_UP);
    });
}

#[test]
fn a_socket_in_flight_stays_open() {
    run(|user| async move {
        let (here, there) = pair(&user).await;
        let (inbox, over) = pair(&user).await;
        let child = user.fork(2).await;
        user.close(there).await.unwrap();
        send(&child, over, &[there]).await.unwrap();
        let lost = fail(child, there).await;
        drop(lost);
        assert_eq!(user.poll(here, READ).await, 0, "whoever receives it may use it");
        user.close(inbox).await.unwrap();
        user.close(over).await.unwrap();
        gyre_message::sleep_ns(1_000_000).await;
        assert_eq!(user.poll(here, READ).await & HANG_UP, HANG_UP);
    });
}
