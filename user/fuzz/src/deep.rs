//! Calls of our own making: chains as long as one likes, rings that are filled by hand, numbers without a name. Each is a row of calls.
//!
//! * Numbers from [`FIRST`] on stand for rows of calls; [`run`] makes one and answers a result as a system call would.
//! * Chains try the kernel's bounds of depth: epolls in epolls, sockets in flight, directories, links, forks. The
//!   kernel must refuse or go on, with neither recursion nor a long turn.
//! * Rings are filled by hand, also with words that only the kernel should write.
//! * A chain runs in a child if it takes many descriptors or may end its maker.
//!
//! To add one: a line in [`CALLS`], an arm in [`run`], a function. Arguments come from chance, as for real calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    calls::structs::ENTRY,
    kinds::{Argument::*, Call, Kind::*, call},
    sys::{self, Scratch, Window},
};

/// The first of their numbers.
pub const FIRST: u64 = 0x10_0000;

/// The list of all. Chains are made in a child: they take hundreds of descriptors.
pub const CALLS: &[Call] = &[
    call(FIRST, "chain_of_epolls", &[Depth, OneOf(&[0, 1, 2])]).in_child(),
    call(FIRST + 1, "sockets_in_flight", &[Depth, OneOf(&[0, 1])]).in_child(),
    call(FIRST + 2, "nested_directories", &[Depth]).in_child(),
    call(FIRST + 3, "chain_of_links", &[Depth]),
    call(FIRST + 4, "nested_forks", &[Count]).in_child(),
    call(FIRST + 5, "execute_oneself", &[]).in_child(),
    call(FIRST + 6, "ring_made", &[OneOf(&[1, 4, 16, 64, 1024]), Flags(&[2, 8, 16])]),
    call(FIRST + 7, "ring_entry", &[Count, In(ENTRY), Count, Flags(&[1, 2, 8])]),
    call(FIRST + 8, "ring_scribbled", &[Count, Number, Number]),
    call(FIRST + 9, "any_number", &[Number, AnyFd, Buffer, Number, Number, Number]).in_child(),
    call(FIRST + 10, "touch", &[Page, Number]).in_child(),
    call(FIRST + 11, "pipe_filled", &[Fd(PipeIn), Length]),
    call(FIRST + 12, "many_epoll_members", &[Depth, Depth]).in_child(),
    call(FIRST + 13, "many_timers", &[Depth, In(crate::calls::structs::TIMER)]).in_child(),
    call(FIRST + 14, "many_mappings", &[Depth, AnyFd]).in_child(),
    call(FIRST + 15, "many_messages", &[Fd(Local), Depth, Length]),
];

/// Runs one of them; `None` if the number is that of a call of the kernel.
pub fn run(number: u64, arguments: [u64; 6], scratch: Scratch) -> Option<i64> {
    let [a, b, c, d, ..] = arguments;
    Some(match number.checked_sub(FIRST)? {
        0 => epolls(a, b, scratch),
        1 => in_flight(a, b, scratch),
        2 => directories(a, scratch),
        3 => links(a, scratch),
        4 => forks(a),
        5 => oneself(scratch),
        6 => ring_made(a, b, scratch),
        7 => ring_entry(a, [b, c, d], scratch),
        8 => ring_scribbled(a, b, c),
        9 => any_number(arguments),
        10 => sys::touch(a.clamp(crate::values::PLAYGROUND, crate::values::PLAYGROUND + (1 << 24)), b) as i64 & 1,
        11 => sys::short(libc::SYS_write as u64, [a, crate::values::PLAYGROUND, b]),
        12 => members(a, b, scratch),
        13 => timers(a, b, scratch),
        14 => mappings(a, b),
        _ => messages(a, b, c),
    })
}

fn linked(epoll: i64, member: i64, scratch: Scratch) -> i64 {
    let event = scratch.base() + sys::SCRATCH_BYTES - 64;
    scratch.write(event, 1 | 4, 4);
    sys::short(libc::SYS_epoll_ctl as u64, [epoll as u64, 1, member as u64, event])
}

fn pipe(scratch: Scratch) -> [i64; 2] {
    let ends = scratch.base() + sys::SCRATCH_BYTES - 64;
    sys::short(libc::SYS_pipe2 as u64, [ends, 0o4000]);
    [0, 4].map(|offset| scratch.read(ends + offset, 4) as i64)
}

/// Epolls, each in the one before it, a pipe in the last: from the top down, from the bottom up, or each in the next two.
fn epolls(depth: u64, order: u64, scratch: Scratch) -> i64 {
    let all: Vec<i64> =
        (0..depth.min(3000)).map(|_| sys::short(libc::SYS_epoll_create1 as u64, [0])).filter(|fd| *fd >= 0).collect();
    let ends = pipe(scratch);
    let mut pairs: Vec<(i64, i64)> = all.iter().copied().zip(all.iter().copied().skip(1).chain([ends[0]])).collect();
    if order == 1 {
        pairs.reverse();
    }
    if order == 2 {
        pairs.extend(all.iter().copied().zip(all.iter().copied().skip(2)));
    }
    let made = pairs.iter().filter(|(epoll, member)| linked(*epoll, *member, scratch) == 0).count();
    sys::short(libc::SYS_write as u64, [ends[1] as u64, scratch.base(), 1]);
    for epoll in all.first().into_iter().chain(all.last()) {
        sys::short(libc::SYS_epoll_wait as u64, [*epoll as u64, scratch.base(), 8, 0]);
    }
    made as i64
}

/// One pipe in so many epolls, and that many of these in one.
fn members(count: u64, outer: u64, scratch: Scratch) -> i64 {
    let ends = pipe(scratch);
    let all: Vec<i64> = (0..count.min(600)).map(|_| sys::short(libc::SYS_epoll_create1 as u64, [0])).collect();
    let made = all.iter().filter(|epoll| linked(**epoll, ends[0], scratch) == 0).count();
    for _ in 0..outer.min(20) {
        let epoll = sys::short(libc::SYS_epoll_create1 as u64, [0]);
        all.iter().for_each(|member| {
            linked(epoll, *member, scratch);
        });
    }
    sys::short(libc::SYS_write as u64, [ends[1] as u64, scratch.base(), 1]);
    made as i64
}

/// Local sockets, each sent over the next one and closed.
fn in_flight(depth: u64, is_cyclic: u64, scratch: Scratch) -> i64 {
    let top = scratch.base() + sys::SCRATCH_BYTES - 512;
    let mut carried = -1;
    let mut made = 0;
    for _ in 0..depth.min(3000) {
        if sys::short(libc::SYS_socketpair as u64, [1, 1, 0, top]) != 0 {
            break;
        }
        let ends = [0, 4].map(|offset| scratch.read(top + offset, 4) as i64);
        let passenger = if is_cyclic == 1 { ends[1] } else { carried };
        if passenger >= 0 {
            made += i64::from(sent(ends[0], passenger, scratch) >= 0);
        }
        if carried >= 0 {
            sys::short(libc::SYS_close as u64, [carried as u64]);
        }
        sys::short(libc::SYS_close as u64, [ends[0] as u64]);
        carried = ends[1];
    }
    made
}

/// Sends a descriptor with a byte.
fn sent(over: i64, passenger: i64, scratch: Scratch) -> i64 {
    let top = scratch.base() + sys::SCRATCH_BYTES - 512;
    let (vector, control, message) = (top + 16, top + 64, top + 128);
    let words =
        [(vector, top), (vector + 8, 1), (control, 20), (control + 8, 1 | 1 << 32), (control + 16, passenger as u64)];
    words.into_iter().for_each(|(at, value)| scratch.write(at, value, 8));
    [0, 0, vector, 1, control, 24, 0]
        .into_iter()
        .zip(0..)
        .for_each(|(value, index)| scratch.write(message + 8 * index, value, 8));
    sys::short(libc::SYS_sendmsg as u64, [over as u64, message, 0x40])
}

fn directories(depth: u64, scratch: Scratch) -> i64 {
    let (name, up) = (scratch.base() + sys::SCRATCH_BYTES - 64, scratch.base() + sys::SCRATCH_BYTES - 32);
    scratch.text(name, b"deep");
    scratch.text(up, b"..");
    let mut made = 0;
    while made < depth.min(600) as i64
        && sys::short(libc::SYS_mkdir as u64, [name, 0o777]) == 0
        && sys::short(libc::SYS_chdir as u64, [name]) == 0
    {
        made += 1;
    }
    sys::short(libc::SYS_getcwd as u64, [scratch.base(), 4096]);
    for _ in 0..made {
        sys::short(libc::SYS_chdir as u64, [up]);
        sys::short(libc::SYS_rmdir as u64, [name]);
    }
    made
}

/// Symbolic links, each to the one before it.
fn links(depth: u64, scratch: Scratch) -> i64 {
    let (from, to) = (scratch.base() + sys::SCRATCH_BYTES - 64, scratch.base() + sys::SCRATCH_BYTES - 32);
    let count = depth.min(50);
    for index in 0..count {
        scratch.text(from, format!("k{index}").as_bytes());
        scratch.text(to, format!("k{}", index + 1).as_bytes());
        sys::short(libc::SYS_symlink as u64, [from, to]);
    }
    sys::short(libc::SYS_open as u64, [to, 0])
}

/// Children of children.
fn forks(depth: u64) -> i64 {
    for level in 0..depth.min(12) {
        if sys::short(libc::SYS_fork as u64, []) > 0 {
            return level as i64;
        }
    }
    depth as i64
}

fn oneself(scratch: Scratch) -> i64 {
    let top = scratch.base() + sys::SCRATCH_BYTES - 128;
    scratch.text(top, b"/proc/self/exe");
    scratch.text(top + 32, b"--nothing");
    [top, top + 32, 0].into_iter().zip(0..).for_each(|(value, index)| scratch.write(top + 64 + 8 * index, value, 8));
    sys::short(libc::SYS_execve as u64, [top, top + 64, top + 80])
}

/// Bytes of a ring's mapping that we use: entries for 1024 at most.
const RING_BYTES: u64 = 1 << 16;

/// Makes a ring whose entries are mapped: its address goes into a slot beside its descriptor.
fn ring_made(entries: u64, flags: u64, scratch: Scratch) -> i64 {
    let parameters = scratch.base() + sys::SCRATCH_BYTES - 256;
    (0..16).for_each(|index| scratch.write(parameters + 8 * index, 0, 8));
    scratch.write(parameters + 8, flags, 4);
    scratch.write(parameters + 12, 0, 4);
    let ring = sys::short(libc::SYS_io_uring_setup as u64, [entries, parameters]);
    if ring < 0 {
        return ring;
    }
    let map = |bytes: u64, offset: u64| sys::call(libc::SYS_mmap as u64, [0, bytes, 3, 0x8001, ring as u64, offset]);
    let (head, list) = (map(4096, 0), map((entries.min(1024) * 64).next_multiple_of(4096), 0x1000_0000));
    if head >= 0 && list >= 0 {
        let at = RINGS.iter().position(|ring| ring[0].load(Relaxed) == 0).unwrap_or(0);
        let layout = [0, 4, 24].map(|offset| scratch.read(parameters + 40 + offset, 4));
        let words =
            [ring as u64, head as u64, list as u64, entries.min(1024), layout[0] | layout[1] << 16 | layout[2] << 32];
        RINGS[at].iter().zip(words).for_each(|(slot, value)| slot.store(value, Relaxed));
    }
    ring
}

/// Rings of this process: descriptor, the addresses of its head and its entries, how many these are, offsets of head, tail and array.
static RINGS: [[AtomicU64; 5]; 4] = [const { [const { AtomicU64::new(0) }; 5] }; 4];

fn ring_of(index: u64) -> Option<[u64; 5]> {
    let ring = RINGS.get(index as usize % RINGS.len())?;
    let words = [0, 1, 2, 3, 4].map(|word| ring.get(word).map_or(0, |word: &AtomicU64| word.load(Relaxed)));
    (words[0] != 0).then_some(words)
}

/// Puts an entry in as often as there is room for, and enters.
fn ring_entry(index: u64, [entry, wanted, flags]: [u64; 3], scratch: Scratch) -> i64 {
    let Some([ring, head, list, entries, layout]) = ring_of(index) else { return -9 };
    let (head, list) = (Window::new(head, 4096), Window::new(list, RING_BYTES.min(entries * 64)));
    let (tail_at, array) = (layout >> 16 & 0xffff, layout >> 32);
    let (tail, count) = (head.read(tail_at), 1 + wanted as u32 % 4);
    for step in 0..count {
        let place = u64::from(tail.wrapping_add(step)) % entries;
        (0..16).for_each(|word| list.write(place * 64 + 4 * word, scratch.read(entry + 4 * word, 4) as u32));
        head.write(array + 4 * place, place as u32);
    }
    head.write(tail_at, tail.wrapping_add(count));
    sys::call(libc::SYS_io_uring_enter as u64, [ring, count.into(), wanted & 1, flags, 0, 0])
}

/// Writes a word of the ring that the kernel keeps.
fn ring_scribbled(index: u64, offset: u64, value: u64) -> i64 {
    let Some([_, head, ..]) = ring_of(index) else { return -9 };
    Window::new(head, 4096).write(offset % 96, value as u32);
    0
}

/// Any call that is not in the tables, except those that keep the machine's owner from looking on.
fn any_number(arguments: [u64; 6]) -> i64 {
    let [number, rest @ ..] = arguments;
    let [a, b, c, d, e] = rest;
    // kill and its like reach the leader; reboot ends a tenant.
    const NEVER: &[u64] = &[62, 109, 129, 169, 200, 234, 297];
    if NEVER.contains(&(number & 0xffff_ffff)) { -38 } else { sys::call(number, [a, b, c, d, e, 0]) }
}

fn timers(count: u64, times: u64, scratch: Scratch) -> i64 {
    let id = scratch.base() + sys::SCRATCH_BYTES - 64;
    let make = |_| {
        let made = sys::short(libc::SYS_timer_create as u64, [1, 0, id]);
        sys::short(libc::SYS_timer_settime as u64, [scratch.read(id, 4), 0, times, 0]);
        made == 0
    };
    (0..count.min(1000)).map(make).filter(|made| *made).count() as i64
}

/// One page each, of a file and without one in turn, so that they do not join.
fn mappings(count: u64, file: u64) -> i64 {
    let map = |index: u64| {
        let flags = if index.is_multiple_of(2) { 0x2 } else { 0x22 };
        sys::call(libc::SYS_mmap as u64, [0, 4096, 1 + 2 * (index % 2), flags, file, 4096 * index]) > 0
    };
    (0..count).map(map).filter(|made| *made).count() as i64
}

fn messages(socket: u64, count: u64, length: u64) -> i64 {
    let send =
        |_| sys::call(libc::SYS_sendto as u64, [socket, crate::values::PLAYGROUND, length.min(70_000), 0x40, 0, 0]) > 0;
    (0..count.min(300)).map(send).filter(|sent| *sent).count() as i64
}
