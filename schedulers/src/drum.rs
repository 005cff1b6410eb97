//! A drum of tickets: who holds the n-th ticket, in logarithmic time (a tree of partial sums; Fenwick, 1994).
use crate::policy::{CLIENTS_MAX, ClientIndex, PolicyError};
use alloc::vec::Vec;

/// Tickets of clients. Takes memory only in `reserve`.
#[derive(Debug, Default)]
pub struct Drum {
    /// Tickets of each client; 0 = not in the drum.
    tickets: Vec<u64>,
    /// Element `n - 1` sums the tickets of the `n & -n` clients before client `n`. Its length is a power of two, or 0.
    sums: Vec<u128>,
    total: u128,
}

impl Drum {
    /// Makes room for a client.
    ///
    /// # Errors
    /// `IndexTooLarge`, `NoMemory`.
    pub fn reserve(&mut self, client: ClientIndex) -> Result<(), PolicyError> {
        if client >= CLIENTS_MAX {
            return Err(PolicyError::IndexTooLarge);
        }
        let wanted = (client as usize + 1).next_power_of_two();
        let missing = wanted.saturating_sub(self.tickets.len());
        if missing == 0 {
            return Ok(());
        }
        self.tickets.try_reserve(missing).map_err(|_| PolicyError::NoMemory)?;
        self.sums.try_reserve(missing).map_err(|_| PolicyError::NoMemory)?;
        self.tickets.resize(wanted, 0);
        self.sums.resize(wanted, 0);
        self.add_up();
        Ok(())
    }

    /// Makes all sums anew.
    fn add_up(&mut self) {
        self.sums.fill(0);
        for client in 0..self.tickets.len() {
            let tickets = u128::from(self.tickets[client]);
            self.move_sums(client, |sum| sum.saturating_add(tickets));
        }
    }

    fn move_sums(&mut self, client: usize, change: impl Fn(u128) -> u128) {
        let mut at = client + 1;
        while let Some(sum) = self.sums.get_mut(at - 1) {
            *sum = change(*sum);
            at += at & at.wrapping_neg();
        }
    }

    /// Gives a client so many tickets in the drum, in place of those it has there; one without room gets none.
    pub fn set(&mut self, client: ClientIndex, tickets: u64) {
        let Some(own) = self.tickets.get_mut(client as usize) else {
            return;
        };
        let before = u128::from(core::mem::replace(own, tickets));
        let replace = |sum: u128| sum.saturating_sub(before).saturating_add(u128::from(tickets));
        self.total = replace(self.total);
        self.move_sums(client as usize, replace);
    }

    /// Returns the number of tickets of a client that are in the drum.
    pub fn tickets(&self, client: ClientIndex) -> u64 {
        self.tickets.get(client as usize).copied().unwrap_or(0)
    }

    /// Returns the number of tickets in the drum.
    #[inline]
    pub fn total(&self) -> u128 {
        self.total
    }

    /// Finds who holds a ticket below `total`, counting from client 0's first one.
    pub fn holder(&self, ticket: u128) -> Option<ClientIndex> {
        if ticket >= self.total {
            return None;
        }
        let (mut before, mut left, mut step) = (0, ticket, self.sums.len());
        while step > 0 {
            if let Some(sum) = self.sums.get(before + step - 1).filter(|sum| **sum <= left) {
                left -= sum;
                before += step;
            }
            step /= 2;
        }
        ClientIndex::try_from(before).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_drum_finds_whom_counting_finds(steps in prop::collection::vec((0u32..200, 0u64..50), 1..200), draw in any::<u64>()) {
            let (mut drum, mut model) = (Drum::default(), BTreeMap::new());
            for (client, tickets) in steps {
                drum.reserve(client).unwrap();
                drum.set(client, tickets);
                model.insert(client, tickets);
            }
            let total: u64 = model.values().sum();
            prop_assert_eq!(drum.total(), u128::from(total));
            let ticket = draw % total.max(1);
            let mut end = 0;
            let counted = model.iter().find(|(_, tickets)| { end += **tickets; ticket < end }).map(|(client, _)| *client);
            prop_assert_eq!(drum.holder(ticket.into()), counted);
        }
    }

    #[test]
    fn the_largest_clients_fit_and_larger_ones_do_not() {
        let mut drum = Drum::default();
        drum.reserve(CLIENTS_MAX - 1).unwrap();
        assert_eq!(drum.reserve(CLIENTS_MAX), Err(PolicyError::IndexTooLarge));
        drum.set(CLIENTS_MAX - 1, u64::MAX);
        drum.set(0, u64::MAX);
        assert_eq!(drum.holder(u128::from(u64::MAX) - 1), Some(0));
        assert_eq!(drum.holder(u128::from(u64::MAX)), Some(CLIENTS_MAX - 1));
    }
}
