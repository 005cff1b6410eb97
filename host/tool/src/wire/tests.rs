use super::*;

const GOLD: [u8; 4] = [10, 77, 0, 11];
const FAR: [u8; 4] = [10, 77, 0, 1];

fn ipv4(from: [u8; 4], to: [u8; 4], length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[26..30].copy_from_slice(&from);
    frame[30..34].copy_from_slice(&to);
    frame
}

#[test]
fn frames_count_for_the_tenant_at_the_machines_end() {
    let counters = Counters::new([("gold", GOLD)]);
    counters.count(Direction::FromMachine, &ipv4(GOLD, FAR, 100));
    counters.count(Direction::ToMachine, &ipv4(FAR, GOLD, 60));
    counters.count(Direction::ToMachine, &ipv4(GOLD, FAR, 61));
    counters.count(Direction::FromMachine, b"short");
    let [gold, other] = &counters.read()[..] else { panic!("two rows") };
    assert_eq!((gold.sent_bytes, gold.received_bytes), (100, 60));
    assert_eq!((other.sent_frames, other.received_bytes), (1, 61));
}

#[test]
fn arp_counts_for_the_address_it_is_about() {
    let counters = Counters::new([("gold", GOLD)]);
    let mut request = vec![0; 42];
    request[12..14].copy_from_slice(&[8, 6]);
    request[38..42].copy_from_slice(&GOLD);
    counters.count(Direction::ToMachine, &request);
    assert_eq!(counters.read()[0].received_frames, 1);
}

#[test]
fn no_truncation_of_any_frame_is_misread() {
    let frame = ipv4(GOLD, FAR, 34);
    for end in 0..30 {
        assert_eq!(frame::tenant_address(&frame[..end], true), None, "{end}");
    }
    assert_eq!(frame::tenant_address(&frame, true), Some(GOLD));
}
