//! The connections inside: those that have shown the key, and strangers that have not yet. Strangers take no place of the owner's: of one
//! address there are few, and of all only so many that the one which came first, of the address that has most, must go for the next.

use std::{
    collections::HashMap,
    net::{IpAddr, Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Strangers of one address. The owner's commands come from one, and are strangers for a moment each.
const STRANGERS_OF_ADDRESS_MAX: usize = 16;
/// Strangers of all addresses.
const STRANGERS_MAX: usize = 96;
/// Connections that have shown the key.
const KNOWN_MAX: usize = 32;

/// The connections that there are.
#[derive(Default)]
pub struct Door {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    strangers: Vec<Stranger>,
    known: usize,
    next: u64,
}

struct Stranger {
    number: u64,
    address: IpAddr,
    stream: Option<TcpStream>,
}

/// A connection's place, until it is dropped.
pub struct Visit {
    door: Arc<Door>,
    number: u64,
    is_known: bool,
}

impl Door {
    /// Gives a stranger a place; none if its address has enough. `stream` is for ending it if it must go.
    pub fn enter(self: &Arc<Self>, address: IpAddr, stream: Option<TcpStream>) -> Option<Visit> {
        let mut state = self.lock();
        if state.strangers.iter().filter(|other| other.address == address).count() >= STRANGERS_OF_ADDRESS_MAX {
            return None;
        }
        if state.strangers.len() >= STRANGERS_MAX {
            state.send_away();
        }
        let number = state.next;
        state.next += 1;
        state.strangers.push(Stranger { number, address, stream });
        Some(Visit { door: self.clone(), number, is_known: false })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends the oldest connection of the address that has most.
    fn send_away(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.strangers.iter().for_each(|stranger| *counts.entry(stranger.address).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let oldest = self.strangers.iter().position(|stranger| counts.get(&stranger.address) == Some(&most));
        if let Some(stream) = oldest.and_then(|at| self.strangers.remove(at).stream) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Visit {
    /// The connection has shown the key. False if too many have.
    pub fn become_known(&mut self) -> bool {
        if self.is_known {
            return true;
        }
        let mut state = self.door.lock();
        if state.known >= KNOWN_MAX {
            return false;
        }
        state.known += 1;
        state.strangers.retain(|stranger| stranger.number != self.number);
        self.is_known = true;
        true
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = self.door.lock();
        match self.is_known {
            true => state.known = state.known.saturating_sub(1),
            false => state.strangers.retain(|stranger| stranger.number != self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn strangers_of_one_address_take_no_place_of_others() {
        let door = Arc::new(Door::default());
        let tenants: Vec<_> = (0..100).filter_map(|_| door.enter(address(7), None)).collect();
        assert_eq!(tenants.len(), STRANGERS_OF_ADDRESS_MAX);
        let mut owner = door.enter(address(1), None).unwrap();
        assert!(owner.become_known() && owner.is_known);
        drop(tenants);
        assert!(door.enter(address(7), None).is_some(), "places come back");
    }

    #[test]
    fn many_addresses_together_send_each_other_away_and_not_the_owner() {
        let door = Arc::new(Door::default());
        let owner = door.enter(address(1), None).unwrap();
        let crowd: Vec<_> = (0..320).filter_map(|at| door.enter(address(10 + (at / 16) as u8), None)).collect();
        assert_eq!(crowd.len(), 320);
        let state = door.lock();
        assert_eq!(state.strangers.len(), STRANGERS_MAX);
        assert!(state.strangers.iter().any(|stranger| stranger.number == owner.number));
    }

    #[test]
    fn those_who_are_known_have_their_own_bound() {
        let door = Arc::new(Door::default());
        let mut known: Vec<_> = (0..KNOWN_MAX + 1).map(|at| door.enter(address(at as u8), None).unwrap()).collect();
        let admitted = known.iter_mut().filter_map(|visit| visit.become_known().then_some(())).count();
        assert_eq!(admitted, KNOWN_MAX);
        known.remove(0);
        assert!(known.last_mut().unwrap().become_known());
    }
}
