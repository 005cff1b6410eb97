//! Regular files that the program reads from their beginning on, and bytes of them that were read ahead.
//!
//! A file is known here from its `open` for reading alone by a program of one thread, and bytes are read ahead of it once the program has asked
//! for its state (fstat): the kernel said then that it is a regular file, and how long. Its descriptor is nobody else's, so the position can lie
//! here: the kernel reads at positions that it is told, and gets the position back before a call that may use or pass on the descriptor.
//!
//! A read sees bytes that the kernel has read ahead only if the program has made no call since then but such reads, steps forward and calls
//! about its own memory, no handler has run, no memory is shared, and [`FRESH_NS`] have not passed. So there was nothing by which it could
//! have heard of a change, and a program that looks again (a step back, a call of any kind) sees the file as it is. Bytes beyond the length
//! that is known are never asked for ahead. The descriptor's position in `/proc/self/fdinfo` is the kernel's.
//!
//! How much is read ahead is a policy, a file each: [`Doubling`], [`Nothing`].

mod doubling;
mod nothing;

pub use doubling::Doubling;
pub use nothing::Nothing;

/// Files that are known at once.
pub const FILES_MAX: usize = 4;
/// Bytes of a file's buffer.
pub const BUFFER_BYTES: u64 = 64 << 10;
/// Bytes are used no longer than this, in nanoseconds.
pub const FRESH_NS: u64 = 20_000_000;

/// A policy.
pub trait Ahead {
    /// Bytes to ask for, when the program wants `count` and the last request was for `before`, 0 if it was wasted or is the first one. No more than
    /// the program wants: nothing is read ahead. More than [`BUFFER_BYTES`] is cut.
    fn bytes(&mut self, before: u64, count: u64) -> u64;
}

/// A file that is known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct File {
    /// Its descriptor; none if the place is free.
    descriptor: Option<u64>,
    /// The position that the program sees.
    pub position: u64,
    /// The position of the kernel.
    pub kernel: u64,
    /// Its length when the program asked last; 0 before.
    pub length: u64,
    /// The address of its buffer; it stays the place's.
    pub buffer: Option<u64>,
    /// Positions of the bytes in the buffer: the first one and the one behind the last.
    held: [u64; 2],
    /// The time at which they were asked for, on the machine's clock.
    since: u64,
    /// Bytes of the last request.
    pub before: u64,
}

/// Bytes in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The address of the first one.
    pub address: u64,
    /// How many there are.
    pub bytes: u64,
}

impl File {
    /// Returns the bytes at its position, if they are there and fresh.
    pub fn held(&self, now: u64) -> Option<Held> {
        let [start, end] = self.held;
        let is_there = start <= self.position && self.position < end && now.saturating_sub(self.since) < FRESH_NS;
        let offset = self.position.saturating_sub(start);
        self.buffer.filter(|_| is_there).map(|at| Held { address: at + offset, bytes: end - self.position })
    }

    /// The buffer has so many bytes from the position on, asked for at this time.
    pub fn hold(&mut self, bytes: u64, since: u64) {
        (self.held, self.since) = ([self.position, self.position + bytes], since);
    }

    /// Forgets what the buffer has. If the program had not come to its end, the request was wasted.
    pub fn drop_bytes(&mut self) {
        if self.position < self.held[1] {
            self.before = 0;
        }
        self.held = [0; 2];
    }

    /// Steps to a position of lseek(2), if it lies within the known length.
    pub fn seek(&mut self, base: u64, offset: u64) -> Option<u64> {
        let wanted = base.checked_add_signed(offset.cast_signed()).filter(|wanted| *wanted <= self.length)?;
        // A program that goes back wants to see what is there now.
        if wanted < self.position {
            self.drop_bytes();
        }
        self.position = wanted;
        Some(wanted)
    }
}

/// A read that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Under {
    /// The place of its file.
    pub place: usize,
    /// Bytes that the program has already.
    pub done: u64,
    /// The address at which the rest goes, and the room there.
    pub rest: [u64; 2],
    /// The target of the kernel's bytes.
    pub target: Target,
}

/// The target of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The program's own memory.
    Program,
    /// The buffer; the request was made at this time.
    Buffer(u64),
}

/// The files.
pub struct Files {
    files: [File; FILES_MAX],
    /// The read that is under way; there is one thread.
    pub under: Option<Under>,
    /// The policy, until bytes may not be held any more.
    policy: Option<&'static mut dyn Ahead>,
}

impl Files {
    /// None yet.
    pub fn new(policy: &'static mut dyn Ahead) -> Self {
        Self { files: [File::default(); FILES_MAX], under: None, policy: Some(policy) }
    }

    /// Notes a file that was opened. If there are too many, it is one like any other.
    pub fn open(&mut self, descriptor: u64) {
        self.forget(descriptor);
        if let Some(file) = self.files.iter_mut().find(|file| file.descriptor.is_none()) {
            *file = File { descriptor: Some(descriptor), buffer: file.buffer, ..File::default() };
        }
    }

    /// Returns the place of a descriptor's file. As for the kernel, the lower half of an argument counts.
    pub fn find(&self, descriptor: u64) -> Option<usize> {
        let number = u64::from(descriptor as u32);
        self.files.iter().position(|file| file.descriptor == Some(number))
    }

    /// The file of a place.
    pub fn at(&mut self, place: usize) -> &mut File {
        &mut self.files[place % FILES_MAX]
    }

    /// Descriptors of files, by place.
    pub fn descriptors(&self) -> [Option<u64>; FILES_MAX] {
        self.files.map(|file| file.descriptor)
    }

    /// Forgets a file.
    pub fn forget(&mut self, descriptor: u64) {
        if let Some(place) = self.find(descriptor) {
            let buffer = self.files[place].buffer;
            self.files[place] = File { buffer, ..File::default() };
        }
    }

    /// Forgets what the buffers have.
    pub fn drop_bytes(&mut self) {
        self.files.iter_mut().for_each(File::drop_bytes);
    }

    /// Nothing is read ahead any more: others write memory of the program.
    pub fn stop(&mut self) {
        self.drop_bytes();
        self.policy = None;
    }

    /// Returns how many bytes to ask for, for a read of so many at the file's position.
    pub fn wanted(&mut self, place: usize, count: u64) -> u64 {
        let file = &mut self.files[place % FILES_MAX];
        let known = file.length.saturating_sub(file.position);
        let Some(policy) = self.policy.as_deref_mut().filter(|_| count <= BUFFER_BYTES / 2) else {
            return count;
        };
        file.before = policy.bytes(file.before, count).min(BUFFER_BYTES);
        file.before.min(known).max(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let mut files = Files::new(Box::leak(Box::new(Doubling)));
        files.open(3);
        (files.at(0).length, files.at(0).buffer) = (100_000, Some(0x10_0000));
        files
    }

    #[test]
    fn bytes_are_held_for_a_time_and_for_the_position() {
        let mut files = files();
        let file = files.at(0);
        file.hold(8192, 7);
        assert_eq!(file.held(7), Some(Held { address: 0x10_0000, bytes: 8192 }));
        file.position = 8000;
        assert_eq!(file.held(7), Some(Held { address: 0x10_1f40, bytes: 192 }));
        assert_eq!(file.held(7 + FRESH_NS), None);
        file.position = 8192;
        assert_eq!(file.held(7), None);
    }

    #[test]
    fn a_step_back_or_a_call_forgets_them() {
        let mut files = files();
        files.at(0).hold(8192, 0);
        assert_eq!(files.at(0).seek(0, 4096), Some(4096));
        assert_eq!(files.at(0).held(0).map(|held| held.bytes), Some(4096));
        assert_eq!(files.at(0).seek(4096, (-4096i64).cast_unsigned()), Some(0));
        assert_eq!((files.at(0).held(0), files.at(0).before), (None, 0));
        for (base, offset) in [(0, 100_001), (0, u64::MAX), (1, i64::MIN.cast_unsigned()), (u64::MAX, 1)] {
            assert_eq!(files.at(0).seek(base, offset), None);
        }
    }

    #[test]
    fn more_is_asked_for_in_a_row_and_never_beyond_the_known_length() {
        let mut files = files();
        let asked: Vec<u64> = (0..6).map(|_| files.wanted(0, 4096)).collect();
        assert_eq!(asked, [4096, 8192, 16_384, 32_768, 65_536, 65_536]);
        files.at(0).position = 95_000;
        assert_eq!((files.wanted(0, 4096), files.wanted(0, 10_000)), (5000, 10_000));
        files.at(0).before = 0;
        assert_eq!(files.wanted(0, 4096), 4096);
        assert_eq!(files.wanted(0, BUFFER_BYTES), BUFFER_BYTES);
        files.stop();
        assert_eq!((0..3).map(|_| files.wanted(0, 100)).max(), Some(100));
    }

    #[test]
    fn places_are_for_descriptors_that_are_open() {
        let mut files = files();
        (4..20).for_each(|descriptor| files.open(descriptor));
        assert_eq!([files.find(3), files.find(6), files.find(7)], [Some(0), Some(3), None]);
        assert_eq!(files.find(3 | 7 << 32), Some(0));
        files.forget(3);
        assert_eq!(files.find(3), None);
        files.open(9);
        assert_eq!((files.find(9), files.at(0).buffer, files.at(0).length), (Some(0), Some(0x10_0000), 0));
    }
}
