//! The cost of a full segment: state machines of both ends, header written and read, checksum computed and checked.
//!
//! Prints the best of several rounds, ns per data segment of 1448 bytes, acknowledgments included.

use gyre_net::tcp::{Algorithm, Machine, Outgoing, Seq, Settings, State};
use gyre_net::wire::Sum;
use gyre_net::wire::tcp::{HEADER_BYTES_MAX, Header};
use gyre_object::Bytes;
use std::time::Instant;

const SEGMENTS: usize = 20_000;

fn settings(first: u32) -> Settings {
    Settings {
        first: Seq(first),
        stamp_offset: 0,
        segment_bytes_max: 1460,
        offload_bytes_max: 0,
        receive_bytes_max: 256 << 10,
        send_bytes_max: 256 << 10,
        algorithm: Algorithm::Cubic,
    }
}

/// Writes a segment as the path does and reads it back.
fn over_the_wire(out: &Outgoing) -> Header {
    let header = Header {
        source_port: 1,
        destination_port: 2,
        sequence: out.sequence,
        acknowledgment: out.acknowledgment,
        flags: out.flags,
        window: out.window,
        options: out.options,
    };
    let mut bytes = [0; HEADER_BYTES_MAX];
    let length = header.write(&mut bytes);
    for _ in 0..2 {
        // once computed by the sender, once checked by the receiver
        let mut sum = Sum::pseudo([10, 0, 0, 1], [10, 0, 0, 2], 6, length + out.payload_bytes);
        sum.add(&bytes[..length]);
        out.payload.iter().for_each(|piece| sum.add(piece.as_slice()));
        std::hint::black_box(sum.finish());
    }
    Header::read(&bytes[..length]).expect("what was written").0
}

fn pump(ends: &mut [Machine; 2], now: u64) -> usize {
    let mut data = 0;
    for from in [0, 1] {
        while let Some(out) = ends[from].next_segment(now) {
            data += usize::from(out.payload_bytes > 0);
            let header = over_the_wire(&out);
            ends[1 - from].on_segment(&header, &out.payload, now);
        }
    }
    data
}

fn main() {
    let mut ends = [Machine::connecting(settings(1)), Machine::connecting(settings(2))];
    let mut now = 1;
    while ends.iter().any(|end| end.state() != State::Established) {
        pump(&mut ends, now);
        now += 1_000_000;
    }
    let page = Bytes::copy_from(&[7; 4096]).expect("memory");
    let mut best = u128::MAX;
    for _ in 0..20 {
        let (started, mut done) = (Instant::now(), 0);
        while done < SEGMENTS {
            while ends[0].send(vec![page.clone(); 16]).is_ok() {}
            done += pump(&mut ends, now);
            let _ = ends[1].receive(usize::MAX);
            now += 100_000;
        }
        best = best.min(started.elapsed().as_nanos() / done as u128);
    }
    println!("{best} ns per segment of 1448 bytes, both ends, checksums included");
}
