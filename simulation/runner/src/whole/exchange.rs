//! An exchange over a connection: the side that connects says what it wants, sends its part, and gets the other part. Both sides know every byte.

use gyre_machine::random::Random;

/// Bytes of the question.
pub const QUESTION_BYTES: usize = 12;
/// Fills below this are files: all bytes are the same.
pub const FILLS: u32 = 256;

/// The question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Which bytes come down; those that go up follow from it.
    pub salt: u32,
    /// Bytes from who accepts.
    pub down: usize,
    /// Bytes from who connects, after the question.
    pub up: usize,
}

impl Exchange {
    /// Any, of up to so many bytes in each direction.
    pub fn draw(random: &mut Random, bytes_max: u64) -> Exchange {
        let salt = FILLS + random.below(1 << 30) as u32;
        let part = |random: &mut Random| if random.once_in(3) { 0 } else { random.below(bytes_max) as usize };
        Exchange { salt, down: 1 + part(random), up: part(random) }
    }

    /// Returns the question as it is sent.
    pub fn question(&self) -> [u8; QUESTION_BYTES] {
        let mut question = [0; QUESTION_BYTES];
        question[..4].copy_from_slice(&self.salt.to_le_bytes());
        question[4..8].copy_from_slice(&(self.down as u32).to_le_bytes());
        question[8..].copy_from_slice(&(self.up as u32).to_le_bytes());
        question
    }

    /// Returns the question in the first bytes of what came.
    pub fn parse(question: &[u8]) -> Option<Exchange> {
        let word = |at: usize| Some(u32::from_le_bytes(question.get(at..at + 4)?.try_into().ok()?));
        Some(Exchange { salt: word(0)?, down: word(4)? as usize, up: word(8)? as usize })
    }

    /// Some of the bytes that come down.
    pub fn down(&self, from: usize, bytes: usize) -> Vec<u8> {
        (from..from + bytes).map(|at| byte(self.salt, at)).collect()
    }

    /// Some of the bytes that go up, the question first.
    pub fn up(&self, from: usize, bytes: usize) -> Vec<u8> {
        let question = self.question();
        let at = |at: usize| question.get(at).copied().unwrap_or_else(|| byte(!self.salt, at));
        (from..from + bytes).map(at).collect()
    }

    /// Returns the bytes of all that goes up.
    pub fn up_bytes(&self) -> usize {
        QUESTION_BYTES + self.up
    }

    /// Checks bytes that came down.
    ///
    /// # Panics
    /// If one is another than was sent.
    pub fn check_down(&self, from: usize, data: &[u8]) {
        self.check("down", from, data, &self.down(from, data.len()));
    }

    /// Checks bytes that came up.
    ///
    /// # Panics
    /// If one is another than was sent.
    pub fn check_up(&self, from: usize, data: &[u8]) {
        self.check("up", from, data, &self.up(from, data.len()));
    }

    fn check(&self, way: &str, from: usize, got: &[u8], sent: &[u8]) {
        let wrong = got.iter().zip(sent).position(|(got, sent)| got != sent);
        assert!(wrong.is_none(), "{self:?}: byte {} {way} is not what was sent", from + wrong.unwrap_or(0));
    }
}

fn byte(salt: u32, at: usize) -> u8 {
    match salt < FILLS {
        true => salt as u8,
        false => (at as u32 ^ salt).wrapping_mul(2_654_435_761).to_le_bytes()[3],
    }
}

/// How exchanges ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ends {
    /// With all bytes.
    pub whole: u64,
    /// With an error.
    pub broken: u64,
}

impl Ends {
    /// Counts one more.
    pub fn with(self, is_whole: bool) -> Ends {
        match is_whole {
            true => Ends { whole: self.whole + 1, ..self },
            false => Ends { broken: self.broken + 1, ..self },
        }
    }
}

impl std::iter::Sum for Ends {
    fn sum<I: Iterator<Item = Ends>>(ends: I) -> Ends {
        let add = |sum: Ends, one: Ends| Ends { whole: sum.whole + one.whole, broken: sum.broken + one.broken };
        ends.fold(Ends::default(), add)
    }
}
