//! Files in a program's memory.

use super::world::{run_as_on_disk, run_through};
use crate::file::passage::Passage;
use crate::{Arguments, memory};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_interface::memory::Effort;
use linux_raw_sys::general as raw;

const PAGE: u64 = 4096;
const READ_WRITE: u64 = (raw::PROT_READ | raw::PROT_WRITE) as u64;

#[test]
fn what_a_program_wrote_to_its_copy_of_a_file_stays_when_memory_is_given_back() {
    run_as_on_disk(|user| async move {
        user.file("/f", &[7; 3 * PAGE as usize]).await;
        let file = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        let arguments = Arguments([0, 3 * PAGE, READ_WRITE, u64::from(raw::MAP_PRIVATE), file, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        assert_eq!(user.get(at, 3 * PAGE as usize).await, [7; 3 * PAGE as usize]);
        user.thread.copy_out(at + PAGE, &[8]).await.unwrap();
        let parent = user.thread.space();
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        for space in [&parent, &child] {
            // The first look may only take the marks of use away.
            let given = space.give_back(1 << 20, Effort::Thorough).await.hidden_bytes;
            assert_eq!(given, 2 * PAGE, "all that the file can give again");
            let mut seen = [0; 3 * PAGE as usize];
            space.copy_in(at, &mut seen).await.unwrap();
            assert_eq!((seen[0], seen[PAGE as usize], seen[PAGE as usize + 1], seen[2 * PAGE as usize]), (7, 8, 7, 7));
        }
    });
}

/// Returns the bytes that passed the I/O stream resource when three pages of a file had been seen, again, and one of them written.
fn passed_by_mapping(is_gate: bool) -> [u64; 3] {
    let (passed, seen) = (Arc::new(AtomicU64::new(0)), Arc::new([const { AtomicU64::new(0) }; 3]));
    let (counter, notes) = (passed.clone(), seen.clone());
    run_through(Passage::counted(is_gate, passed), |user| async move {
        user.file("/f", &[7; 3 * PAGE as usize]).await;
        let file = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        let before = counter.load(Ordering::Relaxed);
        let note = |at: usize| notes[at].store(counter.load(Ordering::Relaxed) - before, Ordering::Relaxed);
        let arguments = Arguments([0, 3 * PAGE, READ_WRITE, u64::from(raw::MAP_SHARED), file, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        assert_eq!(user.get(at, 3 * PAGE as usize).await, [7; 3 * PAGE as usize]);
        note(0);
        user.get(at, 3 * PAGE as usize).await;
        note(1);
        user.thread.copy_out(at + PAGE, &[8]).await.unwrap();
        user.thread.copy_out(at + PAGE, &[9]).await.unwrap();
        note(2);
    });
    [0, 1, 2].map(|at| seen[at].load(Ordering::Relaxed))
}

#[test]
fn where_streams_divide_bytes_a_mapping_moves_the_pages_that_it_brings_and_those_it_dirties() {
    assert_eq!(passed_by_mapping(true), [3 * PAGE, 3 * PAGE, 4 * PAGE]);
    assert_eq!(passed_by_mapping(false), [0; 3]);
}

#[test]
fn pages_that_are_locked_stay_when_memory_is_given_back() {
    run_as_on_disk(|user| async move {
        user.file("/f", &[7; 3 * PAGE as usize]).await;
        let file = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        let arguments = Arguments([0, 3 * PAGE, u64::from(raw::PROT_READ), u64::from(raw::MAP_PRIVATE), file, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        let space = user.thread.space();
        memory::mlock(&user.thread, Arguments([at, 2 * PAGE, 0, 0, 0, 0])).await.unwrap();
        assert_eq!(user.get(at + 2 * PAGE, 1).await, [7], "used, not locked");
        let given = space.give_back(1 << 20, Effort::Thorough).await.hidden_bytes;
        assert_eq!(given, PAGE);
        memory::munlock(&user.thread, Arguments([at, 2 * PAGE, 0, 0, 0, 0])).unwrap();
        let given = space.give_back(1 << 20, Effort::Thorough).await.hidden_bytes;
        assert_eq!(given, 2 * PAGE);
    });
}
