//! One message to several receivers (multi-cast), or to all (broadcast).
//!
//! It is in all rings before anybody is interrupted: receivers that poll begin at once, those that sleep wake beside each other.

use crate::bell::Bell;
use crate::message::Message;
use crate::ring::{Full, LINES, Sender};

/// One of the receivers, as its sender holds it.
pub struct Target<'a, const N: usize = LINES> {
    /// The sending end of its ring.
    pub sender: Sender<'a, N>,
    /// Its bell.
    pub bell: &'a Bell,
}

/// Sends a message to all, or to none. `ring` interrupts one of them, given its place; it is called for those that are away.
///
/// # Errors
/// [`Full`] if one of them has no room; nothing is written then.
pub fn cast<'a, const N: usize>(
    message: &Message,
    to: &mut [Target<'a, N>],
    mut ring: impl FnMut(usize),
) -> Result<(), Full> {
    if !to.iter().all(|target| target.sender.has_room_for(1)) {
        return Err(Full);
    }
    // Only the holder of the sending end fills lines: there is room still.
    to.iter_mut().try_for_each(|target| target.sender.send(message))?;
    to.iter().enumerate().filter(|(_, target)| target.bell.must_ring()).for_each(|(place, _)| ring(place));
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{Receiver, Ring};

    const NUMBER: Message = Message { kind: 1, from: 0, activity: 0, token: 0, words: [7; 6] };

    fn targets<'a>(rings: &'a [Ring<2>; 3], bells: &'a [Bell; 3]) -> Vec<Target<'a, 2>> {
        rings.iter().zip(bells).map(|(ring, bell)| Target { sender: Sender::new(ring), bell }).collect()
    }

    #[test]
    fn each_gets_the_message_and_those_away_are_rung_for_once() {
        let (rings, bells): ([Ring<2>; 3], [Bell; 3]) = Default::default();
        let mut to = targets(&rings, &bells);
        bells[0].leave();
        bells[2].leave();
        let mut rung = vec![];
        cast(&NUMBER, &mut to, |place| rung.push(place)).unwrap();
        assert_eq!(rung, [0, 2]);
        cast(&NUMBER, &mut to[1..], |place| rung.push(place)).unwrap();
        assert_eq!(rung, [0, 2], "nobody is away any more");
        let counts = rings.each_ref().map(|ring| {
            let mut receiver = Receiver::new(ring);
            core::iter::from_fn(|| receiver.receive()).inspect(|found| assert_eq!(*found, NUMBER)).count()
        });
        assert_eq!(counts, [1, 2, 2]);
    }

    #[test]
    fn if_one_is_full_nobody_gets_it() {
        let (rings, bells): ([Ring<2>; 3], [Bell; 3]) = Default::default();
        let mut to = targets(&rings, &bells);
        bells[0].leave();
        (0..2).for_each(|_| to[1].sender.send(&NUMBER).unwrap());
        assert_eq!(cast(&NUMBER, &mut to, |place| panic!("{place} is rung for")), Err(Full));
        assert!(!Receiver::new(&rings[0]).has_some() && !Receiver::new(&rings[2]).has_some());
    }
}
