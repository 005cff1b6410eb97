//! Whose order a change of the zones is.

/// Whose order a change is: argument of [`crate::native::ZONE_CONTROL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orderer {
    /// The machine's owner.
    #[default]
    Owner,
    /// A law that moves parts by measured performance, in the owner's name.
    Controller,
}

impl Orderer {
    /// All of them, by their numbers in a call.
    pub const ALL: [Orderer; 2] = [Orderer::Owner, Orderer::Controller];

    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Controller => "controller",
        }
    }

    /// Returns the one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}
