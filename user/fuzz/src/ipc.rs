//! Removing what outlives the processes of a round: System V objects and POSIX queues (sysvipc(7), mq_overview(7)).

use std::ffi::CString;

use crate::{
    sys::{self, Scratch},
    values::TEXTS,
};

/// IPC_RMID of all three kinds.
const REMOVE: u64 = 0;

/// A kind of System V object: the call that controls it, and its commands (shmctl(2), semctl(2), msgctl(2)).
struct Kind {
    control: i64,
    /// Answers the highest index in use.
    info: u64,
    /// Answers the number of the object at an index.
    status_at: u64,
    /// The place of the command among the arguments.
    command_at: usize,
}

const KINDS: [Kind; 3] = [
    Kind { control: libc::SYS_shmctl, info: 14, status_at: 13, command_at: 1 },
    Kind { control: libc::SYS_semctl, info: 19, status_at: 18, command_at: 2 },
    Kind { control: libc::SYS_msgctl, info: 12, status_at: 11, command_at: 1 },
];

impl Kind {
    fn say(&self, object: i64, command: u64, scratch: Scratch) -> i64 {
        let mut arguments = [object as u64, 0, scratch.base(), scratch.base()];
        arguments[self.command_at] = command;
        sys::short(self.control as u64, arguments)
    }
}

/// Removes all that the caller may remove.
pub fn remove_all(scratch: Scratch) {
    for kind in &KINDS {
        for index in 0..=kind.say(0, kind.info, scratch) {
            let object = kind.say(index, kind.status_at, scratch);
            if object >= 0 {
                kind.say(object, REMOVE, scratch);
            }
        }
    }
    for name in TEXTS.iter().filter_map(|name| CString::new(*name).ok()) {
        sys::short(libc::SYS_mq_unlink as u64, [name.as_ptr() as u64]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of this process alone: another run of the test on this host has its own.
    fn key() -> u64 {
        0x6700_0000 | u64::from(std::process::id())
    }

    /// Removes only by its own numbers: other programs of this host have objects, too.
    #[test]
    fn objects_of_each_kind_are_found_by_their_index_and_removed() {
        let scratch = Scratch::map().unwrap();
        let (key, make) = (key(), 0o1600);
        let made = [
            sys::short(libc::SYS_shmget as u64, [key, 4096, make]),
            sys::short(libc::SYS_semget as u64, [key, 1, make]),
            sys::short(libc::SYS_msgget as u64, [key, make]),
        ];
        for (kind, object) in KINDS.iter().zip(made) {
            assert!(object >= 0, "{object}");
            let highest = kind.say(0, kind.info, scratch);
            let found = (0..=highest).any(|index| kind.say(index, kind.status_at, scratch) == object);
            assert!(found, "object {object} of call {} among {highest}", kind.control);
            assert_eq!(kind.say(object, REMOVE, scratch), 0);
        }
        let gone = [
            sys::short(libc::SYS_shmget as u64, [key, 0, 0]),
            sys::short(libc::SYS_semget as u64, [key, 0, 0]),
            sys::short(libc::SYS_msgget as u64, [key, 0]),
        ];
        assert_eq!(gone, [-i64::from(libc::ENOENT); 3]);
    }
}
