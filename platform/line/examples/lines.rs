//! Times round trips and a stream of messages between two threads of this host that poll.

use std::time::Instant;

use gyre_line::{Message, Receiver, Ring, Sender};

const TRIPS: u64 = 200_000;
const STREAM: u64 = 2_000_000;

fn send(sender: &mut Sender, number: u64) {
    let message = Message { words: [number; 6], ..Message::default() };
    while sender.send(&message).is_err() {
        std::hint::spin_loop();
    }
}

fn receive(receiver: &mut Receiver) -> Message {
    loop {
        match receiver.receive() {
            Some(message) => return message,
            None => std::hint::spin_loop(),
        }
    }
}

fn main() {
    let (there, back): (Ring, Ring) = (Ring::new(), Ring::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut receiver, mut sender) = (Receiver::new(&there), Sender::new(&back));
            (0..TRIPS).for_each(|_| send(&mut sender, receive(&mut receiver).words[0]));
            let sum: u64 = (0..STREAM).map(|_| receive(&mut receiver).words[0]).sum();
            send(&mut sender, sum);
        });
        let (mut sender, mut receiver) = (Sender::new(&there), Receiver::new(&back));
        let started = Instant::now();
        for number in 0..TRIPS {
            send(&mut sender, number);
            assert_eq!(receive(&mut receiver).words[0], number);
        }
        println!("round trip: {:.0} ns", started.elapsed().as_nanos() as f64 / TRIPS as f64);
        let started = Instant::now();
        (0..STREAM).for_each(|number| send(&mut sender, number));
        assert_eq!(receive(&mut receiver).words[0], STREAM * (STREAM - 1) / 2);
        println!("stream: {:.0} ns a message", started.elapsed().as_nanos() as f64 / STREAM as f64);
    });
}
