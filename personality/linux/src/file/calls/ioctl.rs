//! ioctl: the requests of descriptors in general; [`super::terminal`] has those of terminals.

use super::{file_of, interface, owner, terminal};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use linux_raw_sys::ioctl;

/// `ioctl(fd, request, argument)`.
pub async fn ioctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (descriptor, request, argument) = (a.int(0), a.unsigned(1), a.word(2));
    let file = file_of(thread, descriptor)?;
    if file.is_path_only() {
        return Err(Errno::EBADF);
    }
    let files = thread.process().files();
    match request {
        ioctl::FIOCLEX => {
            files.table().set_close_on_exec(descriptor, true)?;
            Ok(0)
        }
        ioctl::FIONCLEX => {
            files.table().set_close_on_exec(descriptor, false)?;
            Ok(0)
        }
        ioctl::FIONBIO => set_flag(thread, &file, raw::O_NONBLOCK, argument).await,
        ioctl::FIOASYNC => {
            set_flag(thread, &file, raw::FASYNC, argument).await?;
            file.follow_async(thread, descriptor);
            Ok(0)
        }
        ioctl::FIONREAD => {
            let bytes = readable_bytes(&file).await?;
            put_int(thread, argument, i32::try_from(bytes).unwrap_or(i32::MAX)).await
        }
        _ => match file.object() {
            Object::Terminal(end) => terminal::request(thread, &file, end, request, argument).await,
            Object::Socket(_) if matches!(request, ioctl::FIOSETOWN | ioctl::SIOCSPGRP) => {
                owner::name_by_request(thread, &file, argument).await
            }
            Object::Socket(_) if matches!(request, ioctl::FIOGETOWN | ioctl::SIOCGPGRP) => {
                owner::tell_by_request(thread, &file, argument).await
            }
            Object::Socket(_) => interface::request(thread, files.tenant(), request, argument).await,
            _ => Err(Errno::ENOTTY),
        },
    }
}

async fn set_flag(thread: &Thread, file: &OpenFile, flag: u32, argument: u64) -> Outcome {
    let mut on = [0; 4];
    thread.copy_in(argument, &mut on).await?;
    file.change_flags(flag, on != [0; 4]);
    Ok(0)
}

pub(super) async fn put_int(thread: &Thread, out: u64, value: i32) -> Outcome {
    thread.copy_out(out, &value.to_le_bytes()).await?;
    Ok(0)
}

pub(super) async fn get_int(thread: &Thread, from: u64) -> Result<i32, Errno> {
    let mut value = [0; 4];
    thread.copy_in(from, &mut value).await?;
    Ok(i32::from_le_bytes(value))
}

async fn readable_bytes(file: &OpenFile) -> Result<usize, Errno> {
    match file.object() {
        Object::Pipe(end) => Ok(end.readable_bytes()),
        Object::Terminal(end) => Ok(end.terminal().readable_bytes()),
        Object::Socket(socket) => Ok(socket.readable_bytes().await),
        Object::Inotify(inotify) => Ok(inotify.bytes()),
        Object::Regular => {
            let place = file.place().ok_or(Errno::EBADF)?;
            let size = place.system().attributes(place.node).await?.size_bytes;
            let left = size.saturating_sub(file.position.peek());
            Ok(usize::try_from(left).unwrap_or(usize::MAX))
        }
        _ => Err(Errno::ENOTTY),
    }
}
