//! The disk of a plain cell: a file, served by a thread that plays the kernel's side of the queue.
//!
//! For development: the cell is the process itself, so what it writes into the queue is not doubted.

use std::{
    fs::File,
    io,
    os::fd::IntoRawFd as _,
    path::Path,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

use gyre_cell_abi::device::{DeviceFacts, DeviceRequest, SECTOR_BYTES, kind, status};
use linux_raw_sys::general as nr;

use super::{
    copy, harmless,
    server::{Shared, wait, wake},
    traps,
};
use crate::{device::BUFFER_BYTES, error::Errno};

/// Bytes of the thread's stack.
const STACK_BYTES: usize = 64 << 10;

/// The disk.
#[derive(Debug)]
pub struct PlainDisk {
    file: u64,
    sectors: u64,
    window: u64,
    shared: &'static Shared,
    /// Places of descriptors, available and used ring; 0 before it is opened.
    parts: [AtomicU64; 3],
    entries: AtomicU32,
    asked: AtomicU32,
}

impl PlainDisk {
    /// Makes a disk of a file, and the thread that serves it, for a cell whose physical address 0 would lie at `window`.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn start(path: &Path, window: u64, shared: &'static Shared) -> io::Result<&'static Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let sectors = file.metadata()?.len() / SECTOR_BYTES;
        let disk: &'static Self = Box::leak(Box::new(Self {
            file: file.into_raw_fd() as u64,
            sectors,
            window,
            shared,
            parts: [const { AtomicU64::new(0) }; 3],
            entries: AtomicU32::new(0),
            asked: AtomicU32::new(0),
        }));
        let serve = || std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || disk.serve());
        traps::with_signals_held_back(serve).map(|_| disk)
    }

    /// Begins to serve a queue: addresses of the request and of the place for the facts. Answers as the kernel does.
    pub fn open(&self, [request, facts]: [u64; 2]) -> i64 {
        let mut bytes = [0; size_of::<DeviceRequest>()];
        let own = [bytes.as_mut_ptr() as u64, bytes.len() as u64];
        if let Err(errno) = copy(nr::__NR_process_vm_readv, own, request) {
            return errno.result();
        }
        let request = DeviceRequest::from_bytes(&bytes);
        if request.size as usize != bytes.len() {
            return Errno::INVAL.result();
        }
        if request.device != 0 {
            return Errno::NODEV.result();
        }
        let own = DeviceFacts { sectors: self.sectors, request_bytes_max: BUFFER_BYTES as u32, is_read_only: 0 };
        let own = own.to_bytes();
        if let Err(errno) = copy(nr::__NR_process_vm_writev, [own.as_ptr() as u64, own.len() as u64], facts) {
            return errno.result();
        }
        self.entries.store(request.entries, Ordering::Relaxed);
        let parts = [request.descriptors, request.available, request.used];
        self.parts.iter().zip(parts).rev().for_each(|(place, part)| place.store(part, Ordering::Release));
        0
    }

    /// Tells the thread of new requests.
    pub fn ring(&self) {
        self.asked.fetch_add(1, Ordering::Release);
        wake(&self.asked);
    }

    fn part(&self, part: usize) -> u64 {
        self.parts[part].load(Ordering::Acquire)
    }

    fn place(&self, physical: u64) -> *mut u8 {
        (self.window + physical) as *mut u8
    }

    fn read<T: Copy>(&self, physical: u64) -> T {
        // SAFETY: what the queue names lies in the window.
        unsafe { self.place(physical).cast::<T>().read_volatile() }
    }

    fn write<T: Copy>(&self, physical: u64, value: T) {
        // SAFETY: as above.
        unsafe { self.place(physical).cast::<T>().write_volatile(value) }
    }

    fn serve(&self) {
        let mut taken = 0u16;
        loop {
            let asked = self.asked.load(Ordering::Acquire);
            if self.part(0) == 0 || self.read::<u16>(self.part(1) + 2) == taken {
                wait(&self.asked, asked, 0);
                continue;
            }
            fence(Ordering::Acquire);
            let place = u64::from(taken) % u64::from(self.entries.load(Ordering::Relaxed).max(1));
            let head = self.read::<u16>(self.part(1) + 4 + place * 2);
            let written = self.perform(head);
            self.write(self.part(2) + 4 + place * 8, u32::from(head));
            self.write(self.part(2) + 8 + place * 8, written);
            taken = taken.wrapping_add(1);
            fence(Ordering::Release);
            self.write(self.part(2) + 2, taken);
            self.shared.wake_cell();
        }
    }

    /// A descriptor: address, bytes, number of the next one.
    fn descriptor(&self, number: u16) -> (u64, u64, u16) {
        let at = self.part(0) + u64::from(number) * 16;
        let high = self.read::<u64>(at + 8);
        (self.read(at), high & 0xffff_ffff, (high >> 48) as u16)
    }

    /// Does a request of a header, data and a status; a flush has no data. Returns the bytes that it wrote.
    fn perform(&self, head: u16) -> u32 {
        let (header, _, second) = self.descriptor(head);
        let (kind, sector) = (self.read::<u32>(header), self.read::<u64>(header + 8));
        let data = self.descriptor(second);
        let last = if kind == kind::FLUSH { data } else { self.descriptor(data.2) };
        let arguments = [self.file, self.place(data.0) as u64, data.1, sector * SECTOR_BYTES, 0, 0];
        let (is_well, written) = match kind {
            kind::READ => (harmless(nr::__NR_pread64, arguments).cast_unsigned() == data.1, data.1),
            kind::WRITE => (harmless(nr::__NR_pwrite64, arguments).cast_unsigned() == data.1, 0),
            _ => (harmless(nr::__NR_fdatasync, arguments) == 0, 0),
        };
        self.write(last.0, if is_well { status::DONE } else { status::FAILED });
        written as u32 + 1
    }
}
