//! A table indexed by client: a vector with holes. Grows only in `insert`.
use crate::policy::{CLIENTS_MAX, ClientIndex, PolicyError};
use alloc::vec::Vec;

/// Values of clients, found by their index in constant time.
#[derive(Debug)]
pub struct Dense<T> {
    slots: Vec<Option<T>>,
    len: usize,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Dense { slots: Vec::new(), len: 0 }
    }
}

impl<T> Dense<T> {
    /// Stores the value of a client that has none.
    ///
    /// # Errors
    /// `IndexTooLarge`, `DuplicateClient`, `NoMemory`.
    pub fn insert(&mut self, client: ClientIndex, value: T) -> Result<(), PolicyError> {
        if client >= CLIENTS_MAX {
            return Err(PolicyError::IndexTooLarge);
        }
        let index = client as usize;
        if let Some(missing) = (index + 1).checked_sub(self.slots.len()) {
            self.slots.try_reserve(missing).map_err(|_| PolicyError::NoMemory)?;
            self.slots.extend((0..missing).map(|_| None));
        }
        match self.slots.get_mut(index) {
            Some(slot @ None) => *slot = Some(value),
            _ => return Err(PolicyError::DuplicateClient),
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the value of a client out.
    pub fn remove(&mut self, client: ClientIndex) -> Option<T> {
        let removed = self.slots.get_mut(client as usize)?.take();
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns an index above those of all values.
    pub fn bound(&self) -> ClientIndex {
        self.slots.len() as ClientIndex
    }

    /// Says whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a client.
    #[inline]
    pub fn get(&self, client: ClientIndex) -> Option<&T> {
        self.slots.get(client as usize)?.as_ref()
    }

    /// Returns the value of a client for changing.
    #[inline]
    pub fn get_mut(&mut self, client: ClientIndex) -> Option<&mut T> {
        self.slots.get_mut(client as usize)?.as_mut()
    }

    /// Visits all values in the order of their clients.
    pub fn iter(&self) -> impl Iterator<Item = (ClientIndex, &T)> {
        (0..).zip(&self.slots).filter_map(|(client, slot)| Some((client, slot.as_ref()?)))
    }

    /// Visits all values for changing.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ClientIndex, &mut T)> {
        (0..).zip(&mut self.slots).filter_map(|(client, slot)| Some((client, slot.as_mut()?)))
    }
}
