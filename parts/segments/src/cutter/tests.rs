use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Headers of a segment whose TCP header has `options` bytes of options.
fn headers(options: usize, flags: u8, identification: u16, sequence: u32) -> Vec<u8> {
    let mut bytes = vec![0; 54 + options];
    bytes[..12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = 0x45;
    bytes[18..20].copy_from_slice(&identification.to_be_bytes());
    bytes[20] = 0x40;
    bytes[22..24].copy_from_slice(&[64, 6]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 9]);
    bytes[34..38].copy_from_slice(&[0, 80, 200, 1]);
    bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    bytes[46] = ((20 + options) / 4) as u8 * 16;
    bytes[47] = flags;
    bytes[54..].fill(1);
    bytes
}

fn segment(head: &[u8], payload: &[u8], pieces: usize, step: u16) -> OutFrame {
    let mut all = vec![Bytes::copy_from(head).unwrap()];
    let size = payload.len().div_ceil(pieces.max(1)).max(1);
    all.extend(payload.chunks(size).map(|part| Bytes::copy_from(part).unwrap()));
    OutFrame { pieces: all, checksum: None, segment: Some((step, head.len() as u16)), receipt: None }
}

/// Returns all frames of a segment, flat.
fn frames_of(frame: OutFrame) -> Vec<Vec<u8>> {
    let mut cutter = Cutter::new(frame).ok().expect("a segment that can be cut");
    let mut frames = Vec::new();
    while !cutter.is_done() {
        let (mut body, mut pieces) = (Vec::new(), 0);
        let expected = cutter.next_pieces();
        let bytes = cutter.cut(|piece, from, to| {
            body.extend_from_slice(&piece.as_slice()[from..to]);
            pieces += 1;
        });
        assert_eq!((pieces, body.len()), (expected, bytes));
        frames.push([cutter.headers(), &body].concat());
    }
    frames
}

fn word(frame: &[u8], at: usize) -> usize {
    usize::from(frame[at]) << 8 | usize::from(frame[at + 1])
}

fn is_intact(frame: &[u8]) -> bool {
    let mut ip = Sum::default();
    ip.add(&frame[14..34]);
    let mut tcp = Sum::pseudo([10, 0, 0, 1], [10, 0, 0, 9], 6, frame.len() - 34);
    tcp.add(&frame[34..]);
    ip.is_intact() && tcp.is_intact()
}

proptest! {
    #[test]
    fn every_frame_is_a_whole_packet_and_together_they_are_the_stream(
        payload in proptest::collection::vec(any::<u8>(), 1..9000),
        pieces in 1usize..40, step in 1u16..1460, options in 0usize..10,
        fin: bool, push: bool, identification: u16, sequence: u32,
    ) {
        let step = step.max(100);
        let flags = ACK | if fin { FIN } else { 0 } | if push { PSH } else { 0 };
        let head = headers(options * 4, flags, identification, sequence);
        let large = segment(&head, &payload, pieces, step);
        let (count, bytes) = (large.frames(), large.link_bytes());
        let frames = frames_of(large);
        prop_assert_eq!(frames.len(), count);
        prop_assert_eq!(frames.iter().map(Vec::len).sum::<usize>(), bytes, "what is accounted is what is on the link");
        let mut stream = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            let is_last = index + 1 == frames.len();
            prop_assert!(is_intact(frame));
            prop_assert_eq!(word(frame, 16), frame.len() - 14);
            prop_assert_eq!(word(frame, 18) as u16, identification.wrapping_add(index as u16));
            let expected = sequence.wrapping_add(stream.len() as u32).to_be_bytes();
            prop_assert_eq!(&frame[38..42], &expected[..]);
            prop_assert_eq!(frame[47], if is_last { flags } else { ACK });
            prop_assert_eq!(&frame[54..head.len()], &head[54..]);
            prop_assert!(is_last || frame.len() == head.len() + usize::from(step));
            stream.extend_from_slice(&frame[head.len()..]);
        }
        prop_assert_eq!(stream, payload);
    }

    #[test]
    fn headers_that_make_no_sense_are_given_back(head in proptest::collection::vec(any::<u8>(), 0..120), step: u16, length: u16) {
        let frame = OutFrame { segment: Some((step, length)), ..segment(&head, &[1; 300], 2, 100) };
        if let Ok(mut cutter) = Cutter::new(frame) {
            cutter.cut(|_, _, _| {});
        }
    }
}

#[test]
fn payload_behind_the_headers_in_the_first_piece_comes_first() {
    let head = headers(0, ACK, 1, 7);
    let first = [&head[..], &[9; 50]].concat();
    let mut frame = segment(&first, &[8; 100], 1, 120);
    frame.segment = Some((120, 54));
    let frames = frames_of(frame);
    assert_eq!(frames.iter().map(|frame| frame.len() - 54).collect::<Vec<_>>(), [120, 30]);
    assert_eq!(frames[0][54 + 49..54 + 51], [9, 8]);
}

#[test]
fn a_device_that_sums_gets_the_sum_of_the_pseudo_header() {
    let head = headers(0, ACK, 1, 7);
    let frame = OutFrame { checksum: Some((34, 16)), ..segment(&head, &[8; 300], 1, 200) };
    for frame in frames_of(frame) {
        let sum = Sum::pseudo([10, 0, 0, 1], [10, 0, 0, 9], 6, frame.len() - 34);
        assert_eq!(frame[50..52], sum.partial());
    }
}

#[test]
fn what_is_no_whole_tcp_packet_is_not_cut() {
    let spoil: [(usize, u8); 5] = [(12, 9), (14, 0x65), (20, 0x20), (23, 17), (46, 0x40)];
    for (at, value) in spoil {
        let mut head = headers(0, ACK, 1, 7);
        head[at] = value;
        assert!(Cutter::new(segment(&head, &[8; 300], 1, 200)).is_err(), "{at}");
    }
    assert!(Cutter::new(segment(&headers(0, ACK, 1, 7), &[], 1, 200)).is_err(), "nothing to send");
}
