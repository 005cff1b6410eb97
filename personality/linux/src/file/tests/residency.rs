//! Pages of files in memory that a program does not show (mincore).

use super::world::{User, run, run_as_on_disk};
use crate::{Arguments, memory};
use alloc::vec::Vec;
use gyre_interface::memory::Effort;
use linux_raw_sys::general as raw;

const PAGE: u64 = 4096;
const PAGES: u64 = 6;
const CHMOD: u64 = 90;

async fn map(user: &User, file: u64, flags: u32) -> u64 {
    let arguments = Arguments([0, PAGES * PAGE, u64::from(raw::PROT_READ), u64::from(flags), file, PAGE]);
    memory::mmap(&user.thread, arguments).await.unwrap()
}

/// Maps a file of four pages, of which two have no contents, from its second page on.
async fn mapped(user: &User, flags: u32) -> u64 {
    user.file("/f", &[7; PAGE as usize]).await;
    let file = user.open("/f", raw::O_RDWR, 0).await.unwrap();
    let data = user.put(&[1; 10]).await;
    user.call(18, &[file, data, 10, 3 * PAGE]).await.unwrap();
    map(user, file, flags).await
}

async fn resident(user: &User, at: u64) -> Vec<u8> {
    let vector = user.put(&[9; PAGES as usize]).await;
    memory::mincore(&user.thread, Arguments([at, PAGES * PAGE, vector, 0, 0, 0])).await.unwrap();
    user.get(vector, PAGES as usize).await
}

#[test]
fn pages_of_a_file_are_resident_if_its_file_system_has_them() {
    for flags in [raw::MAP_SHARED, raw::MAP_PRIVATE] {
        run_as_on_disk(move |user| async move {
            let at = mapped(&user, flags).await;
            assert_eq!(resident(&user, at).await, [0, 0, 1, 0, 0, 0]);
            assert_eq!(user.get(at + 2 * PAGE, 1).await, [1]);
            user.thread.space().give_back(PAGES * PAGE, Effort::Thorough).await;
            assert_eq!(resident(&user, at).await[2], 1, "it is not shown any more");
        });
    }
}

#[test]
fn who_could_not_write_a_file_sees_all_of_it_in_memory() {
    run(|user| async move {
        let at = mapped(&user, raw::MAP_SHARED).await;
        user.become_user(1000);
        assert_eq!(resident(&user, at).await, [1; PAGES as usize]);
        user.become_user(0);
        user.with_path(CHMOD, "/f", &[0o646]).await.unwrap();
        user.become_user(1000);
        assert_eq!(resident(&user, at).await, [0, 0, 1, 0, 0, 0]);
    });
}

#[test]
fn pages_of_shared_memory_are_resident_once_anybody_made_them() {
    run(|user| async move {
        let (rights, flags) =
            (u64::from(raw::PROT_READ | raw::PROT_WRITE), u64::from(raw::MAP_SHARED | raw::MAP_ANONYMOUS));
        let arguments = Arguments([0, PAGES * PAGE, rights, flags, u64::MAX, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        let child = user.thread.space().duplicate(gyre_account::ActivityId(1)).await.unwrap();
        child.copy_out(at + 4 * PAGE, &[1]).await.unwrap();
        assert_eq!(resident(&user, at).await, [0, 0, 0, 0, 1, 0]);
    });
}
