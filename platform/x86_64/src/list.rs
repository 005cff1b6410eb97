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

    /// Adds a thing at the end; `None` where no place is left.
    pub(crate) fn push(&mut self, item: T) -> Option<()> {
        *self.items.get_mut(self.count)? = item;
        self.count += 1;
        Some(())
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
