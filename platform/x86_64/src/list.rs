//! A list that needs no heap.

/// Up to `N` things in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<T, const N: usize> {
    items: [T; N],
    count: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// An empty list; `filler` stands where nothing is yet and is never shown.
    pub(crate) const fn new(filler: T) -> List<T, N> {
        List { items: [filler; N], count: 0 }
    }

    /// Adds a thing at the end; `None` if no place is left.
    pub(crate) fn push(&mut self, item: T) -> Option<()> {
        *self.items.get_mut(self.count)? = item;
        self.count += 1;
        Some(())
    }

    /// Keeps the things of which this is true, in their order.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        let before = *self;
        self.count = 0;
        // There are no more than before.
        before.as_slice().iter().filter(|item| is_kept(item)).for_each(|item| _ = self.push(*item));
    }

    /// The thing that was added last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.items[..self.count].last_mut()
    }

    /// The things.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Copy + Eq, const N: usize> Eq for List<T, N> {}
