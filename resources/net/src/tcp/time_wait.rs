//! TIME-WAIT in a few words (RFC 9293 section 3.6.1, RFC 1337, RFC 6191).

use super::{Machine, Outgoing, Seq, reset_for};
use crate::wire::tcp::{Flags, Header, Options};

/// The facts to remember of a connection that has ended.
#[derive(Clone, Copy, Debug)]
pub struct TimeWait {
    sent: Seq,
    expected: Seq,
    stamp_recent: Option<u32>,
    stamp_offset: u32,
}

/// The treatment of a segment of an ended connection.
pub enum Verdict {
    /// Nothing.
    Ignore,
    /// Send this.
    Answer(Outgoing),
    /// It opens a new connection: forget the old one and treat the segment as one for the listener.
    Reopen,
}

impl TimeWait {
    /// Returns the facts to remember of `machine`.
    pub fn of(machine: &Machine) -> TimeWait {
        TimeWait {
            sent: machine.send.nxt,
            expected: machine.receive.nxt,
            stamp_recent: machine.receive.stamps.map(|stamps| stamps.recent),
            stamp_offset: machine.settings.stamp_offset,
        }
    }

    /// Takes a segment. A reset does not end the wait (RFC 1337 F1).
    pub fn on_segment(&self, header: &Header, bytes: usize, now_ns: u64) -> Verdict {
        if header.flags.contains(Flags::RST) {
            return Verdict::Ignore;
        }
        if header.flags.contains(Flags::SYN) && !header.flags.contains(Flags::ACK) {
            return if self.is_newer(header) { Verdict::Reopen } else { self.acknowledgment(now_ns) };
        }
        if !header.flags.contains(Flags::ACK) {
            return Verdict::Ignore;
        }
        if bytes == 0 && !header.flags.contains(Flags::FIN) {
            let stray = header.acknowledgment.after(self.sent);
            return if stray {
                reset_for(header, bytes).map_or(Verdict::Ignore, Verdict::Answer)
            } else {
                Verdict::Ignore
            };
        }
        self.acknowledgment(now_ns)
    }

    /// Returns whether it is newer: by RFC 6191 a later timestamp, or else a later number, cannot be an old
    /// duplicate.
    fn is_newer(&self, header: &Header) -> bool {
        match (self.stamp_recent, header.options.timestamps) {
            (Some(recent), Some((value, _))) if value != recent => (value.wrapping_sub(recent) as i32) > 0,
            _ => header.sequence.after(self.expected),
        }
    }

    /// Returns the number that a new connection may begin with, above everything that the old one has sent.
    pub fn first_of_next(&self) -> Seq {
        self.sent + 65_536
    }

    fn acknowledgment(&self, now_ns: u64) -> Verdict {
        let stamp = self.stamp_offset.wrapping_add((now_ns / 1_000_000) as u32);
        Verdict::Answer(Outgoing {
            sequence: self.sent,
            acknowledgment: self.expected,
            flags: Flags::ACK,
            ..Outgoing::empty(Options {
                timestamps: self.stamp_recent.map(|recent| (stamp, recent)),
                ..Options::default()
            })
        })
    }
}
