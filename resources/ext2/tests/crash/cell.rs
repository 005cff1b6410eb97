//! A value of which a crash keeps an old or a new one.

/// The possible values after a crash: the last durable one, and all since. The last one is the present value.
#[derive(Clone, Debug)]
pub struct Cell<T>(Vec<T>);

impl<T: PartialEq> Cell<T> {
    /// Makes a cell with this value, on the disk, too.
    pub fn new(value: T) -> Cell<T> {
        Cell(vec![value])
    }

    /// Returns the present value.
    pub fn now(&self) -> &T {
        self.0.last().expect("there is always one")
    }

    /// Sets the value.
    pub fn set(&mut self, value: T) {
        self.0.push(value);
    }

    /// Allows another value after a crash.
    pub fn allow(&mut self, value: T) {
        self.0.insert(0, value);
    }

    /// Makes the present value the durable one.
    pub fn settle(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Returns the possible values.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Returns whether one of the possible values fits.
    pub fn may_be(&self, fits: impl FnMut(&T) -> bool) -> bool {
        self.0.iter().any(fits)
    }
}
