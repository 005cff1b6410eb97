//! A value of which a crash keeps an old or a new one.

/// What something may be after a crash: as it was made durable last, or as it was at any time since. The last one is what it is now.
#[derive(Clone, Debug)]
pub struct Cell<T>(Vec<T>);

impl<T: PartialEq> Cell<T> {
    /// It is this on the disk, too.
    pub fn new(value: T) -> Cell<T> {
        Cell(vec![value])
    }

    /// What it is now.
    pub fn now(&self) -> &T {
        self.0.last().expect("there is always one")
    }

    /// It becomes this.
    pub fn set(&mut self, value: T) {
        self.0.push(value);
    }

    /// A crash may make this of it, too.
    pub fn allow(&mut self, value: T) {
        self.0.insert(0, value);
    }

    /// What it is now is durable.
    pub fn settle(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// What it may be.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// True where one of what it may be fits.
    pub fn may_be(&self, fits: impl FnMut(&T) -> bool) -> bool {
        self.0.iter().any(fits)
    }
}
