//! The messages of a queue. Every choice of msgrcv(2) is found without a walk: the oldest one, the oldest one of a type,
//! of any other type, and of the lowest type.

use super::super::message::Message;
use alloc::collections::{BTreeMap, BTreeSet};

/// The message that a receiver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The oldest message.
    Any,
    /// The oldest one of this type.
    Of(i64),
    /// The oldest one of another type (MSG_EXCEPT).
    Except(i64),
    /// The oldest one of the lowest type, if that is not above this one.
    AtMost(i64),
}

impl Wanted {
    /// Reads the type that a program asks for; `except` is MSG_EXCEPT.
    pub(super) fn decode(kind: i64, flags: u32) -> Wanted {
        match kind {
            0 => Wanted::Any,
            i64::MIN..0 => Wanted::AtMost(kind.checked_neg().unwrap_or(i64::MAX)),
            _ if flags & super::calls::EXCEPT != 0 => Wanted::Except(kind),
            _ => Wanted::Of(kind),
        }
    }
}

/// The messages of a queue.
#[derive(Default)]
pub(super) struct Store {
    /// All of them, by age.
    messages: BTreeMap<u64, Message>,
    /// All of them, by type and age.
    by_kind: BTreeSet<(i64, u64)>,
    /// The oldest one of each type, by age.
    heads: BTreeSet<(u64, i64)>,
    next: u64,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message behind all others.
    pub(super) fn push(&mut self, message: Message) {
        let (age, kind) = (self.next, message.kind);
        self.next = age.saturating_add(1);
        if self.oldest_of(kind).is_none() {
            self.heads.insert((age, kind));
        }
        self.by_kind.insert((kind, age));
        self.messages.insert(age, message);
    }

    /// Finds the age of the message that a receiver gets.
    pub(super) fn find(&self, wanted: Wanted) -> Option<u64> {
        match wanted {
            Wanted::Any => self.messages.first_key_value().map(|(age, _)| *age),
            Wanted::Of(kind) => self.oldest_of(kind),
            // The heads of two types: one of them is another type.
            Wanted::Except(kind) => self.heads.iter().take(2).find(|head| head.1 != kind).map(|head| head.0),
            Wanted::AtMost(kind) => self.by_kind.first().filter(|first| first.0 <= kind).map(|first| first.1),
        }
    }

    fn oldest_of(&self, kind: i64) -> Option<u64> {
        self.by_kind.range((kind, 0)..=(kind, u64::MAX)).next().map(|first| first.1)
    }

    /// Looks at a message.
    pub(super) fn get(&self, age: u64) -> Option<&Message> {
        self.messages.get(&age)
    }

    /// Looks at the message that is so many steps behind the first one of this age or a later one (MSG_COPY), and at its
    /// age. The cost is the steps.
    pub(super) fn behind(&self, age: u64, steps: usize) -> Option<(u64, &Message)> {
        self.messages.range(age..).nth(steps).map(|(age, message)| (*age, message))
    }

    /// Takes a message out.
    pub(super) fn take(&mut self, age: u64) -> Option<Message> {
        let message = self.messages.remove(&age)?;
        self.by_kind.remove(&(message.kind, age));
        if self.heads.remove(&(age, message.kind))
            && let Some(next) = self.oldest_of(message.kind)
        {
            self.heads.insert((next, message.kind));
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn oldest_wanted(all: &[(u64, i64)], wanted: Wanted) -> Option<u64> {
        let fits = |kind: i64| match wanted {
            Wanted::Any => true,
            Wanted::Of(one) => kind == one,
            Wanted::Except(one) => kind != one,
            Wanted::AtMost(most) => kind <= most,
        };
        let found = all.iter().filter(|(_, kind)| fits(*kind));
        match wanted {
            Wanted::AtMost(_) => found.min_by_key(|(age, kind)| (*kind, *age)).map(|found| found.0),
            _ => found.min().map(|found| found.0),
        }
    }

    proptest::proptest! {
        #[test]
        fn every_choice_is_the_one_of_a_walk(steps in proptest::collection::vec((0..5u8, 1..5i64), 1..200)) {
            let (mut store, mut model): (Store, Vec<(u64, i64)>) = (Store::default(), Vec::new());
            for (choice, kind) in steps {
                let wanted = match choice {
                    0 => {
                        model.push((store.next, kind));
                        store.push(Message::new(kind, Vec::new()));
                        continue;
                    }
                    1 => Wanted::Any,
                    2 => Wanted::Of(kind),
                    3 => Wanted::Except(kind),
                    _ => Wanted::AtMost(kind),
                };
                let found = store.find(wanted);
                proptest::prop_assert_eq!(found, oldest_wanted(&model, wanted));
                if let Some(age) = found {
                    store.take(age).unwrap();
                    model.retain(|(other, _)| *other != age);
                }
                proptest::prop_assert_eq!(store.len(), model.len());
            }
        }
    }
}
