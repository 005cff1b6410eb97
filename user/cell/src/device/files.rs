//! Descriptors of a program that are a device's. To the kernel they are files that hold nothing; so numbers, duplicates and the end are its
//! affair, and the runtime notes which of them mean the device.

use linux_raw_sys::general as nr;

use crate::fiber::Call;

/// Descriptors that are noted; the disk cannot be opened under a higher number.
const DESCRIPTORS_MAX: usize = 256;
/// Times that the disk can be open.
const OPENED_MAX: usize = 16;

/// An opened disk: duplicates of a descriptor share its position.
#[derive(Clone, Copy, Default, Debug)]
struct Opened {
    position: u64,
    descriptors: u32,
}

/// The descriptors.
#[derive(Debug)]
pub struct Files {
    /// Which opened disk a descriptor is, and one more; 0 if it is none.
    marks: [u8; DESCRIPTORS_MAX],
    opened: [Opened; OPENED_MAX],
}

impl Default for Files {
    fn default() -> Self {
        Self { marks: [0; DESCRIPTORS_MAX], opened: [Opened::default(); OPENED_MAX] }
    }
}

impl Files {
    /// The opened disk of a descriptor.
    pub fn find(&self, descriptor: u64) -> Option<usize> {
        let mark = *self.marks.get(usize::try_from(descriptor as u32).ok()?)?;
        usize::from(mark).checked_sub(1)
    }

    /// The position of an opened disk.
    pub fn position(&mut self, opened: usize) -> &mut u64 {
        &mut self.opened[opened % OPENED_MAX].position
    }

    /// Returns whether the disk can be opened once more.
    pub fn has_room(&self) -> bool {
        self.opened.iter().any(|opened| opened.descriptors == 0)
    }

    /// Notes a descriptor by which the disk was opened; `false` if it cannot be.
    pub fn open(&mut self, descriptor: u64) -> bool {
        let Some(free) = self.opened.iter().position(|opened| opened.descriptors == 0) else { return false };
        self.opened[free].position = 0;
        self.mark(descriptor, Some(free))
    }

    /// Notes that a descriptor has become the same as another one; `false` if it cannot be.
    pub fn duplicate(&mut self, from: u64, to: u64) -> bool {
        let opened = self.find(from);
        if from == to {
            return true;
        }
        self.close(to);
        opened.is_none() || self.mark(to, opened)
    }

    /// Notes what a call of the kernel has done to descriptors, whose result is `new`; `false` if that cannot be noted.
    pub fn follow(&mut self, call: &Call, new: u64) -> bool {
        let [first, second, ..] = call.arguments;
        match call.number {
            nr::__NR_dup | nr::__NR_dup2 | nr::__NR_dup3 => return self.duplicate(first, new),
            nr::__NR_fcntl if matches!(second as u32, nr::F_DUPFD | nr::F_DUPFD_CLOEXEC) => {
                return self.duplicate(first, new);
            }
            nr::__NR_close => self.close(first),
            nr::__NR_close_range => (first..=second.min(1023)).for_each(|one| self.close(one)),
            _ => {}
        }
        true
    }

    fn mark(&mut self, descriptor: u64, opened: Option<usize>) -> bool {
        let place = usize::try_from(descriptor).ok().and_then(|number| self.marks.get_mut(number));
        let (Some(place), Some(opened)) = (place, opened) else { return false };
        *place = opened as u8 + 1;
        self.opened[opened].descriptors += 1;
        true
    }

    /// Notes that a descriptor is closed.
    pub fn close(&mut self, descriptor: u64) {
        if let Some(opened) = self.find(descriptor) {
            self.opened[opened].descriptors -= 1;
            self.marks[descriptor as u32 as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_share_a_position_and_others_do_not() {
        let mut files = Files::default();
        assert!(files.open(3) && files.open(4) && files.duplicate(3, 0) && files.duplicate(7, 4));
        assert_eq!((files.find(0), files.find(3), files.find(4), files.find(9000)), (Some(0), Some(0), None, None));
        *files.position(0) = 77;
        files.close(3);
        assert_eq!(files.find(3), None);
        assert_eq!(files.find(0).map(|opened| *files.position(opened)), Some(77));
        files.close(0);
        assert!(files.open(5));
        assert_eq!(files.find(5).map(|opened| *files.position(opened)), Some(0));
    }

    #[test]
    fn what_has_no_place_is_not_the_disk() {
        let mut files = Files::default();
        assert!(!files.open(256));
        assert!((0..OPENED_MAX as u64).all(|number| files.open(number)));
        assert!(!files.has_room() && !files.open(100));
        assert!(!files.duplicate(1, 300) && files.find(300).is_none());
    }
}
