//! Memory calls: mmap, brk and their family.
