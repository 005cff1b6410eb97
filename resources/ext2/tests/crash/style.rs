//! The mixtures of operations, with the lengths of names.

/// One kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    Create,
    Junk,
    MakeDirectory,
    MakeSymbolicLink,
    Nameless,
    Link,
    Rename,
    MoveDirectory,
    Replace,
    Exchange,
    Remove,
    RemoveDirectory,
    Overwrite,
    OverwriteDirect,
    Append,
    Truncate,
    Punch,
    Allocate,
    ChangeMode,
    ChangeExtended,
    WriteOut,
    Sync,
    SyncDirectory,
    SyncAll,
}

use Operation::*;

/// A mixture.
#[derive(Clone, Copy)]
pub struct Style {
    pub name_bytes: usize,
    /// Each is as likely as it is named.
    pub operations: &'static [Operation],
    /// The largest file, as a part of the device.
    pub file_of_device: usize,
}

/// Files made, synced, renamed and replaced, with short names.
pub const FILES: Style = Style {
    name_bytes: 0,
    operations: &[
        Create,
        Create,
        Create,
        Create,
        Junk,
        Junk,
        Rename,
        Rename,
        Replace,
        Replace,
        Remove,
        SyncAll,
        SyncDirectory,
    ],
    file_of_device: 150,
};

/// Names that move and take each other's place, long ones: most move to another sector.
pub const MOVES: Style = Style {
    name_bytes: 90,
    operations: &[
        Create,
        Rename,
        Rename,
        Replace,
        Replace,
        Replace,
        Replace,
        SyncAll,
        Link,
        Remove,
        MakeDirectory,
        MoveDirectory,
        MoveDirectory,
        RemoveDirectory,
        Exchange,
        SyncDirectory,
    ],
    file_of_device: 150,
};

/// Contents that change after they were synced.
pub const CONTENTS: Style = Style {
    name_bytes: 0,
    operations: &[
        Create,
        Nameless,
        Overwrite,
        Overwrite,
        OverwriteDirect,
        OverwriteDirect,
        Append,
        Append,
        Truncate,
        Truncate,
        Punch,
        Punch,
        Allocate,
        WriteOut,
        WriteOut,
        Sync,
        Sync,
        Remove,
        Rename,
        SyncAll,
    ],
    file_of_device: 60,
};

/// Everything.
pub const ALL: Style = Style {
    name_bytes: 20,
    operations: &[
        Create,
        Create,
        Junk,
        MakeDirectory,
        MakeDirectory,
        MakeSymbolicLink,
        Nameless,
        Link,
        Rename,
        Rename,
        MoveDirectory,
        MoveDirectory,
        Replace,
        Exchange,
        Remove,
        Remove,
        RemoveDirectory,
        Overwrite,
        OverwriteDirect,
        Append,
        Truncate,
        Punch,
        Allocate,
        ChangeMode,
        ChangeExtended,
        ChangeExtended,
        WriteOut,
        Sync,
        SyncDirectory,
        SyncAll,
    ],
    file_of_device: 150,
};

/// All mixtures, in turn.
pub const STYLES: [Style; 4] = [MOVES, FILES, ALL, CONTENTS];
