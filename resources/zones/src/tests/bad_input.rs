//! Orders that come at a bad moment, a supervisor without memory, and a zone that lies about devices: a clear answer, and nothing is lost.

use super::fake::Temper;
use super::world::{NAMES, World, create, create_with, destroy, device, lend, set};
use crate::plan::contract;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use gyre_contract::zones::{Command, Part, Refusal, State};
use gyre_interface::zones::{By, ZonesError};
use gyre_message::direct::block_on;
use gyre_message::spawn;

/// Changes that need memory of the supervisor's this often, at most.
const NEEDS_MAX: u32 = 20;

/// The answer to an order.
type Answer = Result<(), Refusal>;

/// Gives an order now and lets it run; its answer is put into the list.
fn order(world: &World, command: Command, answers: &Rc<RefCell<Vec<Answer>>>) {
    let (client, answers) = (world.client, answers.clone());
    spawn(async move {
        let answer = match client.change(vec![command], By::Owner).await {
            Ok(()) => Ok(()),
            Err(ZonesError::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("{other:?}"),
        };
        answers.borrow_mut().push(answer);
    });
}

#[test]
fn orders_in_the_middle_of_a_resize_wait_and_too_many_are_refused() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 20), create(1)]).await.unwrap();
        world.temper(0, Temper::Late(200));
        let answers = Rc::new(RefCell::new(Vec::new()));
        for number in 0..12 {
            order(&world, set(0, Some(2 + number % 2), None), &answers);
        }
        world.sleep_ms(10_000).await;
        let answers = answers.take();
        assert_eq!(answers.len(), 12);
        let is_busy = |answer: &&Answer| matches!(answer, Err(Refusal::Busy { why, .. }) if why.contains("wait"));
        assert_eq!(answers.iter().filter(is_busy).count(), 3, "one is under way and eight wait: {answers:?}");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 9, "{answers:?}");
        assert_eq!(world.sizes().await, [(2, 20), (1, 16), (0, 0), (2, 24)]);
        world.check().await;
    });
}

#[test]
fn a_zone_that_is_ended_in_the_middle_of_its_resize_ends_after_it() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 20), create(1)]).await.unwrap();
        world.temper(0, Temper::Late(300));
        let answers = Rc::new(RefCell::new(Vec::new()));
        for command in [set(0, Some(1), None), destroy(0, 100), lend(0, 1, 1, 0), create(0)] {
            order(&world, command, &answers);
        }
        world.sleep_ms(10_000).await;
        let answers = answers.take();
        assert!(matches!(answers[..], [Ok(()), Ok(()), Err(_), Ok(())]), "{answers:?}");
        assert_eq!(world.sizes().await, [(1, 16), (1, 16), (0, 0), (3, 28)]);
        assert_eq!(world.state(0).await, State::Running);
        world.check().await;
    });
}

#[test]
fn a_supervisor_without_memory_refuses_and_all_is_as_it_was() {
    let attach = Command::Attach { zone: NAMES[1].into(), device: contract(device(5)) };
    let changes: [&[Command]; 4] = [
        &[create_with(2, 1, 16)],
        &[set(0, Some(4), Some(24))],
        &[attach],
        &[set(0, Some(1), Some(10)), create_with(2, 2, 16), set(1, Some(2), Some(18))],
    ];
    for change in changes {
        let refused = (0..NEEDS_MAX).take_while(|left| !is_done_with(change, *left)).count();
        assert!((1..NEEDS_MAX as usize).contains(&refused), "{change:?} was refused {refused} times");
    }
}

/// Makes a change while the supervisor gets memory so often; if it is refused, all is as it was.
fn is_done_with(change: &[Command], left: u32) -> bool {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 2, 20), create(1)]).await.unwrap();
        let before = (world.sizes().await, world.view(1).await.holds.devices);
        world.fake.state.lock().memory_left = Some(left);
        let answer = world.change(change).await;
        world.fake.state.lock().memory_left = None;
        let Err(refusal) = answer else { return true };
        let why = alloc::format!("{refusal:?}");
        assert!(why.contains("out of memory"), "{change:?} with memory {left} times: {why}");
        world.sleep_ms(500).await;
        let after = (world.sizes().await, world.view(1).await.holds.devices);
        assert_eq!(after, before, "{change:?} with memory {left} times: {why}");
        assert_eq!((world.state(0).await, world.state(1).await), (State::Running, State::Running));
        world.check().await;
        false
    })
}

#[test]
fn a_zone_that_gives_another_device_than_its_own_keeps_its_own() {
    let world = World::new(|zones| zones[0].devices = vec![contract(device(4))]);
    block_on(async {
        world.change(&[create(0), create(1)]).await.unwrap();
        world.temper(0, Temper::Lies);
        let detach = Command::Detach { zone: NAMES[0].into(), device: contract(device(4)), deadline_ms: 100 };
        let refusal = world.change(&[detach]).await;
        assert!(
            matches!(&refusal, Err(Refusal::Busy { part: Part::Device, why, .. }) if why.contains("answered")),
            "{refusal:?}"
        );
        assert_eq!(world.view(0).await.holds.devices, [contract(device(4))]);
        world.check().await;
    });
}

#[test]
fn a_zone_that_takes_memory_and_does_not_say_so_keeps_it() {
    let panics = (0..400).step_by(5).map(Temper::PanicsAfter);
    let silent = (0..400).step_by(20).map(Temper::FallsSilent);
    for temper in panics.chain(silent).chain([Temper::Late(1_200), Temper::Late(3_000)]) {
        let world = World::new(|_| {});
        block_on(async {
            world.change(&[create_with(0, 3, 8)]).await.unwrap();
            world.temper(0, temper);
            let _ = world.change(&[set(0, Some(2), Some(10))]).await;
            for _ in 0..40 {
                world.check().await;
                world.sleep_ms(25).await;
            }
        });
    }
}
