//! The ways in which long copies and fills are made, and their names on the command line. How each is made, and when: `copy.rs`.

/// A way of making long copies and fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyWay {
    /// Moves of eight bytes.
    Loops,
    /// String instructions.
    Strings,
    /// Moves through registers of AVX.
    Vectors,
}

impl CopyWay {
    /// All of them.
    pub(crate) const ALL: [CopyWay; 3] = [CopyWay::Loops, CopyWay::Strings, CopyWay::Vectors];
    /// The names that [`CopyWay::read`] knows, for messages.
    pub(crate) const NAMES: &'static str = "loops, strings or vectors";

    /// Returns the way of this name.
    pub(crate) fn read(name: &str) -> Option<CopyWay> {
        CopyWay::ALL.into_iter().find(|way| way.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            CopyWay::Loops => "loops",
            CopyWay::Strings => "strings",
            CopyWay::Vectors => "vectors",
        }
    }
}
