//! SYN cookies: a handshake without memory, while a listener's queue of half-open connections is full.
//!
//! The first number of our SYN is a keyed hash of the connection, the peer's first number and the minute, whose low three
//! bits name a segment size. Window shift and SACK travel in the low bits of our timestamp and come back in its echo;
//! without timestamps they are not used. The scheme is the well-known one of Bernstein; layout ours.

use super::{Peer, Seq};
use crate::hash::Key;
use crate::wire::tcp::Options;

/// Segment sizes that a cookie can say, ascending.
const SIZES: [u16; 8] = [88, 536, 1024, 1300, 1400, 1440, 1460, 8960];
/// Length of the time that a cookie speaks of, ns. It is honoured in this and the next one.
const EPOCH_NS: u64 = 60_000_000_000;
/// Bits of the timestamp that carry options: window shift (15: none), SACK.
const STAMP_BITS: u32 = 0x1f;

/// Ends of a connection as they enter the hash.
pub type Ends = [u64; 2];

/// Returns the first number of our SYN for this peer.
pub fn issue(key: &Key, ends: Ends, peer: &Peer, now_ns: u64) -> Seq {
    let size = SIZES.iter().rposition(|size| *size <= peer.segment_bytes_max).unwrap_or(0);
    Seq(mac(key, ends, peer.first, now_ns / EPOCH_NS) | size as u32)
}

/// Returns our timestamp in that SYN: the clock with the options in its low bits, never in the future.
pub fn stamp(clock: u32, peer: &Peer) -> u32 {
    let options = u32::from(peer.window_scale.unwrap_or(15)) | u32::from(peer.sack) << 4;
    let stamp = clock & !STAMP_BITS | options;
    if stamp > clock { stamp.wrapping_sub(STAMP_BITS + 1) } else { stamp }
}

/// Checks the acknowledgment of a cookie and returns the facts of the peer's SYN.
pub fn check(key: &Key, ends: Ends, peer_first: Seq, cookie: Seq, options: &Options, now_ns: u64) -> Option<Peer> {
    let epoch = now_ns / EPOCH_NS;
    let genuine =
        [epoch, epoch.wrapping_sub(1)].iter().any(|epoch| mac(key, ends, peer_first, *epoch) == cookie.0 & !7);
    let size = SIZES.get((cookie.0 & 7) as usize).copied();
    let segment_bytes_max = size.filter(|_| genuine)?;
    let told = options.timestamps.map(|stamps| stamps.1 & STAMP_BITS);
    Some(Peer {
        first: peer_first,
        segment_bytes_max,
        window_scale: told.map(|bits| (bits & 15) as u8).filter(|shift| *shift <= 14),
        sack: told.is_some_and(|bits| bits >> 4 == 1),
        stamp: options.timestamps.map(|stamps| stamps.0),
    })
}

fn mac(key: &Key, ends: Ends, peer_first: Seq, epoch: u64) -> u32 {
    (key.hash(&[ends[0], ends[1], u64::from(peer_first.0) << 32 | epoch & 0xffff_ffff]) as u32) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(1, 2);
    const SECOND: u64 = 1_000_000_000;

    fn peer() -> Peer {
        Peer { first: Seq(77), segment_bytes_max: 1460, window_scale: Some(7), sack: true, stamp: Some(5) }
    }

    #[test]
    fn a_cookie_brings_back_what_the_syn_said() {
        let cookie = issue(&KEY, [1, 2], &peer(), SECOND);
        let clock = 1_000_003;
        let stamp = stamp(clock, &peer());
        assert!(stamp <= clock && clock - stamp < 64);
        let options = Options { timestamps: Some((9, stamp)), ..Options::default() };
        let back = check(&KEY, [1, 2], Seq(77), cookie, &options, 50 * SECOND).unwrap();
        assert_eq!((back.segment_bytes_max, back.window_scale, back.sack), (1460, Some(7), true));
    }

    #[test]
    fn forged_old_and_foreign_cookies_are_refused() {
        let cookie = issue(&KEY, [1, 2], &peer(), SECOND);
        let check = |ends, first, cookie, at| check(&KEY, ends, first, cookie, &Options::default(), at).is_some();
        assert!(check([1, 2], Seq(77), cookie, 100 * SECOND));
        assert!(!check([1, 2], Seq(77), cookie, 200 * SECOND));
        assert!(!check([1, 3], Seq(77), cookie, SECOND));
        assert!(!check([1, 2], Seq(78), cookie, SECOND));
        let guessed =
            (0..10_000u32).filter(|guess| check([1, 2], Seq(77), Seq(guess.wrapping_mul(0x9e37_79b9)), SECOND)).count();
        assert!(guessed <= 1);
    }
}
