//! A node of a tree: its policy, its children, and its place.
use crate::policy::{ClientIndex, CorePolicy, NodeIndex, PolicyError, Readiness};
use alloc::boxed::Box;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Client(ClientIndex),
    Node(NodeIndex),
}

/// The parent of a client or node, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: NodeIndex,
    /// Its number among the clients of that node's policy.
    pub(super) local: ClientIndex,
}

/// The children of a node under the small numbers its policy knows them by.
#[derive(Default)]
pub(super) struct Children {
    numbered: Vec<Option<Child>>,
    free: Vec<ClientIndex>,
}

impl Children {
    /// Finds a free number, with room to give it back later without taking memory.
    pub(super) fn reserve(&mut self) -> Result<ClientIndex, PolicyError> {
        if self.free.is_empty() {
            let fresh = ClientIndex::try_from(self.numbered.len()).map_err(|_| PolicyError::IndexTooLarge)?;
            self.numbered.try_reserve(1).map_err(|_| PolicyError::NoMemory)?;
            self.free.try_reserve(self.numbered.len() + 1).map_err(|_| PolicyError::NoMemory)?;
            self.numbered.push(None);
            self.free.push(fresh);
        }
        self.free.last().copied().ok_or(PolicyError::NoMemory)
    }

    /// Gives the number found by `reserve` to a child.
    pub(super) fn put(&mut self, child: Child) {
        let number = self.free.pop();
        if let Some(slot) = number.and_then(|local| self.numbered.get_mut(local as usize)) {
            *slot = Some(child);
        }
    }

    pub(super) fn remove(&mut self, local: ClientIndex) {
        if let Some(slot) = self.numbered.get_mut(local as usize) {
            *slot = None;
            self.free.push(local);
        }
    }

    #[inline]
    pub(super) fn get(&self, local: ClientIndex) -> Option<Child> {
        self.numbered.get(local as usize).copied().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.numbered.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing below it is ready; not in the ready set of its parent.
    Resting,
    /// Something below it may be served later; not in the ready set of its parent.
    Asleep,
    /// In the ready set of its parent.
    Ready,
    /// Chosen by its parent at the last decision, to be offered again at the next.
    Chosen,
}

impl State {
    pub(super) fn of(readiness: Readiness) -> State {
        match readiness {
            Readiness::Now => State::Ready,
            Readiness::At(_) => State::Asleep,
            Readiness::Never => State::Resting,
        }
    }
}

pub(super) struct Node {
    pub(super) policy: Box<dyn CorePolicy>,
    pub(super) children: Children,
    pub(super) state: State,
    /// `None` for the root.
    pub(super) place: Option<Place>,
    pub(super) depth: usize,
}
