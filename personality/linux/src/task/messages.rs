//! The kernel's messages to a tenant: syslog(2), as dmesg reads them. They are those that concern the tenant, with the time since the machine's
//! start; the newest [`LOG_BYTES`](crate::file::log_ring::LOG_BYTES) are kept.

use crate::credentials::Capability;
use crate::file::log_ring::LOG_BYTES;
use crate::time::{NS_PER_S, monotonic_ns};
use crate::{Arguments, Errno, Outcome, Tenant, Thread};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Adds a message.
pub(crate) fn tell(tenant: &Tenant, text: &str) {
    let ns = monotonic_ns();
    let line = format!("<4>[{:5}.{:06}] {text}\n", ns / NS_PER_S, ns % NS_PER_S / 1000);
    tenant.messages.ring.append(line.as_bytes());
}

/// Writes a message to the log of the tenant's owner (`gyre logs`) and to that of the machine's owner too.
pub(crate) fn publish(thread: &Thread, text: &str) {
    log::warn!("{}: {text}", thread.tenant().name());
    tell(thread.tenant(), text);
    thread.tenant().files().tenant().log.append(format!("gyre: {text}\n").as_bytes());
}

/// A program names itself as it likes; the console shows letters only.
pub(crate) fn plain(name: &[u8]) -> String {
    name.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' }).collect()
}

/// Returns the messages from `from` on that fit, whole lines, the newest ones.
fn newest(tenant: &Tenant, from: u64, bytes: usize) -> Vec<u8> {
    let (_, all) = tenant.messages.ring.read(from, LOG_BYTES);
    let over = all.len().saturating_sub(bytes);
    let cut = if over == 0 {
        0
    } else {
        all.iter()
            .skip(over)
            .position(|byte| *byte == b'\n')
            .map_or(all.len(), |at| over.saturating_add(at).saturating_add(1))
    };
    all.get(cut..).unwrap_or_default().to_vec()
}

/// `syslog(action, buffer, bytes)`.
pub async fn syslog(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    const READ: i32 = 2;
    const READ_ALL: i32 = 3;
    const READ_CLEAR: i32 = 4;
    const CLEAR: i32 = 5;
    const CONSOLE: core::ops::RangeInclusive<i32> = 6..=8;
    const UNREAD: i32 = 9;
    const SIZE: i32 = 10;
    let tenant = thread.tenant();
    let messages = &tenant.messages;
    let cleared = messages.cleared.load(Ordering::Relaxed);
    let end = || messages.ring.end();
    match a.int(0) {
        // Opening and closing do nothing, on Linux neither.
        0 | 1 => Ok(0),
        READ | READ_ALL | READ_CLEAR if a.word(1) == 0 || a.int(2) < 0 => Err(Errno::EINVAL),
        READ => {
            thread.needs(Capability::Syslog)?;
            let from = messages.read.load(Ordering::Relaxed);
            let bytes = a.size(2).min(LOG_BYTES);
            let (start, text) = thread.interruptible(messages.ring.follow(from, bytes)).await?;
            thread.copy_out(a.word(1), &text).await?;
            messages.read.store(start.saturating_add(text.len() as u64), Ordering::Relaxed);
            Ok(text.len() as u64)
        }
        READ_ALL | READ_CLEAR => {
            let text = newest(tenant, cleared, a.size(2));
            if a.int(0) == READ_CLEAR {
                thread.needs(Capability::Syslog)?;
                messages.cleared.store(end(), Ordering::Relaxed);
            }
            thread.copy_out(a.word(1), &text).await?;
            Ok(text.len() as u64)
        }
        CLEAR => {
            thread.needs(Capability::Syslog)?;
            messages.cleared.store(end(), Ordering::Relaxed);
            Ok(0)
        }
        // The machine's console is not the tenant's.
        number if CONSOLE.contains(&number) => Err(Errno::EPERM),
        UNREAD => {
            thread.needs(Capability::Syslog)?;
            Ok(end().saturating_sub(messages.read.load(Ordering::Relaxed)).min(LOG_BYTES as u64))
        }
        SIZE => Ok(LOG_BYTES as u64),
        _ => Err(Errno::EINVAL),
    }
}
