//! The calls on descriptors and names, a file per family.
