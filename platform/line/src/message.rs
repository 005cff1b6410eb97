//! A message as a value.

/// Words that a message carries beside its head.
pub const WORDS: usize = 6;

/// A message; 64 bytes in memory with its sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The meaning, by the protocol of its sender and receiver.
    pub kind: u16,
    /// The instance or core that sent it, as the sender says; a receiver that must know takes the ring's owner instead.
    pub from: u16,
    /// The activity that pays for the work, by the receiver's numbers.
    pub activity: u32,
    /// The name of the answer: an answer carries its question's token.
    pub token: u32,
    /// The contents.
    pub words: [u64; WORDS],
}

impl Message {
    /// Makes an answer to this message: its token and activity, another kind and contents.
    #[must_use]
    pub fn answer(&self, from: u16, kind: u16, words: [u64; WORDS]) -> Self {
        Self { kind, from, words, ..*self }
    }

    /// Packs sequence number, kind and sender into the line's first word.
    pub(crate) fn head(&self, sequence: u32) -> u64 {
        u64::from(sequence) | u64::from(self.kind) << 32 | u64::from(self.from) << 48
    }

    /// Packs activity and token into the line's second word.
    pub(crate) fn names(&self) -> u64 {
        u64::from(self.activity) | u64::from(self.token) << 32
    }

    /// Unpacks a line.
    pub(crate) fn of(head: u64, names: u64, words: [u64; WORDS]) -> Self {
        Self {
            kind: (head >> 32) as u16,
            from: (head >> 48) as u16,
            activity: names as u32,
            token: (names >> 32) as u32,
            words,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_gives_back_its_message(kind: u16, from: u16, activity: u32, token: u32, words: [u64; 6], sequence: u32) {
            let message = Message { kind, from, activity, token, words };
            let head = message.head(sequence);
            prop_assert_eq!(head as u32, sequence);
            prop_assert_eq!(Message::of(head, message.names(), words), message);
        }
    }

    #[test]
    fn an_answer_keeps_token_and_activity() {
        let question = Message { kind: 1, from: 2, activity: 7, token: 9, words: [1; 6] };
        let answer = question.answer(3, 4, [0; 6]);
        assert_eq!((answer.kind, answer.from, answer.activity, answer.token, answer.words), (4, 3, 7, 9, [0; 6]));
    }
}
