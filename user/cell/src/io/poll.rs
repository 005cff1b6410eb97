//! Poll: the core looks at the lines for a while, as an answer on another core often comes soon, and is left then.

use super::{Io, Rest};

/// Looks before the core is left: some ten microseconds, about what an exit and a wake-up cost.
const LOOKS: u32 = 64;

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Poll {
    looks: u32,
}

impl Io for Poll {
    fn rest(&mut self) -> Rest {
        self.looks += 1;
        if self.looks < LOOKS {
            core::hint::spin_loop();
            return Rest::Look;
        }
        self.looks = 0;
        Rest::Idle
    }

    fn answered(&mut self) {
        self.looks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_is_left_after_some_looks_since_the_last_answer() {
        let mut poll = Poll::default();
        assert!((1..LOOKS).all(|_| poll.rest() == Rest::Look));
        assert_eq!(poll.rest(), Rest::Idle);
        poll.rest();
        poll.answered();
        assert!((1..LOOKS).all(|_| poll.rest() == Rest::Look));
    }
}
