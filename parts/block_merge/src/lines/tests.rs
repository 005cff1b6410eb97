use super::*;
use crate::batch::Answer;
use crate::waiting::{Arriving, Waiting};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_interface::block::BlockError;
use gyre_message::{Call, Labels, reply_pair};
use gyre_object::{Bytes, Page};

const ONE: ActivityId = ActivityId(7);
const OTHER: ActivityId = ActivityId(8);

type Asked = Call<Result<(), BlockError>>;

fn lines(most: usize) -> &'static Lines {
    Box::leak(Box::new(Lines::new(most)))
}

fn ticket(waiting: &'static Waiting, first: u64) -> (Ticket, Asked) {
    let (reply, call) = reply_pair();
    let views = vec![Bytes::new(Page::zeroed().unwrap(), 0, 512)];
    let arriving = Arriving { activity: ONE, labels: Labels::default(), first, views, answer: Answer::Write(reply) };
    (waiting.add(arriving).unwrap(), call)
}

fn answer(call: &mut Asked) -> Option<Result<(), BlockError>> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn first_of(ticket: Ticket) -> u64 {
    ticket.take().unwrap().first_sector()
}

#[test]
fn each_activity_has_so_many_under_way_and_the_rest_follows_in_order() {
    let (lines, waiting): (_, &'static Waiting) = (lines(2), Box::leak(Box::default()));
    let mut calls = Vec::new();
    let mut enter = |activity, first| {
        let (ticket, call) = ticket(waiting, first);
        calls.push(call);
        lines.enter(activity, ticket)
    };
    let (first, mut a) = enter(ONE, 100).unwrap();
    let (second, mut b) = enter(ONE, 200).unwrap();
    assert!(enter(ONE, 300).is_none() && enter(ONE, 400).is_none() && enter(ONE, 500).is_none());
    let (elsewhere, mut c) = enter(OTHER, 600).unwrap();
    assert_eq!([first, second, elsewhere].map(first_of), [100, 200, 600]);
    assert!(c.next().is_none(), "nobody does another one's");
    assert_eq!(
        (first_of(b.next().unwrap()), first_of(a.next().unwrap()), first_of(a.next().unwrap())),
        (300, 400, 500)
    );
    assert!(a.next().is_none() && a.next().is_none() && b.next().is_none());
    assert!(lines.is_empty());
    drop((a, b, c));
    assert!(lines.is_empty() && enter(ONE, 700).is_some());
}

#[test]
fn what_waits_behind_who_was_ended_is_answered() {
    let (lines, waiting): (_, &'static Waiting) = (lines(2), Box::leak(Box::default()));
    let mut asked: Vec<(Ticket, Asked)> = (0..4).map(|number| ticket(waiting, number * 100)).collect();
    let (fourth, mut last) = asked.pop().unwrap();
    let (third, mut call) = asked.pop().unwrap();
    let entered: Vec<_> = asked.into_iter().map(|(ticket, _)| lines.enter(ONE, ticket).unwrap().1).collect();
    assert!(lines.enter(ONE, third).is_none() && lines.enter(ONE, fourth).is_none());
    let mut entered = entered.into_iter();
    drop(entered.next());
    assert!(answer(&mut call).is_none(), "somebody still serves the line");
    drop(entered.next());
    assert_eq!([answer(&mut call), answer(&mut last)], [Some(Err(BlockError::Gone)); 2]);
    assert!(lines.is_empty() && waiting.is_empty());
}

/// Checks that a batch behind others in the line can still be joined.
#[test]
fn what_waits_in_a_line_is_still_joined() {
    let (lines, waiting): (_, &'static Waiting) = (lines(1), Box::leak(Box::default()));
    let (first, _call) = ticket(waiting, 100);
    let (first, mut place) = lines.enter(ONE, first).unwrap();
    drop(first.take());
    let (second, _call) = ticket(waiting, 200);
    assert!(lines.enter(ONE, second).is_none());
    let (reply, _joins) = reply_pair();
    let views = vec![Bytes::new(Page::zeroed().unwrap(), 0, 512)];
    let next = Arriving { activity: ONE, labels: Labels::default(), first: 201, views, answer: Answer::Write(reply) };
    assert!(waiting.add(next).is_none());
    assert_eq!(place.next().unwrap().take().unwrap().parts(), 2);
}
