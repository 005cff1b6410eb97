//! Channels between tenants that behave, and that do not.

use crate::*;
use gyre_interface::Ready;
use gyre_object::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

fn name(text: &str) -> Name {
    Name::read(text.as_bytes(), "shop").unwrap()
}

fn message(bytes: usize, value: u8) -> Message {
    let pieces = vec![value; bytes];
    pieces.chunks(4096).map(|piece| Bytes::copy_from(piece).unwrap()).collect()
}

fn flat(message: Message) -> Vec<u8> {
    message.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
}

/// Receives at most so many bytes as one piece.
fn got(end: &End, bytes_max: usize) -> Result<Option<Vec<u8>>, ChannelError> {
    end.receive(bytes_max).map(|message| message.map(flat))
}

fn ready(end: &End) -> Ready {
    end.readiness().now()
}

#[test]
fn a_name_is_a_tenants_and_nobody_listens_under_anothers() {
    assert_eq!(name("orders"), name("shop/orders"));
    assert_eq!(name("mill/orders").tenant(), "mill");
    for wrong in ["", "/", "shop/", "/orders", "a/b/c", "a b", "\u{e4}", &"x".repeat(65)] {
        assert_eq!(Name::read(wrong.as_bytes(), "shop"), Err(ChannelError::Invalid), "{wrong}");
    }
    assert_eq!(Name::read(b"\xff", "shop"), Err(ChannelError::Invalid));
}

#[test]
fn messages_wait_for_the_one_who_accepts_and_arrive_whole() {
    let channels = Channels::default();
    assert!(matches!(channels.connect(&name("orders"), "mill", 0), Err(ChannelError::Refused)));
    let listener = channels.listen(name("orders"), 4).unwrap();
    assert!(matches!(channels.listen(name("orders"), 0), Err(ChannelError::InUse)));
    assert!(
        matches!(channels.connect(&name("orders"), "mill", 5), Err(ChannelError::Invalid)),
        "more pages than granted"
    );
    assert!(matches!(listener.accept(), Err(ChannelError::Again)));
    let mill = channels.connect(&name("orders"), "mill", 4).unwrap();
    assert_eq!(mill.send(message(10_000, 7)), Ok(()));
    assert_eq!(listener.readiness().now(), Ready::READ);
    let shop = listener.accept().unwrap();
    assert_eq!(listener.readiness().now(), Ready::empty());
    assert_eq!((shop.figures().peer.as_str(), shop.figures().waiting, shop.figures().next_bytes), ("mill", 1, 10_000));
    assert_eq!(got(&shop, 9_999), Err(ChannelError::TooLong), "and it stays");
    assert_eq!(got(&shop, 10_000), Ok(Some(vec![7; 10_000])));
    assert_eq!(got(&shop, 10_000), Err(ChannelError::Again));
    assert!(!ready(&shop).intersects(Ready::READ));
    assert_eq!((mill.figures().sent, mill.figures().sent_bytes, shop.figures().received), (1, 10_000, 1));
    assert!(std::sync::Arc::ptr_eq(&mill.memory().unwrap().0, &shop.memory().unwrap().0));
    drop(listener);
    assert!(channels.listen(name("orders"), 0).is_ok(), "the name is free again");
}

#[test]
fn a_reader_that_does_not_read_stops_its_writer_and_costs_a_bounded_sum() {
    let [one, other] = End::pair(["a", "b"], 0).unwrap();
    let mut sent = 0;
    while one.send(message(60_000, 1)) == Ok(()) {
        sent += 1;
    }
    assert_eq!((sent, one.send(message(1, 1))), (5, Err(ChannelError::Again)));
    assert!(!ready(&one).intersects(Ready::WRITE));
    assert!(other.receive(1 << 20).unwrap().is_some());
    assert!(ready(&one).intersects(Ready::WRITE) && one.send(message(1, 1)) == Ok(()));
    let [one, _other] = End::pair(["a", "b"], 0).unwrap();
    (0..MESSAGES_MAX).for_each(|_| assert_eq!(one.send(message(1, 1)), Ok(())));
    assert_eq!(one.send(message(1, 1)), Err(ChannelError::Again));
    assert_eq!(one.send(message(MESSAGE_BYTES_MAX + 1, 1)), Err(ChannelError::TooLong));
}

#[test]
fn who_goes_is_heard_and_what_it_said_is_read() {
    let [one, other] = End::pair(["a", "b"], 0).unwrap();
    assert_eq!(one.send(message(3, 9)), Ok(()));
    drop(one);
    assert!(ready(&other).contains(Ready::READ | Ready::HANG_UP));
    assert_eq!(other.send(message(1, 1)), Err(ChannelError::Ended));
    assert_eq!(got(&other, 10), Ok(Some(vec![9; 3])));
    assert!(other.receive(10).unwrap().is_none() && other.receive(10).unwrap().is_none());
    assert!(ready(&other).contains(Ready::READ));
}

#[test]
fn connections_that_nobody_accepts_are_bounded_and_end_with_the_listener() {
    let channels = Channels::default();
    let listener = channels.listen(name("orders"), 0).unwrap();
    let all: Vec<End> = (0..BACKLOG_MAX).map(|_| channels.connect(&name("orders"), "mill", 0).unwrap()).collect();
    assert!(matches!(channels.connect(&name("orders"), "mill", 0), Err(ChannelError::Again)));
    drop(listener);
    for end in &all {
        assert_eq!(end.send(message(1, 1)), Err(ChannelError::Ended));
        assert!(end.receive(1).unwrap().is_none());
    }
    assert!(matches!(End::pair(["a", "b"], PAGES_MAX + 1), Err(ChannelError::Invalid)));
    assert!(matches!(all[0].memory(), Err(ChannelError::Invalid)));
}

proptest! {
    /// Two ends do anything: messages arrive in order and whole, readiness tells what the next call answers.
    #[test]
    fn readiness_agrees_with_the_calls(steps in proptest::collection::vec((0usize..2, 0usize..70_000, any::<bool>()), 1..300)) {
        let ends = End::pair(["a", "b"], 0).unwrap();
        let mut under_way: [VecDeque<(usize, u8)>; 2] = Default::default();
        for (number, (own, bytes, sends)) in steps.into_iter().enumerate() {
            let (end, value) = (&ends[own], number as u8);
            if sends {
                let is_ready = ready(end).contains(Ready::WRITE);
                match end.send(message(bytes, value)) {
                    Ok(()) if bytes > 0 => under_way[own].push_back((bytes, value)),
                    Ok(()) => prop_assert_eq!(bytes, 0),
                    Err(ChannelError::TooLong) => prop_assert!(bytes > MESSAGE_BYTES_MAX),
                    Err(error) => prop_assert!(error == ChannelError::Again && !is_ready),
                }
            } else {
                let is_ready = ready(end).contains(Ready::READ);
                match got(end, bytes) {
                    Ok(message) => prop_assert_eq!(message, under_way[1 - own].pop_front().map(|(bytes, value)| vec![value; bytes])),
                    Err(ChannelError::TooLong) => prop_assert!(is_ready && under_way[1 - own][0].0 > bytes),
                    Err(error) => prop_assert!(error == ChannelError::Again && under_way[1 - own].is_empty()),
                }
            }
            for own in 0..2 {
                prop_assert_eq!(ready(&ends[own]).contains(Ready::READ), !under_way[1 - own].is_empty());
            }
        }
    }
}
