//! A direction of a wire: frames on their way, with what may happen to them there.

use std::collections::BTreeMap;

/// Faults of a wire.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The state of its numbers.
    pub seed: u64,
    /// Frames that vanish.
    pub loss_percent: u64,
    /// Frames that arrive twice.
    pub duplicate_percent: u64,
    /// Frames of which a bit is turned, behind the addresses: they arrive, and checksums must find it.
    pub corrupt_percent: u64,
    /// How much longer than others a frame may take: what reorders them.
    pub jitter_us: u64,
    /// The time that each takes.
    pub delay_us: u64,
    /// Frames that the wire takes per millisecond; the rest waits (back-pressure).
    pub frames_per_ms: u64,
}

/// A wire that does nothing to frames but take half a millisecond.
pub const CLEAN: Faults = Faults {
    seed: 1,
    loss_percent: 0,
    duplicate_percent: 0,
    corrupt_percent: 0,
    jitter_us: 0,
    delay_us: 500,
    frames_per_ms: u64::MAX,
};

/// Bytes before anything that is covered by a checksum: Ethernet's header and IPv4's.
const HEADERS_BYTES: usize = 34;

impl Faults {
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    /// True in so many of 100.
    pub fn hits(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// One direction: frames by arrival.
#[derive(Debug, Default)]
pub struct Way {
    frames: BTreeMap<(u64, u64), Vec<u8>>,
    order: u64,
}

impl Way {
    /// Sends a frame now.
    pub fn put(&mut self, faults: &mut Faults, frame: Vec<u8>) {
        self.put_at(crate::now(), faults, frame);
    }

    /// Sends a frame at a time, ns.
    pub fn put_at(&mut self, now_ns: u64, faults: &mut Faults, mut frame: Vec<u8>) {
        if faults.hits(faults.loss_percent) {
            return;
        }
        if faults.hits(faults.corrupt_percent) {
            let at = HEADERS_BYTES + faults.next() as usize % frame.len().saturating_sub(HEADERS_BYTES).max(1);
            if let Some(byte) = frame.get_mut(at) {
                *byte ^= 1 << (faults.next() % 8);
            }
        }
        for _ in 0..1 + usize::from(faults.hits(faults.duplicate_percent)) {
            let at = now_ns + 1000 * (faults.delay_us + faults.next() % (faults.jitter_us + 1));
            self.order += 1;
            self.frames.insert((at, self.order), frame.clone());
        }
    }

    /// Takes a frame that has arrived by now.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.take_at(crate::now())
    }

    /// Takes a frame that has arrived by a time, ns.
    pub fn take_at(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let entry = self.frames.first_entry()?;
        (entry.key().0 <= now_ns).then(|| entry.remove())
    }

    /// When the next frame arrives, ns.
    pub fn next_at(&self) -> Option<u64> {
        self.frames.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes all frames, arrived or not.
    pub fn drain(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.frames).into_values().collect()
    }
}
