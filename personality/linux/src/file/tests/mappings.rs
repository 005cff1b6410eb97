//! Files in a program's memory.

use super::world::run;
use crate::{Arguments, memory};
use gyre_account::ActivityId;
use linux_raw_sys::general as raw;

const PAGE: u64 = 4096;
const READ_WRITE: u64 = (raw::PROT_READ | raw::PROT_WRITE) as u64;

#[test]
fn what_a_program_wrote_to_its_copy_of_a_file_stays_when_memory_is_given_back() {
    run(|user| async move {
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
            let given = space.give_back(1 << 20).await + space.give_back(1 << 20).await;
            assert_eq!(given, 2 * PAGE, "all that the file can give again");
            let mut seen = [0; 3 * PAGE as usize];
            space.copy_in(at, &mut seen).await.unwrap();
            assert_eq!((seen[0], seen[PAGE as usize], seen[PAGE as usize + 1], seen[2 * PAGE as usize]), (7, 8, 7, 7));
        }
    });
}

#[test]
fn pages_that_are_locked_stay_when_memory_is_given_back() {
    run(|user| async move {
        user.file("/f", &[7; 3 * PAGE as usize]).await;
        let file = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        let arguments = Arguments([0, 3 * PAGE, u64::from(raw::PROT_READ), u64::from(raw::MAP_PRIVATE), file, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        let space = user.thread.space();
        memory::mlock(&user.thread, Arguments([at, 2 * PAGE, 0, 0, 0, 0])).await.unwrap();
        assert_eq!(user.get(at + 2 * PAGE, 1).await, [7], "used, not locked");
        let given = space.give_back(1 << 20).await + space.give_back(1 << 20).await;
        assert_eq!(given, PAGE);
        memory::munlock(&user.thread, Arguments([at, 2 * PAGE, 0, 0, 0, 0])).unwrap();
        let given = space.give_back(1 << 20).await + space.give_back(1 << 20).await;
        assert_eq!(given, 2 * PAGE);
    });
}
